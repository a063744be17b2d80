//! Writes whose answer is lost, late or a failure that passes.

use agentling::app::Surroundings;
use agentling::domain::id::{CallId, TenantId};
use agentling::domain::run::RunStatus;
use agentling::domain::run_message::Voice;
use agentling::domain::tool::CallState;
use agentling::domain::wait::{CallAnswer, WaitReason};
use agentling::store::answers::{self, Given, NewAnswers};
use agentling::store::journal::{Appended, Batch, append};
use agentling::store::messages::{self, Added};
use agentling::store::runs::{Accepted, accept};
use agentling::store::{PoolSettings, Store, StoreError, idempotency, steer};
use serde_json::{Value, json};

use crate::engine::crash::{accept as accept_run, ended};
use crate::store::journal::{batch, claimed_with_call, moving};
use crate::support::{
    FakeTools, Harm, OwnCluster, PgProxy, TestApp, TestDb, agent_with, assert_invariants, calling,
    claimed, count, execute, new_run, picture, saying, tool, until, uuid,
};

const APPEND: &str = "WITH guard AS";
const FROZEN: &str = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
const QUEUES: &str = "SELECT count(*) > 0 FROM pg_stat_activity
                       WHERE application_name = 'agentling-worker' AND wait_event_type = 'Lock'";
const PASSES: &str = "SELECT count(*) = 0 FROM pg_stat_activity
                       WHERE datname = current_database()
                         AND application_name = 'agentling-worker' AND wait_event_type = 'Lock'";
const N_STEPS: &str = "SELECT count(*) FROM step";
const N_RUNS: &str = "SELECT count(*) FROM run";

/// A database behind a proxy, and a store that sees it through that.
async fn proxied() -> (TestDb, PgProxy, Store) {
    let db = TestDb::new().await;
    let proxy = PgProxy::to(&db.url).await;
    let store = TestDb { url: proxy.url.clone() }.store();
    (db, proxy, store)
}

fn agent(tools: &FakeTools) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let declared = [tool(tools, "once", "at_most_once", &parameters)];
    agent_with(&[calling(&["once"]), saying("Done.")], &declared)
}

#[tokio::test]
async fn f22_an_append_whose_answer_is_lost_is_found_and_not_done_again() {
    let (db, proxy, store) = proxied().await;
    let (guard, loaded) = claimed_with_call(&store).await;
    let said = batch(&loaded, "c2");
    proxy.trap(APPEND, Harm::LoseAnswer, 1);
    assert_eq!(append(&store, &guard, &said).await.unwrap(), Appended::Stored);
    proxy.sprung(1).await;
    assert_eq!(count(&db, N_STEPS).await, 3);
    assert_eq!(count(&db, "SELECT count(*) FROM tool_call").await, 2);
}

#[tokio::test]
async fn f22_an_append_that_only_moves_a_call_is_found_too() {
    let (db, proxy, store) = proxied().await;
    let (guard, loaded) = claimed_with_call(&store).await;
    let moved = moving(&loaded, "c1", CallState::Planned);
    proxy.trap(APPEND, Harm::LoseAnswer, 1);
    assert_eq!(append(&store, &guard, &moved).await.unwrap(), Appended::Stored);
    proxy.sprung(1).await;
    assert_eq!(count(&db, "SELECT attempt::bigint FROM tool_call").await, 1);
}

#[tokio::test]
async fn f22_an_append_that_never_arrived_is_done_once() {
    let (db, proxy, store) = proxied().await;
    let (guard, loaded) = claimed_with_call(&store).await;
    proxy.trap(APPEND, Harm::CutBefore, 2);
    let appended = append(&store, &guard, &batch(&loaded, "c2")).await;
    assert_eq!(appended.unwrap(), Appended::Stored);
    proxy.sprung(2).await;
    assert_eq!(count(&db, N_STEPS).await, 3);
}

#[tokio::test]
async fn f22_a_run_whose_acceptance_was_not_heard_is_accepted_once() {
    let (db, proxy, store) = proxied().await;
    let tenant = TenantId::default();
    for (n, harm) in [(1, Harm::LoseAnswer), (2, Harm::CutBefore)] {
        let mut new = new_run();
        proxy.trap("COMMIT", harm, 1);
        assert_eq!(accept(&store, &tenant, &new).await.unwrap(), Accepted::Created);
        assert_eq!(count(&db, N_RUNS).await, n);
        // It is a try of its own with a run of the same name.
        new.op_id = uuid();
        assert!(matches!(accept(&store, &tenant, &new).await, Err(StoreError::Conflict(_))));
    }
    let key = idempotency::IdempotencyKey {
        route: "POST /v1/runs".to_owned(),
        key: "k".to_owned(),
        request_hash: [7; 32],
    };
    let with_key = || {
        let mut new = new_run();
        new.idempotency = Some(key.clone());
        new
    };
    proxy.trap("COMMIT", Harm::LoseAnswer, 1);
    assert_eq!(accept(&store, &tenant, &with_key()).await.unwrap(), Accepted::Created);
    let again = accept(&store, &tenant, &with_key()).await.unwrap();
    assert!(matches!(again, Accepted::Replayed(_)), "{again:?}");
    proxy.sprung(3).await;
    assert_eq!(count(&db, N_RUNS).await, 3);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f22_what_a_caller_asked_of_a_run_is_done_once_though_the_answer_is_lost() {
    let (db, proxy, store) = proxied().await;
    let (tenant, new) = (TenantId::default(), crate::support::accepted(&store).await);
    let (run, now) = (new.run.id, new.run.created_at);
    let said = (Voice::User, "And hurry.".to_owned(), None);
    proxy.trap("WITH counted AS", Harm::LoseAnswer, 1);
    let added = messages::add(&store, &tenant, run, said, now).await.unwrap();
    assert!(matches!(added, Added::Waits(message) if message.number == 1));
    assert_eq!(count(&db, "SELECT n_messages::bigint FROM run").await, 1);
    proxy.trap("COMMIT", Harm::LoseAnswer, 1);
    let done = steer::interrupt(&store, &tenant, run, now).await.unwrap();
    assert!(matches!(done, steer::Steered::Done(_)), "{done:?}");
    proxy.trap("COMMIT", Harm::LoseAnswer, 1);
    let done = steer::resume(&store, &tenant, run, now).await.unwrap();
    assert!(matches!(done, steer::Steered::Done(_)), "{done:?}");
    proxy.trap("COMMIT", Harm::LoseAnswer, 1);
    let done = steer::cancel(&store, &tenant, run, now).await.unwrap();
    assert!(matches!(done, steer::Steered::Done(_)), "{done:?}");
    proxy.sprung(4).await;
    let told = "SELECT count(*) FROM run_event
                 WHERE name IN ('run.interrupted', 'run.resumed', 'run.cancelled')";
    assert_eq!(count(&db, told).await, 3);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f22_an_answer_to_a_call_is_taken_though_its_answer_is_lost() {
    let (db, proxy, store) = proxied().await;
    let (guard, loaded) = claimed_with_call(&store).await;
    let waits = "UPDATE tool_call SET state = 'waiting', waits_for = 'in_doubt',
                                      wait_until = now() + interval '1 hour'";
    execute(&db, waits).await;
    let answer = |now| NewAnswers {
        reason: WaitReason::InDoubt,
        answers: vec![(CallId("c1".to_owned()), CallAnswer::Succeeded { output: None })],
        may_repeat: false,
        key: None,
        now,
    };
    let now = loaded.run.created_at;
    proxy.trap("COMMIT", Harm::LoseAnswer, 1);
    let given = answers::give(&store, &guard.tenant, guard.run, &answer(now)).await.unwrap();
    assert!(matches!(given, Given::Taken(_)), "{given:?}");
    proxy.sprung(1).await;
    // Another request that says the same is another one.
    let later = now + chrono::TimeDelta::seconds(1);
    let given = answers::give(&store, &guard.tenant, guard.run, &answer(later)).await.unwrap();
    assert_eq!(given, Given::AlreadyAnswered(CallId("c1".to_owned())));
    assert_eq!(count(&db, "SELECT n_answers::bigint FROM run").await, 1);
}

#[tokio::test]
async fn f23_a_commit_that_was_frozen_and_lands_later_is_waited_for_and_not_doubled() {
    let cluster = OwnCluster::start().await;
    let (db, store) = (cluster.db(), cluster.seen().store());
    let (_, guard, loaded) = claimed(&store).await;
    let mut first = batch(&loaded, "c1");
    // The one tool whose calls are told by no events of their own.
    "final_answer".clone_into(&mut first.calls[0].planned.name);
    cluster.freeze(true).await;
    let (appended, rival, ()) = tokio::join!(
        append(&store, &guard, &first),
        async {
            until(&db, FROZEN).await;
            cluster.proxy.cut();
            until(&db, QUEUES).await;
            // Whoever does not look under the lock finds nothing, and would write the step again.
            assert_eq!(count(&db, N_STEPS).await, 1);
            let rival = Batch { op_id: uuid(), ..batch(&loaded, "c2") };
            let store = cluster.db().store();
            append(&store, &guard, &rival).await
        },
        async {
            let two = QUEUES.replace("> 0", "> 1");
            until(&db, Box::leak(two.into_boxed_str())).await;
            cluster.freeze(false).await;
        }
    );
    assert_eq!(appended.unwrap(), Appended::Stored);
    assert_eq!(rival.unwrap(), Appended::Fenced);
    assert_eq!(count(&db, N_STEPS).await, 2);
    assert_eq!(count(&db, "SELECT count(*) FROM tool_call").await, 1);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f24_a_commit_that_is_frozen_for_longer_than_the_lease_is_found_by_the_next_worker() {
    let cluster = OwnCluster::start().await;
    let (db, tools) = (cluster.db(), FakeTools::start().await);
    tools.hold("once");
    let app = TestApp::on(cluster.seen(), tools.clone(), &[], Surroundings::default()).await;
    let body = json!({"agent": agent(&tools), "input": "go"});
    let run = app.start_run(&body).await["id"].as_str().unwrap().to_owned();
    tools.wait_for(1).await;
    cluster.freeze(true).await;
    tools.release("once");
    until(&db, FROZEN).await;
    until(&db, "SELECT count(*) = 1 FROM run_lease WHERE expires_at < now()").await;
    cluster.freeze(false).await;
    let run = app.ended(&run).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(tools.seen().len(), 1);
    let success = "SELECT count(*) FROM tool_call WHERE outcome->>'kind' = 'success'";
    assert_eq!(count(&db, success).await, 1, "the outcome had landed");
    assert_invariants(&db).await;
    app.running.stop().await;
}

#[tokio::test]
async fn f25_a_connection_that_falls_silent_is_given_up_and_replaced() {
    let db = TestDb::new().await;
    let proxy = PgProxy::to(&db.url).await;
    let pools = PoolSettings { api: 1, worker: 1, critical: 1 };
    let store = Store::open(&proxy.url, pools).unwrap();
    let (guard, loaded) = claimed_with_call(&store).await;
    proxy.trap(APPEND, Harm::Mute, 1);
    let opened = proxy.opened();
    // There is one connection; the second can only be had once the first is given up.
    let appended = append(&store, &guard, &batch(&loaded, "c2")).await;
    assert_eq!(appended.unwrap(), Appended::Stored);
    assert_eq!(proxy.opened(), opened + 1);
    assert_eq!(count(&db, N_STEPS).await, 3);
}

#[tokio::test]
async fn f25_a_server_whose_database_falls_silent_stops_and_another_goes_on() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let proxy = PgProxy::to(&db.url).await;
    let seen = TestDb { url: proxy.url.clone() };
    tools.hold("once");
    let run = accept_run(&db, &tools, &agent(&tools)).await;
    let cut_off = TestApp::on(seen, tools.clone(), &[], Surroundings::default()).await;
    tools.wait_for(1).await;
    proxy.silence(true);
    // It has its answer and nowhere to put it; nobody tells it that its lease runs out.
    tools.release("once");
    let app = TestApp::on(db.clone(), tools.clone(), &[], Surroundings::default()).await;
    assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Completed);
    let landed = picture(&db).await;
    proxy.silence(false);
    until(&db, "SELECT count(*) = 0 FROM run_lease").await;
    assert_eq!(picture(&db).await, landed);
    assert_eq!(tools.seen().len(), 1);
    assert_invariants(&db).await;
    app.running.stop().await;
    cut_off.running.stop().await;
}

#[tokio::test]
async fn f35_a_transaction_that_is_given_up_for_another_one_is_done_again_and_at_last_refused() {
    let (db, proxy, _) = proxied().await;
    let tools = FakeTools::start().await;
    let seen = TestDb { url: proxy.url.clone() };
    let app = TestApp::on(seen, tools, &[], Surroundings::default()).await;
    let body = json!({"agent": agent_with(&[saying("Hi.")], &[]), "input": "go"});
    for state in ["40P01", "40001"] {
        proxy.trap("INSERT INTO run ", Harm::Fail(state), 3);
        let run = app.start_run(&body).await;
        assert_eq!(app.ended(run["id"].as_str().unwrap()).await["status"], "completed");
    }
    let before = count(&db, N_RUNS).await;
    proxy.trap("INSERT INTO run ", Harm::Fail("40001"), 6);
    let refused = app.post("/v1/runs", &body).await;
    assert!(!refused.header("retry-after").is_empty());
    refused.expect_problem(503, "database-busy");
    assert_eq!(count(&db, N_RUNS).await, before);
    // A worker's own writes are tried for as long as its lease holds.
    proxy.trap(APPEND, Harm::Fail("40P01"), 3);
    let run = app.start_run(&body).await;
    assert_eq!(app.ended(run["id"].as_str().unwrap()).await["status"], "completed");
    assert_invariants(&db).await;
    app.running.stop().await;
}

#[tokio::test]
async fn f36_a_run_whose_row_a_stranger_locks_goes_on_when_it_is_let_go() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("once");
    let run = accept_run(&db, &tools, &agent(&tools)).await;
    let app = TestApp::on(db.clone(), tools.clone(), &[], Surroundings::default()).await;
    tools.wait_for(1).await;
    let mut stranger = db.connect().await;
    sqlx::raw_sql("BEGIN; SELECT 1 FROM run FOR UPDATE").execute(&mut stranger).await.unwrap();
    tools.release("once");
    for _ in 0..2 {
        until(&db, QUEUES).await;
        until(&db, PASSES).await;
    }
    sqlx::raw_sql("COMMIT").execute(&mut stranger).await.unwrap();
    let run = ended(&app, run.id).await;
    assert_eq!(run.facts.status, RunStatus::Completed);
    assert_eq!(tools.seen().len(), 1);
    assert_invariants(&db).await;
    app.running.stop().await;
}

#[tokio::test]
async fn a_write_that_is_done_again_writes_nothing_the_second_time() {
    let (db, proxy, store) = proxied().await;
    let (guard, loaded) = claimed_with_call(&store).await;
    let said = batch(&loaded, "c2");
    // The first try is held back until the second has landed.
    proxy.trap(APPEND, Harm::Hold, 1);
    let past = db.store();
    let (held, landed) = tokio::join!(append(&store, &guard, &said), async {
        proxy.sprung(1).await;
        assert_eq!(append(&past, &guard, &said).await.unwrap(), Appended::Stored);
        let landed = picture(&db).await;
        proxy.let_go();
        landed
    });
    assert_eq!(held.unwrap(), Appended::Stored);
    assert_eq!(picture(&db).await, landed);
}
