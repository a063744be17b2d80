//! Workers that die, stop, panic, or have another idea of the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentling::app::Surroundings;
use agentling::clock::{Clock, System};
use agentling::domain::id::RunId;
use agentling::domain::run::RunStatus;
use agentling::engine::{CommitObserver, CommitPoint};
use agentling::store::lease;
use chrono::{DateTime, TimeDelta, Utc};
use rustix::process::Signal;
use serde_json::Value;

use super::{fake, times};
use crate::engine::crash::{accept, ended, healthy};
use crate::support::{
    Child, FakeTools, TestApp, TestDb, agent_with, assert_invariants, calling, count, execute,
    saying, until, uuid,
};

const EXPIRED: &str = "SELECT count(*) > 0 AND bool_and(expires_at < now()) FROM run_lease";

/// Two turns with a tool each, the second of which must not run twice, and an answer.
fn agent(tools: &FakeTools) -> Value {
    let declared = [fake(tools, "first", "pure"), fake(tools, "once", "at_most_once")];
    agent_with(&[calling(&["first"]), calling(&["once"]), saying("Done.")], &declared)
}

#[tokio::test]
async fn f03_a_run_whose_worker_dies_right_after_the_claim_is_resumed_and_asks_its_model_once() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let run = accept(&db, &tools, &agent_with(&[saying("Hello.")], &[])).await;
    // A claim that nobody follows up is what a process leaves that dies right after it.
    let ttl = Duration::from_millis(500);
    assert_eq!(lease::claim(&db.store(), &[uuid()], ttl, run.created_at).await.unwrap().len(), 1);
    let app = healthy(&db, &tools).await;
    assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Completed);
    assert_eq!(count(&db, "SELECT epoch FROM run").await, 2);
    assert_eq!(count(&db, "SELECT count(*) FROM model_request").await, 1);
    assert_eq!(count(&db, "SELECT count(*) FROM step WHERE kind = 'action'").await, 1);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f14_a_stopped_worker_that_wakes_writes_nothing_and_starts_nothing() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("first");
    let run = accept(&db, &tools, &agent(&tools)).await.id;
    let zombie = Child::start(&db.url, &tools.host, None);
    tools.wait_for(1).await;
    zombie.signal(Signal::STOP);
    let app = healthy(&db, &tools).await;
    tools.wait_for(2).await;
    tools.release("first");
    assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    app.running.stop().await;
    zombie.signal(Signal::CONT);
    // A run that it takes on and ends shows that it is awake and has seen what it missed.
    accept(&db, &tools, &agent_with(&[saying("Hello.")], &[])).await;
    until(&db, "SELECT count(*) = 2 FROM run WHERE status = 'completed'").await;
    zombie.kill().await;
    assert_eq!(times(&tools, "once"), 1);
    assert!(tools.seen().iter().all(|call| call.tool != "once" || call.fence == "2"));
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f15_a_worker_that_wakes_after_its_lease_and_before_the_sweep_goes_on_once_or_not_at_all() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("first");
    accept(&db, &tools, &agent(&tools)).await;
    let zombie = Child::start(&db.url, &tools.host, None);
    tools.wait_for(1).await;
    zombie.signal(Signal::STOP);
    until(&db, EXPIRED).await;
    tools.release("first");
    zombie.signal(Signal::CONT);
    let other = healthy(&db, &tools).await;
    until(&db, "SELECT status = 'completed' FROM run").await;
    other.running.stop().await;
    zombie.kill().await;
    assert_eq!(times(&tools, "once"), 1);
    assert!(count(&db, "SELECT epoch FROM run").await <= 2);
    assert_invariants(&db).await;
}

/// Panics before its first commits.
#[derive(Debug)]
struct Panics {
    left: AtomicUsize,
}

impl Panics {
    fn around(n: usize) -> Surroundings {
        let observer = Arc::new(Self { left: AtomicUsize::new(n) });
        Surroundings { observer, ..Surroundings::default() }
    }
}

impl CommitObserver for Panics {
    fn on_commit(&self, point: CommitPoint, _run: RunId) {
        let minus_one = |left: usize| left.checked_sub(1);
        let is_planted = point == CommitPoint::Before
            && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, minus_one).is_ok();
        assert!(!is_planted, "the fault that this test plants");
    }
}

#[tokio::test]
async fn f16_a_panic_costs_its_run_a_claim_and_other_runs_nothing() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(accept(&db, &tools, &agent_with(&[saying("Hello.")], &[])).await.id);
    }
    // The lease is long: what brings the run back is that it is given back.
    let settings = [("AGENTLING_LEASE_MS", "600000")];
    let app = TestApp::on(db.clone(), tools, &settings, Panics::around(1)).await;
    for run in runs {
        assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    }
    let hit = "SELECT count(*) FROM run WHERE epoch = 2 AND last_fault = 'panicked'";
    assert_eq!(count(&db, hit).await, 1);
    let spared = "SELECT count(*) FROM run WHERE epoch = 1 AND last_fault IS NULL";
    assert_eq!(count(&db, spared).await, 3);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f17_a_run_that_fails_every_worker_is_given_up_and_says_what_went_wrong_last() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let run = accept(&db, &tools, &agent_with(&[saying("Hello.")], &[])).await.id;
    let around = Panics::around(5);
    let app = TestApp::on(db.clone(), tools, &[("AGENTLING_POLL_MS", "20")], around).await;
    let (ended, ()) = tokio::join!(ended(&app, run), async {
        // Nobody waits for the pauses between the claims, which grow.
        while count(&db, "SELECT epoch FROM run").await <= 5 {
            execute(&db, "UPDATE run SET available_at = now() WHERE status = 'queued'").await;
        }
    });
    assert_eq!(ended.facts.status, RunStatus::Failed);
    let shown = app.get(&format!("/v1/runs/{run}")).await.expect(200);
    assert_eq!(shown["error"]["type"], "/problems/run-poisoned");
    let detail = shown["error"]["detail"].as_str().unwrap();
    assert!(detail.ends_with("the worker that held it last panicked (panicked)"), "{detail}");
    assert_eq!(count(&db, "SELECT epoch FROM run").await, 6);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f17_a_process_that_dies_is_told_as_lost() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let run = accept(&db, &tools, &agent_with(&[saying("Hello.")], &[])).await.id;
    execute(&db, "UPDATE run SET claims_since_progress = 4").await;
    let child = Child::start(&db.url, &tools.host, Some((CommitPoint::Before, 1)));
    child.died().await;
    until(&db, EXPIRED).await;
    lease::sweep(&db.store()).await.unwrap();
    execute(&db, "UPDATE run SET available_at = now()").await;
    let app = healthy(&db, &tools).await;
    let ended = ended(&app, run).await;
    let detail = ended.facts.failure.unwrap().detail;
    assert!(detail.ends_with("the worker that held it last was lost (worker_lost)"), "{detail}");
    assert_invariants(&db).await;
}

/// A replica whose time of day is wrong.
#[derive(Debug)]
struct Wrong {
    system: System,
    by: TimeDelta,
}

impl Clock for Wrong {
    fn now(&self) -> DateTime<Utc> {
        self.system.now() + self.by
    }

    fn monotonic(&self) -> Duration {
        self.system.monotonic()
    }
}

#[tokio::test]
async fn f39_replicas_whose_clocks_are_ten_minutes_off_steal_nothing_from_each_other() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let mut apps = Vec::new();
    for minutes in [10, -10] {
        let clock = Arc::new(Wrong { system: System::new(), by: TimeDelta::minutes(minutes) });
        let around = Surroundings { clock, ..Surroundings::default() };
        // Leases that a busy machine keeps: what is asked is whose clock counts.
        let settings = [("AGENTLING_LEASE_MS", "60000"), ("AGENTLING_CONCURRENCY", "4")];
        apps.push(TestApp::on(db.clone(), tools.clone(), &settings, around).await);
    }
    let mut runs = Vec::new();
    for _ in 0..10 {
        runs.push(accept(&db, &tools, &agent(&tools)).await.id);
    }
    for run in runs {
        assert_eq!(ended(&apps[0], run).await.facts.status, RunStatus::Completed);
    }
    assert_eq!(count(&db, "SELECT count(*) FROM run WHERE epoch > 1").await, 0);
    assert_eq!((times(&tools, "first"), times(&tools, "once")), (10, 10));
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f40_after_all_replicas_were_suspended_each_run_is_resumed_once() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("first");
    for _ in 0..4 {
        accept(&db, &tools, &agent(&tools)).await;
    }
    let children = [(); 2].map(|()| Child::start(&db.url, &tools.host, None));
    tools.wait_for(4).await;
    for child in &children {
        child.signal(Signal::STOP);
    }
    until(&db, EXPIRED).await;
    tools.release("first");
    for child in &children {
        child.signal(Signal::CONT);
    }
    until(&db, "SELECT count(*) = 4 FROM run WHERE status = 'completed'").await;
    assert_eq!(times(&tools, "once"), 4);
    assert_invariants(&db).await;
    for child in children {
        child.kill().await;
    }
    assert_eq!(count(&db, "SELECT count(*) FROM run_lease").await, 0);
}

#[tokio::test]
async fn a_write_that_is_fenced_is_counted_and_nothing_is_started_after_it() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("first");
    accept(&db, &tools, &agent(&tools)).await;
    let settings = [("AGENTLING_LEASE_MS", "600000"), ("AGENTLING_HEARTBEAT_MS", "300000")];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    tools.wait_for(1).await;
    assert_eq!(app.running.engine.fenced_writes(), 0);
    // Somebody else has the run now, and no heartbeat says so.
    execute(
        &db,
        "WITH taken AS (
             UPDATE run SET lease_token = gen_random_uuid(), epoch = epoch + 1
          RETURNING tenant_id, run_id, lease_token)
         UPDATE run_lease l SET lease_token = t.lease_token
           FROM taken t WHERE (l.tenant_id, l.run_id) = (t.tenant_id, t.run_id)",
    )
    .await;
    tools.release("first");
    while app.running.engine.fenced_writes() == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(app.running.engine.fenced_writes(), 1);
    app.running.stop().await;
    assert_eq!(times(&tools, "once"), 0);
    assert_eq!(count(&db, "SELECT count(*) FROM tool_call WHERE state = 'ended'").await, 0);
    assert_invariants(&db).await;
}
