//! The umbrella over the layers' errors.
//!
//! It has two voices: `Display` is for callers and never repeats what a database, a provider or a
//! tool wrote; the chain of sources is for the operator's log. Which status an error becomes is
//! decided in one place, `http::problem`.

use crate::domain::caller::Scope;
use crate::domain::id::{CallId, RunId};
use crate::domain::memory::{Finding, MemoryLoadError};
use crate::domain::model::ModelError;
use crate::domain::run::{RunFailure, RunStatus};
use crate::domain::skill::SkillLoadError;
use crate::domain::tool::ToolOutcome;
use crate::store::{Conflict, StoreError};

/// Everything that can keep a caller from what they asked for.
#[derive(Debug, thiserror::Error)]
pub enum AgentlingError {
    /// The store failed, or refused a write because of what is stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A model failed outside a run.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A memory document does not validate.
    #[error(transparent)]
    MemoryLoad(#[from] MemoryLoadError),
    /// A `SKILL.md` does not load.
    #[error(transparent)]
    SkillLoad(#[from] SkillLoadError),
    /// What was asked for does not exist, or belongs to another tenant.
    #[error("nothing is found under this id")]
    NotFound {
        /// What was looked for; for the log only, callers always read the same sentence.
        kind: &'static str,
    },
    /// What was asked for existed and is gone.
    #[error("the {kind} is gone")]
    Gone {
        /// What it was.
        kind: &'static str,
    },
    /// No credential, or one that does not count.
    #[error("a valid API key is needed: `Authorization: Bearer ag_…`")]
    Unauthenticated,
    /// The key lacks a scope.
    #[error("the key lacks the scope `{required}`")]
    Forbidden {
        /// The scope.
        required: Scope,
    },
    /// The run is over.
    #[error("the run has ended with status `{status}`")]
    RunAlreadyTerminal {
        /// How it ended.
        status: RunStatus,
    },
    /// The run is neither queued nor running.
    #[error("the run is not active: its status is `{status}`")]
    RunNotActive {
        /// Where it stands.
        status: RunStatus,
    },
    /// The run is in its closing turn, after which it hears nothing.
    #[error("the run is in its last turn and takes no more messages")]
    RunClosing {
        /// Where it stands.
        status: RunStatus,
    },
    /// Too many messages wait for the run's next turn.
    #[error("too many messages wait for the run's next turn: at most {limit}")]
    TooManyMessages {
        /// How many are allowed.
        limit: u64,
    },
    /// The run does not wait for a caller.
    #[error("the run does not wait for anything: its status is `{status}`")]
    RunNotWaiting {
        /// Where it stands.
        status: RunStatus,
    },
    /// The call was answered before, or has ended.
    #[error("the call `{call_id}` has its answer")]
    ToolCallAlreadyAnswered {
        /// Which one.
        call_id: CallId,
    },
    /// The run has no such call.
    #[error("the run has no call `{call_id}`")]
    UnknownToolCall {
        /// Which one.
        call_id: CallId,
    },
    /// The thread has an active run.
    #[error("the thread has an active run")]
    ThreadBusy {
        /// Which one, where known.
        active_run_id: Option<RunId>,
    },
    /// Two tools of an agent have one name.
    #[error("two tools have the name `{name}`")]
    ToolNameConflict {
        /// The name.
        name: String,
    },
    /// The body names a version that is not the current one.
    #[error("the version in the request is not the current one")]
    VersionConflict,
    /// The history of an interrupted run's thread changed, so the run has no place to go on from.
    #[error("the thread's history changed since the run was interrupted: start a new run on it")]
    ThreadWentOn,
    /// A thread cannot be told in a shorter form.
    #[error("nothing up to this step would be told in a shorter form")]
    NothingToCompact,
    /// The cursor of a stream lies behind its end.
    #[error("the last event id lies ahead of the run: its last event is {last}")]
    StreamCursorAhead {
        /// The last event there is.
        last: i64,
    },
    /// The id or name is taken.
    #[error("{0}")]
    IdConflict(&'static str),
    /// `If-Match` names a state that is not the current one.
    #[error("`If-Match` does not name the current state")]
    PreconditionFailed,
    /// The server has more work than it can take.
    #[error("the server is overloaded")]
    Overloaded,
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Draining,
    /// The tenant holds too many streams open.
    #[error("too many streams are open: at most {limit}")]
    TooManyStreams {
        /// How many are allowed.
        limit: u64,
    },
    /// The tenant has too many runs waiting.
    #[error("too many runs are queued: at most {limit}")]
    TenantQueueFull {
        /// How many are allowed.
        limit: u64,
    },
    /// A budget that the run would share has nothing left.
    #[error("a budget that the run would share is used up")]
    BudgetExhausted,
    /// A run names an agent that does not exist.
    #[error("there is no such agent")]
    UnknownAgent,
    /// A tool names an agent that does not exist.
    #[error("a tool names an agent that does not exist")]
    UnknownSubAgent(Finding),
    /// A request is well-formed but says something that cannot be.
    #[error("the request does not validate: {}", first_message(.0))]
    Invalid(Vec<Finding>),
    /// A JSON Schema is not one, or uses what is not supported.
    #[error("the JSON Schema is not valid: {}", .0.message)]
    InvalidToolSchema(Finding),
    /// A JSON Schema is too large or too deep.
    #[error("the JSON Schema is too complex: {}", .0.message)]
    SchemaTooComplex(Finding),
    /// A JSON Schema refers to another document.
    #[error("the JSON Schema refers to another document; only `#/…` references are allowed")]
    RemoteRefForbidden(Finding),
    /// A URL leads to where the server must not go.
    #[error("the server may not call this URL; its operator can open a host and port")]
    EgressDenied(Finding),
    /// A tool that was tried out failed: the only place where a failed call is an error.
    #[error("the tool's call failed: {}", failure_of(.0))]
    ToolCall(Box<ToolOutcome>),
    /// A header of a tool is not a header, or one that callers cannot set.
    #[error("the header cannot be set: {}", .0.message)]
    InvalidHeaderName(Finding),
    /// An MCP server does not answer as one.
    #[error("the MCP server is not available: {0}")]
    McpUnavailable(String),
    /// The operator has set no key that secrets could be sealed with.
    #[error("this server keeps no secrets: its operator has set no key to seal them with")]
    SecretsNotConfigured,
    /// What is asked for takes something that this server's surroundings lack.
    #[error("{}", .0.message)]
    NotImplemented(Finding),
    /// The run failed and the caller asked for that to be the answer.
    #[error("{}", .0.detail)]
    RunFailed(RunFailure),
    /// A fault of the server.
    #[error("something went wrong on the server")]
    Internal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What a caller who tries a tool out reads of its failure.
fn failure_of(outcome: &ToolOutcome) -> String {
    let failure = outcome.error.as_ref();
    failure.map_or_else(String::new, |failure| format!("{}: {}", failure.r#type, failure.message))
}

/// What a caller reads of a list of findings when there is room for one.
fn first_message(findings: &[Finding]) -> &str {
    findings.first().map_or("", |finding| finding.message.as_str())
}

impl AgentlingError {
    /// A fault of the server that has only words.
    pub fn internal(what: impl Into<String>) -> Self {
        Self::Internal(what.into().into())
    }

    /// A request that does not validate in one place.
    pub fn invalid(pointer: &str, code: &str, message: &str) -> Self {
        Self::Invalid(vec![Finding::new(pointer, code, message)])
    }

    /// Whether the same request may succeed later without the caller changing anything.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Store(error) => is_retryable_store(error),
            Self::Model(error) => error.retryable,
            Self::RunFailed(_)
            | Self::MemoryLoad(_)
            | Self::SkillLoad(_)
            | Self::NotFound { .. }
            | Self::Gone { .. }
            | Self::Unauthenticated
            | Self::Forbidden { .. }
            | Self::RunAlreadyTerminal { .. }
            | Self::RunNotActive { .. }
            | Self::RunClosing { .. }
            | Self::RunNotWaiting { .. }
            | Self::ToolCallAlreadyAnswered { .. }
            | Self::UnknownToolCall { .. }
            | Self::ToolNameConflict { .. }
            | Self::VersionConflict
            | Self::ThreadWentOn
            | Self::NothingToCompact
            | Self::StreamCursorAhead { .. }
            | Self::IdConflict(_)
            | Self::PreconditionFailed
            | Self::UnknownAgent
            | Self::UnknownSubAgent(_)
            | Self::Invalid(_)
            | Self::InvalidToolSchema(_)
            | Self::SchemaTooComplex(_)
            | Self::RemoteRefForbidden(_)
            | Self::EgressDenied(_)
            | Self::InvalidHeaderName(_)
            | Self::SecretsNotConfigured
            | Self::NotImplemented(_)
            | Self::ToolCall(_)
            | Self::Internal(_) => false,
            Self::McpUnavailable(_)
            | Self::ThreadBusy { .. }
            | Self::TooManyMessages { .. }
            | Self::Overloaded
            | Self::Draining
            | Self::TooManyStreams { .. }
            | Self::BudgetExhausted
            | Self::TenantQueueFull { .. } => true,
        }
    }
}

const fn is_retryable_store(error: &StoreError) -> bool {
    match error {
        StoreError::Busy(_)
        | StoreError::Unavailable(_)
        | StoreError::StorageFull(_)
        | StoreError::OutcomeUnknown(_)
        | StoreError::Conflict(
            Conflict::ThreadBusy { .. }
            | Conflict::IdempotencyInProgress
            | Conflict::BudgetExhausted
            | Conflict::BudgetInUse,
        ) => true,
        StoreError::Conflict(
            Conflict::AgentNameTaken
            | Conflict::McpServerNameTaken
            | Conflict::SkillNameTaken
            | Conflict::IdTaken
            | Conflict::InUse { .. }
            | Conflict::SecretInUse { .. }
            | Conflict::IdempotencyKeyReused
            | Conflict::Stale,
        )
        | StoreError::Inconsistent { .. }
        | StoreError::Migration(_)
        | StoreError::Database(_) => false,
    }
}
