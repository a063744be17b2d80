//! More work than there is room for, and a database that lets nobody in.

use std::time::Duration;

use agentling::app::{Running, StartError, Surroundings};
use agentling::domain::run::RunStatus;
use agentling::store::{PoolSettings, Store};
use serde_json::{Value, json};
use sqlx::Connection as _;

use super::fake;
use crate::engine::crash::{accept, ended};
use crate::support::{
    Answer, FakeTools, TestApp, TestDb, agent_with, assert_invariants, calling, count, saying,
    test_config,
};

const POOLS: PoolSettings = PoolSettings { api: 2, worker: 2, critical: 2 };

#[tokio::test]
async fn f33_an_api_without_a_free_connection_says_so_soon_and_no_lease_is_lost() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("a");
    let agent =
        agent_with(&[calling(&["a"]), saying("Done.")], &[fake(&tools, "a", "at_most_once")]);
    let run = accept(&db, &tools, &agent).await.id;
    let app = TestApp::over(&db, &tools, POOLS, &[]).await;
    tools.wait_for(1).await;
    let mut blocker = db.connect().await;
    let mut lock = blocker.begin().await.unwrap();
    sqlx::query("LOCK TABLE thread IN EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let body = json!({"agent": agent_with(&[saying("Hello.")], &[]), "input": "go on"});
    let answers = futures::future::join_all((0..8).map(|_| app.post("/v1/runs", &body))).await;
    for answer in answers {
        assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds >= 1));
        let problem = answer.expect_problem(503, "database-busy");
        assert!(problem["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{problem}");
    }
    lock.rollback().await.unwrap();
    blocker.close().await.unwrap();
    tools.release("a");
    assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    assert_eq!(count(&db, "SELECT epoch FROM run").await, 1, "the heartbeat went on");
    assert_invariants(&db).await;
}

/// Asks for runs until one is refused for the load.
async fn refusal(app: &TestApp, body: &Value) -> Answer {
    loop {
        let answer = app.post("/v1/runs", body).await;
        if answer.slug() == "overloaded" {
            return answer;
        }
        assert_eq!(answer.slug(), "database-busy", "{}", answer.text);
    }
}

#[tokio::test]
async fn runs_are_refused_while_callers_wait_for_the_database_and_nothing_else_is() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let settings = [("AGENTLING_DB_WAIT_LIMIT_MS", "100")];
    let pools = PoolSettings { api: 1, ..POOLS };
    let app = TestApp::over(&db, &tools, pools, &settings).await;
    let body = json!({"agent": agent_with(&[saying("Hello.")], &[]), "input": "go on"});
    let mut blocker = db.connect().await;
    let mut lock = blocker.begin().await.unwrap();
    sqlx::query("LOCK TABLE thread IN EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let refused = tokio::time::timeout(Duration::from_mins(1), refusal(&app, &body)).await.unwrap();
    assert!(!refused.header("retry-after").is_empty());
    assert!(refused.expect_problem(503, "overloaded")["retry_after_ms"].is_u64());
    app.get("/readyz").await.expect_problem(503, "overloaded");
    assert_eq!(app.get("/healthz").await.status, 200);
    lock.rollback().await.unwrap();
    blocker.close().await.unwrap();
    assert_eq!(app.get("/v1/runs").await.status, 200, "reads are never refused for this");
    while app.get("/readyz").await.status != 200 {}
    assert_eq!(app.run_body(&body).await["status"], "completed");
}

#[tokio::test]
async fn a_server_that_would_open_more_connections_than_the_database_allows_does_not_start() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let config = test_config(&db, &tools, &[("AGENTLING_DB_CONNECTIONS", "500")]);
    let started = Running::start(&config, db.store(), &Surroundings::default()).await;
    let Err(StartError::TooManyConnections { wanted: 502, allowed }) = started else {
        panic!("{started:?}")
    };
    assert!(allowed < 502);
    assert!(Store::open(&db.url, POOLS).unwrap().max_connections().await.unwrap() == allowed);
}
