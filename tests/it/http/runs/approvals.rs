//! Calls that run only once a person has agreed.

use serde_json::{Value, json};

use crate::support::{
    TestApp, agent_with, assert_invariants, calling, count, mint_key, race, run_path, saying, tool,
    until, waiting_calls,
};

/// An agent that wants to pay, which somebody has to agree to.
fn payer(app: &TestApp, more: &Value) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let mut pay = tool(&app.tools, "pay", "at_most_once", &parameters);
    pay["approval"] = json!("always");
    for (name, value) in more.as_object().unwrap() {
        pay[name] = value.clone();
    }
    json!({"agent": agent_with(&[calling(&["pay"]), saying("Done.")], &[pay]), "input": "Go."})
}

async fn asked(app: &TestApp) -> (Value, String) {
    let run = app.parked(&payer(app, &json!({}))).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    assert_eq!(run["requires_action"]["reason"], "approval");
    assert_eq!(app.tools.seen(), [], "nobody has agreed");
    (run, call)
}

#[tokio::test]
async fn an_approved_call_runs_once_with_the_arguments_that_were_shown() {
    let app = TestApp::start().await;
    let (run, call) = asked(&app).await;
    assert_eq!(run["requires_action"]["tool_calls"][0]["arguments"], r#"{"n":1}"#);
    app.decide(&run, &call, &json!({"approve": true})).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    let [seen] = app.tools.seen().try_into().unwrap();
    assert_eq!(seen.text, r#"{"n":1}"#);
    assert_eq!(app.outcomes(&run).await[0]["kind"], "success");
    for approve in [true, false] {
        let again = app.decide(&run, &call, &json!({"approve": approve})).await;
        again.expect_problem(409, "tool-call-already-answered");
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_denied_call_does_not_run_and_the_model_is_told_why() {
    let app = TestApp::start().await;
    let (run, call) = asked(&app).await;
    let decision = json!({"approve": false, "message": "Not this month."});
    app.decide(&run, &call, &decision).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_eq!(app.tools.seen(), []);
    let outcomes = app.outcomes(&run).await;
    assert_eq!((&outcomes[0]["kind"], &outcomes[0]["attempts"]), (&json!("denied"), &json!(0)));
    assert_eq!(outcomes[0]["error"]["message"], "Not this month.");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn whoever_agrees_may_change_the_arguments() {
    let app = TestApp::start().await;
    let (run, call) = asked(&app).await;
    let decision = json!({"approve": true, "arguments": {"n": 7}});
    app.decide(&run, &call, &decision).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    let [seen] = app.tools.seen().try_into().unwrap();
    assert_eq!(seen.body, json!({"n": 7}));
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn changed_arguments_that_do_not_fit_are_not_sent() {
    let app = TestApp::start().await;
    let (run, call) = asked(&app).await;
    let decision = json!({"approve": true, "arguments": {"n": "seven"}});
    app.decide(&run, &call, &decision).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_eq!(app.tools.seen(), []);
    assert_eq!(app.outcomes(&run).await[0]["kind"], "invalid_arguments");
}

#[tokio::test]
async fn a_decision_says_only_what_belongs_to_it() {
    let app = TestApp::start().await;
    let (run, call) = asked(&app).await;
    for (decision, pointer) in [
        (json!({"approve": true, "message": "Fine."}), "/decisions/0/message"),
        (json!({"approve": false, "arguments": {}}), "/decisions/0/arguments"),
    ] {
        let refused = app.decide(&run, &call, &decision).await;
        let problem = refused.expect_problem(422, "validation-failed");
        assert_eq!(problem["errors"][0]["pointer"], pointer);
    }
    let unknown = app.decide(&run, "call_of_nobody", &json!({"approve": true})).await;
    unknown.expect_problem(422, "unknown-tool-call");
    app.give_result(&run, &call, &json!(1)).await.expect_problem(409, "run-not-waiting");
}

#[tokio::test]
async fn a_call_that_nobody_decides_about_in_time_is_denied() {
    let app = TestApp::start().await;
    let run = app.start_run(&payer(&app, &json!({"approval_timeout_ms": 200}))).await;
    until(&app.db, "SELECT status = 'completed' FROM run").await;
    assert_eq!(app.outcomes(&run).await[0]["kind"], "denied");
    assert_eq!(app.tools.seen(), []);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_decision_is_recorded_with_the_key_it_came_with() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", "a-bootstrap-key-of-some-length")]).await;
    let app = app.with_key("a-bootstrap-key-of-some-length");
    let key = mint_key(&app, "default", &["admin"]).await;
    let app = app.with_key(&key);
    let (run, call) = asked(&app).await;
    app.decide(&run, &call, &json!({"approve": true})).await.expect(200);
    let keyed = "SELECT count(*) FROM call_answer WHERE key_id IS NOT NULL";
    assert_eq!(count(&app.db, keyed).await, 1);
}

#[tokio::test]
async fn fifty_decisions_that_race_are_taken_once() {
    let app = TestApp::start().await;
    let (run, call) = asked(&app).await;
    let body = |_| json!({"decisions": [{"tool_call_id": call, "approve": true}]});
    assert_eq!(race(&[&app], &run_path(&run, "approvals"), body).await, (1, 49));
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_eq!(app.tools.seen().len(), 1);
    assert_invariants(&app.db).await;
}
