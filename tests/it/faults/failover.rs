//! A database that is replaced by its standby.

use agentling::app::Surroundings;
use agentling::store::journal::{Appended, append};
use rustix::process::Signal;
use serde_json::json;

use super::postgres::{PATIENT, Stage, agent};
use crate::store::journal::batch;
use crate::store::lease::claim;
use crate::support::{
    FakeTools, OwnCluster, TestApp, accepted, assert_invariants, claimed, count, until,
};

const FOLLOWS: &str = "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'";
const ONE_RUN: &str = "SELECT count(*) = 1 FROM run";
const NO_RECEIVER: &str = "SELECT count(*) = 0 FROM pg_stat_wal_receiver";

#[tokio::test]
async fn f30_a_failover_to_a_synchronous_standby_loses_and_doubles_nothing() {
    let mut stage = Stage::set().await;
    let standby = stage.cluster.standby().await;
    stage.cluster.set("synchronous_standby_names", "*").await;
    until(&stage.cluster.db(), FOLLOWS).await;
    let before = stage.insist("before").await;
    stage.let_go();
    stage.cluster.stop(Signal::QUIT).await;
    standby.promote().await;
    let after = stage.insist("after").await;
    stage.assert_nothing_lost_or_doubled(&[before, after]).await;
}

#[tokio::test]
async fn f31_a_failover_that_loses_commits_is_told_and_fences_what_was_claimed_before_it() {
    let mut cluster = OwnCluster::start().await;
    let (standby, store) = (cluster.standby().await, cluster.seen().store());
    let kept = accepted(&store).await.run;
    until(&standby.db(), ONE_RUN).await;
    standby.set("primary_conninfo", "").await;
    until(&standby.db(), NO_RECEIVER).await;
    // All this is acknowledged, and lost.
    let [first] = claim(&store, 1).await.try_into().unwrap();
    let loaded = agentling::store::journal::load(&store, &first.tenant, kept.id).await;
    let loaded = loaded.unwrap().unwrap();
    let (lost, mut old, _) = claimed(&store).await;
    (old.run, old.token, old.epoch, old.head) = (kept.id, first.token, first.epoch, loaded.head);
    cluster.stop(Signal::QUIT).await;
    standby.promote().await;
    let claims = claim(&store, 1).await;
    assert_eq!((claims[0].run, claims[0].epoch), (kept.id, first.epoch), "the same number again");
    let appended = append(&store, &old, &batch(&loaded, "c1")).await;
    assert_eq!(appended.unwrap(), Appended::Fenced, "and another token");
    let tools = FakeTools::start().await;
    let app = TestApp::on(cluster.seen(), tools, &PATIENT, Surroundings::default()).await;
    app.get(&format!("/v1/runs/{}", lost.run)).await.expect_problem(404, "not-found");
    let ahead = app.stream(&kept.id.to_string(), Some(1_000)).await;
    assert_eq!(ahead.status().as_u16(), 409);
    assert!(ahead.text().await.unwrap().contains("/problems/stream-cursor-ahead"));
    assert_invariants(&standby.db()).await;
    app.running.stop().await;
}

#[tokio::test]
async fn f32_a_server_that_takes_no_writes_is_left_as_soon_as_there_is_one_that_does() {
    let (cluster, tools) = (OwnCluster::start().await, FakeTools::start().await);
    let app = TestApp::on(cluster.seen(), tools.clone(), &PATIENT, Surroundings::default()).await;
    let body = json!({"agent": agent(&tools), "input": "go"});
    let run = app.start_run(&body).await["id"].as_str().unwrap().to_owned();
    assert_eq!(app.ended(&run).await["status"], "completed");
    let standby = cluster.standby().await;
    until(&standby.db(), "SELECT count(*) = 1 FROM run WHERE status = 'completed'").await;
    standby.lead_here();
    let refused = app.post("/v1/runs", &body).await;
    assert!(!refused.header("retry-after").is_empty());
    refused.expect_problem(503, "database-unavailable");
    assert_eq!(app.get(&format!("/v1/runs/{run}")).await.expect(200)["status"], "completed");
    // Nobody hangs up on the standby: it is left all the same.
    cluster.proxy.lead_to(&cluster.db().url);
    let run = loop {
        let answer = app.post("/v1/runs", &body).await;
        if answer.status == 201 {
            break answer.json()["id"].as_str().unwrap().to_owned();
        }
    };
    assert_eq!(app.ended(&run).await["status"], "completed");
    assert_eq!(count(&cluster.db(), "SELECT count(*) FROM run").await, 2);
    assert_invariants(&cluster.db()).await;
    app.running.stop().await;
}
