//! The schema and the types agree.

use agentling::domain::budget::{BudgetPeriod, BudgetScope, Resource};
use agentling::domain::event::{DeltaKind, EventName};
use agentling::domain::fault::Fault;
use agentling::domain::ledger::{ByteEncoding, Purpose, RequestOutcome};
use agentling::domain::model::ModelErrorKind;
use agentling::domain::run::{OnBusy, OnDisconnect, RunStatus, StopReason};
use agentling::domain::run_message::Voice;
use agentling::domain::schedule::{OnOverlap, SkipReason};
use agentling::domain::step::StepKind;
use agentling::domain::thread::{Announce, FramingPolicy};
use agentling::domain::tool::{CallState, EffectClass};
use agentling::domain::webhook::{DeliveryError, DeliveryState};
use agentling::store::{Store, StoreError};

use crate::support::{TestDb, count, execute, picture};

/// The labels that a constraint allows, in its order.
async fn allowed(db: &TestDb, constraint: &str) -> Vec<String> {
    let definition: String = sqlx::query_scalar(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1",
    )
    .bind(constraint)
    .fetch_one(&mut db.connect().await)
    .await
    .unwrap();
    // Labels stand between quotes, so every second piece is one.
    definition.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

fn labels<T: Copy>(all: &[T], label: impl Fn(T) -> &'static str) -> Vec<String> {
    all.iter().map(|it| label(*it).to_owned()).collect()
}

#[tokio::test]
async fn the_database_allows_exactly_the_labels_that_the_types_have() {
    let db = TestDb::new().await;
    let encodings = || labels(ByteEncoding::ALL, ByteEncoding::label);
    let vocabularies: &[(&str, Vec<String>)] = &[
        ("budget_scope", labels(BudgetScope::ALL, BudgetScope::label)),
        ("budget_resource", labels(Resource::ALL, Resource::label)),
        ("budget_period", labels(BudgetPeriod::ALL, BudgetPeriod::label)),
        ("run_status", labels(RunStatus::ALL, RunStatus::label)),
        ("run_stop_reason", labels(StopReason::ALL, StopReason::label)),
        ("run_on_busy", labels(OnBusy::ALL, OnBusy::label)),
        ("run_on_disconnect", labels(OnDisconnect::ALL, OnDisconnect::label)),
        ("step_kind", labels(StepKind::ALL, StepKind::label)),
        ("run_event_name", labels(EventName::ALL, EventName::label)),
        ("run_delta_kind", labels(DeltaKind::ALL, DeltaKind::label)),
        ("tool_call_effect", labels(EffectClass::ALL, EffectClass::label)),
        ("tool_call_state", labels(CallState::ALL, CallState::label)),
        ("model_request_purpose", labels(Purpose::ALL, Purpose::label)),
        ("model_request_outcome", labels(RequestOutcome::ALL, RequestOutcome::label)),
        ("model_request_error", labels(ModelErrorKind::ALL, ModelErrorKind::label)),
        ("model_request_response_encoding", encodings()),
        ("model_request_head_encoding", encodings()),
        ("model_request_conversation_encoding", encodings()),
        ("thread_announce", labels(Announce::ALL, Announce::label)),
        ("run_last_fault", labels(Fault::ALL, Fault::label)),
        ("run_message_voice", labels(Voice::ALL, Voice::label)),
        ("thread_framing_policy", labels(FramingPolicy::ALL, FramingPolicy::label)),
        ("webhook_delivery_state", labels(DeliveryState::ALL, DeliveryState::label)),
        ("webhook_delivery_error", labels(DeliveryError::ALL, DeliveryError::label)),
        ("schedule_on_overlap", labels(OnOverlap::ALL, OnOverlap::label)),
        ("schedule_last_skip", labels(SkipReason::ALL, SkipReason::label)),
    ];
    for (constraint, labels) in vocabularies {
        assert_eq!(allowed(&db, constraint).await, *labels, "{constraint}");
    }
}

#[tokio::test]
async fn migrations_make_an_empty_database_ready_and_are_applied_once() {
    let db = TestDb::empty().await;
    let store = db.store();
    assert!(!store.is_ready().await.unwrap());
    store.migrate().await.unwrap();
    assert!(store.is_ready().await.unwrap());
    let applied = "SELECT count(*) FROM _sqlx_migrations WHERE success";
    let (n_applied, rows) = (count(&db, applied).await, picture(&db).await);
    store.migrate().await.unwrap();
    assert_eq!(count(&db, applied).await, n_applied);
    assert_eq!(picture(&db).await, rows);
}

#[tokio::test]
async fn servers_that_migrate_at_the_same_time_wait_for_each_other() {
    let db = TestDb::empty().await;
    let stores = [db.store(), db.store(), db.store()];
    let done = futures::future::join_all(stores.iter().map(Store::migrate)).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert!(db.store().is_ready().await.unwrap());
}

#[tokio::test]
async fn a_migration_that_was_changed_after_it_was_applied_is_refused() {
    let db = TestDb::new().await;
    db.store().migrate().await.unwrap();
    execute(&db, "UPDATE _sqlx_migrations SET checksum = '\\x00'").await;
    let refused = db.store().migrate().await;
    assert!(matches!(refused, Err(StoreError::Migration(_))), "{refused:?}");
}
