//! `GET /v1/usage`.

use std::time::Duration;

use agentling::store::usage::forget;
use serde_json::{Value, json};

use super::{pointers, send_as};
use crate::support::{TestApp, assert_invariants, mint_key};

/// An agent whose replies take 10 tokens and 3 each, of a model that has a price or none.
fn agent(name: &str, model: &str, price: &Value) -> Value {
    let usage = json!({ "input": 10, "output": 3 });
    let mut spec = json!({ "provider": "scripted", "name": model, "script": [
        { "error": { "kind": "server", "times": 1 }, "text": "Hello.", "usage": usage },
    ] });
    if !price.is_null() {
        spec["price"] = price.clone();
    }
    json!({ "name": name, "model": spec })
}

fn priced() -> Value {
    json!({ "input": "1", "output": "2" })
}

async fn usage(app: &TestApp, query: &str) -> Vec<Value> {
    let report = app.get(&format!("/v1/usage{query}")).await.expect(200);
    report["items"].as_array().unwrap().clone()
}

fn row(calls: u64, cost: &str) -> Value {
    let n = |each: u64| calls * each;
    json!({
        "model_calls": calls, "unpriced_calls": 0, "cost": cost,
        "usage": { "input": n(10), "output": n(3), "cache_read": 0, "cache_write": 0,
                   "reasoning": 0 },
    })
}

#[tokio::test]
async fn what_calls_took_is_added_up_and_told_apart() {
    let app = TestApp::start().await;
    assert_eq!(usage(&app, "").await, [row(0, "0")]);
    assert_eq!(usage(&app, "?group_by=model").await, Vec::<Value>::new());
    let stored = app.create_agent(&agent("stored", "m1", &priced())).await;
    let body = json!({ "agent_id": stored["id"], "input": "hi" });
    let run = app.run_body(&body).await;
    let inline = app.run(&agent("inline", "m2", &priced()), "hi").await;
    let unpriced = app.run(&agent("inline", "m2", &Value::Null), "hi").await;
    for run in [&run, &inline, &unpriced] {
        assert_eq!(run["status"], "completed", "{run}");
    }

    let all = usage(&app, "").await;
    assert_eq!((&all[0]["usage"], &all[0]["model_calls"]), (&row(3, "")["usage"], &json!(3)));
    assert_eq!((&all[0]["unpriced_calls"], &all[0]["cost"]), (&json!(1), &json!("0.000032")));
    let by_model = usage(&app, "?group_by=provider,model").await;
    let of = |model: &str| by_model.iter().find(|row| row["model"] == model).unwrap();
    assert_eq!((by_model.len(), &of("m1")["provider"]), (2, &json!("scripted")));
    assert_eq!((&of("m1")["usage"], &of("m1")["cost"]), (&run["usage"], &run["cost"]));
    assert_eq!((&of("m2")["model_calls"], &of("m2")["unpriced_calls"]), (&json!(2), &json!(1)));
    let by_agent = usage(&app, "?group_by=agent").await;
    let of_stored = by_agent.iter().find(|row| row["agent_id"] == stored["id"]).unwrap();
    assert_eq!(of_stored["usage"], run["usage"]);
    assert!(by_agent.iter().any(|row| row.get("agent_id").is_none()), "{by_agent:?}");
    for group in ["hour", "day"] {
        let rows = usage(&app, &format!("?group_by={group},model")).await;
        let n_calls: u64 = rows.iter().map(|row| row["model_calls"].as_u64().unwrap()).sum();
        assert_eq!(n_calls, 3);
        assert!(rows.iter().all(|row| row["since"].as_str().unwrap().ends_with(":00:00.000Z")));
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn only_calls_of_the_tenant_within_the_time_count() {
    let app = TestApp::start().await;
    let run = app.run(&agent("a", "m", &priced()), "hi").await;
    let began = run["created_at"].as_str().unwrap();
    assert_eq!(usage(&app, &format!("?from={began}")).await, [row(1, "0.000016")]);
    assert_eq!(usage(&app, &format!("?to={began}")).await, [row(0, "0")]);
    let other = mint_key(&app, "other", &["runs:read"]).await;
    let theirs = send_as(&app, &other, ("GET", "/v1/usage"), "").await.expect(200);
    assert_eq!(theirs["items"], json!([row(0, "0")]));
    let key = mint_key(&app, "default", &["runs:read", "runs:write"]).await;
    let app = app.with_key(&key);
    app.run(&agent("a", "m", &priced()), "hi").await;
    let by_key = usage(&app, "?group_by=key").await;
    let ids: Vec<_> = by_key.iter().filter_map(|row| row["key_id"].as_str()).collect();
    assert_eq!(ids.len(), 1, "{by_key:?}");
    for (query, pointer) in [
        ("from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "from"),
        ("from=2025-01-01T00:00:00Z&to=2026-02-01T00:00:00Z", "from"),
        ("from=9999-01-01T00:00:00Z", "from"),
        ("from=yesterday", "from"),
        ("group_by=day,", "group_by"),
        ("group_by=week", "group_by"),
        ("group_by=", "group_by"),
        ("by=day", "by"),
    ] {
        let refused = app.get(&format!("/v1/usage?{query}")).await;
        let problem = refused.expect_problem(400, "invalid-parameter");
        assert_eq!(pointers(&problem), [pointer], "{query}");
    }
    let ancient = "?from=0001-01-01T00:00:00Z&to=0001-02-01T00:00:00Z";
    assert_eq!(usage(&app, ancient).await, [row(0, "0")]);
}

#[tokio::test]
async fn what_is_deleted_stays_counted_until_it_is_old() {
    let app = TestApp::start().await;
    let run = app.run(&agent("a", "m", &priced()), "hi").await;
    let thread = format!("/v1/threads/{}", run["thread_id"].as_str().unwrap());
    assert_eq!(app.delete(&thread).await.status, 204);
    assert_eq!(usage(&app, "").await, [row(1, "0.000016")]);
    let store = app.db.store();
    let day = Duration::from_hours(24);
    assert_eq!(forget(&store, day).await.unwrap(), 0);
    let aged = "UPDATE model_usage SET sent_at = sent_at - interval '2 days'";
    sqlx::query(aged).execute(&mut app.db.connect().await).await.unwrap();
    assert_eq!(usage(&app, "").await, [row(1, "0.000016")]);
    assert_eq!(forget(&store, day).await.unwrap(), 1);
    assert_eq!(usage(&app, "").await, [row(0, "0")]);
}

#[tokio::test]
async fn sub_runs_and_summaries_that_callers_ask_for_are_counted_once() {
    let app = TestApp::start().await;
    app.create_agent(&agent("expert", "m-expert", &priced())).await;
    let usage_of_one = json!({ "input": 10, "output": 3 });
    let model = json!({ "provider": "scripted", "name": "m-boss", "script": [
        { "tool_calls": [{ "name": "ask", "arguments": { "task": "What?" } }], "usage": usage_of_one },
        { "text": "Done.", "usage": usage_of_one },
    ] });
    let tools =
        json!([{ "kind": "agent", "name": "ask", "description": "asks it", "agent": "expert" }]);
    let boss = json!({ "name": "boss", "model": model, "tools": tools });
    let run = app.run(&boss, "hi").await;
    assert_eq!(run["status"], "completed", "{run}");
    let thread = run["thread_id"].as_str().unwrap();
    app.create_agent(&agent("scribe", "m-summary", &priced())).await;
    let compaction = json!({ "strategy": "summarize", "agent_id": "scribe" });
    app.post(&format!("/v1/threads/{thread}/compact"), &compaction).await.expect(201);
    let rows = usage(&app, "?group_by=model").await;
    let calls: Vec<_> =
        rows.iter().map(|row| (row["model"].clone(), row["model_calls"].clone())).collect();
    let wanted = [("m-boss", 2), ("m-expert", 1), ("m-summary", 1)];
    assert_eq!(calls, wanted.map(|(model, n)| (json!(model), json!(n))), "{rows:?}");
    assert_invariants(&app.db).await;
}
