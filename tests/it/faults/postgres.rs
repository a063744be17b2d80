//! A database that stops, crashes, loses a session or has no room left.

use std::time::Duration;

use agentling::app::Surroundings;
use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    FakeTools, Harm, OwnCluster, TestApp, agent_with, assert_invariants, calling, count, execute,
    saying, tool, with_json,
};

/// Leases that outlive the time that a restart takes on a busy machine.
pub(super) const PATIENT: [(&str, &str); 2] =
    [("AGENTLING_LEASE_MS", "60000"), ("AGENTLING_HEARTBEAT_MS", "200")];

/// How many runs are under way when the database goes.
const N_RUNS: usize = 12;

/// A server on a database of its own, with runs that wait for their tools.
pub(super) struct Stage {
    pub(super) cluster: OwnCluster,
    pub(super) tools: FakeTools,
    pub(super) app: TestApp,
    runs: Vec<String>,
}

pub(super) fn agent(tools: &FakeTools) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let declared = [
        tool(tools, "once", "at_most_once", &parameters),
        tool(tools, "again", "idempotent", &parameters),
    ];
    agent_with(&[calling(&["once", "again"]), calling(&["again"]), saying("Done.")], &declared)
}

impl Stage {
    pub(super) async fn set() -> Self {
        let (cluster, tools) = (OwnCluster::start().await, FakeTools::start().await);
        let around = Surroundings::default();
        tools.hold("once");
        tools.hold("again");
        let app = TestApp::on(cluster.seen(), tools.clone(), &PATIENT, around).await;
        let mut runs = Vec::new();
        for _ in 0..N_RUNS {
            let run = app.start_run(&json!({"agent": agent(&tools), "input": "go"})).await;
            runs.push(run["id"].as_str().unwrap().to_owned());
        }
        tools.wait_for(2 * N_RUNS).await;
        Self { cluster, tools, app, runs }
    }

    /// Posts a run under a key until it is accepted. What refuses it meanwhile says so.
    pub(super) async fn insist(&self, key: &str) -> String {
        let body = json!({"agent": agent(&self.tools), "input": "go"});
        loop {
            let request = with_json(self.app.request("POST", "/v1/runs"), &body);
            let answer = self.app.send(request.header("idempotency-key", key)).await;
            if answer.status == 201 {
                return answer.json()["id"].as_str().unwrap().to_owned();
            }
            let slug = answer.slug();
            let passes = [
                "database-unavailable",
                "database-busy",
                "outcome-unknown",
                "storage-unavailable",
                "idempotency-in-progress",
            ];
            assert!(passes.contains(&slug.as_str()), "{}", answer.text);
            assert!(!answer.header("retry-after").is_empty(), "{}", answer.text);
        }
    }

    pub(super) fn let_go(&self) {
        self.tools.release("once");
        self.tools.release("again");
    }

    /// Every run that was acknowledged ends as if nothing had been, and no call was sent twice.
    pub(super) async fn assert_nothing_lost_or_doubled(self, more: &[String]) {
        let runs: Vec<&String> = self.runs.iter().chain(more).collect();
        let ended = join_all(runs.iter().map(|run| self.app.ended(run))).await;
        assert!(ended.iter().all(|run| run["status"] == "completed"), "{ended:?}");
        // Wherever clients are led by now.
        let db = self.cluster.seen();
        assert_invariants(&db).await;
        let n_runs = i64::try_from(runs.len()).unwrap();
        assert_eq!(count(&db, "SELECT count(*) FROM run").await, n_runs);
        let unsure = "SELECT count(*) FROM tool_call WHERE outcome->>'kind' <> 'success'";
        assert_eq!(count(&db, unsure).await, 0, "the leases held, so nobody is in doubt");
        assert_eq!(self.tools.seen().len(), 3 * runs.len());
        self.app.running.stop().await;
    }
}

/// Runs are under way and posted while the database stops and comes back.
async fn survive_a_stop(signal: Signal) {
    let mut stage = Stage::set().await;
    stage.cluster.stop(signal).await;
    // Every call has its answer now, and nowhere to record it.
    stage.let_go();
    let body = json!({"agent": agent(&stage.tools), "input": "go"});
    let refused = stage.app.post("/v1/runs", &body).await;
    assert!(!refused.header("retry-after").is_empty());
    refused.expect_problem(503, "database-unavailable");
    assert_eq!(stage.app.get("/readyz").await.status, 503);
    stage.cluster.start_again().await;
    let posted = join_all(["a", "b", "c"].map(|key| stage.insist(key))).await;
    stage.assert_nothing_lost_or_doubled(&posted).await;
}

#[tokio::test]
async fn f18_a_restart_of_the_database_loses_and_doubles_nothing() {
    survive_a_stop(Signal::INT).await;
}

#[tokio::test]
async fn f19_a_crash_of_the_database_loses_and_doubles_nothing() {
    survive_a_stop(Signal::QUIT).await;
}

#[tokio::test]
async fn f20_a_killed_backend_takes_every_session_with_it_and_nothing_else() {
    let stage = Stage::set().await;
    let victim = "SELECT pid::bigint FROM pg_stat_activity
                   WHERE application_name = 'agentling-worker' LIMIT 1";
    let victim = i32::try_from(count(&stage.cluster.db(), victim).await).unwrap();
    kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).unwrap();
    stage.let_go();
    let posted = join_all(["a", "b", "c"].map(|key| stage.insist(key))).await;
    // The server starts itself again; until then it lets nobody in.
    let back = async {
        while stage.app.get("/readyz").await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), back).await.unwrap();
    stage.assert_nothing_lost_or_doubled(&posted).await;
}

/// Nothing outside the test knows that the disk is full but the database.
#[tokio::test]
async fn f37_a_database_without_room_refuses_runs_and_goes_on_when_it_has_some() {
    let (cluster, tools) = (OwnCluster::start().await, FakeTools::start().await);
    let app = TestApp::on(cluster.seen(), tools.clone(), &PATIENT, Surroundings::default()).await;
    tools.hold("once");
    tools.hold("again");
    let body = json!({"agent": agent(&tools), "input": "go"});
    let run = app.start_run(&body).await["id"].as_str().unwrap().to_owned();
    tools.wait_for(2).await;
    cluster.proxy.trap("INSERT INTO run ", Harm::Fail("53100"), 1);
    cluster.proxy.trap("WITH guard AS", Harm::Fail("53100"), 3);
    let refused = app.post("/v1/runs", &body).await;
    assert!(!refused.header("retry-after").is_empty());
    refused.expect_problem(503, "storage-unavailable");
    tools.release("once");
    tools.release("again");
    cluster.proxy.sprung(4).await;
    assert_eq!(app.ended(&run).await["status"], "completed");
    assert_eq!(tools.seen().len(), 3);
    assert_invariants(&cluster.db()).await;
    assert_eq!(execute(&cluster.db(), "DELETE FROM run_lease").await, 0);
    app.running.stop().await;
}
