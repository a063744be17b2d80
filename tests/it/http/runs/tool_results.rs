//! Results of tools that the caller runs.

use serde_json::{Value, json};

use crate::support::{
    TestApp, agent_with, assert_invariants, calling, client_tool, count, mint_key, race, run_path,
    saying, tool, until, waiting_calls, with_json,
};

/// An agent that asks its caller to pick something so often at once, and then answers.
fn picker(n: usize) -> Value {
    agent_with(&[calling(&vec!["pick"; n]), saying("Done.")], &[client_tool("pick")])
}

fn start(agent: &Value) -> Value {
    json!({"agent": agent, "input": "Go."})
}

fn place(names: &[String], name: &str) -> usize {
    let place = names.iter().position(|other| other == name);
    place.unwrap_or_else(|| panic!("{name} is not among {names:?}"))
}

#[tokio::test]
async fn a_run_waits_for_the_result_of_a_client_tool_and_goes_on_with_it() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    let waits = json!({"reason": "tool_results", "tool_calls": [
        {"tool_call_id": call, "name": "pick", "arguments": r#"{"n":1}"#, "reason": "tool_results"},
    ]});
    assert_eq!(run["requires_action"], waits);
    assert_invariants(&app.db).await;
    let output = json!({"file": "a.txt", "size": 1});
    app.give_result(&run, &call, &output).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("Done.")));
    assert_eq!(run["requires_action"], Value::Null);
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[0]["output"]["json"], output);
    assert_eq!((&outcomes[0]["kind"], &outcomes[0]["attempts"]), (&json!("success"), &json!(1)));
    let names = app.event_names(&run).await;
    let order = ["tool.call", "run.requires_action", "run.resumed", "tool.result", "run.completed"];
    let places = order.map(|name| place(&names, name));
    assert!(places.is_sorted(), "{names:?}");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn runs_that_wait_are_listed_by_their_status() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let page = app.get("/v1/runs?status=requires_action").await.expect(200);
    assert_eq!(page["items"][0]["id"], run["id"]);
    assert_eq!(page["items"][0]["requires_action"], run["requires_action"]);
    let page = app.get("/v1/runs?status=running").await.expect(200);
    assert_eq!(page["items"], json!([]));
}

#[tokio::test]
async fn the_same_result_may_be_posted_again_and_another_one_is_refused() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    for _ in 0..2 {
        app.give_result(&run, &call, &json!("a.txt")).await.expect(200);
    }
    let other = app.give_result(&run, &call, &json!("b.txt")).await;
    other.expect_problem(409, "tool-call-already-answered");
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_eq!(app.give_result(&run, &call, &json!("a.txt")).await.expect(200)["answer"], "Done.");
    let other = app.give_result(&run, &call, &json!("b.txt")).await;
    other.expect_problem(409, "tool-call-already-answered");
    let resumed = app.event_names(&run).await;
    assert_eq!(resumed.iter().filter(|name| *name == "run.resumed").count(), 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_error_is_told_to_the_model_as_a_failure_of_the_tool() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    let results = json!({"results": [{"tool_call_id": call, "error": "The disk is full."}]});
    app.post(&run_path(&run, "tool-results"), &results).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[0]["kind"], "execution");
    assert_eq!(outcomes[0]["error"]["message"], "The disk is full.");
}

#[tokio::test]
async fn results_of_no_call_that_waits_for_them_are_refused() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", "a-bootstrap-key-of-some-length")]).await;
    let app = app.with_key("a-bootstrap-key-of-some-length");
    let run = app.parked(&start(&picker(1))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    let unknown = app.give_result(&run, "call_of_nobody", &json!(1)).await;
    unknown.expect_problem(422, "unknown-tool-call");
    app.decide(&run, &call, &json!({"approve": true})).await.expect_problem(409, "run-not-waiting");
    let path = run_path(&run, "tool-results");
    for (results, pointer) in [
        (json!([]), "/results"),
        (json!([{"tool_call_id": call}, {"tool_call_id": call}]), "/results/1/tool_call_id"),
        (json!([{"tool_call_id": call, "output": 1, "error": "x"}]), "/results/0/error"),
    ] {
        let refused = app.post(&path, &json!({"results": results})).await;
        let problem = refused.expect_problem(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }
    let foreign = mint_key(&app, "other", &["admin"]).await;
    let body = json!({"results": [{"tool_call_id": call, "output": 1}]});
    let request = app.client().post(app.url(&path)).bearer_auth(foreign);
    app.send(with_json(request, &body)).await.expect_problem(404, "not-found");
    // Nothing of that has counted.
    app.give_result(&run, &call, &json!(1)).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
}

#[tokio::test]
async fn of_two_calls_each_has_its_own_result_and_both_are_told_in_call_order() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(2))).await;
    let [first, second] = waiting_calls(&run).try_into().unwrap();
    app.give_result(&run, &second, &json!("second")).await.expect(200);
    let parked = app.rested(&run).await;
    assert_eq!(parked["status"], "requires_action");
    assert_eq!(waiting_calls(&parked), std::slice::from_ref(&first));
    assert_invariants(&app.db).await;
    app.give_result(&run, &first, &json!("first")).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[0]["output"]["text"], "first");
    assert_eq!(outcomes[1]["output"]["text"], "second");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn several_results_count_together_or_not_at_all() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(2))).await;
    let [first, second] = waiting_calls(&run).try_into().unwrap();
    let result = |call: &str| json!({"tool_call_id": call, "output": call});
    let path = run_path(&run, "tool-results");
    let some = json!({"results": [result(&first), result("call_of_nobody")]});
    app.post(&path, &some).await.expect_problem(422, "unknown-tool-call");
    let all = json!({"results": [result(&first), result(&second)]});
    app.post(&path, &all).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    let names = app.event_names(&run).await;
    assert_eq!(names.iter().filter(|name| *name == "run.requires_action").count(), 1);
}

#[tokio::test]
async fn a_result_may_come_while_another_call_is_under_way() {
    let app = TestApp::start().await;
    app.tools.hold("look");
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    for effect in ["pure", "at_most_once"] {
        let tools = [client_tool("pick"), tool(&app.tools, "look", effect, &parameters)];
        let agent = agent_with(&[calling(&["pick", "look"]), saying("Done.")], &tools);
        let before = app.tools.seen().len();
        let run = app.start_run(&start(&agent)).await;
        app.tools.wait_for(before + 1).await;
        let events = app.events(run["id"].as_str().unwrap()).await;
        let call = events.iter().find(|event| event["event"] == "tool.call").unwrap();
        let call = call["data"]["tool_call_id"].as_str().unwrap();
        assert_eq!(app.give_result(&run, call, &json!(1)).await.expect(200)["status"], "running");
        app.tools.release("look");
        assert_eq!(app.rested(&run).await["status"], "completed");
        let names = app.event_names(&run).await;
        assert!(!names.iter().any(|name| name == "run.requires_action"), "it never had to wait");
        assert_invariants(&app.db).await;
        app.tools.hold("look");
    }
}

#[tokio::test]
async fn calls_that_need_order_are_asked_for_one_after_the_other() {
    let app = TestApp::start().await;
    let mut agent = picker(2);
    agent["parallel_tools"] = json!(false);
    let run = app.parked(&start(&agent)).await;
    let [first] = waiting_calls(&run).try_into().unwrap();
    app.give_result(&run, &first, &json!(1)).await.expect(200);
    let parked = app.rested(&run).await;
    let [second] = waiting_calls(&parked).try_into().unwrap();
    assert_ne!(first, second);
    app.give_result(&run, &second, &json!(2)).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
}

#[tokio::test]
async fn fifty_results_that_race_are_taken_once() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    let body = |n| json!({"results": [{"tool_call_id": call, "output": n}]});
    assert_eq!(race(&[&app], &run_path(&run, "tool-results"), body).await, (1, 49));
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_stream_stays_open_while_its_run_waits() {
    let app = TestApp::start().await;
    let mut stream = app.start_stream(&start(&picker(1))).await;
    let mut events = stream.until("run.requires_action").await;
    let run = events.last().unwrap().data.clone();
    let [call] = waiting_calls(&run).try_into().unwrap();
    app.give_result(&run, &call, &json!(1)).await.expect(200);
    events.extend(stream.rest().await);
    let durable = events.iter().filter(|event| event.id.is_some());
    let streamed: Vec<_> = durable.map(|event| event.name.clone()).collect();
    assert_eq!(streamed, app.event_names(&run).await);
    assert_eq!(streamed.last().unwrap(), "run.completed");
}

#[tokio::test]
async fn a_message_to_a_run_that_waits_is_heard_after_the_wait() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    app.post(&run_path(&run, "messages"), &json!({"text": "And hurry."})).await.expect(202);
    app.give_result(&run, &call, &json!(1)).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    let steps = app.steps(run["id"].as_str().unwrap()).await;
    let kinds: Vec<_> = steps.iter().map(|step| step["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["task", "action", "task", "action", "final"]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_thread_whose_run_waits_is_busy_and_usable_once_that_is_cancelled() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let mut next = start(&agent_with(&[saying("Back.")], &[]));
    next["thread_id"] = run["thread_id"].clone();
    app.post("/v1/runs", &next).await.expect_problem(409, "thread-busy");
    app.post(&run_path(&run, "cancel"), &json!({})).await.expect(202);
    let cancelled = app.rested(&run).await;
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(cancelled["requires_action"], Value::Null);
    assert_eq!(app.outcomes(&run).await[0]["kind"], "cancelled");
    assert_eq!(app.run_body(&next).await["answer"], "Back.");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_that_waits_can_be_interrupted_and_resumed() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    app.post(&run_path(&run, "interrupt"), &json!({})).await.expect(202);
    assert_eq!(app.rested(&run).await["status"], "interrupted");
    app.give_result(&run, &call, &json!(1)).await.expect_problem(409, "run-not-waiting");
    app.post(&run_path(&run, "resume"), &json!({})).await.expect(202);
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_eq!(app.outcomes(&run).await[0]["kind"], "interrupted");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn the_time_of_a_run_goes_on_while_it_waits() {
    let app = TestApp::start().await;
    let mut body = start(&picker(1));
    body["run_timeout_ms"] = json!(500);
    let run = app.start_run(&body).await;
    until(&app.db, "SELECT status = 'failed' FROM run").await;
    let failed = app.rested(&run).await;
    assert_eq!(failed["error"]["type"], "/problems/run-timeout");
    let mut next = start(&agent_with(&[saying("Back.")], &[]));
    next["thread_id"] = run["thread_id"].clone();
    assert_eq!(app.run_body(&next).await["answer"], "Back.");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_result_that_comes_too_late_is_refused_and_the_model_was_told_so() {
    let app = TestApp::start().await;
    let mut agent = picker(1);
    agent["tools"][0]["timeout_ms"] = json!(200);
    let run = app.start_run(&start(&agent)).await;
    until(&app.db, "SELECT status = 'completed' FROM run").await;
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[0]["kind"], "timeout");
    assert_eq!(outcomes[0]["error"]["message"], "tool 'pick' exceeded its 0.2s timeout");
    let call = outcomes[0]["tool_call_id"].as_str().unwrap();
    for _ in 0..2 {
        app.give_result(&run, call, &json!("late")).await.expect_problem(409, "run-not-waiting");
    }
    assert_eq!(count(&app.db, "SELECT count(*) FROM call_answer").await, 0);
    assert_eq!(app.outcomes(&run).await, outcomes);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_result_may_be_as_large_as_the_limit_and_no_byte_larger() {
    const LIMIT: usize = 16 << 20;
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    let body = |n: usize| {
        let body = |text: &str| json!({"results": [{"tool_call_id": call, "output": text}]});
        let frame = body("").to_string().len();
        body(&"x".repeat(n - frame))
    };
    let path = run_path(&run, "tool-results");
    app.post(&path, &body(LIMIT + 1)).await.expect_problem(413, "body-too-large");
    assert_eq!(count(&app.db, "SELECT count(*) FROM call_answer").await, 0);
    app.post(&path, &body(LIMIT)).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
}

#[tokio::test]
async fn a_result_for_a_run_that_was_cancelled_is_refused() {
    let app = TestApp::start().await;
    let run = app.parked(&start(&picker(1))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    app.post(&run_path(&run, "cancel"), &json!({})).await.expect(202);
    assert_eq!(app.rested(&run).await["status"], "cancelled");
    app.give_result(&run, &call, &json!(1)).await.expect_problem(409, "run-not-waiting");
    assert_invariants(&app.db).await;
}
