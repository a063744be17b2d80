//! The guarded append: all of a batch or nothing, once or never.

use agentling::domain::event::{EventData, EventName};
use agentling::domain::id::{CallId, LeaseToken, StepId, TenantId};
use agentling::domain::run::RunStatus;
use agentling::domain::run_message::{RunMessage, Voice};
use agentling::domain::step::{StepContent, SystemStep};
use agentling::domain::tool::{CallState, EffectClass, PlannedCall};
use agentling::domain::wait::WaitRules;
use agentling::store::budget::Draws;
use agentling::store::journal::{
    Appended, Batch, CallMove, CallTo, Guard, Hearing, LoadedRun, NewCall, NewStep, append,
};
use agentling::store::messages::{self, Added};
use agentling::store::{Store, StoreError, lease, steer};
use sqlx::Connection as _;

use crate::support::{TestDb, claimed, count, execute, picture, until, uuid};

const WAITS: &str = "SELECT count(*) > 0 FROM pg_stat_activity
                      WHERE datname = current_database() AND application_name = 'agentling-worker'
                        AND wait_event_type = 'Lock'";
const API_WAITS: &str = "SELECT count(*) > 0 FROM pg_stat_activity
                          WHERE datname = current_database()
                            AND application_name = 'agentling-api' AND wait_event_type = 'Lock'";
const TWO_WAIT: &str = "SELECT count(*) > 1 FROM pg_stat_activity
                         WHERE datname = current_database()
                           AND application_name = 'agentling-worker' AND wait_event_type = 'Lock'";

/// A batch with one step, its event and one planned call.
pub(crate) fn batch(loaded: &LoadedRun, call: &str) -> Batch {
    let step_seq = loaded.head.next_seq;
    let mut facts = loaded.run.facts.clone();
    facts.steps += 1;
    let planned = PlannedCall {
        call_id: CallId(call.to_owned()),
        name: "a".to_owned(),
        arguments: "{}".to_owned(),
        effect: EffectClass::Pure,
        parallel_safe: true,
        unparsable: false,
        waits: WaitRules::NONE,
        settled: None,
        brings: Vec::new(),
    };
    Batch {
        op_id: uuid(),
        now: loaded.run.created_at,
        facts,
        closing: false,
        hearing: Hearing::default(),
        is_progress: true,
        despite_cancel: false,
        n_answers: loaded.n_answers,
        steps: vec![NewStep {
            id: StepId::from(uuid()),
            turn: 1,
            attempt: 1,
            content: StepContent::System(SystemStep { text: "hm".to_owned() }),
            request: None,
        }],
        calls: vec![NewCall { step_seq, call_idx: 0, planned, to: CallTo::PLANNED }],
        moves: Vec::new(),
        events: vec![(EventName::StepRecorded, EventData::Step { step_seq, turn: 1 })],
        requests: Vec::new(),
        pins: None,
        draws: Draws::default(),
        sub_runs: Vec::new(),
        given_up: Vec::new(),
        parent: None,
    }
}

/// A batch that only moves a call.
pub(crate) fn moving(loaded: &LoadedRun, call: &str, from: CallState) -> Batch {
    let call_id = CallId(call.to_owned());
    let to = CallTo { state: CallState::Started, attempt: 1, ..CallTo::PLANNED };
    Batch {
        steps: Vec::new(),
        calls: Vec::new(),
        events: Vec::new(),
        moves: vec![CallMove { call_id, from, to }],
        ..batch(loaded, call)
    }
}

/// The guard after a batch with one step and one event.
fn after(mut guard: Guard, batch: &Batch) -> Guard {
    guard.head.next_seq += 1;
    guard.head.next_event_seq += 1;
    guard.head.op_id = batch.op_id;
    guard
}

pub(crate) async fn claimed_with_call(store: &Store) -> (Guard, LoadedRun) {
    let (_, guard, loaded) = claimed(store).await;
    let first = batch(&loaded, "c1");
    assert_eq!(append(store, &guard, &first).await.unwrap(), Appended::Stored);
    let mut loaded = loaded;
    let guard = after(guard, &first);
    loaded.head = guard.head;
    loaded.run.facts.steps += 1;
    (guard, loaded)
}

#[tokio::test]
async fn an_append_whose_guard_does_not_hold_writes_nothing() {
    let db = TestDb::new().await;
    let store = db.store();
    let (guard, loaded) = claimed_with_call(&store).await;
    let fresh = || batch(&loaded, "c2");
    let with = |change: fn(&mut Guard)| {
        let mut guard = guard.clone();
        change(&mut guard);
        guard
    };
    let cases = [
        ("a wrong token", with(|guard| guard.token = LeaseToken(uuid())), fresh()),
        ("a step behind", with(|guard| guard.head.next_seq -= 1), fresh()),
        ("a step ahead", with(|guard| guard.head.next_seq += 1), fresh()),
        ("an event behind", with(|guard| guard.head.next_event_seq -= 1), fresh()),
        ("an event ahead", with(|guard| guard.head.next_event_seq += 1), fresh()),
        ("after another append", with(|guard| guard.head.op_id = uuid()), fresh()),
        ("another run", with(|guard| guard.run = uuid().into()), fresh()),
        ("another tenant", with(|guard| guard.tenant = TenantId::parse("other").unwrap()), fresh()),
        ("a call that is not started", guard.clone(), moving(&loaded, "c1", CallState::Started)),
        ("a call that is not ended", guard.clone(), moving(&loaded, "c1", CallState::Ended)),
        ("no such call", guard.clone(), moving(&loaded, "c9", CallState::Planned)),
    ];
    let before = picture(&db).await;
    for (what, guard, batch) in cases {
        assert_eq!(append(&store, &guard, &batch).await.unwrap(), Appended::Fenced, "{what}");
        assert_eq!(picture(&db).await, before, "{what}");
    }
    let moved = append(&store, &guard, &moving(&loaded, "c1", CallState::Planned)).await;
    assert_eq!(moved.unwrap(), Appended::Stored, "what all of them only just missed");
}

#[tokio::test]
async fn an_append_after_a_cancel_was_asked_for_says_so_and_writes_nothing() {
    let db = TestDb::new().await;
    let store = db.store();
    let (guard, loaded) = claimed_with_call(&store).await;
    let asked = steer::cancel(&store, &guard.tenant, guard.run, loaded.run.created_at).await;
    assert!(matches!(asked.unwrap(), steer::Steered::Requested(_)));
    let before = picture(&db).await;
    let mut batch = batch(&loaded, "c2");
    assert_eq!(append(&store, &guard, &batch).await.unwrap(), Appended::CancelRequested);
    let lost = Guard { token: LeaseToken(uuid()), ..guard.clone() };
    assert_eq!(append(&store, &lost, &batch).await.unwrap(), Appended::Fenced);
    assert_eq!(picture(&db).await, before);
    batch.despite_cancel = true;
    assert_eq!(append(&store, &guard, &batch).await.unwrap(), Appended::Stored);
}

/// Says something to a run.
async fn told(store: &Store, guard: &Guard) -> RunMessage {
    let now = agentling::clock::Clock::now(&agentling::clock::System::new());
    let said = (Voice::User, "And hurry.".to_owned(), None);
    match messages::add(store, &guard.tenant, guard.run, said, now).await.unwrap() {
        Added::Waits(message) => message,
        refused => panic!("{refused:?}"),
    }
}

#[tokio::test]
async fn an_append_that_would_go_past_a_message_says_so_and_writes_nothing() {
    let db = TestDb::new().await;
    let store = db.store();
    let (guard, loaded) = claimed_with_call(&store).await;
    let boundary = |n_messages| {
        let hearing = Hearing { n_messages, is_boundary: true, taken: Vec::new() };
        Batch { hearing, ..batch(&loaded, "c2") }
    };
    let message = told(&store, &guard).await;
    assert_eq!(message.number, 1);
    let before = picture(&db).await;
    assert_eq!(append(&store, &guard, &boundary(0)).await.unwrap(), Appended::MessagesWait);
    let lost = Guard { token: LeaseToken(uuid()), ..guard.clone() };
    assert_eq!(append(&store, &lost, &boundary(0)).await.unwrap(), Appended::Fenced);
    assert_eq!(picture(&db).await, before);
    let waiting = messages::waiting(&store, &guard.tenant, guard.run, 0).await.unwrap();
    assert_eq!((waiting.len(), &waiting[0].text), (1, &message.text));
    let step = NewStep {
        content: Voice::User.step(message.text),
        ..boundary(1).steps.into_iter().next().unwrap()
    };
    let mut batch = Batch { steps: vec![step], ..boundary(1) };
    batch.hearing.taken = vec![(1, guard.head.next_seq)];
    assert_eq!(append(&store, &guard, &batch).await.unwrap(), Appended::Stored);
    let taken = "SELECT count(*) FROM run_message m JOIN step s ON s.seq = m.step_seq";
    assert_eq!(count(&db, taken).await, 1);
    let loaded = agentling::store::journal::load(&store, &guard.tenant, guard.run).await;
    let loaded = loaded.unwrap().unwrap();
    assert_eq!((loaded.n_messages, loaded.heard.len(), loaded.waiting.len()), (1, 1, 0));
}

#[tokio::test]
async fn an_append_within_a_turn_goes_past_a_message() {
    let db = TestDb::new().await;
    let store = db.store();
    let (guard, loaded) = claimed_with_call(&store).await;
    told(&store, &guard).await;
    assert_eq!(append(&store, &guard, &batch(&loaded, "c2")).await.unwrap(), Appended::Stored);
    assert_eq!(count(&db, "SELECT count(*) FROM run_message WHERE step_seq IS NULL").await, 1);
}

#[tokio::test]
async fn an_append_that_waited_behind_a_message_does_not_go_past_it() {
    let db = TestDb::new().await;
    let store = db.store();
    let (_, guard, loaded) = claimed(&store).await;
    let late = Batch {
        hearing: Hearing { is_boundary: true, ..Hearing::default() },
        ..batch(&loaded, "c1")
    };
    let mut frozen = db.connect().await;
    let mut first = frozen.begin().await.unwrap();
    sqlx::query("UPDATE run SET n_messages = n_messages + 1").execute(&mut *first).await.unwrap();
    let (appended, ()) = tokio::join!(append(&store, &guard, &late), async {
        until(&db, WAITS).await;
        sqlx::query(
            "INSERT INTO run_message (tenant_id, run_id, number, voice, text, created_at)
             SELECT tenant_id, run_id, 1, 'user', 'And hurry.', now() FROM run",
        )
        .execute(&mut *first)
        .await
        .unwrap();
        first.commit().await.unwrap();
    });
    assert_eq!(appended.unwrap(), Appended::MessagesWait);
    assert_eq!(count(&db, "SELECT count(*) FROM step").await, 1);
}

#[tokio::test]
async fn a_message_that_waited_behind_the_closing_turn_is_refused() {
    let db = TestDb::new().await;
    let store = db.store();
    let (_, guard, loaded) = claimed(&store).await;
    let mut frozen = db.connect().await;
    let mut first = frozen.begin().await.unwrap();
    sqlx::query("UPDATE run SET closing = true").execute(&mut *first).await.unwrap();
    let said = (Voice::User, "And hurry.".to_owned(), None);
    let now = loaded.run.created_at;
    let (added, ()) =
        tokio::join!(messages::add(&store, &guard.tenant, guard.run, said, now), async {
            until(&db, API_WAITS).await;
            first.commit().await.unwrap();
        });
    assert_eq!(added.unwrap(), Added::Closing(RunStatus::Running));
    assert_eq!(count(&db, "SELECT count(*) FROM run_message").await, 0);
}

#[tokio::test]
async fn a_batch_that_is_appended_again_is_recognised_and_not_doubled() {
    let db = TestDb::new().await;
    let store = db.store();
    let (_, guard, loaded) = claimed(&store).await;
    let first = batch(&loaded, "c1");
    assert_eq!(append(&store, &guard, &first).await.unwrap(), Appended::Stored);
    let once = picture(&db).await;
    assert_eq!(append(&store, &guard, &first).await.unwrap(), Appended::Stored);
    assert_eq!(picture(&db).await, once);
    // The same after the run was given back: it was stored, whoever holds the run now.
    lease::release(&store, &guard.tenant, guard.run, guard.token).await.unwrap();
    let given_back = picture(&db).await;
    assert_eq!(append(&store, &guard, &first).await.unwrap(), Appended::Stored);
    let other = Batch { op_id: uuid(), ..batch(&loaded, "c2") };
    assert_eq!(append(&store, &after(guard, &first), &other).await.unwrap(), Appended::Fenced);
    assert_eq!(picture(&db).await, given_back);
}

#[tokio::test]
async fn a_batch_that_only_moves_calls_is_recognised_too() {
    let db = TestDb::new().await;
    let store = db.store();
    let (guard, loaded) = claimed_with_call(&store).await;
    let moving = moving(&loaded, "c1", CallState::Planned);
    assert_eq!(append(&store, &guard, &moving).await.unwrap(), Appended::Stored);
    let once = picture(&db).await;
    assert_eq!(append(&store, &guard, &moving).await.unwrap(), Appended::Stored);
    let again = Batch { op_id: uuid(), ..moving };
    assert_eq!(append(&store, &guard, &again).await.unwrap(), Appended::Fenced);
    assert_eq!(picture(&db).await, once);
}

#[tokio::test]
async fn an_append_that_waited_behind_another_one_is_fenced_and_not_added_after_it() {
    let db = TestDb::new().await;
    let store = db.store();
    let (_, guard, loaded) = claimed(&store).await;
    let late = batch(&loaded, "c1");
    let mut frozen = db.connect().await;
    let mut first = frozen.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM run FOR UPDATE").execute(&mut *first).await.unwrap();
    let (appended, ()) = tokio::join!(append(&store, &guard, &late), async {
        until(&db, WAITS).await;
        sqlx::query(
            "WITH moved AS (UPDATE run SET next_seq = next_seq + 1, n_steps = n_steps + 1,
                                           op_id = gen_random_uuid() RETURNING *)
             INSERT INTO step (tenant_id, thread_id, seq, step_id, run_id, turn, attempt, kind,
                               op_id, epoch, content, created_at)
             SELECT tenant_id, thread_id, next_seq - 1, gen_random_uuid(), run_id, 1, 1, 'system',
                    op_id, epoch, '{}', now() FROM moved",
        )
        .execute(&mut *first)
        .await
        .unwrap();
        first.commit().await.unwrap();
    });
    assert_eq!(appended.unwrap(), Appended::Fenced);
    assert_eq!(count(&db, "SELECT count(*) FROM step").await, 2);
    assert_eq!(count(&db, "SELECT count(*) FROM tool_call").await, 0);
    assert_eq!(count(&db, "SELECT next_seq FROM run").await, 3);
}

#[tokio::test]
async fn a_batch_that_is_sent_twice_at_the_same_time_lands_once_and_both_are_told() {
    let db = TestDb::new().await;
    let store = db.store();
    let (_, guard, loaded) = claimed(&store).await;
    let batch = batch(&loaded, "c1");
    let mut frozen = db.connect().await;
    let mut lock = frozen.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM run FOR UPDATE").execute(&mut *lock).await.unwrap();
    let twice =
        async { tokio::join!(append(&store, &guard, &batch), append(&store, &guard, &batch)) };
    let ((one, two), ()) = tokio::join!(twice, async {
        until(&db, TWO_WAIT).await;
        lock.commit().await.unwrap();
    });
    assert_eq!((one.unwrap(), two.unwrap()), (Appended::Stored, Appended::Stored));
    assert_eq!(count(&db, "SELECT count(*) FROM step").await, 2);
    assert_eq!(count(&db, "SELECT count(*) FROM tool_call").await, 1);
}

#[tokio::test]
async fn a_foreign_lock_on_the_run_makes_an_append_wait_in_vain_but_not_write() {
    let db = TestDb::new().await;
    let store = db.store();
    let (_, guard, loaded) = claimed(&store).await;
    let batch = batch(&loaded, "c1");
    let before = picture(&db).await;
    let mut foreign = db.connect().await;
    let mut lock = foreign.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM run FOR UPDATE").execute(&mut *lock).await.unwrap();
    let refused = append(&store, &guard, &batch).await;
    assert!(matches!(refused, Err(StoreError::Busy(_))), "{refused:?}");
    drop(lock);
    drop(foreign);
    assert_eq!(picture(&db).await, before);
    assert_eq!(append(&store, &guard, &batch).await.unwrap(), Appended::Stored);
}

#[tokio::test]
async fn an_append_whose_session_is_killed_is_looked_for_and_done_once() {
    let db = TestDb::new().await;
    let store = db.store();
    let (_, guard, loaded) = claimed(&store).await;
    let batch = batch(&loaded, "c1");
    let mut frozen = db.connect().await;
    let mut lock = frozen.begin().await.unwrap();
    sqlx::query("SELECT 1 FROM run FOR UPDATE").execute(&mut *lock).await.unwrap();
    let (appended, ()) = tokio::join!(append(&store, &guard, &batch), async {
        until(&db, WAITS).await;
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE datname = current_database()
                       AND application_name = 'agentling-worker'";
        execute(&db, kill).await;
        lock.commit().await.unwrap();
    });
    // What the driver does with a failure that passes: the same batch again.
    let appended = match appended {
        Err(error) if error.is_passing() => append(&store, &guard, &batch).await,
        other => other,
    };
    assert_eq!(appended.unwrap(), Appended::Stored);
    assert_eq!(count(&db, "SELECT count(*) FROM step").await, 2);
    assert_eq!(count(&db, "SELECT count(*) FROM tool_call").await, 1);
}
