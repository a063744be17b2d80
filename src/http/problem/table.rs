//! Which problem an error becomes: the only place where errors meet statuses.

use super::{Problem, ProblemKind as Kind};
use crate::domain::memory::Finding;
use crate::domain::model::{ModelError, ModelErrorKind, Provider};
use crate::domain::run::{FailureCause, RunFailure, RunStatus};
use crate::error::AgentlingError as Error;
use crate::store::{Conflict, StoreError};

/// The problem of an error. Exhaustive: a new error does not compile until it has its row.
pub(super) fn of_error(error: &Error) -> Problem {
    let say = |kind| Problem::new(kind, error.to_string());
    let on_run =
        |kind, status: &RunStatus| say(kind).member(|view| view.run_status = Some(*status));
    let at = |kind, place: &Finding| say(kind).member(|view| view.errors = vec![place.clone()]);
    match error {
        Error::Store(inner) => of_store(inner),
        Error::Model(inner) => of_model(inner),
        Error::RunFailed(failure) => of_failure(failure),
        Error::MemoryLoad(inner) if inner.unsupported_version => {
            listed(Kind::MemoryVersionUnsupported, &inner.findings)
        }
        Error::MemoryLoad(inner) => listed(Kind::MemoryLoadError, &inner.findings),
        Error::SkillLoad(inner) => listed(Kind::SkillLoadError, &inner.findings),
        Error::Invalid(findings) => listed(Kind::ValidationFailed, findings),
        Error::NotFound { .. } => say(Kind::NotFound),
        Error::Gone { .. } => say(Kind::Gone),
        Error::Unauthenticated => say(Kind::Unauthenticated),
        Error::Forbidden { required } => {
            say(Kind::InsufficientScope).member(|view| view.required = Some(*required))
        }
        Error::RunAlreadyTerminal { status } => on_run(Kind::RunAlreadyTerminal, status),
        Error::RunNotActive { status } | Error::RunClosing { status } => {
            on_run(Kind::RunNotActive, status)
        }
        Error::TooManyMessages { limit } => limited(say(Kind::RateLimited), *limit),
        Error::RunNotWaiting { status } => on_run(Kind::RunNotWaiting, status),
        Error::ThreadBusy { active_run_id } => {
            say(Kind::ThreadBusy).member(|view| view.active_run_id = *active_run_id)
        }
        Error::ToolCallAlreadyAnswered { .. } => say(Kind::ToolCallAlreadyAnswered),
        Error::UnknownToolCall { .. } => say(Kind::UnknownToolCall),
        Error::ToolNameConflict { .. } => say(Kind::ToolNameConflict),
        Error::VersionConflict | Error::ThreadWentOn => say(Kind::VersionConflict),
        Error::NothingToCompact => say(Kind::NothingToCompact),
        Error::IdConflict(_) => say(Kind::IdConflict),
        Error::PreconditionFailed => say(Kind::PreconditionFailed),
        Error::UnknownAgent => say(Kind::UnknownAgent),
        Error::UnknownSubAgent(place) => at(Kind::UnknownAgent, place),
        Error::InvalidToolSchema(place) => at(Kind::InvalidToolSchema, place),
        Error::SchemaTooComplex(place) => at(Kind::SchemaTooComplex, place),
        Error::RemoteRefForbidden(place) => at(Kind::RemoteRefForbidden, place),
        Error::EgressDenied(place) => at(Kind::EgressDenied, place),
        Error::SecretsNotConfigured => say(Kind::SecretsNotConfigured),
        Error::NotImplemented(place) => at(Kind::NotImplemented, place),
        Error::InvalidHeaderName(place) => at(Kind::InvalidHeaderName, place),
        Error::McpUnavailable(_) => say(Kind::McpUnavailable),
        Error::ToolCall(outcome) => {
            say(Kind::ToolCallError).member(|view| view.outcome = Some(outcome.clone()))
        }
        Error::Overloaded => say(Kind::Overloaded),
        Error::Draining => say(Kind::Draining),
        Error::StreamCursorAhead { last } => {
            limited(say(Kind::StreamCursorAhead), u64::try_from(*last).unwrap_or(0))
        }
        Error::TooManyStreams { limit } => limited(say(Kind::TooManyStreams), *limit),
        Error::BudgetExhausted => say(Kind::BudgetExhausted),
        Error::TenantQueueFull { limit } => limited(say(Kind::TenantQueueFull), *limit),
        Error::Internal(_) => internal(),
    }
}

fn listed(kind: Kind, findings: &[Finding]) -> Problem {
    Problem::with_errors(kind, findings.to_vec())
}

fn of_store(error: &StoreError) -> Problem {
    let kind = match error {
        StoreError::Busy(_) => Kind::DatabaseBusy,
        StoreError::Unavailable(_) => Kind::DatabaseUnavailable,
        StoreError::StorageFull(_) => Kind::StorageUnavailable,
        StoreError::OutcomeUnknown(_) => Kind::OutcomeUnknown,
        StoreError::Conflict(conflict) => return of_conflict(conflict),
        // The caller can do nothing about these and learns nothing from them.
        StoreError::Inconsistent { .. } | StoreError::Migration(_) | StoreError::Database(_) => {
            return internal();
        }
    };
    Problem::new(kind, error.to_string())
}

fn of_conflict(conflict: &Conflict) -> Problem {
    let say = |kind| Problem::new(kind, conflict.to_string());
    match conflict {
        Conflict::AgentNameTaken
        | Conflict::McpServerNameTaken
        | Conflict::SkillNameTaken
        | Conflict::IdTaken => say(Kind::IdConflict),
        Conflict::IdempotencyInProgress => say(Kind::IdempotencyInProgress),
        Conflict::IdempotencyKeyReused => say(Kind::IdempotencyKeyReused),
        Conflict::BudgetExhausted => say(Kind::BudgetExhausted),
        Conflict::BudgetInUse => say(Kind::InUse),
        Conflict::Stale => say(Kind::VersionConflict),
        Conflict::ThreadBusy { active_run_id } => {
            say(Kind::ThreadBusy).member(|view| view.active_run_id = *active_run_id)
        }
        Conflict::InUse { references } => say(Kind::InUse)
            .member(|view| view.references = references.iter().map(ToString::to_string).collect()),
        Conflict::SecretInUse { references } => {
            say(Kind::InUse).member(|view| view.references.clone_from(references))
        }
    }
}

fn of_model(error: &ModelError) -> Problem {
    model(error.provider, error.provider_status, error.kind, error.to_string())
        .member(|view| view.retry_after_ms = error.retry_after_ms)
}

/// The problem of a failed run, with the id under which the run has it.
pub(super) fn of_failure(failure: &RunFailure) -> Problem {
    let detail = failure.detail.clone();
    let problem = match failure.cause {
        FailureCause::Model { provider, provider_status, kind } => {
            model(provider, provider_status, kind, detail)
        }
        FailureCause::RunTimeout => Problem::new(Kind::RunTimeout, detail),
        FailureCause::RunPoisoned => Problem::new(Kind::RunPoisoned, detail),
        FailureCause::Internal => internal(),
    };
    problem.member(|view| view.error_id = Some(failure.error_id))
}

fn model(
    provider: Provider,
    provider_status: Option<u16>,
    kind: ModelErrorKind,
    detail: String,
) -> Problem {
    let problem = if kind == ModelErrorKind::Timeout {
        Kind::ModelTimeout
    } else if kind == ModelErrorKind::FramingViolation {
        Kind::FramingViolation
    } else if kind == ModelErrorKind::SecretUnavailable {
        Kind::SecretUnavailable
    } else {
        Kind::ModelError
    };
    Problem::new(problem, detail).member(|view| {
        view.provider = Some(provider);
        view.provider_status = provider_status;
        view.kind = Some(kind);
    })
}

fn internal() -> Problem {
    Problem::new(Kind::Internal, "something went wrong on the server")
}

fn limited(problem: Problem, limit: u64) -> Problem {
    problem.member(|view| view.limit = Some(limit))
}
