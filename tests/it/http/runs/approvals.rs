//! Calls that run only once a person has agreed.

use serde_json::{Value, json};

use crate::support::{
    TestApp, agent_with, assert_invariants, calling, count, mint_key, race, run_path, saying, tool,
    until, waiting_calls, with_json,
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

#[tokio::test]
async fn whether_a_call_waits_is_decided_by_its_arguments() {
    let app = TestApp::start().await;
    for (when, waits) in [("/n > 1", false), ("/n >= 1", true), ("not /n exists", false)] {
        let before = app.tools.seen().len();
        let run = app.run_body(&payer(&app, &json!({"approval": {"when": when}}))).await;
        let (status, paid) = if waits { ("requires_action", 0) } else { ("completed", 1) };
        assert_eq!(run["status"], status, "{when}");
        assert_eq!(app.tools.seen().len() - before, paid, "{when}");
        assert_invariants(&app.db).await;
        if waits {
            let [call] = waiting_calls(&run).try_into().unwrap();
            app.decide(&run, &call, &json!({"approve": true})).await.expect(200);
            assert_eq!(app.rested(&run).await["status"], "completed");
        }
    }
}

#[tokio::test]
async fn a_condition_that_cannot_be_read_is_refused_where_it_stands() {
    let app = TestApp::start().await;
    let long = format!("/n == {}", "1".repeat(1_100));
    for (approval, pointer, told) in [
        (json!({"when": "/n >"}), "/tools/0/approval/when", "column 5: expected a number"),
        (json!({"when": "/n == 1; drop"}), "/tools/0/approval/when", "column 7: expected "),
        (json!({"when": "/m == 1"}), "/tools/0/approval/when", "\"m\" is not among the properties"),
        (json!({"when": ""}), "/tools/0/approval/when", "at least 1"),
        (json!({"when": long}), "/tools/0/approval/when", "at most 1024"),
        (json!({"when": 5}), "/tools/0/approval/when", "expected text"),
        (json!({"if": "/n == 1"}), "/tools/0/approval/if", "not known"),
        (json!({}), "/tools/0/approval/when", "missing"),
        (json!("sometimes"), "/tools/0/approval", "expected one of: never, always"),
        (json!(true), "/tools/0/approval", "expected text or an object"),
    ] {
        let agent = payer(&app, &json!({"approval": approval}))["agent"].clone();
        let answer = app.post("/v1/agents", &agent).await;
        assert_eq!(answer.status, 422, "{approval}: {}", answer.text);
        let error = answer.json()["errors"][0].clone();
        assert_eq!(error["pointer"], pointer, "{approval}");
        assert!(error["message"].as_str().unwrap().contains(told), "{approval}: {error}");
    }
    let sound = json!({"approval": {"when": "/n > 1 or not /n in [1, 2]"}});
    let agent = payer(&app, &sound)["agent"].clone();
    let made = app.create_agent(&agent).await;
    assert_eq!(made["tools"][0]["approval"], sound["approval"], "it is shown as it was given");
    let bare = payer(&app, &json!({"approval": "never"}))["agent"].clone();
    assert_eq!(app.put("/v1/agents/a", &bare).await.expect(200)["tools"][0]["approval"], "never");
}

#[tokio::test]
async fn changed_arguments_are_judged_anew_and_need_no_second_decision() {
    let app = TestApp::start().await;
    for (arguments, kind, paid) in [
        // Somebody has seen these, whatever the condition says of them.
        (json!({"n": 500}), "success", 1),
        (json!({"n": 0}), "success", 1),
        (json!({}), "success", 1),
        (json!({"n": 1, "to": "eve"}), "invalid_arguments", 0),
        (json!({"n": 1.5}), "invalid_arguments", 0),
    ] {
        let before = app.tools.seen().len();
        let run = app.parked(&payer(&app, &json!({"approval": {"when": "/n > 0"}}))).await;
        let [call] = waiting_calls(&run).try_into().unwrap();
        let decision = json!({"approve": true, "arguments": arguments});
        app.decide(&run, &call, &decision).await.expect(200);
        assert_eq!(app.rested(&run).await["status"], "completed");
        assert_eq!(app.outcomes(&run).await[0]["kind"], kind, "{arguments}");
        let seen = app.tools.seen();
        assert_eq!(seen.len() - before, paid);
        assert!(seen[before..].iter().all(|call| call.body == arguments));
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_call_of_a_cancelled_run_can_no_longer_be_agreed_to() {
    let app = TestApp::start().await;
    let (run, call) = asked(&app).await;
    app.post(&run_path(&run, "cancel"), &json!({})).await.expect(202);
    assert_eq!(app.rested(&run).await["status"], "cancelled");
    let late = app.decide(&run, &call, &json!({"approve": true})).await;
    late.expect_problem(409, "run-not-waiting");
    assert_eq!(app.tools.seen(), []);
    assert_eq!(app.outcomes(&run).await[0]["kind"], "cancelled");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn another_tenant_agrees_to_nothing() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", "a-bootstrap-key-of-some-length")]).await;
    let app = app.with_key("a-bootstrap-key-of-some-length");
    let (run, call) = asked(&app).await;
    let foreign = mint_key(&app, "other", &["admin"]).await;
    let body = json!({"decisions": [{"tool_call_id": call, "approve": true}]});
    let request = app.client().post(app.url(&run_path(&run, "approvals"))).bearer_auth(foreign);
    app.send(with_json(request, &body)).await.expect_problem(404, "not-found");
    assert_eq!(app.tools.seen(), []);
    app.decide(&run, &call, &json!({"approve": true})).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
}

#[tokio::test]
async fn of_racing_agreements_and_refusals_the_first_counts() {
    let app = TestApp::start().await;
    let (run, call) = asked(&app).await;
    let body = |n: usize| {
        let decision = if n.is_multiple_of(2) {
            json!({"tool_call_id": call, "approve": true, "arguments": {"n": n}})
        } else {
            json!({"tool_call_id": call, "approve": false})
        };
        json!({"decisions": [decision]})
    };
    assert_eq!(race(&[&app], &run_path(&run, "approvals"), body).await, (1, 49));
    assert_eq!(app.rested(&run).await["status"], "completed");
    let kind = app.outcomes(&run).await[0]["kind"].clone();
    let paid = usize::from(kind == "success");
    assert!(paid == 1 || kind == "denied", "{kind}");
    assert_eq!(app.tools.seen().len(), paid);
    assert_invariants(&app.db).await;
}
