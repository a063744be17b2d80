//! Every error and the problem it becomes.

use std::collections::BTreeSet;

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::domain::caller::Scope;
use crate::domain::id::{CallId, ErrorId, RunId};
use crate::domain::memory::MemoryLoadError;
use crate::domain::model::{ModelError, ModelErrorKind, Provider};
use crate::domain::run::{FailureCause, RunStatus};
use crate::domain::skill::SkillFile;
use crate::domain::tool::{OutcomeKind, ToolOutcome};
use crate::store::{Conflict, StoreError};

const ID: Uuid = Uuid::from_u128(7);

fn finding() -> Finding {
    Finding::new("/a", "code", "words")
}

fn outcome() -> ToolOutcome {
    ToolOutcome::not_run(CallId("call_1".to_owned()), "look", OutcomeKind::Timeout, None)
}

fn failure(cause: FailureCause) -> RunFailure {
    RunFailure { cause, detail: "it failed".to_owned(), error_id: ErrorId::from(ID) }
}

fn model(kind: ModelErrorKind) -> FailureCause {
    FailureCause::Model { provider: Provider::Openai, provider_status: Some(401), kind }
}

fn memory(unsupported_version: bool) -> AgentlingError {
    MemoryLoadError { findings: vec![finding()], unsupported_version }.into()
}

/// An error of every kind with the slug it becomes.
#[expect(clippy::too_many_lines, reason = "one line an error")]
fn samples() -> Vec<(AgentlingError, &'static str)> {
    use AgentlingError as E;
    let status = RunStatus::Completed;
    let [busy, unavailable, full, unknown, other] = StoreError::samples("SECRET");
    let active_run_id = Some(RunId::from(ID));
    let call_id = || CallId("call_1".to_owned());
    let conflict = |conflict| E::Store(StoreError::Conflict(conflict));
    vec![
        (busy.into(), "database-busy"),
        (unavailable.into(), "database-unavailable"),
        (full.into(), "storage-unavailable"),
        (unknown.into(), "outcome-unknown"),
        (other.into(), "internal"),
        (conflict(Conflict::AgentNameTaken), "id-conflict"),
        (SkillFile::read("---").unwrap_err().into(), "skill-load-error"),
        (conflict(Conflict::IdTaken), "id-conflict"),
        (conflict(Conflict::McpServerNameTaken), "id-conflict"),
        (E::McpUnavailable("it is away".to_owned()), "mcp-unavailable"),
        (conflict(Conflict::InUse { references: Vec::new() }), "in-use"),
        (conflict(Conflict::SecretInUse { references: Vec::new() }), "in-use"),
        (conflict(Conflict::ThreadBusy { active_run_id }), "thread-busy"),
        (conflict(Conflict::IdempotencyInProgress), "idempotency-in-progress"),
        (conflict(Conflict::IdempotencyKeyReused), "idempotency-key-reused"),
        (conflict(Conflict::Stale), "version-conflict"),
        (ModelError::new(Provider::Openai, ModelErrorKind::Auth, "SECRET").into(), "model-error"),
        (ModelError::new(Provider::Openai, ModelErrorKind::Timeout, "").into(), "model-timeout"),
        (memory(false), "memory-load-error"),
        (memory(true), "memory-version-unsupported"),
        (E::NotFound { kind: "run" }, "not-found"),
        (E::Gone { kind: "agent" }, "gone"),
        (E::Unauthenticated, "unauthenticated"),
        (E::Forbidden { required: Scope::RunsWrite }, "insufficient-scope"),
        (E::RunAlreadyTerminal { status }, "run-already-terminal"),
        (E::RunNotActive { status }, "run-not-active"),
        (E::RunNotWaiting { status }, "run-not-waiting"),
        (E::ToolCallAlreadyAnswered { call_id: call_id() }, "tool-call-already-answered"),
        (E::UnknownToolCall { call_id: call_id() }, "unknown-tool-call"),
        (E::ThreadBusy { active_run_id }, "thread-busy"),
        (E::ToolNameConflict { name: "t".to_owned() }, "tool-name-conflict"),
        (E::VersionConflict, "version-conflict"),
        (E::ThreadWentOn, "version-conflict"),
        (E::StreamCursorAhead { last: 4 }, "stream-cursor-ahead"),
        (E::IdConflict("the id is taken"), "id-conflict"),
        (E::PreconditionFailed, "precondition-failed"),
        (E::Overloaded, "overloaded"),
        (E::Draining, "draining"),
        (E::TooManyStreams { limit: 100 }, "too-many-streams"),
        (E::TenantQueueFull { limit: 1_000 }, "tenant-queue-full"),
        (E::BudgetExhausted, "budget-exhausted"),
        (E::UnknownAgent, "unknown-agent"),
        (E::UnknownSubAgent(finding()), "unknown-agent"),
        (E::invalid("/a", "code", "words"), "validation-failed"),
        (E::InvalidToolSchema(finding()), "invalid-tool-schema"),
        (E::SchemaTooComplex(finding()), "schema-too-complex"),
        (E::RemoteRefForbidden(finding()), "remote-ref-forbidden"),
        (E::EgressDenied(finding()), "egress-denied"),
        (E::ToolCall(Box::new(outcome())), "tool-call-error"),
        (E::InvalidHeaderName(finding()), "invalid-header-name"),
        (E::RunFailed(failure(model(ModelErrorKind::Auth))), "model-error"),
        (E::RunFailed(failure(model(ModelErrorKind::Timeout))), "model-timeout"),
        (E::RunFailed(failure(model(ModelErrorKind::FramingViolation))), "framing-violation"),
        (E::RunFailed(failure(FailureCause::RunTimeout)), "run-timeout"),
        (E::RunFailed(failure(FailureCause::RunPoisoned)), "run-poisoned"),
        (E::RunFailed(failure(FailureCause::Internal)), "internal"),
        (E::internal("SECRET"), "internal"),
    ]
}

#[test]
fn every_error_becomes_its_problem_and_keeps_what_callers_must_not_read() {
    for (error, slug) in samples() {
        let retryable = error.is_retryable();
        let words = format!("{error:?}");
        let problem = Problem::from(error);
        assert_eq!(problem.kind().slug(), slug, "{words}");
        let body = serde_json::to_string(problem.view()).unwrap();
        assert!(!body.contains("SECRET"), "{body}");
        assert!(!problem.view().detail.is_empty(), "{body}");
        if problem.view().retry_after_ms.is_some() {
            assert!(retryable, "{words} carries Retry-After");
        }
        if matches!(problem.kind().status_code(), 429 | 503) {
            assert!(problem.view().retry_after_ms.is_some(), "{words}");
        }
    }
}

#[test]
fn problems_carry_the_members_that_clients_branch_on() {
    let view = |error: AgentlingError| serde_json::to_value(Problem::from(error).view()).unwrap();
    let busy = view(AgentlingError::ThreadBusy { active_run_id: Some(RunId::from(ID)) });
    assert_eq!(busy["active_run_id"], RunId::from(ID).to_string());
    assert_eq!(view(AgentlingError::Forbidden { required: Scope::Admin })["required"], "admin");
    let ended = view(AgentlingError::RunAlreadyTerminal { status: RunStatus::Failed });
    assert_eq!(ended["run_status"], "failed");
    assert_eq!(view(AgentlingError::TenantQueueFull { limit: 9 })["limit"], 9);
    let errors = json!([{"pointer": "/a", "code": "code", "message": "words"}]);
    assert_eq!(view(AgentlingError::EgressDenied(finding()))["errors"], errors);
}

#[test]
fn a_failed_run_shows_the_same_problem_inside_and_as_an_answer() {
    let failed = failure(model(ModelErrorKind::Auth));
    let inside = ProblemView::from(&failed);
    let answer = Problem::from(AgentlingError::RunFailed(failed));
    assert_eq!(&inside, answer.view());
    let expected = json!({
        "type": "/problems/model-error", "title": "Model failed", "status": 502,
        "detail": "it failed", "error_id": ErrorId::from(ID).to_string(),
        "provider": "openai", "provider_status": 401, "kind": "auth",
    });
    assert_eq!(serde_json::to_value(inside).unwrap(), expected);
}

#[test]
fn at_most_twenty_findings_are_listed() {
    let findings = vec![finding(); 21];
    assert_eq!(Problem::from(AgentlingError::Invalid(findings)).view().errors.len(), 20);
}

#[test]
fn every_kind_has_a_slug_of_its_own_an_error_status_and_a_page() {
    let slugs: BTreeSet<_> = ProblemKind::ALL.iter().map(|kind| kind.slug()).collect();
    assert_eq!(slugs.len(), ProblemKind::ALL.len());
    let (index, table) = (index_page(), problems_markdown());
    for kind in ProblemKind::ALL {
        assert!((400..600).contains(&kind.status_code()), "{kind:?}");
        assert_eq!(Problem::new(*kind, "").status().as_u16(), kind.status_code());
        assert_eq!(ProblemKind::by_slug(kind.slug()), Some(*kind));
        let page = kind_page(*kind);
        assert!(page.contains(kind.title()) && !page.contains('`') && !page.contains("<script"));
        assert!(index.contains(&kind.type_uri()), "{kind:?}");
        assert!(table.contains(&format!("| {} | `{}` |", kind.status_code(), kind.slug())));
    }
}
