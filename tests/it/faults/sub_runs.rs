//! A run and its sub-run, whose process is killed at each of their commits, and whose servers differ.

use std::os::unix::process::ExitStatusExt as _;

use agentling::app::Surroundings;
use agentling::domain::run::RunStatus;
use agentling::engine::CommitPoint;
use futures::StreamExt as _;
use futures::future::Either;
use serde_json::{Value, json};

use crate::engine::crash::{accept, ended, healthy};
use crate::support::{
    Child, FakeTools, TestApp, TestDb, agent_with, assert_invariants, count, saying, until,
};

const SIGABRT: i32 = 6;

/// An agent that asks two others at once; one of them asks the other.
async fn asker(db: &TestDb, tools: &FakeTools) -> Value {
    let app = healthy(db, tools).await;
    let ask = |name: &str, agent: &str| json!({"kind": "agent", "name": name, "agent": agent});
    let call = |name: &str| json!({"name": name, "arguments": {"task": name}});
    let mut leaf = agent_with(&[json!({"echo": true})], &[]);
    leaf["name"] = json!("leaf");
    app.create_agent(&leaf).await;
    let script = [json!({"tool_calls": [call("leaf")]}), saying("Middle.")];
    let mut middle = agent_with(&script, &[ask("leaf", "leaf")]);
    middle["name"] = json!("middle");
    app.create_agent(&middle).await;
    app.running.stop().await;
    let script = [json!({"tool_calls": [call("leaf"), call("middle")]}), saying("Done.")];
    let mut agent = agent_with(&script, &[ask("leaf", "leaf"), ask("middle", "middle")]);
    agent["budget"] = json!({"turns": 100, "tokens": 1_000_000});
    agent
}

/// The run has ended as if nothing had happened, with one run a call.
async fn assert_same_story(db: &TestDb) {
    let told = "SELECT count(*) FROM run WHERE status = 'completed' AND answer = CASE
                       WHEN cardinality(ancestors) = 0 THEN 'Done.'
                       WHEN answer = 'Middle.' THEN 'Middle.' ELSE 'leaf' END";
    assert_eq!(count(db, told).await, 4);
    assert_eq!(count(db, "SELECT count(*) FROM run").await, 4);
    let succeeded = "SELECT count(*) FROM tool_call WHERE outcome->>'kind' = 'success'";
    assert_eq!(count(db, succeeded).await, 3);
    assert_eq!(count(db, "SELECT count(*) FROM call_answer").await, 3);
    assert_invariants(db).await;
}

/// Waits until a process dies, or its run has ended; whether it has died.
async fn dies(db: &TestDb, child: Child) -> bool {
    let done = "SELECT count(*) = 1 FROM run WHERE ancestors = '{}' AND status = 'completed'";
    let died = std::pin::pin!(child.died());
    let ended = std::pin::pin!(until(db, done));
    match futures::future::select(died, ended).await {
        Either::Left((status, _)) => status.signal() == Some(SIGABRT),
        Either::Right(_) => false,
    }
}

/// Kills a process at its n-th append and lets another one end what it leaves; whether there was one.
async fn survives(death: (CommitPoint, usize)) -> bool {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let agent = asker(&db, &tools).await;
    let run = accept(&db, &tools, &agent).await.id;
    let child = Child::steady(&db.url, &tools.host, Some(death));
    let has_died = dies(&db, child).await;
    assert_invariants(&db).await;
    let app = healthy(&db, &tools).await;
    assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed, "{death:?}");
    app.running.stop().await;
    assert_same_story(&db).await;
    has_died
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_at_any_commit_of_a_run_or_its_sub_runs_leaves_one_run_a_call() {
    let points = [CommitPoint::Before, CommitPoint::After];
    let deaths = (1..=10).flat_map(|n| points.map(|point| (point, n)));
    let survived: Vec<bool> =
        futures::stream::iter(deaths).map(survives).buffer_unordered(3).collect().await;
    let n_died = survived.into_iter().filter(|has_died| *has_died).count();
    assert!(n_died >= 16, "only {n_died} points were reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_run_that_ends_on_another_server_lets_its_parent_go_on_without_any_hint() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let agent = asker(&db, &tools).await;
    let settings = [
        ("AGENTLING_NOTIFY", "off"),
        ("AGENTLING_CONCURRENCY", "1"),
        ("AGENTLING_LEASE_MS", "30000"),
    ];
    let on = || TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default());
    let (one, two) = tokio::join!(on(), on());
    let run = accept(&db, &tools, &agent).await.id;
    assert_eq!(ended(&one, run).await.facts.status, RunStatus::Completed);
    assert_same_story(&db).await;
    one.running.stop().await;
    two.running.stop().await;
}
