//! Ids in paths.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use crate::http::problem::Problem;

/// The id in a path, whatever its name there.
///
/// A text that is no id of this kind is answered like an id that is not there, so that nobody learns
/// which of the two it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathId<T>(pub T);

impl<S: Send + Sync, T: FromStr> FromRequestParts<S> for PathId<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        params
            .ok()
            .and_then(|params| params.iter().next().and_then(|(_, text)| text.parse().ok()))
            .map(Self)
            .ok_or_else(Problem::not_found)
    }
}
