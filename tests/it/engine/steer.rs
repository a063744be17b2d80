//! Cancel and interrupt of runs that no worker holds: the thread is left in order.

use agentling::app::Surroundings;
use agentling::domain::id::{RunId, TenantId};
use agentling::domain::run::{Run, RunStatus};
use agentling::engine::{Engine, StartRun, ThreadChoice};
use serde_json::{Value, json};

use super::crash::{ended, healthy};
use crate::support::{
    FakeTools, TestApp, TestDb, agent_with, assert_invariants, calling, count, request, saying,
    test_config, tool, until,
};

/// An engine that accepts and steers but does not work.
async fn idle(db: &TestDb, tools: &FakeTools) -> Engine {
    let config = test_config(db, tools, &[]);
    agentling::app::engine(&config, &db.store(), &Surroundings::default()).await.unwrap()
}

fn agent(tools: &FakeTools, effect: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    agent_with(
        &[calling(&["a", "b"]), saying("Done.")],
        &[tool(tools, "a", effect, &parameters), tool(tools, "b", "pure", &parameters)],
    )
}

/// The next message on a run's thread.
fn next(run: &Run) -> StartRun {
    let thread = ThreadChoice::Existing { id: run.thread_id, reset: false };
    StartRun { thread, ..request(&agent_with(&[saying("Here.")], &[])) }
}

/// A run whose worker gave it back in the middle of a call, beside one that had ended.
async fn given_back(effect: &str) -> (TestDb, FakeTools, RunId) {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("a");
    let tenant = TenantId::default();
    let started = idle(&db, &tools).await.start(&tenant, request(&agent(&tools, effect))).await;
    let settings = [("AGENTLING_DRAIN_SECS", "0")];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    tools.wait_for(2).await;
    until(&db, "SELECT count(*) = 1 FROM tool_call WHERE state = 'ended'").await;
    app.running.stop().await;
    assert_eq!(count(&db, "SELECT count(*) FROM run WHERE status = 'queued'").await, 1);
    tools.release("a");
    (db, tools, started.unwrap().run.id)
}

#[tokio::test]
async fn a_run_that_is_interrupted_before_it_starts_starts_when_it_is_resumed() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let (engine, tenant) = (idle(&db, &tools).await, TenantId::default());
    let run = engine.start(&tenant, request(&agent(&tools, "pure"))).await.unwrap().run;
    let stopped = engine.interrupt(&tenant, run.id).await.unwrap();
    assert_eq!(stopped.facts.status, RunStatus::Interrupted);
    assert_invariants(&db).await;
    let resumed = engine.resume(&tenant, run.id).await.unwrap();
    assert_eq!(resumed.facts.status, RunStatus::Queued);
    let app = healthy(&db, &tools).await;
    let run = ended(&app, run.id).await;
    assert_eq!((run.facts.status, run.facts.turn), (RunStatus::Completed, 2));
    assert_eq!(count(&db, "SELECT epoch FROM run").await, 1, "the first claim does it");
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_run_that_is_cancelled_after_it_was_given_back_leaves_no_call_open() {
    for (effect, kind) in [("pure", "cancelled"), ("at_most_once", "in_doubt")] {
        let (db, tools, run) = given_back(effect).await;
        let tenant = TenantId::default();
        idle(&db, &tools).await.cancel(&tenant, run).await.unwrap();
        let app = healthy(&db, &tools).await;
        let run = ended(&app, run).await;
        assert_eq!(run.facts.status, RunStatus::Cancelled);
        assert_invariants(&db).await;
        let kinds = "SELECT string_agg(outcome->>'kind', ' ' ORDER BY call_idx) FROM tool_call";
        let kinds: String =
            sqlx::query_scalar(kinds).fetch_one(&mut db.connect().await).await.unwrap();
        assert_eq!(kinds, format!("{kind} success"));
        let next = app.running.engine.start(&tenant, next(&run)).await.unwrap().run;
        assert_eq!(ended(&app, next.id).await.facts.status, RunStatus::Completed);
        assert_invariants(&db).await;
        assert_eq!(tools.seen().len(), 2, "a call of a cancelled run is not repeated");
    }
}

#[tokio::test]
async fn a_run_that_is_interrupted_after_it_was_given_back_goes_on_when_it_is_resumed() {
    let (db, tools, run) = given_back("pure").await;
    tools.hold("a");
    let tenant = TenantId::default();
    idle(&db, &tools).await.interrupt(&tenant, run).await.unwrap();
    let app = healthy(&db, &tools).await;
    let stopped = ended(&app, run).await;
    assert_eq!(stopped.facts.status, RunStatus::Interrupted);
    assert_invariants(&db).await;
    tools.release("a");
    app.running.engine.resume(&tenant, run).await.unwrap();
    assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_cancel_that_was_asked_for_outlives_the_worker_that_should_have_heard_it() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("a");
    let (engine, tenant) = (idle(&db, &tools).await, TenantId::default());
    let run = engine.start(&tenant, request(&agent(&tools, "at_most_once"))).await.unwrap().run;
    let child = crate::support::Child::start(&db.url, &tools.host, None);
    tools.wait_for(2).await;
    child.signal(rustix::process::Signal::STOP);
    let asked = engine.cancel(&tenant, run.id).await.unwrap();
    assert_eq!(asked.facts.status, RunStatus::Running);
    child.kill().await;
    let app = healthy(&db, &tools).await;
    assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Cancelled);
    assert_invariants(&db).await;
    assert_eq!(tools.seen().len(), 2);
}

#[tokio::test]
async fn a_cancel_and_the_end_of_a_run_have_one_winner() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let app = healthy(&db, &tools).await;
    let (engine, tenant) = (&app.running.engine, TenantId::default());
    let mut winners = [0, 0];
    for n in 0..60 {
        let delayed = json!({"text": "Hello.", "delay_ms": n % 12});
        let run = engine.start(&tenant, request(&agent_with(&[delayed], &[]))).await.unwrap().run;
        until(&db, "SELECT NOT EXISTS (SELECT 1 FROM run WHERE status = 'queued')").await;
        let answer = engine.cancel(&tenant, run.id).await;
        let status = ended(&app, run.id).await.facts.status;
        winners[usize::from(status == RunStatus::Cancelled)] += 1;
        // Who was told that the run had ended was told the truth; who was promised a cancel got one.
        assert_eq!(answer.is_ok(), status == RunStatus::Cancelled, "{answer:?} {status}");
    }
    assert_invariants(&db).await;
    assert!(winners[0] > 0 && winners[1] > 0, "{winners:?}");
}
