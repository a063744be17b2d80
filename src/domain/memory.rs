//! Memory documents: a history in portable form, and what can be wrong with one.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::agent::Metadata;
use super::step::StepContent;
use super::thread::FramingPolicy;

/// The most findings a [`MemoryLoadError`] lists.
pub const MAX_FINDINGS: usize = 20;

/// A history in portable form, as the rest of the service sees it whatever version it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// The thread's labels; `None` when the document's version does not carry them.
    pub metadata: Option<Metadata>,
    /// How the history is framed; `None` when the document's version does not say.
    pub framing_policy: Option<FramingPolicy>,
    /// The steps, in order.
    pub steps: Vec<StepContent>,
}

/// A memory document that does not validate. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the memory document does not validate: {}", .findings.first().map_or("", |f| f.message.as_str()))]
pub struct MemoryLoadError {
    /// What is wrong, at most [`MAX_FINDINGS`] entries.
    pub findings: Vec<Finding>,
}

/// One thing that is wrong in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// Where, as an RFC 6901 JSON pointer.
    pub pointer: String,
    /// A stable code, for example `missing_field`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

impl Finding {
    /// A finding.
    pub fn new(
        pointer: impl Into<String>,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { pointer: pointer.into(), code: code.into(), message: message.into() }
    }
}
