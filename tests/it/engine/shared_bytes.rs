//! How much of a request is what the request before it on its thread began with.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::{
    FakeModel, HeldModel, ModelReply, Piece, TestApp, assert_invariants, execute, tool,
};

/// Written without looking at how the server does it.
fn shared(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// What a request must be told as, given the one before it.
fn figures(before: &str, body: &str) -> Value {
    let digest = Sha256::digest(body.as_bytes());
    let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let sha256 = digits.concat();
    json!({ "bytes": body.len(), "shared_bytes": shared(before, body), "sha256": sha256 })
}

/// The figures of each action of a thread, in order, with the span that differs first.
async fn whole(app: &TestApp, thread: &Value) -> Vec<Value> {
    let steps = app.all(&format!("/v1/threads/{}/steps", thread.as_str().unwrap())).await;
    let actions = steps.iter().filter(|step| step["kind"] == "action");
    actions.map(|step| step["request"].clone()).collect()
}

/// The same without the span, which stands around the first byte that differs.
async fn told(app: &TestApp, thread: &Value) -> Vec<Value> {
    let mut figures = whole(app, thread).await;
    for request in figures.iter_mut().filter_map(Value::as_object_mut) {
        let difference = request.shift_remove("first_difference").unwrap();
        let (shared, bytes) = (request["shared_bytes"].as_u64(), request["bytes"].as_u64());
        if let (Some(shared), Some(start)) = (shared, difference["start"].as_u64()) {
            assert!(start <= shared && Some(shared) < difference["end"].as_u64(), "{difference}");
        } else {
            assert!(shared.is_none() || shared == Some(0) || shared == bytes, "{shared:?}");
        }
    }
    figures
}

/// Each action's figures are those of the request that it answers, compared with the one before.
async fn assert_told(app: &TestApp, thread: &Value, bodies: &[String]) {
    let before = std::iter::once("").chain(bodies.iter().map(String::as_str));
    let expected: Vec<Value> = before.zip(bodies).map(|(one, next)| figures(one, next)).collect();
    assert_eq!(told(app, thread).await, expected);
}

fn bodies(model: &FakeModel) -> Vec<String> {
    model.requests().into_iter().map(|request| request.body).collect()
}

fn echo(app: &TestApp) -> Value {
    tool(&app.tools, "echo", "pure", &json!({ "type": "object", "additionalProperties": true }))
}

fn agent(app: &TestApp, model: &FakeModel) -> Value {
    json!({ "name": "a", "model": model.spec(true), "instructions": "Be brief.",
            "tools": [echo(app)] })
}

#[tokio::test]
async fn every_turn_says_how_much_of_its_request_the_one_before_began_with() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::call("echo", r#"{"n": 1}"#),
        ModelReply::calls(&[("echo", "{}"), ("nobody", "{}")]),
        ModelReply::text("done"),
        ModelReply::text("done again"),
    ])
    .await;
    let agent = agent(&app, &model);
    let run = app.run(&agent, "go").await;
    let thread = &run["thread_id"];
    let again = json!({ "agent": agent, "thread_id": thread, "input": "and again" });
    assert_eq!(app.run_body(&again).await["answer"], "done again");
    let bodies = bodies(&model);
    assert_eq!(bodies.len(), 4);
    assert_told(&app, thread, &bodies).await;
    // A request goes on where the one before it was closed, by the syntax of the next message.
    let differences = whole(&app, thread).await;
    assert_eq!(differences[0]["first_difference"], Value::Null);
    for request in &differences[1..] {
        assert_eq!(request["first_difference"]["source"], "wire", "{request}");
    }
    let told = told(&app, thread).await;
    for (one, next) in bodies.iter().zip(told.iter().skip(1)) {
        let open = one.strip_suffix("]}").unwrap();
        assert_eq!(next["shared_bytes"], open.len(), "{one}");
    }
    let id = app.steps(run["id"].as_str().unwrap()).await[1]["id"].clone();
    let step = app.get(&format!("/v1/steps/{}", id.as_str().unwrap())).await.expect(200);
    assert_eq!(step["request"], differences[0]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn the_request_before_is_found_whatever_it_was_made_from() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::call("echo", "{}"),
        ModelReply::text("my best"),
        ModelReply::text("by another agent"),
        ModelReply::text("afresh"),
        ModelReply::text("at last"),
    ])
    .await;
    let mut agent = agent(&app, &model);
    agent["max_steps"] = json!(1);
    // The last request of this run is the one of its closing turn, which has no tools.
    let run = app.run(&agent, "go").await;
    assert_eq!(run["stop_reason"], "max_steps");
    let thread = &run["thread_id"];
    let on = |input: &str| json!({ "thread_id": thread, "input": input });
    let other = json!({ "name": "b", "model": model.spec(true), "instructions": "Dare." });
    let with = |agent: &Value, mut body: Value| {
        body["agent"] = agent.clone();
        body
    };
    app.run_body(&with(&other, on("two"))).await;
    let mut afresh = with(&other, on("three"));
    afresh["reset"] = json!(true);
    app.run_body(&afresh).await;
    let created = app.create_agent(&other).await;
    let mut stored = on("four");
    stored["agent_id"] = created["id"].clone();
    app.run_body(&stored).await;
    let bodies = bodies(&model);
    assert_eq!(bodies.len(), 5);
    assert_eq!(Some(shared(&bodies[1], &bodies[2])), bodies[1].find("messages\":["));
    assert_told(&app, thread, &bodies).await;
}

#[tokio::test]
async fn an_attempt_that_failed_is_not_what_the_next_one_is_compared_with() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::call("echo", "{}"),
        ModelReply::Status(503, "text/plain", "later".to_owned()),
        ModelReply::text("done"),
    ])
    .await;
    let run = app.run(&agent(&app, &model), "go").await;
    assert_eq!(run["answer"], "done", "{run}");
    let mut bodies = bodies(&model);
    assert_eq!((bodies.len(), &bodies[1]), (3, &bodies[2]));
    bodies.remove(1);
    assert_told(&app, &run["thread_id"], &bodies).await;
}

#[tokio::test]
async fn making_a_conversation_shorter_makes_less_of_it_shared() {
    let app = TestApp::start().await;
    let long = |n: usize| format!(r#"{{"text":"{}"}}"#, "word ".repeat(n));
    let model = FakeModel::start([
        ModelReply::call("echo", &long(100)),
        ModelReply::call("echo", &long(900)),
        ModelReply::text("done"),
    ])
    .await;
    let mut agent = agent(&app, &model);
    agent["context_strategy"] = json!("drop_tool_output");
    agent["model"]["profile"] = json!({ "context_window": 3_000 });
    let run = app.run(&agent, "go").await;
    assert_eq!(run["answer"], "done", "{run}");
    let bodies = bodies(&model);
    assert_told(&app, &run["thread_id"], &bodies).await;
    let kinds: Vec<String> = app
        .steps(run["id"].as_str().unwrap())
        .await
        .iter()
        .map(|step| step["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["task", "action", "action", "summary", "action", "final"]);
    // The output that is left out stood where the two part.
    let parting = shared(&bodies[1], &bodies[2]);
    assert!(parting < bodies[1].len() - "]}".len());
    let same = bodies[1].get(..parting).unwrap();
    assert!(same.ends_with(r#""content":""#), "{same}");
}

#[tokio::test]
async fn a_request_that_cannot_be_put_together_any_more_is_compared_with_nothing() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("done")]).await;
    let agent = agent(&app, &model);
    let run = app.run(&agent, "go").await;
    let changed =
        "UPDATE model_request SET conversation = 'no', conversation_encoding = 'identity'";
    assert_eq!(execute(&app.db, changed).await, 1);
    let again = json!({ "agent": agent, "thread_id": run["thread_id"], "input": "again" });
    app.run_body(&again).await;
    let told = whole(&app, &run["thread_id"]).await;
    assert_eq!(told[1]["bytes"], bodies(&model)[1].len());
    assert_eq!(
        (&told[1]["shared_bytes"], &told[1]["first_difference"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn where_the_head_of_a_request_changes_it_says_what_of_the_agent_did() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("done")]).await;
    let mut agent = agent(&app, &model);
    let run = app.run(&agent, "go").await;
    agent["model"]["settings"]["temperature"] = json!(0.5);
    agent["tools"][0]["description"] = json!("another one");
    let again = json!({ "agent": agent, "thread_id": run["thread_id"], "input": "again" });
    app.run_body(&again).await;
    let told = whole(&app, &run["thread_id"]).await;
    let difference = &told[1]["first_difference"];
    let shared = told[1]["shared_bytes"].as_u64().unwrap();
    assert!(difference["start"].as_u64() <= Some(shared), "{difference}");
    assert_ne!(difference["source"], "step");
}

#[tokio::test]
async fn loaded_memory_has_no_requests() {
    let app = TestApp::start().await;
    let steps = json!([
        { "kind": "task", "parts": [{ "part_kind": "text", "text": "go" }] },
        { "kind": "action", "reply": { "state": "complete",
          "parts": [{ "part_kind": "text", "text": "Yes." }] }, "outcomes": [] },
    ]);
    let memory = json!({ "version": 2, "thread": {}, "steps": steps });
    let thread = app.post("/v1/threads", &json!({ "memory": memory })).await.expect(201);
    let model = FakeModel::start([ModelReply::text("done")]).await;
    let agent = agent(&app, &model);
    let on = json!({ "agent": agent, "thread_id": thread["id"], "input": "again" });
    app.run_body(&on).await;
    let expected = [Value::Null, figures("", &bodies(&model)[0])];
    assert_eq!(told(&app, &thread["id"]).await, expected);
}

#[tokio::test]
async fn a_worker_that_takes_a_run_over_finds_what_the_one_before_it_sent() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::call("echo", r#"{"n": 1}"#),
        ModelReply::call("echo", r#"{"n": 2}"#),
        ModelReply::text("done"),
    ])
    .await;
    app.tools.hold("echo");
    let run = app.start_run(&json!({ "agent": agent(&app, &model), "input": "go" })).await;
    let id = run["id"].as_str().unwrap();
    app.tools.wait_for(1).await;
    app.post(&format!("/v1/runs/{id}/interrupt"), &json!({})).await.expect(202);
    assert_eq!(app.ended(id).await["status"], "interrupted");
    app.tools.release("echo");
    app.post(&format!("/v1/runs/{id}/resume"), &json!({})).await.expect(202);
    assert_eq!(app.ended(id).await["answer"], "done");
    let bodies = bodies(&model);
    assert_eq!(bodies.len(), 3);
    assert_told(&app, &run["thread_id"], &bodies).await;
}

#[tokio::test]
async fn a_reply_that_was_cut_off_has_no_request_and_is_none_to_compare_with() {
    let app = TestApp::start().await;
    let said = vec![Piece::Text("Hel"), Piece::Hold, Piece::Text("lo")];
    let model = HeldModel::saying([said, vec![Piece::Text("Hello again.")]]).await;
    let agent = json!({ "name": "a", "model": model.spec() });
    let mut stream = app.start_stream(&json!({ "agent": agent, "input": "Greet me." })).await;
    let run = stream.until("text.delta").await[0].data.clone();
    let id = run["id"].as_str().unwrap();
    app.post(&format!("/v1/runs/{id}/interrupt"), &json!({})).await.expect(202);
    assert_eq!(app.ended(id).await["status"], "interrupted");
    app.post(&format!("/v1/runs/{id}/resume"), &json!({})).await.expect(202);
    assert_eq!(app.ended(id).await["answer"], "Hello again.");
    let told = told(&app, &run["thread_id"]).await;
    assert_eq!((told.len(), &told[0], &told[1]["shared_bytes"]), (2, &Value::Null, &json!(0)));
    assert_invariants(&app.db).await;
}
