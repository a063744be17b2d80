//! Problems: the one way in which errors leave, as RFC 9457 documents.
//!
//! A handler or an extractor returns a [`Problem`]. As a response it is a status and an extension;
//! the `answer` layer, which knows the request's id and logs, writes the body. So no problem can
//! leave without its ids.

mod kind;
mod pages;
mod table;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::domain::memory::Finding;
use crate::domain::run::RunFailure;
use crate::error::AgentlingError;
use crate::store::StoreError;

pub use kind::ProblemKind;
pub use pages::{index_page, kind_page, problems_markdown};
pub use view::ProblemView;

/// The media type of problems.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// The most findings that a problem lists.
pub const MAX_ERRORS: usize = 20;

/// A problem on its way out.
#[derive(Debug, Clone)]
pub struct Problem {
    kind: ProblemKind,
    view: Box<ProblemView>,
    source: Option<Arc<AgentlingError>>,
}

impl Problem {
    /// A problem of a kind, with a sentence about this case.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let mut view = ProblemView::of(kind, detail.into());
        view.retry_after_ms = kind.default_retry_after_ms();
        Self { kind, view: Box::new(view), source: None }
    }

    /// The answer to every id that is not there, not the caller's, or not an id at all.
    pub fn not_found() -> Self {
        AgentlingError::NotFound { kind: "resource" }.into()
    }

    /// A problem that lists what is wrong.
    pub fn with_errors(kind: ProblemKind, mut errors: Vec<Finding>) -> Self {
        errors.truncate(MAX_ERRORS);
        let detail = errors.first().map_or_else(String::new, |first| first.message.clone());
        Self::new(kind, detail).member(|view| view.errors = errors)
    }

    /// The same with other members.
    #[must_use]
    pub fn member(mut self, set: impl FnOnce(&mut ProblemView)) -> Self {
        set(&mut self.view);
        self
    }

    /// What kind it is.
    pub const fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// Its body.
    pub fn view(&self) -> &ProblemView {
        &self.view
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.kind.status_code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The error it was made from, for the log.
    pub fn source(&self) -> Option<&AgentlingError> {
        self.source.as_deref()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        AgentlingError::from(error).into()
    }
}

impl From<AgentlingError> for Problem {
    fn from(error: AgentlingError) -> Self {
        let mut problem = table::of_error(&error);
        problem.source = Some(Arc::new(error));
        problem
    }
}

/// The problem object of a failed run, as `run.error` shows it.
impl From<&RunFailure> for ProblemView {
    fn from(failure: &RunFailure) -> Self {
        *table::of_failure(failure).view
    }
}
