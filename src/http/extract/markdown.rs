//! Bodies that are JSON or a Markdown file.

use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use super::body::{self, Body, Bounds};
use crate::domain::memory::Finding;
use crate::domain::skill::MAX_INSTRUCTIONS;
use crate::http::problem::{Problem, ProblemKind};

/// A body by its `Content-Type`: JSON of ordinary size, or a Markdown file, for a reader of its own.
#[derive(Debug)]
pub enum JsonOrMarkdown<T> {
    /// `application/json`.
    Json(T),
    /// `text/markdown`.
    Markdown(String),
}

impl<S: Send + Sync, T: DeserializeOwned + ToSchema + 'static> FromRequest<S>
    for JsonOrMarkdown<T>
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_markdown(request.headers()) {
            return Body::from_request(request, state).await.map(|Body(value)| Self::Json(value));
        }
        let ordinary = Bounds::ordinary(&request);
        let bounds = Bounds { bytes: ordinary.bytes.min(MAX_INSTRUCTIONS), ..ordinary };
        let text = body::read(request, bounds).await?;
        if text.contains('\0') {
            let finding = Finding::new("", "text_not_storable", "U+0000 cannot be stored");
            return Err(Problem::with_errors(ProblemKind::TextNotStorable, vec![finding]));
        }
        Ok(Self::Markdown(text))
    }
}

/// Whether a body is plain Markdown. Whatever else it is, it is refused as JSON would be.
fn is_markdown(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (given, more) = (types.next().and_then(|value| value.to_str().ok()), types.next());
    let fits = given.is_some_and(|value| body::is_utf8_of("text/markdown", value));
    fits && more.is_none() && !headers.contains_key(CONTENT_ENCODING)
}
