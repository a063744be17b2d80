//! What the end of a sub-run writes to its parent, and what a parent that gives calls up writes to those it
//! started.

use agentling::domain::id::{CallId, TenantId};
use agentling::store::journal::{Appended, Batch, Guard, LoadedRun, append};
use agentling::store::{Store, steer};

use super::{Change, Statement, scene};
use crate::store::journal::{batch, claimed_with_call};
use crate::support::{TestDb, accepted, count, execute, until};

const SOURCE: &str = include_str!("../../../../src/store/sub_runs/mod.rs");

pub(super) const STATEMENTS: &[Statement] = &[
    Statement {
        source: SOURCE,
        mark: "WITH call AS",
        conditions: ("              WHERE c.tenant_id = $1", "          RETURNING call.tenant_id"),
        guards: &[
            ("c.waits_for = 'sub_runs'", scene!(a_call_that_waits_for_something_else_is_answered)),
            (
                "p.status IN ('queued', 'running', 'requires_action')",
                scene!(a_parent_that_has_ended_is_told),
            ),
            (
                "NOT ($6 AND p.cancel_requested_at IS NOT NULL)",
                scene!(a_parent_that_is_to_end_is_told_that_others_were_ended_for_it),
            ),
        ],
        keys: &[
            "c.tenant_id = $1",
            "c.run_id = $2",
            "c.call_id = $3",
            "NOT EXISTS (",
            "a.tenant_id = c.tenant_id",
            "a.run_id = c.run_id",
            "a.call_id = c.call_id",
            "a.waits_for = 'sub_runs'",
            "p.tenant_id = call.tenant_id",
            "p.run_id = call.run_id",
        ],
    },
    Statement {
        source: SOURCE,
        mark: "SET cancel_requested_at = $3",
        conditions: ("          WHERE tenant_id = $1", "\","),
        guards: &[
            (
                "status IN ('queued', 'running', 'requires_action')",
                scene!(a_sub_run_that_has_just_ended_is_asked_to_end),
            ),
            ("cancel_requested_at IS NULL", scene!(a_wish_is_put_off)),
        ],
        // The rows are locked already, and found by their tenant and parent.
        keys: &["tenant_id = $1", "run_id = ANY ($2)"],
    },
];

/// A first end that was told: it is answered once, and what goes on after it is nobody's to end.
pub(super) const CHANGES: &[Change] = &[
    (
        "WITH call AS",
        "NOT EXISTS (",
        "true OR NOT EXISTS (",
        scene!(a_call_is_answered_by_a_second_end),
    ),
    (
        "WITH RECURSIVE given_up",
        "NOT EXISTS (",
        "true OR NOT EXISTS (",
        scene!(a_sub_run_that_goes_on_after_its_end_was_told_is_given_up),
    ),
];

/// A run that is held and whose call waits for a run of its own, which is queued.
async fn family(db: &TestDb, store: &Store) -> (Guard, LoadedRun) {
    let (guard, loaded) = claimed_with_call(store).await;
    let waits = "UPDATE tool_call SET state = 'waiting', waits_for = 'sub_runs',
                                      wait_until = now() + interval '1 hour'";
    execute(db, waits).await;
    accepted(store).await;
    let adopted = "UPDATE run r
                      SET parent_run_id = p.run_id, parent_call_id = 'c1',
                          ancestors = ARRAY[p.run_id]
                     FROM run p
                    WHERE p.status = 'running' AND r.status = 'queued'";
    execute(db, adopted).await;
    (guard, loaded)
}

/// The sub-run is cancelled before anybody has taken it, which ends it.
async fn end(db: &TestDb, store: &Store) {
    let sub_run = "SELECT run_id FROM run WHERE parent_run_id IS NOT NULL";
    let id: uuid::Uuid =
        sqlx::query_scalar(sub_run).fetch_one(&mut db.connect().await).await.unwrap();
    let now = agentling::clock::Clock::now(&agentling::clock::System::new());
    let steered = steer::cancel(store, &TenantId::default(), id.into(), now).await.unwrap();
    assert!(matches!(steered, steer::Steered::Done(_)), "{steered:?}");
}

async fn answers(db: &TestDb) -> i64 {
    count(db, "SELECT count(*) FROM call_answer").await
}

async fn a_call_that_waits_for_something_else_is_answered(db: TestDb, store: Store) {
    family(&db, &store).await;
    execute(&db, "UPDATE tool_call SET waits_for = 'tool_results'").await;
    end(&db, &store).await;
    assert_eq!(answers(&db).await, 0);
}

async fn a_parent_that_has_ended_is_told(db: TestDb, store: Store) {
    family(&db, &store).await;
    let ended = "UPDATE run SET status = 'cancelled', finished_at = now(), lease_token = NULL
                  WHERE parent_run_id IS NULL";
    execute(&db, ended).await;
    end(&db, &store).await;
    assert_eq!(answers(&db).await, 0);
}

async fn a_parent_that_is_to_end_is_told_that_others_were_ended_for_it(db: TestDb, store: Store) {
    family(&db, &store).await;
    execute(&db, "UPDATE run SET cancel_requested_at = now() WHERE parent_run_id IS NULL").await;
    end(&db, &store).await;
    assert_eq!(answers(&db).await, 0);
}

/// Tells the call of the sub-run that it ended, after which it may go on by itself.
async fn tell(db: &TestDb) {
    let told = "INSERT INTO call_answer (tenant_id, run_id, call_id, waits_for, attempt, answer, created_at)
                SELECT tenant_id, run_id, call_id, 'sub_runs', attempt,
                       '{\"answer\": \"succeeded\"}', now() FROM tool_call";
    execute(db, told).await;
}

async fn a_call_is_answered_by_a_second_end(db: TestDb, store: Store) {
    family(&db, &store).await;
    tell(&db).await;
    end(&db, &store).await;
    assert_eq!(answers(&db).await, 1);
}

/// A batch with which the call is given up.
fn giving_up(loaded: &LoadedRun) -> Batch {
    Batch { given_up: vec![CallId("c1".to_owned())], ..batch(loaded, "c2") }
}

async fn asked_to_end(db: &TestDb) -> i64 {
    count(db, "SELECT count(*) FROM run WHERE cancel_requested_at IS NOT NULL").await
}

async fn a_sub_run_that_goes_on_after_its_end_was_told_is_given_up(db: TestDb, store: Store) {
    let (guard, loaded) = family(&db, &store).await;
    tell(&db).await;
    assert_eq!(append(&store, &guard, &giving_up(&loaded)).await.unwrap(), Appended::Stored);
    assert_eq!(asked_to_end(&db).await, 0);
}

/// It ends while the append waits for its row.
async fn a_sub_run_that_has_just_ended_is_asked_to_end(db: TestDb, store: Store) {
    let (guard, loaded) = family(&db, &store).await;
    let mut other = db.connect().await;
    let ends = "BEGIN; UPDATE run SET status = 'cancelled', finished_at = now()
                        WHERE parent_run_id IS NOT NULL";
    sqlx::raw_sql(ends).execute(&mut other).await.unwrap();
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity
                  WHERE datname = current_database() AND application_name = 'agentling-worker'
                    AND wait_event_type = 'Lock'";
    let batch = giving_up(&loaded);
    let (appended, ()) = tokio::join!(append(&store, &guard, &batch), async {
        until(&db, waits).await;
        sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    });
    assert_eq!(appended.unwrap(), Appended::Stored);
    assert_eq!(asked_to_end(&db).await, 0);
}

async fn a_wish_is_put_off(db: TestDb, store: Store) {
    let (guard, loaded) = family(&db, &store).await;
    let wished =
        "UPDATE run SET cancel_requested_at = '2000-01-01' WHERE parent_run_id IS NOT NULL";
    execute(&db, wished).await;
    assert_eq!(append(&store, &guard, &giving_up(&loaded)).await.unwrap(), Appended::Stored);
    let kept = "SELECT count(*) FROM run WHERE cancel_requested_at = '2000-01-01'";
    assert_eq!(count(&db, kept).await, 1);
}
