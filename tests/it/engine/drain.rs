//! A server that is told to stop, and one that is killed: nothing is lost, nobody keeps a run.

use agentling::app::Surroundings;
use agentling::domain::id::{RunId, TenantId};
use agentling::domain::run::RunStatus;
use agentling::error::AgentlingError;
use serde_json::{Value, json};

use super::crash::{accept, ended, healthy};
use crate::support::{
    Child, Errand, FakeTools, TestApp, TestDb, agent_with, assert_invariants, calling, count,
    request, saying, tool, until,
};

const HELD: &str = "SELECT count(*) FROM run FULL JOIN run_lease USING (tenant_id, run_id)
                     WHERE status = 'running' OR expires_at IS NOT NULL";

fn agent(tools: &FakeTools, effect: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    agent_with(&[calling(&["a"]), saying("Done.")], &[tool(tools, "a", effect, &parameters)])
}

/// A server with a run in the middle of a tool call.
async fn busy(effect: &str, drain: &str) -> (TestApp, RunId) {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("a");
    let run = accept(&db, &tools, &agent(&tools, effect)).await.id;
    let settings = [Errand::SETTINGS, &[("AGENTLING_DRAIN_SECS", drain)]].concat();
    let app = TestApp::on(db, tools, &settings, Surroundings::default()).await;
    app.tools.wait_for(1).await;
    (app, run)
}

/// Ends a run on another server and answers the kind of its call's outcome.
async fn finished_elsewhere(db: &TestDb, tools: &FakeTools, run: RunId) -> String {
    let app = healthy(db, tools).await;
    assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    assert_invariants(db).await;
    let kind = "SELECT outcome->>'kind' FROM tool_call";
    sqlx::query_scalar(kind).fetch_one(&mut db.connect().await).await.unwrap()
}

#[tokio::test]
async fn a_shutdown_waits_for_the_call_in_flight_and_records_its_outcome() {
    let (app, run) = busy("at_most_once", "60").await;
    let (db, tools, engine) = (app.db.clone(), app.tools.clone(), app.running.engine.clone());
    let ((), refused) = tokio::join!(app.running.stop(), async {
        engine.tasks().stopping().await;
        let refused = engine.start(&TenantId::default(), request(&agent(&tools, "pure"))).await;
        tools.release("a");
        refused
    });
    assert!(matches!(refused, Err(AgentlingError::Draining)), "{refused:?}");
    assert_eq!(count(&db, HELD).await, 0);
    assert_eq!(count(&db, "SELECT count(*) FROM tool_call WHERE state = 'ended'").await, 1);
    assert_eq!(count(&db, "SELECT count(*) FROM run WHERE status = 'queued'").await, 1);
    assert_eq!(finished_elsewhere(&db, &tools, run).await, "success");
    assert_eq!(tools.seen().len(), 1);
}

#[tokio::test]
async fn at_the_deadline_of_a_drain_a_run_is_given_back_and_another_server_ends_it() {
    for (effect, kind, n_seen) in [("idempotent", "success", 2), ("at_most_once", "in_doubt", 1)] {
        let (app, run) = busy(effect, "0").await;
        let (db, tools) = (app.db.clone(), app.tools.clone());
        app.running.stop().await;
        assert_eq!(count(&db, HELD).await, 0, "{effect}");
        assert_eq!(count(&db, "SELECT count(*) FROM run WHERE status = 'queued'").await, 1);
        assert_invariants(&db).await;
        tools.release("a");
        assert_eq!(finished_elsewhere(&db, &tools, run).await, kind);
        assert_eq!(tools.seen().len(), n_seen, "{effect}");
    }
}

#[tokio::test]
async fn a_server_that_is_killed_in_a_call_is_replaced_once_its_lease_has_run_out() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("a");
    // The other server is there all along and must not touch a run that is somebody's.
    let run = accept(&db, &tools, &agent(&tools, "idempotent")).await.id;
    let child = Child::start(&db.url, &tools.host, None);
    tools.wait_for(1).await;
    let app = healthy(&db, &tools).await;
    let renewals = "SELECT expires_at > now() + interval '600 milliseconds' FROM run_lease";
    until(&db, renewals).await;
    assert_eq!(count(&db, "SELECT epoch FROM run").await, 1);
    child.kill().await;
    tools.wait_for(2).await;
    tools.release("a");
    assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    assert_invariants(&db).await;
    assert_eq!(count(&db, "SELECT epoch FROM run").await, 2);
    let keys: Vec<String> = tools.seen().into_iter().map(|call| call.key).collect();
    assert_eq!(keys.first(), keys.last());
}
