//! A long thread costs the ledger as much a turn as a short one.

use serde_json::json;

use crate::support::{FakeModel, ModelReply, TestApp, assert_recorded, count, requests_of, tool};

/// How many turns call a tool before the last one answers.
const TURNS: u32 = 205;

#[tokio::test]
async fn a_late_turn_costs_the_ledger_no_more_than_an_early_one() {
    let app = TestApp::start().await;
    // Each turn says something else, and as much.
    let said =
        |n: u32| format!(r#"{{"n": {}, "words": "{}"}}"#, 1_000 + n, "some words ".repeat(20));
    let script = (0..TURNS).map(|n| ModelReply::call("echo", &said(n)));
    let model = FakeModel::start(script.chain([ModelReply::text("done")])).await;
    let parameters = json!({ "type": "object", "additionalProperties": true });
    app.tools.answer("echo", |_| (200, json!("an answer of some length, the same in every turn")));
    let agent = json!({ "name": "a", "model": model.spec(true), "max_steps": 300,
                        "tools": [tool(&app.tools, "echo", "pure", &parameters)] });
    let run = app.run(&agent, "go").await;
    assert_eq!(run["answer"], "done", "{run}");
    let early = "SELECT sum(pg_column_size(q.*)) FROM model_request q WHERE turn BETWEEN 10 AND 14";
    let late =
        "SELECT sum(pg_column_size(q.*)) FROM model_request q WHERE turn BETWEEN 200 AND 204";
    let (early, late) = (count(&app.db, early).await, count(&app.db, late).await);
    assert!(late * 10 <= early * 12, "turns 200–204 take {late} bytes, turns 10–14 {early}");
    let requests = requests_of(&app, &run).await;
    let last = (requests.last().unwrap(), model.requests().pop().unwrap().body);
    assert_recorded(&app, last.0, &last.1).await;
    assert!(last.1.len() > 50_000);
}
