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

#[tokio::test]
async fn the_database_allows_exactly_the_labels_that_the_types_have() {
    let db = TestDb::new().await;
    let labels = |all: &[&'static str]| all.iter().map(|label| (*label).to_owned()).collect();
    let encodings = ByteEncoding::ALL.iter().map(|it| it.label()).collect::<Vec<_>>();
    let vocabularies: &[(&str, Vec<String>)] = &[
        ("budget_scope", labels(&BudgetScope::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        ("budget_resource", labels(&Resource::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        (
            "budget_period",
            labels(&BudgetPeriod::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        ("run_status", labels(&RunStatus::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        (
            "run_stop_reason",
            labels(&StopReason::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        ("run_on_busy", labels(&OnBusy::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        (
            "run_on_disconnect",
            labels(&OnDisconnect::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        ("step_kind", labels(&StepKind::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        ("run_event_name", labels(&EventName::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        ("run_delta_kind", labels(&DeltaKind::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        (
            "tool_call_effect",
            labels(&EffectClass::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        (
            "tool_call_state",
            labels(&CallState::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        (
            "model_request_purpose",
            labels(&Purpose::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        (
            "model_request_outcome",
            labels(&RequestOutcome::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        (
            "model_request_error",
            labels(&ModelErrorKind::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        ("model_request_response_encoding", labels(&encodings)),
        ("model_request_head_encoding", labels(&encodings)),
        ("model_request_conversation_encoding", labels(&encodings)),
        ("thread_announce", labels(&Announce::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        ("run_last_fault", labels(&Fault::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        ("run_message_voice", labels(&Voice::ALL.iter().map(|it| it.label()).collect::<Vec<_>>())),
        (
            "thread_framing_policy",
            labels(&FramingPolicy::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        (
            "webhook_delivery_state",
            labels(&DeliveryState::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        (
            "webhook_delivery_error",
            labels(&DeliveryError::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        (
            "schedule_on_overlap",
            labels(&OnOverlap::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
        (
            "schedule_last_skip",
            labels(&SkipReason::ALL.iter().map(|it| it.label()).collect::<Vec<_>>()),
        ),
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
