//! Processes that are told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agentling::domain::run::RunStatus;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::replica::Replica;
use super::{fake, times};
use crate::engine::crash::{accept, ended, healthy};
use crate::support::{
    FakeTools, HeldModel, Piece, TestDb, agent_with, assert_invariants, calling, count, saying,
    until,
};

const HELD: &str = "SELECT count(*) FROM run_lease";

/// A process with a run in the middle of a call of a tool, and how long its drains last.
async fn in_a_call(effect: &str, drain: &str) -> (TestDb, FakeTools, Replica, Value) {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("a");
    let agent = agent_with(&[calling(&["a"]), saying("Done.")], &[fake(&tools, "a", effect)]);
    let replica = Replica::start(&db, &tools, &[("AGENTLING_DRAIN_SECS", drain)]).await;
    let started = replica.post("/v1/runs", &json!({"agent": agent, "input": "go on"}));
    assert_eq!(started.send().await.unwrap().status(), 201);
    tools.wait_for(1).await;
    (db, tools, replica, agent)
}

#[tokio::test]
async fn f41_a_process_told_to_stop_during_a_model_call_records_the_reply_and_exits_with_0() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let model =
        HeldModel::saying([vec![Piece::Text("Hel"), Piece::Hold, Piece::Text("lo.")]]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let settings = [("AGENTLING_DRAIN_SECS", "60")];
    let mut replica = Replica::start(&db, &tools, &settings).await;
    let body = json!({"agent": agent, "input": "go on"});
    assert_eq!(replica.post("/v1/runs", &body).send().await.unwrap().status(), 201);
    model.asked(1).await;
    replica.signal(Signal::TERM);
    // It says that it takes no more, and goes on with what it has.
    while replica.status("/readyz").await == Some(200) {}
    assert_eq!(replica.status("/healthz").await, Some(200));
    let refused = replica.post("/v1/runs", &body).send().await.unwrap();
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    assert!(!replica.has_ended());
    model.release();
    assert_eq!(replica.code().await, Some(0));
    assert_eq!(count(&db, "SELECT count(*) FROM run WHERE answer = 'Hello.'").await, 1);
    assert_eq!(count(&db, HELD).await, 0);
    assert_eq!(model.requests().len(), 1);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f42_at_the_deadline_a_call_that_must_not_run_twice_is_in_doubt_because_of_the_drain() {
    let (db, tools, replica, _) = in_a_call("at_most_once", "1").await;
    replica.signal(Signal::TERM);
    assert_eq!(replica.code().await, Some(0));
    assert_eq!(count(&db, HELD).await, 0);
    let told = "SELECT count(*) FROM run WHERE status = 'queued' AND last_fault = 'drained'";
    assert_eq!(count(&db, told).await, 1);
    tools.release("a");
    let app = healthy(&db, &tools).await;
    until(&db, "SELECT status = 'completed' FROM run").await;
    app.running.stop().await;
    let doubt = "SELECT count(*) FROM tool_call
                  WHERE outcome->>'kind' = 'in_doubt' AND outcome->'error'->>'type' = 'drain'";
    assert_eq!(count(&db, doubt).await, 1);
    assert_eq!(times(&tools, "a"), 1);
    assert_eq!(count(&db, "SELECT claims_since_progress::bigint FROM run").await, 0);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f43_a_second_signal_ends_a_process_at_once_and_its_run_goes_on_elsewhere() {
    for second in [Signal::TERM, Signal::INT] {
        let (db, tools, mut replica, _) = in_a_call("idempotent", "3600").await;
        replica.signal(Signal::TERM);
        while replica.status("/readyz").await == Some(200) {}
        assert!(!replica.has_ended());
        replica.signal(second);
        replica.code().await;
        // As after a crash: what it held comes free with its lease.
        assert_eq!(count(&db, HELD).await, 1);
        crate::support::execute(&db, "UPDATE run_lease SET expires_at = now()").await;
        tools.release("a");
        let app = healthy(&db, &tools).await;
        until(&db, "SELECT status = 'completed' FROM run").await;
        app.running.stop().await;
        assert_eq!(times(&tools, "a"), 2);
        assert_invariants(&db).await;
    }
}

/// Posts runs and reads them until it is told to stop; each request is tried at most twice, the second
/// time at another server. Answers how many runs it started.
async fn load(ports: &[std::sync::Mutex<Arc<Replica>>], stop: &AtomicBool, body: &Value) -> usize {
    let (mut n_started, turn) = (0, AtomicUsize::new(0));
    let next = || {
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&ports[turn % ports.len()].lock().unwrap())
    };
    while !stop.load(Ordering::Relaxed) {
        let key = format!("key-{:p}-{n_started}", std::ptr::from_ref(&turn));
        let mut id = None;
        for _ in 0..3 {
            let request = next().post("/v1/runs", body).header("idempotency-key", &key);
            if let Ok(answer) = request.send().await
                && [200, 201].contains(&answer.status().as_u16())
            {
                let run: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
                id = run["id"].as_str().map(str::to_owned);
                break;
            }
        }
        let id = id.expect("one of the servers takes the run");
        let path = format!("/v1/runs/{id}");
        let read = [next().status(&path).await, next().status(&path).await];
        assert!(read.contains(&Some(200)), "{read:?}");
        n_started += 1;
    }
    n_started
}

/// Puts a server into the place of another, which is told to stop once nobody is sent to it any more.
async fn replace(place: &std::sync::Mutex<Arc<Replica>>, new: Replica) {
    let old = std::mem::replace(&mut *place.lock().unwrap(), Arc::new(new));
    old.signal(Signal::TERM);
    while old.status("/healthz").await.is_some() {}
}

#[tokio::test]
async fn f44_three_replicas_are_replaced_one_by_one_and_no_caller_notices() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let declared = [fake(&tools, "again", "idempotent"), fake(&tools, "once", "at_most_once")];
    let agent = agent_with(&[calling(&["again", "once"]), saying("Done.")], &declared);
    let body = json!({"agent": agent, "input": "go on"});
    let mut replicas = Vec::new();
    for _ in 0..3 {
        let replica = Replica::start(&db, &tools, &[]).await;
        replicas.push(std::sync::Mutex::new(Arc::new(replica)));
    }
    let stop = AtomicBool::new(false);
    let replace = async {
        for place in &replicas {
            replace(place, Replica::start(&db, &tools, &[]).await).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    let (started, ()) = tokio::join!(
        async {
            let one = load(&replicas, &stop, &body);
            let two = load(&replicas, &stop, &body);
            let (one, two) = tokio::join!(one, two);
            one + two
        },
        replace
    );
    assert!(started > 0);
    until(&db, "SELECT bool_and(status = 'completed') FROM run").await;
    assert_eq!(count(&db, "SELECT count(*) FROM run").await, i64::try_from(started).unwrap());
    assert_eq!(times(&tools, "once"), started, "every call reached its tool once");
    let doubt = "SELECT count(*) FROM tool_call WHERE outcome->>'kind' <> 'success'";
    assert_eq!(count(&db, doubt).await, 0);
    assert_eq!(count(&db, HELD).await, 0);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_run_that_a_drain_gives_back_is_taken_on_by_another_server_at_once() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("a");
    let agent = agent_with(&[calling(&["a"]), saying("Done.")], &[fake(&tools, "a", "pure")]);
    let run = accept(&db, &tools, &agent).await.id;
    let first = healthy(&db, &tools).await;
    tools.wait_for(1).await;
    let other = healthy(&db, &tools).await;
    let (tools, engine) = (tools.clone(), first.running.engine.clone());
    tokio::join!(first.running.stop(), async {
        engine.tasks().stopping().await;
        tools.release("a");
    });
    assert_eq!(ended(&other, run).await.facts.status, RunStatus::Completed);
    assert_eq!(times(&tools, "a"), 1);
    assert_invariants(&db).await;
}
