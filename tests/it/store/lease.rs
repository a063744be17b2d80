//! Leases: one holder at a time, and a dead one's runs come free.

use std::collections::BTreeSet;
use std::time::Duration;

use agentling::clock::{Clock as _, System};
use agentling::domain::id::TenantId;
use agentling::domain::run::RunStatus;
use agentling::store::journal::{Appended, append};
use agentling::store::lease::{self, Claim, MAX_CLAIMS};
use agentling::store::runs::{self, Accepted, NewRun};
use agentling::store::steer::{self, Steered};
use agentling::store::{Conflict, PoolSettings, Store, StoreError};
use futures::future::join_all;

use super::journal::batch;
use crate::support::{
    FakeTools, TestApp, TestDb, accepted, assert_invariants, claimed, count, execute, new_run,
    picture, uuid,
};

const TTL: Duration = Duration::from_mins(1);
pub(crate) const EXPIRE: &str = "UPDATE run_lease SET expires_at = now() - interval '1 second'";
const QUEUED: &str = "SELECT count(*) FROM run WHERE status = 'queued'";

pub(crate) async fn claim(store: &Store, n: usize) -> Vec<Claim> {
    let tokens: Vec<_> = (0..n).map(|_| uuid()).collect();
    lease::claim(store, &tokens, TTL, System::new().now()).await.unwrap()
}

#[tokio::test]
async fn two_claimers_never_get_the_same_run() {
    let db = TestDb::new().await;
    let store = Store::open(&db.url, PoolSettings { api: 2, worker: 8, critical: 1 }).unwrap();
    let mut runs = BTreeSet::new();
    for _ in 0..100 {
        runs.insert(accepted(&store).await.run.id);
    }
    let claimer = async || {
        let mut mine = Vec::new();
        // Passing over what others are at may find nothing while something is left.
        while count(&db, QUEUED).await > 0 {
            mine.extend(claim(&store, 7).await);
        }
        mine
    };
    let claims: Vec<Claim> = join_all((0..8).map(|_| claimer())).await.concat();
    assert_eq!(claims.len(), 100);
    assert_eq!(claims.iter().map(|claim| claim.run).collect::<BTreeSet<_>>(), runs);
    assert_eq!(claims.iter().map(|claim| claim.token.0).collect::<BTreeSet<_>>().len(), 100);
    assert!(claims.iter().all(|claim| claim.epoch == 1 && claim.begins && !claim.is_poisoned));
    assert_invariants(&db).await;
}

#[tokio::test]
async fn an_expired_lease_is_swept_and_its_old_token_writes_nothing() {
    let db = TestDb::new().await;
    let store = db.store();
    let (first, guard, loaded) = claimed(&store).await;
    assert_eq!(lease::sweep(&store).await.unwrap(), 0, "it has not expired");
    execute(&db, EXPIRE).await;
    assert_eq!(lease::sweep(&store).await.unwrap(), 1);
    let old = batch(&loaded, "c1");
    assert_eq!(append(&store, &guard, &old).await.unwrap(), Appended::Fenced, "nobody holds it");
    let [second] = claim(&store, 1).await.try_into().unwrap();
    assert_eq!((second.run, second.epoch, second.begins), (first.run, 2, false));
    assert_ne!(second.token, first.token);
    let before = picture(&db).await;
    assert_eq!(append(&store, &guard, &old).await.unwrap(), Appended::Fenced);
    lease::release(&store, &first.tenant, first.run, first.token).await.unwrap();
    assert!(lease::heartbeat(&store, &[first.token.0], TTL).await.unwrap().is_empty());
    assert_eq!(picture(&db).await, before, "the old token does nothing at all");
    let mut guard = guard;
    (guard.token, guard.epoch) = (second.token, second.epoch);
    assert_eq!(append(&store, &guard, &old).await.unwrap(), Appended::Stored);
}

#[tokio::test]
async fn a_heartbeat_extends_what_is_held_and_says_what_is_lost() {
    let db = TestDb::new().await;
    let store = db.store();
    let (kept, ..) = claimed(&store).await;
    let (lost, ..) = claimed(&store).await;
    execute(&db, EXPIRE).await;
    let beats = lease::heartbeat(&store, &[kept.token.0], TTL).await.unwrap();
    assert_eq!(beats.len(), 1);
    assert_eq!(lease::sweep(&store).await.unwrap(), 1);
    let beats = lease::heartbeat(&store, &[kept.token.0, lost.token.0], TTL).await.unwrap();
    assert_eq!(beats.iter().map(|beat| beat.token).collect::<Vec<_>>(), [kept.token]);
    assert!(beats.iter().all(|beat| !beat.cancel && !beat.interrupt));
    let now = System::new().now();
    steer::interrupt(&store, &kept.tenant, kept.run, now).await.unwrap();
    steer::cancel(&store, &kept.tenant, kept.run, now).await.unwrap();
    let beats = lease::heartbeat(&store, &[kept.token.0], TTL).await.unwrap();
    assert!(beats.iter().all(|beat| beat.cancel && beat.interrupt), "{beats:?}");
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_run_that_is_given_back_is_free_at_once_and_not_held_against_it() {
    let db = TestDb::new().await;
    let store = db.store();
    let (mut held, ..) = claimed(&store).await;
    for epoch in 2..20 {
        lease::release(&store, &held.tenant, held.run, held.token).await.unwrap();
        let [again] = claim(&store, 1).await.try_into().unwrap();
        assert_eq!((again.epoch, again.is_poisoned), (epoch, false));
        held = again;
    }
}

#[tokio::test]
async fn each_claim_without_progress_makes_the_next_one_wait_longer() {
    let db = TestDb::new().await;
    let store = db.store();
    claimed(&store).await;
    for wait in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
        execute(&db, EXPIRE).await;
        assert_eq!(lease::sweep(&store).await.unwrap(), 1);
        let waits = "SELECT round(extract(epoch FROM available_at - now()))::bigint FROM run";
        let waits = count(&db, waits).await;
        // The question is asked a moment after the sweep.
        assert!((wait - 1..=wait).contains(&waits), "{waits}, not {wait}");
        execute(&db, "UPDATE run SET available_at = now()").await;
        assert_eq!(claim(&store, 1).await.len(), 1);
    }
}

#[tokio::test]
async fn a_run_that_kills_every_worker_is_given_up_as_poisoned() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let store = db.store();
    let run = accepted(&store).await.run;
    for n in 1..=MAX_CLAIMS {
        let [claim] = claim(&store, 1).await.try_into().unwrap();
        assert!(!claim.is_poisoned, "claim {n}");
        execute(&db, EXPIRE).await;
        lease::sweep(&store).await.unwrap();
        execute(&db, "UPDATE run SET available_at = now()").await;
    }
    let app = TestApp::on(db, tools, &[], agentling::app::Surroundings::default()).await;
    let ended = app.running.engine.wait(&TenantId::default(), run.id, TTL).await.unwrap().unwrap();
    assert_eq!(ended.facts.status, RunStatus::Failed);
    let shown = app.get(&format!("/v1/runs/{}", run.id)).await.expect(200);
    assert_eq!(shown["error"]["type"], "/problems/run-poisoned");
    assert_invariants(&app.db).await;
    // The thread is usable again.
    let body = serde_json::json!({
        "agent": crate::support::agent_with(&[crate::support::saying("Hello.")], &[]),
        "thread_id": run.thread_id,
        "input": "go on",
    });
    assert_eq!(app.run_body(&body).await["status"], "completed");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_thread_has_one_active_run_however_many_are_posted_at_once() {
    let db = TestDb::new().await;
    let store = Store::open(&db.url, PoolSettings { api: 20, worker: 1, critical: 1 }).unwrap();
    let first = accepted(&store).await.run;
    let tenant = TenantId::default();
    let ended = steer::cancel(&store, &tenant, first.id, first.created_at).await.unwrap();
    assert!(matches!(ended, Steered::Done(_)));
    let posted: Vec<NewRun> = (0..20)
        .map(|_| {
            let mut new = new_run();
            new.new_thread = None;
            new.run.thread_id = first.thread_id;
            new
        })
        .collect();
    let answers = join_all(posted.iter().map(|new| runs::accept(&store, &tenant, new))).await;
    let created = answers.iter().filter(|answer| matches!(answer, Ok(Accepted::Created))).count();
    let busy = |answer: &&Result<Accepted, StoreError>| {
        matches!(answer, Err(StoreError::Conflict(Conflict::ThreadBusy { .. })))
    };
    assert_eq!((created, answers.iter().filter(busy).count()), (1, 19), "{answers:?}");
    assert_eq!(count(&db, "SELECT count(*) FROM run").await, 2);
    assert_invariants(&db).await;
}
