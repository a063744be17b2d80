//! A database that hangs up in the middle of everything.

use agentling::app::Surroundings;
use agentling::domain::run::RunStatus;
use futures::future::join_all;
use serde_json::{Value, json};

use super::crash::{accept, ended};
use crate::support::{
    FakeTools, TestApp, TestDb, agent_with, assert_invariants, calling, count, execute, saying,
    tool,
};

const HANG_UP: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND application_name LIKE 'agentling-%'";

fn agent(tools: &FakeTools) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let declared = [
        tool(tools, "once", "at_most_once", &parameters),
        tool(tools, "again", "idempotent", &parameters),
    ];
    agent_with(&[calling(&["once", "again"]), calling(&["once"]), saying("Done.")], &declared)
}

#[tokio::test]
async fn runs_end_although_every_session_is_killed_again_and_again() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(accept(&db, &tools, &agent(&tools)).await.id);
    }
    // The leases outlive the storm: a write that fails is tried again by the process that has it.
    let settings = [("AGENTLING_LEASE_MS", "30000"), ("AGENTLING_HEARTBEAT_MS", "100")];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    let storm = async {
        for n_calls in (0..60).step_by(5) {
            tools.wait_for(n_calls).await;
            execute(&db, HANG_UP).await;
        }
    };
    storm.await;
    let ended = join_all(runs.iter().map(|run| ended(&app, *run))).await;
    assert!(ended.iter().all(|run| run.facts.status == RunStatus::Completed), "{ended:?}");
    assert_invariants(&db).await;
    let in_doubt = "SELECT count(*) FROM tool_call WHERE outcome->>'kind' <> 'success'";
    assert_eq!(count(&db, in_doubt).await, 0, "nobody lost a run, so nobody is in doubt");
    assert_eq!(tools.seen().len(), 60, "and no call was sent twice");
}
