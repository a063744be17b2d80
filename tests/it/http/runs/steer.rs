//! Steering runs: cancel, interrupt, resume, busy threads, fresh memory.

use serde_json::{Value, json};

use crate::support::{HeldModel, Piece, SseEvent, SseReader, TestApp, tool};

/// An agent that calls a tool of this effect once and then answers.
fn caller(app: &TestApp, effect: &str) -> Value {
    let anything = json!({"type": "object", "additionalProperties": true});
    json!({
        "name": "caller",
        "model": {"provider": "scripted", "name": "m", "script": [
            {"text": "One moment.", "tool_calls": [{"name": "slow", "arguments": {"n": 1}}]},
            {"text": "Done."},
        ]},
        "tools": [tool(&app.tools, "slow", effect, &anything)],
    })
}

fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

fn kinds(steps: &[Value]) -> Vec<&str> {
    steps.iter().filter_map(|step| step["kind"].as_str()).collect()
}

fn roles(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["role"].as_str()).collect()
}

async fn names(app: &TestApp, run: &str) -> Vec<String> {
    let events = app.events(run).await;
    events.iter().filter_map(|event| event["event"].as_str().map(str::to_owned)).collect()
}

async fn post(app: &TestApp, run: &str, what: &str) -> crate::support::Answer {
    app.post(&format!("/v1/runs/{run}/{what}"), &json!({})).await
}

/// Starts the calling agent and waits until its tool holds it.
async fn held(app: &TestApp, effect: &str) -> Value {
    app.tools.hold("slow");
    let before = app.tools.seen().len();
    let run = app.start_run(&json!({"agent": caller(app, effect), "input": "Go."})).await;
    app.tools.wait_for(before + 1).await;
    run
}

/// A run in the middle of a reply: `Hel` has arrived, the model holds the rest.
async fn mid_reply(app: &TestApp) -> (HeldModel, String) {
    let said = vec![Piece::Text("Hel"), Piece::Hold, Piece::Text("lo")];
    let model = HeldModel::saying([said, vec![Piece::Text("lo again.")]]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let mut stream = app.start_stream(&json!({"agent": agent, "input": "Greet me."})).await;
    let events = stream.until("text.delta").await;
    (model, id(&events[0].data).to_owned())
}

#[tokio::test]
async fn cancelling_closes_open_calls_and_leaves_the_thread_usable() {
    let app = TestApp::start().await;
    for (effect, kind) in [("idempotent", "cancelled"), ("at_most_once", "in_doubt")] {
        let run = held(&app, effect).await;
        let cancel = format!("/v1/runs/{}/cancel", id(&run));
        let over = app.post(&cancel, &json!({"wait": true})).await.expect(202);
        assert_eq!(over["status"], "cancelled");
        let steps = app.steps(id(&run)).await;
        assert_eq!(kinds(&steps), ["task", "action"]);
        assert_eq!(steps[1]["outcomes"][0]["kind"], kind);
        let told = names(&app, id(&run)).await;
        assert_eq!(told[told.len() - 3..], ["tool.result", "step.recorded", "run.cancelled"]);
        let model = HeldModel::saying([vec![Piece::Text("Back.")]]).await;
        let agent = json!({"name": "b", "model": model.spec()});
        let next = json!({"agent": agent, "thread_id": run["thread_id"], "input": "Still there?"});
        assert_eq!(app.run_body(&next).await["answer"], "Back.");
        let messages = model.messages(0);
        assert_eq!(roles(&messages), ["user", "assistant", "tool", "user"]);
        app.tools.release("slow");
    }
}

#[tokio::test]
async fn a_run_that_waits_for_a_worker_is_cancelled_at_once() {
    let app = TestApp::with(&[("AGENTLING_CONCURRENCY", "1")]).await;
    let first = held(&app, "idempotent").await;
    let waiting = app.start_run(&json!({"agent": caller(&app, "pure"), "input": "Go."})).await;
    let found = app.get(&format!("/v1/runs/{}", id(&waiting))).await.expect(200);
    assert_eq!(found["status"], "queued");
    let cancelled = post(&app, id(&waiting), "cancel").await.expect(202);
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(names(&app, id(&waiting)).await, ["run.created", "step.recorded", "run.cancelled"]);
    app.tools.release("slow");
    assert_eq!(app.ended(id(&first)).await["status"], "completed");
    assert_eq!(app.tools.seen().len(), 1, "the cancelled run never started");
}

#[tokio::test]
async fn cancelling_in_the_middle_of_a_reply_hangs_up_on_the_model() {
    let app = TestApp::start().await;
    let (model, run) = mid_reply(&app).await;
    post(&app, &run, "cancel").await.expect(202);
    model.hung_up().await;
    assert_eq!(app.ended(&run).await["status"], "cancelled");
    assert_eq!(kinds(&app.steps(&run).await), ["task"]);
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_run_that_has_ended_cannot_be_cancelled_but_a_cancelled_one_can_be_again() {
    let app = TestApp::start().await;
    let run = app.run(&caller(&app, "pure"), "Go.").await;
    let problem = post(&app, id(&run), "cancel").await.expect_problem(409, "run-already-terminal");
    assert_eq!(problem["run_status"], "completed");
    let run = held(&app, "idempotent").await;
    for _ in 0..2 {
        post(&app, id(&run), "cancel").await.expect(202);
    }
    assert_eq!(app.ended(id(&run)).await["status"], "cancelled");
    let again = post(&app, id(&run), "cancel").await.expect(202);
    assert_eq!(again["status"], "cancelled");
    let ends = names(&app, id(&run)).await;
    assert_eq!(ends.iter().filter(|name| *name == "run.cancelled").count(), 1);
}

#[tokio::test]
async fn interrupting_a_reply_keeps_what_had_arrived_and_resuming_does_not_repeat_the_task() {
    let app = TestApp::start().await;
    let (model, run) = mid_reply(&app).await;
    post(&app, &run, "interrupt").await.expect(202);
    assert_eq!(app.ended(&run).await["status"], "interrupted");
    model.hung_up().await;
    let steps = app.steps(&run).await;
    assert_eq!(kinds(&steps), ["task", "action"]);
    assert_eq!(steps[1]["reply"]["state"], "interrupted");
    assert_eq!(steps[1]["reply"]["parts"], json!([{"part_kind": "text", "text": "Hel"}]));
    let resumed = post(&app, &run, "resume").await.expect(202);
    assert!(matches!(resumed["status"].as_str(), Some("queued" | "running")), "{resumed}");
    let ended = app.ended(&run).await;
    assert_eq!((&ended["status"], &ended["answer"]), (&json!("completed"), &json!("lo again.")));
    let steps = app.steps(&run).await;
    assert_eq!(kinds(&steps), ["task", "action", "action", "final"]);
    let messages = model.messages(1);
    assert_eq!(roles(&messages)[..2], ["user", "assistant"]);
    assert_eq!(
        (&messages[0]["content"], &messages[1]["content"]),
        (&json!("Greet me."), &json!("Hel"),)
    );
    let tasks = messages.iter().filter(|message| message["content"] == "Greet me.").count();
    assert_eq!(tasks, 1);
}

#[tokio::test]
async fn an_interrupted_run_that_goes_on_is_told_as_one_run() {
    let app = TestApp::start().await;
    let (_model, run) = mid_reply(&app).await;
    post(&app, &run, "interrupt").await.expect(202);
    app.ended(&run).await;
    let before = SseReader::of(app.stream(&run, None).await).rest().await;
    let last = before.last().cloned().unwrap();
    assert_eq!(last.name, "run.interrupted");
    post(&app, &run, "resume").await.expect(202);
    let after = SseReader::of(app.stream(&run, last.id).await).rest().await;
    app.ended(&run).await;
    let durable: Vec<SseEvent> =
        before.into_iter().chain(after).filter(|event| event.id.is_some()).collect();
    let ids: Vec<i64> = durable.iter().filter_map(|event| event.id).collect();
    assert_eq!(ids, (1..=i64::try_from(ids.len()).unwrap()).collect::<Vec<i64>>());
    let told: Vec<&str> = durable.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(
        told,
        [
            "run.created",
            "step.recorded",
            "run.started",
            "turn.started",
            "step.recorded",
            "run.interrupted",
            "run.resumed",
            "turn.started",
            "step.recorded",
            "step.recorded",
            "run.completed",
        ]
    );
    assert_eq!(told, names(&app, &run).await);
}

#[tokio::test]
async fn interrupting_a_tool_closes_its_call_and_the_run_goes_on_when_resumed() {
    let app = TestApp::start().await;
    let run = held(&app, "idempotent").await;
    post(&app, id(&run), "interrupt").await.expect(202);
    assert_eq!(app.ended(id(&run)).await["status"], "interrupted");
    let steps = app.steps(id(&run)).await;
    assert_eq!(kinds(&steps), ["task", "action"]);
    assert_eq!(steps[1]["outcomes"][0]["kind"], "interrupted");
    app.tools.release("slow");
    post(&app, id(&run), "resume").await.expect(202);
    assert_eq!(app.ended(id(&run)).await["answer"], "Done.");
    assert_eq!(kinds(&app.steps(id(&run)).await), ["task", "action", "action", "final"]);
    assert_eq!(app.tools.seen().len(), 1, "the closed call is not repeated");
}

#[tokio::test]
async fn a_run_that_was_interrupted_before_it_began_begins_when_resumed() {
    let app = TestApp::with(&[("AGENTLING_CONCURRENCY", "1")]).await;
    let first = held(&app, "idempotent").await;
    let model = HeldModel::saying([vec![Piece::Text("Here.")]]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let waiting = app.start_run(&json!({"agent": agent, "input": "Go."})).await;
    let stopped = post(&app, id(&waiting), "interrupt").await.expect(202);
    assert_eq!(stopped["status"], "interrupted");
    post(&app, id(&waiting), "resume").await.expect(202);
    app.tools.release("slow");
    let ended = app.ended(id(&waiting)).await;
    assert_eq!((&ended["answer"], &ended["turn"]), (&json!("Here."), &json!(1)));
    assert_eq!(
        names(&app, id(&waiting)).await,
        [
            "run.created",
            "step.recorded",
            "run.interrupted",
            "run.resumed",
            "run.started",
            "turn.started",
            "step.recorded",
            "step.recorded",
            "run.completed",
        ]
    );
    assert_eq!(app.ended(id(&first)).await["status"], "completed");
}

#[tokio::test]
async fn only_an_active_run_can_be_interrupted() {
    let app = TestApp::start().await;
    let run = app.run(&caller(&app, "pure"), "Go.").await;
    let problem = post(&app, id(&run), "interrupt").await.expect_problem(409, "run-not-active");
    assert_eq!(problem["run_status"], "completed");
    assert_eq!(names(&app, id(&run)).await.last().unwrap(), "run.completed");
}

#[tokio::test]
async fn only_an_interrupted_run_can_be_resumed() {
    let app = TestApp::start().await;
    let run = held(&app, "idempotent").await;
    post(&app, id(&run), "resume").await.expect_problem(409, "run-not-waiting");
    app.tools.release("slow");
    assert_eq!(app.ended(id(&run)).await["status"], "completed");
    post(&app, id(&run), "resume").await.expect_problem(409, "run-not-waiting");
}

#[tokio::test]
async fn a_run_whose_thread_went_on_without_it_cannot_be_resumed() {
    let app = TestApp::start().await;
    let (_model, run) = mid_reply(&app).await;
    post(&app, &run, "interrupt").await.expect(202);
    let stopped = app.ended(&run).await;
    let model =
        json!({"provider": "scripted", "name": "m", "script": [{"text": "Something else."}]});
    let next = json!({
        "agent": {"name": "b", "model": model},
        "thread_id": stopped["thread_id"],
        "input": "Never mind.",
    });
    assert_eq!(app.run_body(&next).await["status"], "completed");
    post(&app, &run, "resume").await.expect_problem(409, "version-conflict");
    assert_eq!(app.ended(&run).await["status"], "interrupted");
}

#[tokio::test]
async fn a_thread_takes_one_run_at_a_time_and_says_which_one_it_has() {
    let app = TestApp::start().await;
    let run = held(&app, "idempotent").await;
    let next = json!({
        "agent": caller(&app, "pure"),
        "thread_id": run["thread_id"],
        "input": "Me too.",
    });
    let problem = app.post("/v1/runs", &next).await.expect_problem(409, "thread-busy");
    assert_eq!(problem["active_run_id"], run["id"]);
    app.tools.release("slow");
    app.ended(id(&run)).await;
    assert_eq!(app.run_body(&next).await["status"], "completed");
}

#[tokio::test]
async fn a_run_goes_on_with_the_memory_of_its_thread_unless_it_is_reset() {
    let app = TestApp::start().await;
    let model = HeldModel::saying([]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let first = app.run(&agent, "one").await;
    let thread = &first["thread_id"];
    app.run_body(&json!({"agent": agent, "thread_id": thread, "input": "two"})).await;
    let fresh = json!({"agent": agent, "thread_id": thread, "input": "three", "reset": true});
    app.run_body(&fresh).await;
    app.run_body(&json!({"agent": agent, "thread_id": thread, "input": "four"})).await;
    let said = |request: usize| {
        let messages = model.messages(request);
        messages.iter().filter_map(|said| said["content"].as_str().map(str::to_owned)).collect()
    };
    let expected: [Vec<&str>; 4] =
        [vec!["one"], vec!["one", "Done.", "two"], vec!["three"], vec!["three", "Done.", "four"]];
    for (request, expected) in expected.iter().enumerate() {
        let said: Vec<String> = said(request);
        assert_eq!(&said, expected);
    }
    let steps = app.all(&format!("/v1/threads/{}/steps", thread.as_str().unwrap())).await;
    assert_eq!(steps.len(), 12, "what was reset stays stored");
}
