//! What workers write, and what is put into their runs' inboxes.

use agentling::domain::id::{LeaseToken, TenantId};
use agentling::domain::run::RunStatus;
use agentling::domain::run_message::{Voice, WAITING_PER_RUN};
use agentling::domain::tool::CallState;
use agentling::domain::wait::{RequiresAction, WaitReason};
use agentling::store::journal::{Appended, Batch, Guard, Hearing, LoadedRun, append};
use agentling::store::messages::{self, Added};
use agentling::store::{Store, lease, steer};

use super::{Change, Statement, TENANT_AND_RUN, scene};
use crate::store::journal::{batch, claimed_with_call, moving};
use crate::store::lease::{EXPIRE, claim};
use crate::support::{TestDb, accepted, claimed, count, execute, picture, until, uuid};

pub(super) const STATEMENTS: &[Statement] = &[
    Statement {
        source: include_str!("../../../../src/store/journal/append.sql"),
        mark: "WITH guard AS",
        conditions: ("     WHERE tenant_id = $1", " RETURNING tenant_id, run_id"),
        guards: &[
            ("lease_token = $3", scene!(another_token_appends)),
            ("next_seq = $4", scene!(a_writer_a_step_ahead_appends)),
            ("next_event_seq = $5", scene!(a_writer_an_event_ahead_appends)),
            ("op_id = $78", scene!(a_batch_that_moves_a_call_back_appends)),
            ("status = 'running'", scene!(a_run_that_is_not_running_is_appended_to)),
            ("(cancel_requested_at IS NULL OR $9)", scene!(a_cancelled_run_is_appended_to)),
            ("(n_messages = $50 OR NOT $51)", scene!(a_message_is_passed_by)),
            (
                "(n_answers = $66 OR ($10 NOT IN ('requires_action', 'queued') AND 'waiting' <> ALL ($35::text[])))",
                scene!(a_run_waits_past_an_answer),
            ),
            (
                "($10 NOT IN ('requires_action', 'queued') OR interrupt_requested_at IS NULL)",
                scene!(a_run_waits_past_a_wish_to_stop),
            ),
            ("(NOT budgeted OR $76)", scene!(a_budget_is_passed_by)),
            ("c.state = believed.state", scene!(a_call_moves_from_where_it_is_not)),
        ],
        keys: &[
            "tenant_id = $1",
            "run_id = $2",
            "cardinality($34::text[]) = (",
            "c.tenant_id = $1",
            "c.run_id = $2",
        ],
    },
    Statement {
        source: include_str!("../../../../src/store/claim.sql"),
        mark: "WITH RECURSIVE waiting",
        conditions: ("      FROM candidate c", "), numbered AS"),
        guards: &[
            ("r.status = 'queued'", scene!(a_held_run_is_claimed)),
            ("r.available_at <= now()", scene!(a_run_is_claimed_before_its_time)),
        ],
        keys: &["r.run_id = c.run_id"],
    },
    Statement {
        source: include_str!("../../../../src/store/lease.rs"),
        mark: "WITH released AS (\n             UPDATE run\n                SET status = 'queued'",
        conditions: ("              WHERE tenant_id = $1", "         DELETE FROM run_lease"),
        guards: &[
            ("lease_token = $3", scene!(a_run_of_another_is_released)),
            ("status = 'running'", scene!(a_run_that_has_ended_is_released)),
        ],
        keys: &TENANT_AND_RUN,
    },
    Statement {
        source: include_str!("../../../../src/store/lease.rs"),
        mark: "WITH beat AS",
        conditions: ("                WHERE lease_token = ANY($1)", "\"#,"),
        guards: &[
            ("lease_token = ANY($1)", scene!(a_heart_beats_for_a_run_of_another)),
            ("r.lease_token = b.lease_token", scene!(a_lost_run_is_told_as_held)),
        ],
        keys: &["r.run_id = b.run_id"],
    },
    Statement {
        source: include_str!("../../../../src/store/lease.rs"),
        mark: "WITH expired AS",
        conditions: ("                 ON r.tenant_id = l.tenant_id", "\"\n    )"),
        guards: &[
            ("l.expires_at < now()", scene!(a_fresh_lease_is_swept)),
            ("r.lease_token = e.lease_token", scene!(a_run_is_swept_for_the_lease_of_another)),
            ("r.status = 'running'", scene!(a_run_that_has_ended_is_swept)),
        ],
        keys: &[
            "r.run_id = l.run_id",
            "l.tenant_id = e.tenant_id",
            "l.run_id = e.run_id",
            "r.tenant_id = e.tenant_id",
            "r.run_id = e.run_id",
        ],
    },
    Statement {
        source: include_str!("../../../../src/store/messages.rs"),
        mark: "WITH counted AS",
        conditions: ("              WHERE tenant_id = $1", "          RETURNING tenant_id"),
        guards: &[
            (
                "status IN ('queued', 'running', 'requires_action', 'interrupted')",
                scene!(a_run_that_has_ended_is_told_something),
            ),
            (
                "(NOT closing OR resumed OR status = 'interrupted')",
                scene!(a_run_in_its_last_turn_is_told_something),
            ),
            ("n_messages - n_messages_taken < $3", scene!(a_run_is_told_too_much)),
            ("s.seq >= run.next_seq", scene!(a_run_that_may_go_on_is_told_something)),
        ],
        keys: &[
            "tenant_id = $1",
            "run_id = $2",
            "(status <> 'interrupted' OR enqueued_task IS NOT NULL OR NOT EXISTS (",
            "s.tenant_id = run.tenant_id",
            "s.thread_id = run.thread_id",
        ],
    },
];

/// Locks that make a caller wait for what is under way.
pub(super) const CHANGES: &[Change] = &[
    ("is_enqueued!", "FOR UPDATE", "", scene!(a_run_is_cancelled_as_it_is_claimed)),
    (
        "WITH RECURSIVE waiting",
        "FOR UPDATE OF r SKIP LOCKED",
        "",
        scene!(a_run_that_is_being_cancelled_is_claimed),
    ),
];

/// Appends what must not be written, and sees that it is not.
async fn refuse(db: &TestDb, store: &Store, (guard, batch): (&Guard, &Batch), expected: Appended) {
    let before = picture(db).await;
    let appended = append(store, guard, batch).await.unwrap();
    assert_eq!(picture(db).await, before);
    assert_eq!(appended, expected);
}

async fn another_token_appends(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    let lost = Guard { token: LeaseToken(uuid()), ..guard };
    refuse(&db, &store, (&lost, &batch(&loaded, "c2")), Appended::Fenced).await;
}

async fn a_writer_a_step_ahead_appends(db: TestDb, store: Store) {
    let (mut guard, loaded) = claimed_with_call(&store).await;
    guard.head.next_seq += 1;
    let batch = Batch { calls: Vec::new(), ..batch(&loaded, "c2") };
    refuse(&db, &store, (&guard, &batch), Appended::Fenced).await;
}

async fn a_writer_an_event_ahead_appends(db: TestDb, store: Store) {
    let (mut guard, loaded) = claimed_with_call(&store).await;
    guard.head.next_event_seq += 1;
    refuse(&db, &store, (&guard, &batch(&loaded, "c2")), Appended::Fenced).await;
}

/// A batch that moves nothing but a call waits behind itself and another one. What it knows of the
/// calls is old by then, and neither number has moved on.
async fn a_batch_that_moves_a_call_back_appends(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    let start = moving(&loaded, "c1", CallState::Planned);
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity
                  WHERE datname = current_database() AND application_name = 'agentling-worker'
                    AND wait_event_type = 'Lock'";
    let mut other = db.connect().await;
    sqlx::raw_sql("BEGIN; SELECT 1 FROM run FOR UPDATE").execute(&mut other).await.unwrap();
    let (appended, ()) = tokio::join!(append(&store, &guard, &start), async {
        until(&db, waits).await;
        let landed = "UPDATE run SET op_id = gen_random_uuid();
                      UPDATE tool_call SET state = 'started', attempt = 2, started_epoch = 1;
                      COMMIT";
        sqlx::raw_sql(landed).execute(&mut other).await.unwrap();
    });
    assert_eq!(appended.unwrap(), Appended::Fenced);
    assert_eq!(count(&db, "SELECT attempt::bigint FROM tool_call").await, 2);
}

/// The schema does not allow such a row, so it is told to.
async fn a_run_that_is_not_running_is_appended_to(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    execute(&db, "ALTER TABLE run DROP CONSTRAINT run_leased_iff_running").await;
    execute(&db, "UPDATE run SET status = 'queued'").await;
    refuse(&db, &store, (&guard, &batch(&loaded, "c2")), Appended::Fenced).await;
}

async fn a_cancelled_run_is_appended_to(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    let now = loaded.run.created_at;
    steer::cancel(&store, &guard.tenant, guard.run, now).await.unwrap();
    refuse(&db, &store, (&guard, &batch(&loaded, "c2")), Appended::CancelRequested).await;
}

async fn a_message_is_passed_by(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    assert!(is_heard(&tell(&store, &guard).await));
    let hearing = Hearing { is_boundary: true, ..Hearing::default() };
    let batch = Batch { hearing, ..batch(&loaded, "c2") };
    refuse(&db, &store, (&guard, &batch), Appended::MessagesWait).await;
}

/// A batch after which the run waits.
fn waiting(loaded: &LoadedRun) -> Batch {
    let mut batch = batch(loaded, "c2");
    batch.facts.status = RunStatus::RequiresAction;
    let (reason, tool_calls) = (WaitReason::ToolResults, Vec::new());
    batch.facts.requires_action = Some(RequiresAction { reason, tool_calls, sub_runs: Vec::new() });
    batch
}

async fn a_run_waits_past_an_answer(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    execute(&db, "UPDATE run SET n_answers = 1").await;
    refuse(&db, &store, (&guard, &waiting(&loaded)), Appended::AnswersWait).await;
}

async fn a_run_waits_past_a_wish_to_stop(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    execute(&db, "UPDATE run SET interrupt_requested_at = now()").await;
    refuse(&db, &store, (&guard, &waiting(&loaded)), Appended::InterruptRequested).await;
}

async fn a_budget_is_passed_by(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    execute(&db, "UPDATE run SET budgeted = true").await;
    refuse(&db, &store, (&guard, &batch(&loaded, "c2")), Appended::BudgetSet).await;
}

async fn a_call_moves_from_where_it_is_not(db: TestDb, store: Store) {
    let (guard, loaded) = claimed_with_call(&store).await;
    let moved = moving(&loaded, "c1", CallState::Started);
    refuse(&db, &store, (&guard, &moved), Appended::Fenced).await;
}

async fn a_held_run_is_claimed(_: TestDb, store: Store) {
    claimed(&store).await;
    assert_eq!(claim(&store, 1).await, []);
}

async fn a_run_is_claimed_before_its_time(db: TestDb, store: Store) {
    accepted(&store).await;
    execute(&db, "UPDATE run SET available_at = now() + interval '1 hour'").await;
    assert_eq!(claim(&store, 1).await, []);
}

async fn a_run_of_another_is_released(db: TestDb, store: Store) {
    let (_, guard, _) = claimed(&store).await;
    let before = picture(&db).await;
    lease::release(&store, &guard.tenant, guard.run, LeaseToken(uuid())).await.unwrap();
    assert_eq!(picture(&db).await, before);
}

async fn a_run_that_has_ended_is_released(db: TestDb, store: Store) {
    let (_, guard, _) = claimed(&store).await;
    end_without_giving_up_the_lease(&db).await;
    let before = picture(&db).await;
    lease::release(&store, &guard.tenant, guard.run, guard.token).await.unwrap();
    assert_eq!(picture(&db).await, before);
}

/// The schema does not allow such a row, so it is told to.
async fn end_without_giving_up_the_lease(db: &TestDb) {
    execute(db, "ALTER TABLE run DROP CONSTRAINT run_leased_iff_running").await;
    execute(db, "ALTER TABLE run DROP CONSTRAINT run_finished_iff_ended").await;
    execute(db, "UPDATE run SET status = 'cancelled'").await;
}

async fn a_heart_beats_for_a_run_of_another(db: TestDb, store: Store) {
    claimed(&store).await;
    execute(&db, EXPIRE).await;
    let ttl = std::time::Duration::from_mins(1);
    assert_eq!(lease::heartbeat(&store, &[uuid()], ttl).await.unwrap(), []);
    assert_eq!(lease::sweep(&store).await.unwrap(), 1);
}

async fn a_lost_run_is_told_as_held(db: TestDb, store: Store) {
    let (claim, ..) = claimed(&store).await;
    execute(&db, "UPDATE run SET lease_token = gen_random_uuid()").await;
    let ttl = std::time::Duration::from_mins(1);
    assert_eq!(lease::heartbeat(&store, &[claim.token.0], ttl).await.unwrap(), []);
}

async fn a_fresh_lease_is_swept(_: TestDb, store: Store) {
    claimed(&store).await;
    assert_eq!(lease::sweep(&store).await.unwrap(), 0);
}

async fn a_run_is_swept_for_the_lease_of_another(db: TestDb, store: Store) {
    claimed(&store).await;
    execute(&db, "UPDATE run SET lease_token = gen_random_uuid()").await;
    execute(&db, EXPIRE).await;
    assert_eq!(lease::sweep(&store).await.unwrap(), 0);
}

async fn a_run_that_has_ended_is_swept(db: TestDb, store: Store) {
    claimed(&store).await;
    end_without_giving_up_the_lease(&db).await;
    execute(&db, EXPIRE).await;
    assert_eq!(lease::sweep(&store).await.unwrap(), 0);
}

async fn tell(store: &Store, guard: &Guard) -> Added {
    let said = (Voice::User, "And hurry.".to_owned(), None);
    let now = agentling::clock::Clock::now(&agentling::clock::System::new());
    messages::add(store, &guard.tenant, guard.run, said, now).await.unwrap()
}

fn is_heard(added: &Added) -> bool {
    matches!(added, Added::Waits(_))
}

async fn a_run_that_has_ended_is_told_something(_: TestDb, store: Store) {
    let (tenant, new) = (TenantId::default(), accepted(&store).await);
    steer::cancel(&store, &tenant, new.run.id, new.run.created_at).await.unwrap();
    let said = (Voice::User, "And hurry.".to_owned(), None);
    let added = messages::add(&store, &tenant, new.run.id, said, new.run.created_at).await;
    assert!(!is_heard(&added.unwrap()));
}

async fn a_run_in_its_last_turn_is_told_something(db: TestDb, store: Store) {
    let (_, guard, _) = claimed(&store).await;
    execute(&db, "UPDATE run SET closing = true").await;
    assert!(!is_heard(&tell(&store, &guard).await));
}

async fn a_run_is_told_too_much(db: TestDb, store: Store) {
    let (_, guard, _) = claimed(&store).await;
    for _ in 0..WAITING_PER_RUN {
        assert!(is_heard(&tell(&store, &guard).await));
    }
    assert!(!is_heard(&tell(&store, &guard).await));
    assert_eq!(count(&db, "SELECT count(*) FROM run_message").await, i64::from(WAITING_PER_RUN));
}

/// A run that is interrupted takes a message as long as its thread has not gone on without it.
async fn a_run_that_may_go_on_is_told_something(_: TestDb, store: Store) {
    let (tenant, new) = (TenantId::default(), accepted(&store).await);
    steer::interrupt(&store, &tenant, new.run.id, new.run.created_at).await.unwrap();
    let said = (Voice::User, "And hurry.".to_owned(), None);
    let added = messages::add(&store, &tenant, new.run.id, said, new.run.created_at).await;
    assert!(is_heard(&added.unwrap()));
}

async fn a_run_is_cancelled_as_it_is_claimed(db: TestDb, store: Store) {
    let (tenant, new) = (TenantId::default(), accepted(&store).await);
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity
                  WHERE datname = current_database() AND application_name = 'agentling-critical'
                    AND wait_event_type = 'Lock'";
    let mut worker = db.connect().await;
    let claims =
        "BEGIN; UPDATE run SET status = 'running', lease_token = gen_random_uuid(), epoch = 1";
    sqlx::raw_sql(claims).execute(&mut worker).await.unwrap();
    let asked = steer::cancel(&store, &tenant, new.run.id, new.run.created_at);
    let (asked, ()) = tokio::join!(asked, async {
        until(&db, waits).await;
        sqlx::raw_sql("COMMIT").execute(&mut worker).await.unwrap();
    });
    assert!(matches!(asked, Ok(steer::Steered::Requested(_))), "{asked:?}");
    assert_eq!(count(&db, "SELECT count(*) FROM run WHERE status = 'running'").await, 1);
}

async fn a_run_that_is_being_cancelled_is_claimed(db: TestDb, store: Store) {
    accepted(&store).await;
    let mut caller = db.connect().await;
    let cancels = "BEGIN; UPDATE run SET status = 'cancelled', finished_at = now()";
    sqlx::raw_sql(cancels).execute(&mut caller).await.unwrap();
    assert_eq!(claim(&store, 1).await, []);
}
