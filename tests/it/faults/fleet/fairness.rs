//! A tenant's backlog is its own.

use std::time::Duration;

use agentling::app::Surroundings;
use agentling::clock::{Clock as _, System};
use agentling::domain::id::TenantId;
use agentling::domain::run::RunStatus;
use agentling::engine::Engine;
use agentling::error::AgentlingError;
use agentling::store::lease::{self, Claim, Terms};
use agentling::store::{PoolSettings, Store, runs};
use futures::StreamExt as _;
use serde_json::Value;

use super::fake;
use crate::support::{
    FakeTools, TestApp, TestDb, agent_with, assert_invariants, calling, count, new_run, request,
    saying, test_config, until, uuid,
};

const PATIENCE: Duration = Duration::from_mins(1);

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

async fn wait_in_line(store: &Store, name: &str, n: usize) {
    for _ in 0..n {
        runs::accept(store, &tenant(name), &new_run()).await.unwrap();
    }
}

async fn claim(store: &Store, n: usize, per_tenant: u32) -> Vec<Claim> {
    let tokens: Vec<_> = (0..n).map(|_| uuid()).collect();
    let terms = Terms { ttl: PATIENCE, per_tenant };
    lease::claim(store, &tokens, terms, System::new().now()).await.unwrap()
}

fn whose(claims: &[Claim]) -> Vec<&str> {
    let mut whose: Vec<&str> = claims.iter().map(|claim| claim.tenant.as_str()).collect();
    whose.sort_unstable();
    whose
}

#[tokio::test]
async fn tenants_are_served_by_turns_and_whoever_holds_least_comes_first() {
    let db = TestDb::new().await;
    let store = db.store();
    wait_in_line(&store, "a", 20).await;
    wait_in_line(&store, "b", 2).await;
    wait_in_line(&store, "c", 1).await;
    assert_eq!(whose(&claim(&store, 4, 100).await), ["a", "a", "b", "c"]);
    wait_in_line(&store, "b", 3).await;
    wait_in_line(&store, "c", 1).await;
    // Two are held of `a`, one is of `b`, and one is of `c`.
    assert_eq!(whose(&claim(&store, 2, 100).await), ["b", "c"]);
    assert_eq!(whose(&claim(&store, 3, 100).await), ["a", "a", "b"]);
    assert_eq!(claim(&store, 100, 100).await.len(), 16 + 2);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_tenant_holds_no_more_runs_than_its_cap() {
    let db = TestDb::new().await;
    let store = db.store();
    wait_in_line(&store, "a", 10).await;
    wait_in_line(&store, "b", 1).await;
    let first = claim(&store, 8, 3).await;
    assert_eq!(whose(&first), ["a", "a", "a", "b"]);
    assert!(claim(&store, 8, 3).await.is_empty());
    let [held, ..] = first.as_slice() else { panic!("there are four") };
    lease::release(&store, &held.tenant, held.run, held.token).await.unwrap();
    assert_eq!(claim(&store, 8, 3).await.len(), 1);
}

#[tokio::test]
async fn workers_that_claim_at_once_pass_each_other_also_within_one_tenant() {
    let db = TestDb::new().await;
    let store = Store::open(&db.url, PoolSettings { api: 1, worker: 6, critical: 1 }).unwrap();
    wait_in_line(&store, "a", 60).await;
    let claims = futures::future::join_all((0..6).map(|_| claim(&store, 4, 100))).await.concat();
    let mut runs: Vec<_> = claims.iter().map(|claim| claim.run).collect();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), claims.len(), "nobody gets what another has");
    // Four times what one asks for is named, so that several find something.
    assert!(claims.len() >= 8, "{}", claims.len());
    assert_invariants(&db).await;
}

/// An engine that accepts runs and works on none.
async fn front(db: &TestDb, tools: &FakeTools) -> Engine {
    let config = test_config(db, tools, &[]);
    agentling::app::engine(&config, &db.store(), &Surroundings::default()).await.unwrap()
}

/// A tenant with as many runs in line as it may have, each on a thread of its own.
async fn flood(engine: &Engine, name: &str, agent: &Value) {
    let tenant = tenant(name);
    let starts = (0..1_000).map(|_| engine.start(&tenant, request(agent)));
    let refused = futures::stream::iter(starts)
        .buffer_unordered(4)
        .filter(|started| std::future::ready(started.is_err()))
        .count();
    assert_eq!(refused.await, 0);
}

#[tokio::test]
async fn f72_f73_a_flood_of_one_tenant_delays_the_run_of_another_by_no_more_than_a_round() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let (engine, agent) = (front(&db, &tools).await, agent_with(&[saying("Hello.")], &[]));
    flood(&engine, "a", &agent).await;
    let more = engine.start(&tenant("a"), request(&agent)).await;
    assert!(matches!(more, Err(AgentlingError::TenantQueueFull { .. })), "{more:?}");
    let settings = [("AGENTLING_CONCURRENCY", "4")];
    let app = TestApp::on(db.clone(), tools, &settings, Surroundings::default()).await;
    until(&db, "SELECT count(*) >= 20 FROM run WHERE started_at IS NOT NULL").await;
    let single = app.running.engine.start(&tenant("b"), request(&agent)).await.unwrap().run;
    let ended = app.running.engine.wait(&tenant("b"), single.id, PATIENCE).await.unwrap().unwrap();
    assert_eq!(ended.facts.status, RunStatus::Completed);
    let passed = "SELECT count(*) FROM run a, run b
                   WHERE a.tenant_id = 'a' AND b.tenant_id = 'b'
                     AND a.started_at > b.created_at AND a.started_at < b.started_at";
    let passed = count(&db, passed).await;
    // Those that were claimed in the moment of its coming, and those of one claim more.
    assert!(passed <= 8, "{passed} runs of the flood were claimed before it");
    assert!(count(&db, "SELECT count(*) FROM run WHERE status = 'queued'").await > 100);
    app.running.stop().await;
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_server_works_on_no_more_runs_of_a_tenant_than_the_settings_allow() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("a");
    let declared = [fake(&tools, "a", "pure")];
    let agent = agent_with(&[calling(&["a"]), saying("Done.")], &declared);
    let settings = [("AGENTLING_TENANT_RUNNING", "2"), ("AGENTLING_LEASE_MS", "60000")];
    let app = TestApp::on(db.clone(), tools, &settings, Surroundings::default()).await;
    let mut started = Vec::new();
    for name in ["a", "a", "a", "a", "b"] {
        let run = app.running.engine.start(&tenant(name), request(&agent)).await.unwrap().run;
        started.push((tenant(name), run.id));
    }
    app.tools.wait_for(3).await;
    assert_eq!(count(&db, "SELECT count(*) FROM run WHERE status = 'running'").await, 3);
    app.tools.release("a");
    for (tenant, run) in started {
        let ended = app.running.engine.wait(&tenant, run, PATIENCE).await.unwrap().unwrap();
        assert_eq!(ended.facts.status, RunStatus::Completed);
    }
    assert_invariants(&db).await;
}
