//! Ids and names in paths.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use crate::domain::memory::Finding;
use crate::http::problem::{Problem, ProblemKind};

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

/// The id in a path, and behind it the place of a part, from 1. A text that is no number is answered
/// like a part that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathIdAndNth<T>(pub T, pub usize);

impl<S: Send + Sync, T: FromStr + Send> FromRequestParts<S> for PathIdAndNth<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let PathId(id) = PathId::from_request_parts(parts, state).await?;
        let params = RawPathParams::from_request_parts(parts, state).await;
        let nth = params.ok().and_then(|params| params.iter().nth(1)?.1.parse().ok());
        nth.map(|n| Self(id, n)).ok_or_else(Problem::not_found)
    }
}

/// The id in a path, and behind it the id of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathIds<T, P>(pub T, pub P);

impl<S: Send + Sync, T: FromStr + Send, P: FromStr> FromRequestParts<S> for PathIds<T, P> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let PathId(id) = PathId::from_request_parts(parts, state).await?;
        let params = RawPathParams::from_request_parts(parts, state).await;
        let part = params.ok().and_then(|params| params.iter().nth(1)?.1.parse().ok());
        part.map(|part| Self(id, part)).ok_or_else(Problem::not_found)
    }
}

/// Two parts of a path that name one thing. Where one of them does not read, it is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPair<A, B>(pub A, pub B);

impl<S: Send + Sync, A: FromStr, B: FromStr> FromRequestParts<S> for PathPair<A, B> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let pair = params.ok().and_then(|params| {
            let mut texts = params.iter().map(|(_, text)| text);
            Some(Self(texts.next()?.parse().ok()?, texts.next()?.parse().ok()?))
        });
        pair.ok_or_else(Problem::not_found)
    }
}

/// The id in a path, and behind it the name of a part that the caller may create. A name that no part
/// can have is refused as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathIdAndName<T, N>(pub T, pub N);

impl<S, T, N> FromRequestParts<S> for PathIdAndName<T, N>
where
    S: Send + Sync,
    T: FromStr + Send,
    N: FromStr<Err: Display>,
{
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let PathId(id) = PathId::from_request_parts(parts, state).await?;
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Problem::not_found())?;
        let (name, text) = params.iter().nth(1).ok_or_else(Problem::not_found)?;
        text.parse().map(|name| Self(id, name)).map_err(|error| {
            let finding = Finding::new(name, "invalid_value", N::Err::to_string(&error));
            Problem::with_errors(ProblemKind::InvalidParameter, vec![finding])
        })
    }
}
