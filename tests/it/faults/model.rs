//! What a model may ask for that no server should fall over.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{
    FakeModel, ModelReply, TestApp, assert_called, assert_invariants, count, tool,
};

/// So many calls in one reply.
const MANY: usize = 200;

/// So many runs meet a model that is down.
const STORM: usize = 100;

/// A whole reply with these calls: id, tool, argument.
fn asking(calls: &[(String, &str, usize)]) -> ModelReply {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, n)| {
            let function = json!({"name": name, "arguments": json!({"n": n}).to_string()});
            json!({"id": id, "type": "function", "function": function})
        })
        .collect();
    let message = json!({"role": "assistant", "content": null, "tool_calls": calls});
    let choice = json!({"index": 0, "message": message, "finish_reason": "tool_calls"});
    let body = json!({"id": "r1", "model": "fake", "choices": [choice]});
    ModelReply::Status(200, "application/json", body.to_string())
}

#[tokio::test]
async fn f53_two_hundred_calls_of_one_id_and_a_tool_that_is_not_there_are_each_answered() {
    let app = TestApp::start().await;
    let mut calls: Vec<_> = (0..MANY).map(|n| ("call_1".to_owned(), "a", n)).collect();
    calls.push(("call_1".to_owned(), "nobody", MANY));
    let model = FakeModel::start([asking(&calls), ModelReply::text("Done.")]).await;
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let declared = [tool(&app.tools, "a", "at_most_once", &parameters)];
    let agent = json!({"name": "a", "model": model.spec(false), "tools": declared});
    let run = app.run(&agent, "go").await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("Done.")), "{run}");
    let keys: BTreeSet<String> = app.tools.seen().into_iter().map(|call| call.key).collect();
    assert_eq!((app.tools.seen().len(), keys.len()), (MANY, MANY), "each has an id of its own");
    let unknown = "SELECT count(*) FROM tool_call WHERE outcome->>'kind' = 'unknown_tool'";
    assert_eq!(count(&app.db, unknown).await, 1);
    let told = model.requests()[1].said_by("tool").len();
    assert_eq!(told, MANY + 1, "every call has its answer in the next request");
    assert_invariants(&app.db).await;
    assert_called(&app.db, &app.tools).await;
}

/// Starts runs of one agent together and answers how each has ended.
async fn ended(app: &TestApp, agent: &Value) -> Vec<Value> {
    let body = json!({"agent": agent, "input": "go"});
    let runs = (0..STORM).map(async |_| {
        let run = app.start_run(&body).await;
        app.ended(run["id"].as_str().unwrap()).await
    });
    futures::future::join_all(runs).await
}

#[tokio::test]
async fn f48_a_model_that_fails_every_call_is_asked_within_its_retries_and_meets_no_herd_when_it_recovers()
 {
    let app = TestApp::start().await;
    let down = |status| ModelReply::Status(status, "application/json", "{}".to_owned());
    let storm = [500, 502, 503, 529].into_iter().cycle().take(2 * STORM).map(down);
    let model = FakeModel::start(storm).await;
    let agent = json!({"name": "a", "model": model.spec(false)});
    for run in ended(&app, &agent).await {
        let told = (&run["status"], &run["error"]["type"]);
        assert_eq!(told, (&json!("failed"), &json!("/problems/model-error")), "{run}");
    }
    // A tenth of the calls, and the three that an account begins with.
    let asked = model.requests().len();
    assert!((STORM..=STORM + STORM / 10 + 3).contains(&asked), "{asked}");
    model.goes_on_with([ModelReply::text("Done.")]);
    for run in ended(&app, &agent).await {
        assert_eq!(run["answer"], "Done.", "{run}");
    }
    assert_eq!(model.requests().len() - asked, STORM, "a run asks once when all is well");
    assert_invariants(&app.db).await;
}
