//! What callers write, and what lets runs on that wait for them or for each other.

use agentling::domain::id::{CallId, TenantId};
use agentling::domain::run::OnBusy;
use agentling::domain::tool::{TextOutput, ToolOutput};
use agentling::domain::wait::{CallAnswer, WaitReason};
use agentling::store::answers::{self, Given, NewAnswers};
use agentling::store::runs::{self, Accepted, NewRun};
use agentling::store::{Store, budget, steer, thread_queue};

use super::{Change, Statement, TENANT_AND_RUN, scene};
use crate::store::journal::claimed_with_call;
use crate::support::{TestDb, accepted, claimed, count, execute, new_run, until};

pub(super) const STATEMENTS: &[Statement] = &[
    Statement {
        source: include_str!("../../../../src/store/thread_queue.rs"),
        mark: "SELECT r.run_id, r.op_id, r.next_event_seq",
        conditions: ("            WHERE r.tenant_id = $1", "            ORDER BY r.queue_place"),
        guards: &[
            ("r.status = 'queued'", scene!(a_run_that_was_cancelled_is_let_on)),
            (
                "active.status IN ('queued', 'running', 'requires_action')",
                scene!(the_next_run_is_let_on),
            ),
            ("active.enqueued_task IS NULL", scene!(the_next_run_is_let_on)),
        ],
        keys: &[
            "r.tenant_id = $1",
            "r.thread_id = $2",
            // Any other queued run counts as active below.
            "r.enqueued_task IS NOT NULL",
            "NOT EXISTS (",
            "active.tenant_id = r.tenant_id",
            "active.thread_id = r.thread_id",
        ],
    },
    Statement {
        source: include_str!("../../../../src/store/answers.rs"),
        mark: "WITH overdue AS",
        conditions: (
            "              WHERE status = 'requires_action'",
            "              ORDER BY wake_at",
        ),
        guards: &[
            ("status = 'requires_action'", scene!(a_run_that_is_at_work_is_woken)),
            ("wake_at <= now()", scene!(a_run_is_woken_before_its_time)),
        ],
        keys: &[],
    },
    Statement {
        source: include_str!("../../../../src/store/budget/draw.rs"),
        mark: "WITH wait AS",
        conditions: (
            "              WHERE r.status = 'requires_action'",
            "              ORDER BY r.tenant_id",
        ),
        guards: &[("r.status = 'requires_action'", scene!(a_run_at_work_is_woken_for_a_budget))],
        keys: &[],
    },
    Statement {
        source: include_str!("../../../../src/store/budget/set.rs"),
        mark: "WITH drawing AS",
        conditions: ("              WHERE tenant_id = $1", "                AND CASE $2"),
        guards: &[],
        keys: &[
            "tenant_id = $1",
            // A run that has ended draws on nothing any more, whatever its row says.
            "status IN ('queued', 'running', 'requires_action')",
            // Setting it twice is nothing but work.
            "NOT budgeted",
        ],
    },
    Statement {
        source: include_str!("../../../../src/store/steer.rs"),
        mark: "SET cancel_requested_at = CASE",
        conditions: ("          WHERE tenant_id = $1", "\","),
        guards: &[],
        keys: &TENANT_AND_RUN,
    },
];

pub(super) const CHANGES: &[Change] = &[
    (
        "SELECT r.run_id, r.op_id, r.next_event_seq",
        "NOT EXISTS (",
        "true OR NOT EXISTS (",
        scene!(a_run_is_let_on_beside_the_active_one),
    ),
    (
        "SELECT status, cancel_requested_at IS NOT NULL",
        "FOR UPDATE",
        "",
        scene!(a_call_is_answered_twice_at_once),
    ),
];

/// A run that waits for the thread of another.
async fn enqueued(store: &Store, first: &NewRun) -> NewRun {
    let mut new = new_run();
    (new.run.thread_id, new.new_thread, new.on_busy) = (first.run.thread_id, None, OnBusy::Enqueue);
    let accepted = runs::accept(store, &TenantId::default(), &new).await.unwrap();
    assert_eq!(accepted, Accepted::Enqueued(None));
    new
}

async fn cancel(store: &Store, new: &NewRun) {
    let now = new.run.created_at;
    let steered = steer::cancel(store, &TenantId::default(), new.run.id, now).await.unwrap();
    assert!(matches!(steered, steer::Steered::Done(_)), "{steered:?}");
}

async fn a_run_that_was_cancelled_is_let_on(db: TestDb, store: Store) {
    let first = accepted(&store).await;
    let second = enqueued(&store, &first).await;
    cancel(&store, &second).await;
    cancel(&store, &first).await;
    let untouched =
        "SELECT count(*) FROM run WHERE status = 'cancelled' AND enqueued_task IS NOT NULL";
    assert_eq!(count(&db, untouched).await, 1);
}

async fn the_next_run_is_let_on(db: TestDb, store: Store) {
    let first = accepted(&store).await;
    enqueued(&store, &first).await;
    cancel(&store, &first).await;
    let on = "SELECT count(*) FROM run WHERE status = 'queued' AND enqueued_task IS NULL";
    assert_eq!(count(&db, on).await, 1);
}

async fn a_run_is_let_on_beside_the_active_one(_: TestDb, store: Store) {
    let first = accepted(&store).await;
    enqueued(&store, &first).await;
    let (tenant, now) = (TenantId::default(), first.run.created_at);
    let next = thread_queue::admit_next(&store, &tenant, first.run.thread_id, now).await;
    assert_eq!(next.unwrap(), None);
}

async fn a_run_that_is_at_work_is_woken(db: TestDb, store: Store) {
    claimed(&store).await;
    execute(&db, "UPDATE run SET wake_at = now() - interval '1 second'").await;
    assert_eq!(answers::wake_overdue(&store).await.unwrap(), 0);
}

/// Lets a run that is held wait for something.
async fn waits(db: &TestDb) {
    let rests = "UPDATE run SET status = 'requires_action', lease_token = NULL,
                                requires_action = '{\"reason\": \"tool_results\"}'";
    execute(db, rests).await;
    execute(db, "DELETE FROM run_lease").await;
}

async fn a_run_is_woken_before_its_time(db: TestDb, store: Store) {
    claimed(&store).await;
    waits(&db).await;
    execute(&db, "UPDATE run SET wake_at = now() + interval '1 hour'").await;
    assert_eq!(answers::wake_overdue(&store).await.unwrap(), 0);
    execute(&db, "UPDATE run SET wake_at = now() - interval '1 second'").await;
    assert_eq!(answers::wake_overdue(&store).await.unwrap(), 1);
}

async fn a_run_at_work_is_woken_for_a_budget(db: TestDb, store: Store) {
    claimed(&store).await;
    // Of a budget that is gone.
    let waits =
        "INSERT INTO budget_wait (tenant_id, run_id, scope, owner_id, resource, needs, since)
                 SELECT tenant_id, run_id, 'run', run_id, 'turns', 1, now() FROM run";
    execute(&db, waits).await;
    assert_eq!(budget::wake(&store).await.unwrap(), 0);
}

fn answer(text: &str, created_at: chrono::DateTime<chrono::Utc>) -> NewAnswers {
    let output = ToolOutput::Text(TextOutput { text: text.to_owned() });
    NewAnswers {
        reason: WaitReason::ToolResults,
        answers: vec![(CallId("c1".to_owned()), CallAnswer::Succeeded { output: Some(output) })],
        may_repeat: true,
        key: None,
        now: created_at,
    }
}

/// Somebody else answers, and is about to commit.
async fn a_call_is_answered_twice_at_once(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    let waits = "UPDATE tool_call SET state = 'waiting', waits_for = 'tool_results',
                                      wait_until = now() + interval '1 hour'";
    execute(&db, waits).await;
    let mut other = db.connect().await;
    let answers = "BEGIN; SELECT 1 FROM run FOR UPDATE;
                   INSERT INTO call_answer (tenant_id, run_id, call_id, waits_for, attempt, answer, created_at)
                   SELECT tenant_id, run_id, call_id, 'tool_results', attempt,
                          '{\"answer\": \"succeeded\"}', now() FROM tool_call";
    sqlx::raw_sql(answers).execute(&mut other).await.unwrap();
    let new = answer("yes", loaded.run.created_at);
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity
                  WHERE datname = current_database() AND application_name = 'agentling-api'
                    AND wait_event_type = 'Lock'";
    let (given, ()) = tokio::join!(answers::give(&store, &guard.tenant, guard.run, &new), async {
        until(&db, waits).await;
        sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    });
    assert_eq!(given.unwrap(), Given::AlreadyAnswered(CallId("c1".to_owned())));
    assert_eq!(count(&db, "SELECT count(*) FROM call_answer").await, 1);
}
