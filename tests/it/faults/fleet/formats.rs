//! An old server and a new one side by side.

use agentling::domain::run::RunStatus;
use serde_json::json;

use crate::engine::crash::{accept, ended, healthy};
use crate::support::{
    FakeTools, TestApp, TestDb, agent_with, assert_invariants, count, execute, saying, until,
};

#[tokio::test]
async fn f45_a_run_in_a_newer_format_is_left_to_newer_workers_and_not_failed() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let agent = agent_with(&[saying("Hello.")], &[]);
    let newer = accept(&db, &tools, &agent).await.id;
    execute(&db, "UPDATE run SET format = 1000").await;
    let app = healthy(&db, &tools).await;
    // Runs that came later are taken, also those that were given back.
    for _ in 0..3 {
        let run = accept(&db, &tools, &agent).await.id;
        assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    }
    let left = "SELECT count(*) FROM run WHERE format = 1000 AND status = 'queued' AND epoch = 0";
    assert_eq!(count(&db, left).await, 1);
    assert_eq!(app.get(&format!("/v1/runs/{newer}")).await.expect(200)["status"], "queued");
    // A newer worker that knows the format ends it; here it becomes one that this version knows.
    execute(&db, "UPDATE run SET format = 1 WHERE format = 1000").await;
    assert_eq!(ended(&app, newer).await.facts.status, RunStatus::Completed);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f45_a_run_that_an_older_server_could_not_read_is_none_that_it_claims() {
    let app = TestApp::start().await;
    let ask = json!({"kind": "agent", "name": "ask", "agent": "plain"});
    let call = json!({"tool_calls": [{"name": "ask", "arguments": {"task": "Go."}}]});
    let mut plain = agent_with(&[saying("Plain.")], &[]);
    plain["name"] = json!("plain");
    app.create_agent(&plain).await;
    let mut asker = agent_with(&[call, saying("Done.")], &[ask]);
    asker["name"] = json!("asker");
    app.create_agent(&asker).await;
    let yearly = json!({"cron": "0 0 1 1 *", "agent_id": "asker", "input": "Go."});
    app.post("/v1/schedules", &yearly).await.expect(201);
    execute(&app.db, "UPDATE schedule SET next_at = now() - interval '1 minute'").await;
    until(&app.db, "SELECT count(*) = 1 FROM run WHERE answer = 'Done.'").await;
    app.run_body(&json!({"agent": asker, "input": "Go."})).await;
    app.run_body(&json!({"agent_id": "plain", "input": "Go."})).await;
    app.register("none", &app.tools.url("mcp"), &json!({})).await;
    let served = agent_with(&[saying("Served.")], &[json!({"kind": "mcp", "server": "none"})]);
    app.run_body(&json!({"agent": served, "input": "Go."})).await;
    let of = |what: &'static str| count(&app.db, what);
    assert_eq!(of("SELECT count(*) FROM run WHERE answer = 'Served.' AND format = 2").await, 1);
    assert_eq!(of("SELECT count(*) FROM run WHERE answer = 'Done.' AND format = 2").await, 2);
    assert_eq!(of("SELECT count(*) FROM run WHERE answer = 'Plain.' AND format = 2").await, 2);
    assert_eq!(of("SELECT count(*) FROM run WHERE format = 1 AND ancestors = '{}'").await, 1);
    assert_eq!(of("SELECT count(*) FROM run").await, 6);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f45_a_newer_run_whose_worker_was_lost_is_put_back_by_an_older_server_untouched() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let (_claim, ..) = crate::support::claimed(&db.store()).await;
    execute(&db, "UPDATE run SET format = 1000").await;
    execute(&db, "UPDATE run_lease SET expires_at = now() - interval '1 second'").await;
    let _app = healthy(&db, &tools).await;
    until(&db, "SELECT status = 'queued' AND epoch = 1 FROM run").await;
    assert_eq!(count(&db, "SELECT count(*) FROM step").await, 1);
    assert_invariants(&db).await;
}
