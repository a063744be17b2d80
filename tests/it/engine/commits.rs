//! What a turn costs, and what it does not hold while it waits.

use std::sync::Arc;
use std::time::Duration;

use agentling::app::{Running, Surroundings};
use agentling::domain::id::TenantId;
use agentling::domain::run::RunStatus;
use agentling::store::{PoolSettings, Store};
use serde_json::{Value, json};

use super::crash::{accept, ended};
use crate::support::{
    Commits, FakeTools, TestApp, TestDb, agent_with, assert_invariants, calling, count, saying,
    test_config, tool,
};

const PATIENCE: Duration = Duration::from_mins(1);

fn agent(tools: &FakeTools, n_calls: usize, effect: &str, parallel: bool) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let declared = [tool(tools, "a", effect, &parameters)];
    let calls = calling(&vec!["a"; n_calls]);
    let script = if n_calls == 0 { vec![saying("Hi.")] } else { vec![calls, saying("Hi.")] };
    let mut agent = agent_with(&script, &declared);
    agent["parallel_tools"] = json!(parallel);
    agent
}

/// The commits of a run with one turn of so many calls and an answer.
async fn cost(n_calls: usize, effect: &str, parallel: bool) -> usize {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let commits = Arc::new(Commits::default());
    let around =
        Surroundings { observer: Arc::<Commits>::clone(&commits), ..Surroundings::default() };
    let run = accept(&db, &tools, &agent(&tools, n_calls, effect, parallel)).await;
    let app = TestApp::on(db, tools, &[("AGENTLING_LEASE_MS", "60000")], around).await;
    assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Completed);
    assert_eq!(app.tools.seen().len(), n_calls);
    assert_invariants(&app.db).await;
    app.running.stop().await;
    commits.of(run.id)
}

#[tokio::test]
async fn a_turn_costs_its_reply_its_outcomes_and_at_most_one_commit_more() {
    assert_eq!(cost(0, "pure", true).await, 1, "a text reply is one commit");
    for n_calls in 1..=6 {
        for parallel in [true, false] {
            // The second turn is a text reply: one commit.
            let case = (n_calls, parallel);
            assert_eq!(cost(n_calls, "pure", parallel).await, 1 + n_calls + 1, "{case:?}");
            assert_eq!(cost(n_calls, "at_most_once", parallel).await, 2 + n_calls + 1, "{case:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_by_tool_is_one_commit() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let commits = Arc::new(Commits::default());
    let around =
        Surroundings { observer: Arc::<Commits>::clone(&commits), ..Surroundings::default() };
    let answer = json!({"tool_calls": [{"name": "final_answer", "arguments": {"answer": "42"}}]});
    let run = accept(&db, &tools, &agent_with(&[answer], &[])).await;
    let app = TestApp::on(db, tools, &[], around).await;
    assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Completed);
    assert_eq!(commits.of(run.id), 1);
}

#[tokio::test]
async fn no_connection_is_held_while_tools_are_waited_for() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let store = Store::open(&db.url, PoolSettings { worker: 1, api: 2, critical: 1 }).unwrap();
    tools.hold("a");
    let mut runs = Vec::new();
    for _ in 0..30 {
        runs.push(accept(&db, &tools, &agent(&tools, 1, "pure", true)).await.id);
    }
    let settings = [("AGENTLING_LEASE_MS", "60000"), ("AGENTLING_SWEEP_MS", "60000")];
    let config = test_config(&db, &tools, &settings);
    let running = Running::start(&config, store, &Surroundings::default()).await.unwrap();
    tools.wait_for(30).await;
    let busy = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name LIKE 'agentling-%'
                   AND state LIKE 'idle in transaction%'";
    assert_eq!(count(&db, busy).await, 0);
    let sessions = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'agentling-worker'";
    assert_eq!(count(&db, sessions).await, 1);
    assert_eq!(count(&db, "SELECT count(*) FROM run WHERE status = 'running'").await, 30);
    tools.release("a");
    for run in runs {
        let ended = running.engine.wait(&TenantId::default(), run, PATIENCE).await;
        assert_eq!(ended.unwrap().unwrap().facts.status, RunStatus::Completed);
    }
    assert_invariants(&db).await;
    running.stop().await;
}
