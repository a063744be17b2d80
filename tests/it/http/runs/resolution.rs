//! Calls that may have taken effect, and what is done about them.

use serde_json::{Value, json};

use crate::support::{
    TestApp, agent_with, assert_invariants, calling, race, run_path, saying, tool, until,
    waiting_calls,
};

/// An agent with a tool that must not run twice and takes too long to answer.
fn payer(app: &TestApp, more: &Value) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let mut pay = tool(&app.tools, "pay", "at_most_once", &parameters);
    pay["on_in_doubt"] = json!("hold");
    pay["timeout_ms"] = json!(200);
    for (name, value) in more.as_object().unwrap() {
        pay[name] = value.clone();
    }
    json!({"agent": agent_with(&[calling(&["pay"]), saying("Done.")], &[pay]), "input": "Go."})
}

/// A run whose call is in doubt.
async fn in_doubt(app: &TestApp, more: &Value) -> (Value, String) {
    app.tools.hold("pay");
    let run = app.parked(&payer(app, more)).await;
    assert_eq!(run["requires_action"]["reason"], "in_doubt");
    let [call] = waiting_calls(&run).try_into().unwrap();
    (run, call)
}

fn n_paid(app: &TestApp) -> usize {
    app.tools.seen().iter().filter(|call| call.tool == "pay").count()
}

#[tokio::test]
async fn a_call_in_doubt_ends_as_it_is_resolved() {
    for (resolution, kind) in [
        (json!({"outcome": "succeeded", "output": {"paid": true}}), "success"),
        (json!({"outcome": "succeeded"}), "success"),
        (json!({"outcome": "failed", "message": "It was refused."}), "execution"),
    ] {
        let app = TestApp::start().await;
        let (run, call) = in_doubt(&app, &json!({})).await;
        assert_invariants(&app.db).await;
        app.resolve(&run, &call, &resolution).await.expect(200);
        assert_eq!(app.rested(&run).await["status"], "completed");
        let outcomes = app.outcomes(&run).await;
        assert_eq!((&outcomes[0]["kind"], &outcomes[0]["attempts"]), (&json!(kind), &json!(1)));
        assert_eq!(outcomes[0]["output"]["json"], resolution["output"]);
        assert_eq!(outcomes[0]["error"]["message"], resolution["message"]);
        assert_eq!(n_paid(&app), 1);
        let again = app.resolve(&run, &call, &resolution).await;
        again.expect_problem(409, "tool-call-already-answered");
        assert_invariants(&app.db).await;
    }
}

#[tokio::test]
async fn a_call_that_did_not_take_effect_is_sent_again_and_may_be_in_doubt_again() {
    let app = TestApp::start().await;
    let (run, call) = in_doubt(&app, &json!({})).await;
    let retry = json!({"outcome": "retry"});
    app.resolve(&run, &call, &retry).await.expect(200);
    let parked = app.rested(&run).await;
    assert_eq!(parked["requires_action"]["reason"], "in_doubt", "{parked}");
    assert_eq!(n_paid(&app), 2);
    app.tools.release("pay");
    app.resolve(&run, &call, &retry).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    let outcomes = app.outcomes(&run).await;
    assert_eq!((&outcomes[0]["kind"], &outcomes[0]["attempts"]), (&json!("success"), &json!(3)));
    let mut keys: Vec<_> = app.tools.seen().into_iter().map(|seen| seen.key).collect();
    keys.dedup();
    assert_eq!(keys.len(), 1, "it is the same call");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_call_that_nobody_resolves_in_time_is_told_to_the_model_as_in_doubt() {
    let app = TestApp::start().await;
    app.tools.hold("pay");
    let run = app.start_run(&payer(&app, &json!({"hold_timeout_ms": 200}))).await;
    until(&app.db, "SELECT status = 'completed' FROM run").await;
    assert_eq!(app.outcomes(&run).await[0]["kind"], "in_doubt");
    assert!(app.event_names(&run).await.contains(&"run.requires_action".to_owned()));
    assert_eq!(n_paid(&app), 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_tool_may_have_the_model_told_at_once() {
    let app = TestApp::start().await;
    app.tools.hold("pay");
    let run = app.run_body(&payer(&app, &json!({"on_in_doubt": "observe"}))).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(app.outcomes(&run).await[0]["kind"], "in_doubt");
    assert_eq!(n_paid(&app), 1);
}

fn probing(app: &TestApp) -> Value {
    let url = format!("{}?call={{tool_call_id}}", app.tools.url("status"));
    json!({"on_in_doubt": "probe", "probe_url": url})
}

#[tokio::test]
async fn a_probe_that_knows_the_call_spares_the_caller_the_question() {
    let app = TestApp::start().await;
    app.tools.hold("pay");
    app.tools.answer("status", |_| (200, json!({"paid": true})));
    let run = app.run_body(&payer(&app, &probing(&app))).await;
    assert_eq!(run["status"], "completed");
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[0]["output"]["json"], json!({"paid": true}));
    let asked = app.tools.seen().into_iter().find(|call| call.tool == "status").unwrap();
    assert_eq!(
        asked.query,
        Some(format!("call={}", outcomes[0]["tool_call_id"].as_str().unwrap()))
    );
    assert_eq!(n_paid(&app), 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_probe_that_does_not_find_the_call_has_it_sent_again() {
    let app = TestApp::start().await;
    app.tools.hold("pay");
    let tools = app.tools.clone();
    app.tools.answer("status", move |_| {
        tools.release("pay");
        (404, json!(null))
    });
    let run = app.run_body(&payer(&app, &probing(&app))).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(app.outcomes(&run).await[0]["kind"], "success");
    assert_eq!(n_paid(&app), 2);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_probe_that_tells_nothing_leaves_the_question_to_the_caller() {
    let app = TestApp::start().await;
    app.tools.answer("status", |_| (500, json!(null)));
    let (run, call) = in_doubt(&app, &probing(&app)).await;
    app.resolve(&run, &call, &json!({"outcome": "succeeded"})).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    app.tools.hold("status");
    let (run, call) = in_doubt(&app, &probing(&app)).await;
    app.resolve(&run, &call, &json!({"outcome": "succeeded"})).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_eq!(n_paid(&app), 2);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_resolution_says_only_what_belongs_to_it() {
    let app = TestApp::start().await;
    let (run, call) = in_doubt(&app, &json!({})).await;
    for (resolution, pointer) in [
        (json!({"outcome": "retry", "output": 1}), "/output"),
        (json!({"outcome": "failed", "output": 1}), "/output"),
        (json!({"outcome": "succeeded", "message": "x"}), "/message"),
    ] {
        let refused = app.resolve(&run, &call, &resolution).await;
        let problem = refused.expect_problem(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }
    let unknown = app.resolve(&run, "call_of_nobody", &json!({"outcome": "retry"})).await;
    unknown.expect_problem(422, "unknown-tool-call");
    app.give_result(&run, &call, &json!(1)).await.expect_problem(409, "run-not-waiting");
}

#[tokio::test]
async fn cancelling_a_run_with_a_call_in_doubt_leaves_that_open() {
    let app = TestApp::start().await;
    let (run, call) = in_doubt(&app, &json!({})).await;
    app.post(&run_path(&run, "cancel"), &json!({})).await.expect(202);
    assert_eq!(app.rested(&run).await["status"], "cancelled");
    assert_eq!(app.outcomes(&run).await[0]["kind"], "in_doubt");
    let late = app.resolve(&run, &call, &json!({"outcome": "retry"})).await;
    late.expect_problem(409, "run-not-waiting");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn fifty_resolutions_that_race_are_taken_once() {
    let app = TestApp::start().await;
    let (run, call) = in_doubt(&app, &json!({})).await;
    app.tools.release("pay");
    let path = run_path(&run, &format!("tool-calls/{call}/resolution"));
    let body = |n: usize| {
        let outcome = ["succeeded", "failed", "retry"][n % 3];
        json!({"outcome": outcome})
    };
    assert_eq!(race(&[&app], &path, body).await, (1, 49));
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert!(n_paid(&app) <= 2, "it is sent again at most once");
    assert_invariants(&app.db).await;
}
