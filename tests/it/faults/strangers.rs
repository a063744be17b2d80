//! Strangers in the database: who takes all its connections, holds a lock, or leaves a transaction open.

use agentling::app::Surroundings;
use agentling::clock::{Clock as _, System};
use futures::future::join_all;
use rustix::process::Signal;
use serde_json::json;
use sqlx::{Connection as _, PgConnection};

use super::postgres::{PATIENT, Stage, agent};
use crate::support::{FakeTools, Log, OwnCluster, TestApp, TestDb, assert_invariants, until};

/// Ends every session of a server under test, and takes all the places that there are. Answers those who
/// have them.
async fn crowd(cluster: &OwnCluster) -> Vec<PgConnection> {
    let db = cluster.db();
    let mut squatters = vec![db.connect().await];
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE application_name LIKE 'agentling%'";
    // Whoever comes back meanwhile is ended again, until there is no place left.
    loop {
        sqlx::query(end).execute(squatters.first_mut().unwrap()).await.unwrap();
        match PgConnection::connect(&db.url).await {
            Ok(squatter) => squatters.push(squatter),
            Err(_) if count_servers(&mut squatters).await == 0 => return squatters,
            Err(_) => {}
        }
    }
}

async fn count_servers(squatters: &mut [PgConnection]) -> i64 {
    let servers = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'agentling%'";
    sqlx::query_scalar(servers).fetch_one(squatters.first_mut().unwrap()).await.unwrap()
}

#[tokio::test]
async fn f34_a_database_without_a_free_connection_is_not_stormed_and_is_used_again_when_it_has_one()
{
    let mut stage = Stage::set().await;
    // Few enough to be taken in a moment.
    stage.cluster.allow_connections(20);
    stage.cluster.stop(Signal::INT).await;
    stage.cluster.start_again().await;
    let squatters = crowd(&stage.cluster).await;
    stage.let_go();
    let body = json!({"agent": agent(&stage.tools), "input": "go"});
    let refused = async || {
        let refused = stage.app.post("/v1/runs", &body).await;
        assert_eq!(refused.status, 503, "{}", refused.text);
        assert!(!refused.header("retry-after").is_empty());
    };
    // Callers who were waiting already try for as long as they may wait.
    join_all((0..8).map(|_| refused())).await;
    let clock = System::new();
    let (began, before) = (clock.monotonic(), stage.cluster.proxy.opened());
    for _ in 0..3 {
        join_all((0..8).map(|_| refused())).await;
    }
    let (took, opened) =
        (clock.monotonic().saturating_sub(began), stage.cluster.proxy.opened() - before);
    let most = 5 * usize::try_from(took.as_secs() + 1).unwrap();
    assert!(opened > 0 && opened <= most, "{opened} connections in {took:?}");
    drop(squatters);
    let posted = join_all(["a", "b", "c"].map(|key| stage.insist(key))).await;
    stage.assert_nothing_lost_or_doubled(&posted).await;
}

/// The lock that a commit with a NOTIFY takes, and keeps until it is through.
const NOTIFYING: &str = "SELECT count(*) > 0 FROM pg_locks
    WHERE locktype = 'object' AND database = 0 AND mode = 'AccessExclusiveLock' AND granted";

#[tokio::test]
async fn f29_a_session_that_holds_the_lock_of_notify_holds_up_neither_runs_nor_callers() {
    let (cluster, tools) = (OwnCluster::start().await, FakeTools::start().await);
    let app = TestApp::on(cluster.seen(), tools.clone(), &PATIENT, Surroundings::default()).await;
    // A commit that waits for a standby which is not there: of that session only.
    cluster.set("synchronous_commit", "local").await;
    cluster.freeze(true).await;
    cluster.proxy.cut();
    let mut stranger = cluster.db().connect().await;
    #[expect(clippy::disallowed_methods, reason = "a stranger who ends with the test")]
    let frozen = tokio::spawn(async move {
        sqlx::query("SET synchronous_commit = on").execute(&mut stranger).await.unwrap();
        // Only a commit that wrote something waits.
        let told = "BEGIN; CREATE TABLE strangers (); NOTIFY strangers; COMMIT";
        sqlx::raw_sql(told).execute(&mut stranger).await.map(drop)
    });
    let db = cluster.db();
    until(&db, NOTIFYING).await;
    let body = json!({"agent": agent(&tools), "input": "go"});
    let runs = join_all((0..4).map(|_| app.start_run(&body))).await;
    for run in &runs {
        assert_eq!(app.ended(run["id"].as_str().unwrap()).await["status"], "completed");
    }
    assert_eq!(app.get("/v1/runs").await.status, 200);
    until(&db, NOTIFYING).await;
    assert!(!frozen.is_finished(), "it held the lock all the time");
    assert_eq!(tools.seen().len(), 12);
    assert_invariants(&db).await;
    cluster.freeze(false).await;
    frozen.await.unwrap().unwrap();
    app.running.stop().await;
}

#[tokio::test]
async fn f38_a_transaction_that_is_left_open_is_warned_of_and_claims_go_on_beside_its_dead_rows() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let log = Log::default();
    let _logging = log.listen(tracing::Level::INFO);
    let settings = [
        PATIENT[0],
        PATIENT[1],
        ("AGENTLING_OLD_TRANSACTION_MS", "1"),
        ("AGENTLING_SWEEP_MS", "20"),
    ];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    let mut idle = db.connect().await;
    let open =
        "SET application_name = 'forgotten'; BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
    sqlx::raw_sql(open).execute(&mut idle).await.unwrap();
    let body = json!({"agent": agent(&tools), "input": "go"});
    let first = app.start_run(&body).await;
    assert_eq!(app.ended(first["id"].as_str().unwrap()).await["status"], "completed");
    // Twenty thousand runs that wait and are gone again: their entries stand before every other one.
    let churn = "BEGIN; SET LOCAL session_replication_role = replica;
                 CREATE TEMPORARY TABLE gone ON COMMIT DROP AS
                     SELECT gen_random_uuid() AS id FROM generate_series(1, 20000);
                 INSERT INTO run SELECT (jsonb_populate_record(r, jsonb_build_object(
                     'run_id', g.id, 'thread_id', g.id, 'status', 'queued', 'answer', NULL,
                     'stop_reason', NULL, 'finished_at', NULL))).* FROM run r, gone g;
                 DELETE FROM run r USING gone g WHERE r.run_id = g.id; COMMIT";
    sqlx::raw_sql(churn).execute(&mut db.connect().await).await.unwrap();
    let second = app.start_run(&body).await;
    assert_eq!(app.ended(second["id"].as_str().unwrap()).await["status"], "completed");
    let warnings = log.said();
    let warnings: Vec<_> =
        warnings.lines().filter(|line| line.contains("old transaction")).collect();
    assert!(warnings.iter().any(|line| line.contains("forgotten")), "{warnings:?}");
    assert_eq!(
        warnings.iter().filter(|line| line.contains("forgotten")).count(),
        1,
        "{warnings:?}"
    );
    let metrics = app.get("/metrics").await.text;
    let measured = "agentling_database_oldest_transaction_seconds ";
    let age = metrics.lines().find_map(|line| line.strip_prefix(measured));
    assert_ne!(age.expect("it is there"), "0", "{metrics}");
    drop(idle);
    assert_invariants(&db).await;
    app.running.stop().await;
}
