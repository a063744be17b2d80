//! Request headers that operations read.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};

use crate::domain::memory::Finding;
use crate::error::AgentlingError;
use crate::http::limits;
use crate::http::problem::{Problem, ProblemKind};
use crate::store::{Conflict, StoreError};

/// All values of a header as text; `None` in place of one that is not visible ASCII.
fn values<'a>(
    headers: &'a HeaderMap,
    name: &'a HeaderName,
) -> impl Iterator<Item = Option<&'a str>> {
    headers.get_all(name).iter().map(|value| value.to_str().ok())
}

/// The caller's key under which a repeated request is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = HeaderName::from_static("idempotency-key");
        let mut given = values(&parts.headers, &name);
        let Some(first) = given.next() else { return Ok(Self(None)) };
        first
            .filter(|key| (1..=limits::IDEMPOTENCY_KEY_CHARS).contains(&key.len()))
            .filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()))
            .filter(|_| given.next().is_none())
            .map(|key| Self(Some(key.to_owned())))
            .ok_or_else(|| {
                let detail = "`Idempotency-Key` must be one of 1–255 visible ASCII characters";
                Problem::new(ProblemKind::InvalidIdempotencyKey, detail)
            })
    }
}

/// Which states of a resource a change may start from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfMatch {
    /// No header: any state.
    Absent,
    /// `*`: any state, as long as there is one.
    Any,
    /// One of these. A header that cannot be read matches nothing: a guard that is ignored is none.
    Tags(Vec<String>),
}

impl IfMatch {
    /// Refuses a change when the current `ETag`, quotes included, is not among those named.
    pub fn check(&self, current: &str) -> Result<(), AgentlingError> {
        match self {
            Self::Absent | Self::Any => Ok(()),
            Self::Tags(tags) if tags.iter().any(|tag| tag == current) => Ok(()),
            Self::Tags(_) => Err(AgentlingError::PreconditionFailed),
        }
    }

    /// What a refused write means: a caller who named a state lost it to somebody else meanwhile.
    pub fn explain(&self, error: StoreError) -> AgentlingError {
        match (self, error) {
            (Self::Tags(_), StoreError::Conflict(Conflict::Stale)) => {
                AgentlingError::PreconditionFailed
            }
            (_, error) => error.into(),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let given: Vec<_> = values(&parts.headers, &header::IF_MATCH).collect();
        if given.is_empty() {
            return Ok(Self::Absent);
        }
        if given == [Some("*")] {
            return Ok(Self::Any);
        }
        let tags = given.into_iter().flatten().flat_map(|value| value.split(','));
        Ok(Self::Tags(tags.map(|tag| tag.trim().to_owned()).collect()))
    }
}

/// Which states of a resource the caller has at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfNoneMatch(Vec<String>);

impl IfNoneMatch {
    /// Whether the current `ETag`, quotes included, is among them. Tags are compared weakly.
    pub fn has(&self, current: &str) -> bool {
        let same = |tag: &String| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == current;
        self.0.iter().any(same)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IfNoneMatch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let given = values(&parts.headers, &header::IF_NONE_MATCH).flatten();
        let tags = given.flat_map(|value| value.split(','));
        Ok(Self(tags.map(|tag| tag.trim().to_owned()).collect()))
    }
}

/// The last event that a subscriber of a stream has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastEventId(pub Option<i64>);

impl<S: Send + Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = HeaderName::from_static("last-event-id");
        let mut given = values(&parts.headers, &name);
        let Some(first) = given.next() else { return Ok(Self(None)) };
        first
            .filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .filter(|_| given.next().is_none())
            .map(|id| Self(Some(id)))
            .ok_or_else(|| {
                let detail = "`Last-Event-ID` must be the id of an event: a whole number";
                Problem::new(ProblemKind::InvalidLastEventId, detail)
            })
    }
}

/// How a caller wants to be answered (RFC 7240). Preferences that are not known are ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Prefer {
    /// `wait=N`: how long to hold the answer back for the end of the run.
    pub wait: Option<Duration>,
    /// `handling=strict`: a failed run is answered with its problem.
    pub strict: bool,
}

impl<S: Send + Sync> FromRequestParts<S> for Prefer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let name = HeaderName::from_static("prefer");
        let mut prefer = Self::default();
        let given =
            values(&parts.headers, &name).flatten().flat_map(|value| value.split([',', ';']));
        for (name, value) in given.filter_map(|preference| preference.trim().split_once('=')) {
            if name.eq_ignore_ascii_case("wait") {
                prefer.wait = Some(wait(value)?);
            }
            prefer.strict |= name.eq_ignore_ascii_case("handling") && value == "strict";
        }
        Ok(prefer)
    }
}

fn wait(text: &str) -> Result<Duration, Problem> {
    let secs = text.parse().ok().filter(|secs| *secs <= limits::WAIT_SECS);
    secs.map(Duration::from_secs).ok_or_else(|| {
        let message = format!("`Prefer: wait` takes 0–{} seconds", limits::WAIT_SECS);
        let finding = Finding::new("Prefer", "invalid_value", message);
        Problem::with_errors(ProblemKind::InvalidParameter, vec![finding])
    })
}
