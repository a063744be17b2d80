//! Endpoints that do not answer, senders that die, sweepers that race, migrations that meet.

use std::time::Duration;

use agentling::app::{Running, Surroundings};
use agentling::clock::Clock as _;
use agentling::domain::agent::Metadata;
use agentling::domain::id::{TenantId, ThreadId, WebhookId};
use agentling::domain::webhook::Webhook;
use agentling::store::{Store, retention, webhooks};
use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::Connection as _;
use sqlx::PgConnection;

use crate::engine::crash::{accept, ended, healthy};
use crate::support::{
    Child, FakeModel, FakeTools, ManualClock, ModelReply, TestApp, TestDb, agent_with,
    assert_invariants, count, execute, request, saying, test_config, until, uuid,
};

const DAY: Duration = Duration::from_hours(24);

/// An endpoint of fake tools, told of every run.
async fn register(db: &TestDb, tools: &FakeTools, name: &str) -> WebhookId {
    let now = ManualClock::new().now();
    let webhook = Webhook {
        id: WebhookId::from(uuid()),
        url: tools.url(name),
        events: vec!["run.completed".parse().unwrap()],
        all_runs: true,
        metadata: Metadata::new(),
        secret_version: 1,
        rotated_at: None,
        created_at: now,
        updated_at: now,
        disabled_at: None,
    };
    webhooks::create(&db.store(), &TenantId::default(), &webhook, None).await.unwrap();
    webhook.id
}

fn agent() -> Value {
    agent_with(&[saying("Done.")], &[])
}

/// The endpoints' calls so far: which, and under which id.
fn told(tools: &FakeTools, name: &str) -> Vec<String> {
    let seen = tools.seen().into_iter().filter(|seen| seen.tool == name);
    seen.map(|seen| seen.webhook[0].clone()).collect()
}

#[tokio::test]
async fn f74_endpoints_that_fail_hold_no_run_up_and_are_told_later_under_the_same_id() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    for name in ["broken", "slow", "good"] {
        register(&db, &tools, name).await;
    }
    tools.answer("broken", |_| (500, json!({})));
    tools.hold("slow");
    let settings = [("AGENTLING_WEBHOOK_RETRY_MS", "20"), ("AGENTLING_WEBHOOK_TIMEOUT_MS", "300")];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    let agent = agent();
    let runs = join_all((0..10).map(|_| app.run(&agent, "go"))).await;
    assert!(runs.iter().all(|run| run["status"] == "completed"), "{runs:?}");
    // The one that answers is told of all, whatever the others do.
    until(&db, "SELECT count(*) = 10 FROM webhook_delivery WHERE state = 'delivered'").await;
    until(&db, "SELECT count(*) > 5 FROM webhook_delivery WHERE n_attempts > 1").await;
    tools.answer("broken", |_| (204, json!({})));
    tools.release("slow");
    execute(&db, "UPDATE webhook_delivery SET due_at = now(), n_attempts = 1 WHERE state = 'pending' AND lease_token IS NULL").await;
    until(&db, "SELECT bool_and(state = 'delivered') FROM webhook_delivery").await;
    for name in ["broken", "slow", "good"] {
        let mut ids = told(&tools, name);
        assert!(name == "good" || ids.len() > 10, "{name} was told again: {ids:?}");
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 10, "{name} was told of ten runs");
    }
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f74_an_endpoint_that_never_answers_is_given_up_in_the_end() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    register(&db, &tools, "broken").await;
    tools.answer("broken", |_| (500, json!({})));
    // The pauses are 1 ms, 12 ms … 8.6 s.
    let settings = [("AGENTLING_WEBHOOK_RETRY_MS", "1"), ("AGENTLING_POLL_MS", "20")];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    app.run(&agent(), "go").await;
    until(&db, "SELECT count(*) = 1 FROM webhook_delivery WHERE state = 'failed'").await;
    let ids = told(&tools, "broken");
    assert_eq!(ids.len(), 8);
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f75_a_delivery_whose_sender_died_before_it_was_noted_is_made_again_under_its_id() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    register(&db, &tools, "hook").await;
    tools.hold("hook");
    let run = accept(&db, &tools, &agent()).await;
    let child = Child::start(&db.url, &tools.host, None);
    tools.wait_for(1).await;
    drop(child);
    tools.release("hook");
    let app = healthy(&db, &tools).await;
    ended(&app, run.id).await;
    until(&db, "SELECT count(*) = 1 FROM webhook_delivery WHERE state = 'delivered'").await;
    let ids = told(&tools, "hook");
    assert!(ids.len() >= 2, "{ids:?}");
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_invariants(&db).await;
}

/// Makes everything that is stored two days old.
async fn age(db: &TestDb) {
    execute(db, "UPDATE thread SET updated_at = updated_at - interval '2 days'").await;
    execute(
        db,
        "UPDATE run SET finished_at = finished_at - interval '2 days' WHERE finished_at IS NOT NULL",
    )
    .await;
}

fn thread_of(run: &Value) -> ThreadId {
    run["thread_id"].as_str().unwrap().parse().unwrap()
}

async fn forget(store: &Store, thread: ThreadId) -> bool {
    retention::forget_thread(store, &TenantId::default(), thread, DAY).await.unwrap()
}

#[tokio::test]
async fn f76_a_thread_that_somebody_has_is_not_forgotten_and_one_that_is_forgotten_is_not_there() {
    let app = TestApp::start().await;
    let store = app.db.store();
    let run = app.run(&agent(), "go").await;
    let thread = thread_of(&run);
    assert!(!forget(&store, thread).await, "it is not old");
    age(&app.db).await;
    // Somebody appends, and has locked the thread for that.
    let mut connection = app.db.connect().await;
    let mut tx = connection.begin().await.unwrap();
    let lock = "SELECT 1 FROM thread FOR NO KEY UPDATE";
    sqlx::query(lock).execute(&mut *tx).await.unwrap();
    assert!(!forget(&store, thread).await, "it is not waited for");
    tx.rollback().await.unwrap();
    // A run is active, whatever the age of the thread.
    let slow = json!({ "text": "x", "delay_ms": 600_000 });
    let mut endless = agent_with(&[slow], &[]);
    endless["model_timeout_ms"] = json!(600_000);
    let next = json!({ "agent": endless, "thread_id": run["thread_id"], "input": "go on" });
    let active = app.start_run(&next).await;
    execute(&app.db, "UPDATE thread SET updated_at = now() - interval '9 days'").await;
    assert!(!forget(&store, thread).await, "it has an active run");
    let cancel = format!("/v1/runs/{}/cancel", active["id"].as_str().unwrap());
    app.post(&cancel, &json!({ "wait": true })).await.expect(202);
    assert!(!forget(&store, thread).await, "it had one just now");
    age(&app.db).await;
    assert!(forget(&store, thread).await);
    app.get(&format!("/v1/threads/{}", run["thread_id"].as_str().unwrap()))
        .await
        .expect_problem(404, "not-found");
    assert_eq!(count(&app.db, "SELECT count(*) FROM step").await, 0);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f76_of_a_sweep_and_a_run_that_race_for_a_thread_one_wins() {
    let app = TestApp::start().await;
    let store = app.db.store();
    let (mut kept, mut forgotten) = (0, 0);
    for n in 0..40 {
        let run = app.run(&agent(), "go").await;
        age(&app.db).await;
        let next = json!({ "agent": agent(), "thread_id": run["thread_id"], "input": "go on" });
        let posting = app.post("/v1/runs", &next);
        let forgetting = forget(&store, thread_of(&run));
        // Which of the two is asked first takes turns.
        let (answer, is_forgotten) = if n % 2 == 0 {
            tokio::join!(posting, forgetting)
        } else {
            let (is_forgotten, answer) = tokio::join!(forgetting, posting);
            (answer, is_forgotten)
        };
        if is_forgotten {
            answer.expect_problem(404, "not-found");
            forgotten += 1;
        } else {
            let id = answer.expect(201)["id"].as_str().unwrap().to_owned();
            assert_eq!(app.ended(&id).await["status"], "completed");
            kept += 1;
        }
        assert_invariants(&app.db).await;
    }
    assert_eq!(kept + forgotten, 40);
}

#[tokio::test]
async fn f76_of_a_sweep_and_a_resume_that_race_for_a_thread_one_wins() {
    let app = TestApp::start().await;
    let store = app.db.store();
    let engine = agentling::app::engine(
        &test_config(&app.db, &app.tools, &[]),
        &store,
        &Surroundings::default(),
    )
    .await
    .unwrap();
    for _ in 0..20 {
        // Accepted and interrupted in one transaction's time, so mostly before a worker has it.
        let tenant = TenantId::default();
        let run = engine.start(&tenant, request(&agent())).await.unwrap().run;
        if engine.interrupt(&tenant, run.id).await.is_err() {
            continue;
        }
        let stopped = ended(&app, run.id).await;
        age(&app.db).await;
        let (resumed, is_forgotten) =
            tokio::join!(engine.resume(&tenant, run.id), forget(&store, run.thread_id));
        assert!(!(resumed.is_ok() && is_forgotten), "a run that goes on was forgotten");
        if resumed.is_ok() {
            ended(&app, run.id).await;
        } else if !is_forgotten {
            assert!(stopped.facts.status.is_ended());
        }
        assert_invariants(&app.db).await;
    }
}

#[tokio::test]
async fn old_threads_and_bodies_go_by_themselves_and_young_ones_stay() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let plain = TestApp::on(db.clone(), tools.clone(), &[], Surroundings::default()).await;
    let old = plain.run(&agent(), "go").await;
    let model = FakeModel::start(["a", "b"].map(ModelReply::text));
    let spoken = json!({ "name": "a", "model": model.await.spec(false) });
    let middle = plain.run(&spoken, "go").await;
    age(&db).await;
    execute(&db, "UPDATE thread SET updated_at = updated_at - interval '9 days' WHERE thread_id = (SELECT thread_id FROM run ORDER BY created_at LIMIT 1)").await;
    execute(&db, "UPDATE run SET finished_at = finished_at - interval '9 days' WHERE run_id = (SELECT run_id FROM run ORDER BY created_at LIMIT 1)").await;
    let young = plain.run(&spoken, "go").await;
    plain.running.stop().await;
    let settings = [
        ("AGENTLING_RETAIN_DAYS", "5"),
        ("AGENTLING_RETAIN_LEDGER_DAYS", "1"),
        ("AGENTLING_RETAIN_ITEM_VERSIONS_DAYS", "1"),
        ("AGENTLING_RETAIN_USAGE_DAYS", "1"),
    ];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    until(&db, "SELECT bool_and(due_at > now() + interval '30 minutes') FROM chore").await;
    let path = |run: &Value| format!("/v1/runs/{}", run["id"].as_str().unwrap());
    app.get(&path(&old)).await.expect_problem(404, "not-found");
    app.get(&path(&middle)).await.expect(200);
    let kept = "SELECT count(*) FROM model_request WHERE head IS NOT NULL AND response IS NOT NULL";
    assert_eq!(count(&db, kept).await, 1, "only the young one's");
    let hashes = "SELECT count(*) FROM model_request WHERE sha256 IS NOT NULL";
    assert_eq!(count(&db, hashes).await, 2, "hashes stay");
    app.get(&path(&young)).await.expect(200);
    let next = json!({ "agent": agent(), "thread_id": middle["thread_id"], "input": "go on" });
    assert_eq!(app.run_body(&next).await["status"], "completed");
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f77_replicas_that_migrate_at_once_wait_for_each_other_and_for_nobody_else() {
    let db = TestDb::empty().await;
    let tools = FakeTools::start().await;
    // A server that waits for the schema, and three others that all bring it up to date.
    let config = test_config(&db, &tools, &[]);
    let around = Surroundings::default();
    let serving = Running::start(&config, db.store(), &around);
    let migrating = join_all((0..3).map(|_| async { db.store().migrate().await }));
    let (running, migrated) = tokio::join!(serving, migrating);
    assert!(migrated.iter().all(Result::is_ok), "{migrated:?}");
    let engine = running.unwrap().engine;
    // While runs are under way, somebody migrates again and finds nothing to do.
    let tenant = TenantId::default();
    let started = join_all((0..5).map(|_| engine.start(&tenant, request(&agent())))).await;
    db.store().migrate().await.unwrap();
    for run in started {
        let id = run.unwrap().run.id;
        let run = engine.wait(&tenant, id, Duration::from_mins(1)).await.unwrap().unwrap();
        assert!(run.facts.status.is_ended());
    }
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f77_a_replica_waits_for_one_that_migrates_for_longer_than_a_lock_is_waited_for() {
    let db = TestDb::new().await;
    let mut slow: PgConnection = db.connect().await;
    let mut tx = slow.begin().await.unwrap();
    sqlx::query("LOCK TABLE _sqlx_migrations").execute(&mut *tx).await.unwrap();
    let store = db.store();
    let waiting = store.migrate();
    let other = async {
        let first = waiter(&db).await;
        // Another session waits: the first one has given up, and was followed.
        while waiter(&db).await == first {}
        tx.rollback().await.unwrap();
    };
    let (migrated, ()) = tokio::join!(waiting, other);
    migrated.unwrap();
}

/// The session that waits for a lock, once there is one.
async fn waiter(db: &TestDb) -> i32 {
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity
                  WHERE datname = current_database() AND wait_event_type = 'Lock'";
    until(db, waits).await;
    let pid = "SELECT coalesce(max(pid), 0)::bigint FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'";
    i32::try_from(count(db, pid).await).unwrap()
}
