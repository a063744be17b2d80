//! Budgets as callers set, see and pass them.

use serde_json::{Value, json};

use super::speaker;
use crate::support::{TestApp, agent_with, assert_invariants, calling, saying, tool, until};

/// An agent that calls a tool twice in each of so many turns and then answers.
fn caller(app: &TestApp, n_turns: usize) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let declared = [tool(&app.tools, "a", "pure", &parameters)];
    let script: Vec<Value> =
        (0..n_turns).map(|_| calling(&["a", "a"])).chain([saying("Done.")]).collect();
    let mut agent = agent_with(&script, &declared);
    agent["loop_limit"] = json!(100);
    agent
}

async fn rest(app: &TestApp, run: &Value) -> Value {
    app.ended(run["id"].as_str().unwrap()).await
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_run_waits_for_more_of_its_budget_and_goes_on_when_it_is_raised() {
    let app = TestApp::start().await;
    for (bounds, raised, used) in [
        (json!({"turns": 1}), json!({"turns": 3}), ("turns", 3)),
        (json!({"turns": 0}), json!({"turns": 3}), ("turns", 3)),
        (json!({"tool_calls": 2}), json!({"tool_calls": 4}), ("tool_calls", 4)),
        (json!({"tool_calls": 1}), json!({"tool_calls": 9}), ("tool_calls", 4)),
        (json!({"tokens": 10}), json!({"tokens": 100_000, "turns": 50}), ("turns", 3)),
    ] {
        let body = json!({"agent": caller(&app, 2), "input": "hi", "budget": bounds});
        let run = app.start_run(&body).await;
        let waits = rest(&app, &run).await;
        assert_eq!(waits["status"], "requires_action", "{bounds}: {waits}");
        assert_eq!(waits["requires_action"]["reason"], "budget_exhausted");
        assert_eq!(waits["budget"], bounds);
        assert_invariants(&app.db).await;
        let path = format!("/v1/budgets/run/{}", run["id"].as_str().unwrap());
        let set = app.put(&path, &raised).await.expect(200);
        assert_eq!(set["scope"], "run");
        let done = rest(&app, &run).await;
        assert_eq!(done["status"], "completed", "{bounds}: {done}");
        assert_eq!(done["budget"], raised);
        let state = app.get(&path).await.expect(200);
        if bounds.get(used.0).is_some() {
            assert_eq!(state[used.0]["used"], used.1, "{bounds}: {state}");
        }
        assert_eq!(state["tokens"]["reserved"].as_u64().unwrap_or(0), 0);
        let events = app.events(run["id"].as_str().unwrap()).await;
        let names = names(&events);
        assert!(names.contains(&"run.requires_action") && names.contains(&"run.resumed"));
        assert_invariants(&app.db).await;
    }
}

#[tokio::test]
async fn a_run_that_waits_for_a_budget_can_be_cancelled_and_times_out() {
    let app = TestApp::start().await;
    let body = json!({"agent": speaker("a", "Hi."), "input": "hi", "budget": {"turns": 0}});
    let run = app.start_run(&body).await;
    assert_eq!(rest(&app, &run).await["status"], "requires_action");
    let id = run["id"].as_str().unwrap();
    app.post(&format!("/v1/runs/{id}/cancel"), &json!({})).await;
    until(&app.db, "SELECT status = 'cancelled' FROM run").await;
    assert_invariants(&app.db).await;
    let mut body = body;
    body["budget"]["time_ms"] = json!(2_000);
    let run = app.start_run(&body).await;
    until(&app.db, "SELECT count(*) = 1 FROM run WHERE status = 'failed'").await;
    let failed = rest(&app, &run).await;
    assert_eq!(failed["error"]["type"], "/problems/run-timeout", "{failed}");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_is_warned_once_when_most_of_a_budget_is_used() {
    let app = TestApp::start().await;
    let mut agent = caller(&app, 5);
    agent["budget"] = json!({"turns": 6, "tool_calls": 1_000});
    let run = app.run_body(&json!({"agent": agent, "input": "hi"})).await;
    assert_eq!(run["status"], "completed", "{run}");
    let events = app.events(run["id"].as_str().unwrap()).await;
    let warnings: Vec<&Value> =
        events.iter().filter(|event| event["event"] == "budget.warning").collect();
    let [warning] = warnings[..] else { panic!("{:?}", names(&events)) };
    assert_eq!(warning["data"], json!({"scope": "run", "what": "turns", "used": 5, "limit": 6}));
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn money_is_counted_by_prices_and_no_run_is_silently_free() {
    let prices = r#"{"scripted/m": {"input": "3", "output": "15", "cache_read": "0.3"}}"#;
    let app = TestApp::with(&[("AGENTLING_PRICES", prices)]).await;
    let script = json!([{"text": "Hi.", "usage": {"input": 1_000, "output": 100}}]);
    let mut agent = speaker("a", "");
    agent["model"]["script"] = script;
    let run = app.run_body(&json!({"agent": agent, "input": "hi", "budget": {"cost": "1"}})).await;
    assert_eq!((&run["status"], &run["cost"]), (&json!("completed"), &json!("0.0045")), "{run}");
    let path = format!("/v1/budgets/run/{}", run["id"].as_str().unwrap());
    let budget = app.get(&path).await.expect(200);
    assert_eq!(
        budget["cost"],
        json!({"limit": "1", "used": "0.0045", "reserved": "0", "overrun": "0"})
    );
    agent["model"]["price"] = json!({"input": "1", "output": "1"});
    let run = app.run_body(&json!({"agent": agent, "input": "hi"})).await;
    assert_eq!(run["cost"], "0.0011", "what the agent says of the price counts");
    agent["model"]["name"] = json!("other");
    let free = json!({"agent": agent, "input": "hi", "budget": {"cost": "1"}});
    app.start_run(&free).await;
    agent["model"].as_object_mut().unwrap().remove("price");
    let refused = json!({"agent": agent, "input": "hi", "budget": {"cost": "1"}});
    let problem = app.post("/v1/runs", &refused).await.expect_problem(422, "validation-failed");
    assert_eq!(problem["errors"][0]["code"], "unknown_price");
    app.put("/v1/budgets/tenant/default", &json!({"cost": "5"})).await.expect(200);
    let refused = json!({"agent": agent, "input": "hi"});
    app.post("/v1/runs", &refused).await.expect_problem(422, "validation-failed");
    app.delete("/v1/budgets/tenant/default").await;
    assert_eq!(app.run_body(&refused).await["status"], "completed");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn what_a_call_takes_beyond_what_was_foreseen_is_told_and_ends_the_budget() {
    let app = TestApp::start().await;
    let agent = app.create_agent(&speaker("a", "")).await;
    let mut spec = speaker("a", "");
    let script = json!([{"text": "Hi.", "usage": {"input": 1_000_000, "output": 1}}]);
    spec["model"]["script"] = script;
    let path = format!("/v1/agents/{}", agent["id"].as_str().unwrap());
    app.put(&path, &spec).await;
    let path = format!("/v1/budgets/agent/{}", agent["id"].as_str().unwrap());
    app.put(&path, &json!({"tokens": 20_000, "period": "month"})).await.expect(200);
    let body = json!({"agent_id": "a", "input": "hi"});
    assert_eq!(app.run_body(&body).await["status"], "completed");
    let budget = app.get(&path).await.expect(200);
    let tokens = json!({"limit": 20_000, "used": 20_000, "reserved": 0, "overrun": 980_001});
    assert_eq!(budget["tokens"], tokens);
    assert!(budget["period_ends_at"].is_string());
    app.post("/v1/runs", &body).await.expect_problem(429, "budget-exhausted");
    let raised = app.put(&path, &json!({"tokens": 1_001_000})).await.expect(200);
    assert_eq!(
        (&raised["tokens"]["used"], &raised["tokens"]["overrun"]),
        (&json!(1_000_001), &json!(0))
    );
    let run = app.start_run(&body).await;
    let status = rest(&app, &run).await["status"].clone();
    assert_eq!(status, "requires_action", "no room for as much again");
    app.delete(&path).await;
    until(&app.db, "SELECT count(*) = 2 FROM run WHERE status = 'completed'").await;
    app.get(&path).await.expect_problem(404, "not-found");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_budget_that_cannot_be_is_refused() {
    let app = TestApp::start().await;
    let path = "/v1/budgets/tenant/default";
    for body in [
        json!({}),
        json!({"tokens": -1}),
        json!({"cost": "1e3"}),
        json!({"cost": 1}),
        json!({"turns": 1, "period": "week"}),
    ] {
        app.put(path, &body).await.expect_problem(422, "validation-failed");
    }
    app.put("/v1/budgets/tenant/other", &json!({"turns": 1}))
        .await
        .expect_problem(404, "not-found");
    let run = app.run(&speaker("a", "Hi."), "hi").await;
    let path = format!("/v1/budgets/run/{}", run["id"].as_str().unwrap());
    let problem = app.put(&path, &json!({"turns": 1, "period": "day"})).await;
    problem.expect_problem(422, "validation-failed");
}
