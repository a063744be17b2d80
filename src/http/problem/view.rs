//! The body of a problem.

use serde::Serialize;
use utoipa::ToSchema;

use super::ProblemKind;
use crate::domain::caller::Scope;
use crate::domain::id::{ErrorId, RunId};
use crate::domain::memory::Finding;
use crate::domain::model::{ModelErrorKind, Provider};
use crate::domain::run::RunStatus;
use crate::domain::tool::ToolOutcome;

/// What went wrong (RFC 9457). More members may be added.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemView {
    /// The kind of problem: a path on this server where it is explained.
    #[schema(examples("/problems/thread-busy"))]
    pub r#type: String,
    /// A short name of the kind.
    #[schema(examples("Thread is busy"))]
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599, examples(409))]
    pub status: u16,
    /// A sentence about this case.
    #[schema(examples("the thread has an active run"))]
    pub detail: String,
    /// The request that it answers; absent in the error of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(examples("urn:request:0198f2c4a1b27cde8f00112233445566"))]
    pub instance: Option<String>,
    /// The id that the operator's log has too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_id: Option<ErrorId>,
    /// What is wrong with the request, place by place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Finding>,
    /// The bound that was passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The scope that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<Scope>,
    /// Where the run stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_status: Option<RunStatus>,
    /// The run that keeps the thread busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_run_id: Option<RunId>,
    /// The ids of what keeps it from going.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// What would have been accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// When to try again, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The model provider that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// The HTTP status of the model provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<u16>,
    /// How the model failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ModelErrorKind>,
    /// How the call of a tool that was tried out ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<ToolOutcome>>,
}

impl ProblemView {
    /// A body without any of the optional members.
    pub(super) fn of(kind: ProblemKind, detail: String) -> Self {
        Self {
            r#type: kind.type_uri(),
            title: kind.title().to_owned(),
            status: kind.status_code(),
            detail,
            instance: None,
            error_id: None,
            errors: Vec::new(),
            limit: None,
            required: None,
            run_status: None,
            active_run_id: None,
            references: Vec::new(),
            allowed: Vec::new(),
            retry_after_ms: None,
            provider: None,
            provider_status: None,
            kind: None,
            outcome: None,
        }
    }
}
