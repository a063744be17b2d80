//! What counts as a failure of the model that another attempt may mend.

use serde_json::{Value, json};

use crate::support::{FakeModel, ModelReply, TestApp, assert_invariants, requests_of, tool};

fn told(requests: &[Value], member: &str) -> Vec<Value> {
    requests.iter().map(|request| request[member].clone()).collect()
}

/// A stream that begins, and then says that something took too long.
fn times_out() -> ModelReply {
    let begun = json!({"choices": [{"delta": {"content": "Hel"}}]});
    let error = json!({"error": {"message": "too slow", "type": "timeout_error"}});
    let events = format!("data: {begun}\n\ndata: {error}\n\n");
    ModelReply::Status(200, "text/event-stream", events)
}

fn breaks_off(text: &str, calls: &[(&str, &str)]) -> ModelReply {
    match ModelReply::calls(calls) {
        ModelReply::Says { calls, .. } => {
            ModelReply::Says { text: text.to_owned(), calls, finish: "error" }
        }
        other @ (ModelReply::Status(..) | ModelReply::Cut(_) | ModelReply::Hang) => other,
    }
}

#[tokio::test]
async fn a_timeout_that_leaves_time_in_the_turn_is_tried_again() {
    let app = TestApp::start().await;
    let model = FakeModel::start([times_out(), ModelReply::text("Hello.")]).await;
    let run = app.run(&json!({"name": "a", "model": model.spec(true)}), "hi").await;
    assert_eq!((&run["answer"], &run["attempt"]), (&json!("Hello."), &json!(2)), "{run}");
    let requests = requests_of(&app, &run).await;
    assert_eq!(told(&requests, "error"), [json!("timeout"), Value::Null]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_timeout_that_takes_the_whole_turn_is_not_tried_again() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::Hang]).await;
    let agent = json!({"name": "a", "model": model.spec(true), "model_timeout_ms": 1_000});
    let run = app.run(&agent, "hi").await;
    assert_eq!(run["error"]["type"], "/problems/model-timeout", "{run}");
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_reply_that_ends_in_an_error_is_no_answer_and_runs_no_calls() {
    for streams in [true, false] {
        let app = TestApp::start().await;
        let model = FakeModel::start([
            breaks_off("The weather is", &[]),
            breaks_off("", &[("look", "{}")]),
            ModelReply::text("It rains."),
        ])
        .await;
        let look = tool(&app.tools, "look", "pure", &json!({"type": "object", "properties": {}}));
        let agent = json!({"name": "a", "model": model.spec(streams), "tools": [look]});
        let run = app.run(&agent, "hi").await;
        assert_eq!((&run["answer"], &run["attempt"]), (&json!("It rains."), &json!(3)), "{run}");
        assert_eq!(app.tools.seen().len(), 0);
        // What it took is paid for all the same.
        assert_eq!(run["usage"]["input"], 21, "{run}");
        let steps = app.steps(run["id"].as_str().unwrap()).await;
        let kinds: Vec<&Value> = steps.iter().map(|step| &step["kind"]).collect();
        assert_eq!(kinds, ["task", "action", "final"], "{steps:?}");
        assert!(!model.requests()[2].body.contains("The weather is"));
        let requests = requests_of(&app, &run).await;
        assert_eq!(told(&requests, "outcome"), ["failed", "failed", "replied"]);
        assert_eq!(told(&requests, "error"), [json!("server"), json!("server"), Value::Null]);
        assert_invariants(&app.db).await;
    }
}

#[tokio::test]
async fn a_reply_that_keeps_ending_in_an_error_fails_the_run() {
    let app = TestApp::start().await;
    let model = FakeModel::start([breaks_off("The weather is", &[])]).await;
    let run = app.run(&json!({"name": "a", "model": model.spec(true)}), "hi").await;
    assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("failed"), &json!("server")));
    assert_eq!(model.requests().len(), 4);
    assert_invariants(&app.db).await;
}
