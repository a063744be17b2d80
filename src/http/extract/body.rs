//! JSON bodies: bounded while they arrive, strictly read, checked against their published schema.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use futures::StreamExt as _;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use super::json as strict;
use super::pointer::Pointer;
use super::shape::{Shape, UNKNOWN_FIELD};
use crate::domain::memory::Finding;
use crate::http::limits::{self, BodyLimits};
use crate::http::openapi::unions;
use crate::http::problem::{Problem, ProblemKind};

/// A JSON body of ordinary size.
#[derive(Debug)]
pub struct Body<T>(pub T);

/// A JSON body that may be as large as a memory document.
#[derive(Debug)]
pub struct LargeBody<T>(pub T);

/// The text of a body that may be as large as a memory document, for a reader of its own: nothing but
/// its size and its encoding has been checked.
#[derive(Debug)]
pub struct LargeText(pub String);

/// A JSON body that may be left out.
#[derive(Debug)]
pub struct OptionalBody<T>(pub Option<T>);

/// A body that has nothing to say: absent, or `{}`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EmptyObject {}

/// A JSON body with the hash of its meaning: spelling, spacing and key order do not count. A repeated
/// request is told from another one by it.
#[derive(Debug)]
pub struct HashedBody<T>(pub T, pub [u8; 32]);

/// A body that is read to its end before anything is made of it.
pub trait Bounded {
    /// What it may be at most, in a request.
    fn bounds(request: &Request) -> Bounds;
}

impl<T> Bounded for Body<T> {
    fn bounds(request: &Request) -> Bounds {
        Bounds::ordinary(request)
    }
}

impl<T> Bounded for OptionalBody<T> {
    fn bounds(request: &Request) -> Bounds {
        Bounds::ordinary(request)
    }
}

impl<T> Bounded for LargeBody<T> {
    fn bounds(request: &Request) -> Bounds {
        Bounds::large(request)
    }
}

/// What a body may be at most.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub(super) bytes: usize,
    pub(super) elements: usize,
    pub(super) idle: Duration,
    pub(super) total: Duration,
}

impl Bounds {
    /// The bounds of an ordinary body of this request.
    pub fn ordinary(request: &Request) -> Self {
        let limits = limits_of(request);
        Self {
            bytes: limits.ordinary,
            elements: limits::ARRAY_ELEMENTS,
            idle: limits.idle,
            total: limits.total,
        }
    }

    /// The bounds of a memory document.
    fn large(request: &Request) -> Self {
        Self {
            bytes: limits_of(request).large,
            elements: limits::LARGE_ARRAY_ELEMENTS,
            ..Self::ordinary(request)
        }
    }
}

/// What the operator has set, or the defaults.
fn limits_of(request: &Request) -> BodyLimits {
    request.extensions().get().copied().unwrap_or_default()
}

impl<S: Send + Sync, T: DeserializeOwned + ToSchema + 'static> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        check_headers(request.headers())?;
        let bounds = Bounds::ordinary(&request);
        let text = read(request, bounds).await?;
        decode(&text, bounds).map(Self)
    }
}

impl<S: Send + Sync> FromRequest<S> for LargeText {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        check_headers(request.headers())?;
        let bounds = Bounds::large(&request);
        read(request, bounds).await.map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + ToSchema + 'static> FromRequest<S> for LargeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        check_headers(request.headers())?;
        let bounds = Bounds::large(&request);
        let text = read(request, bounds).await?;
        decode(&text, bounds).map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + ToSchema + 'static> FromRequest<S> for HashedBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        check_headers(request.headers())?;
        let bounds = Bounds::ordinary(&request);
        let text = read(request, bounds).await?;
        let decoded = decode(&text, bounds)?;
        let mut value: Value = serde_json::from_str(&text).unwrap_or_default();
        value.sort_all_objects();
        Ok(Self(decoded, Sha256::digest(value.to_string()).into()))
    }
}

impl<S: Send + Sync, T: DeserializeOwned + ToSchema + 'static> FromRequest<S> for OptionalBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let headers = request.headers().clone();
        let bounds = Bounds::ordinary(&request);
        let text = read(request, bounds).await?;
        if text.is_empty() {
            return Ok(Self(None));
        }
        check_headers(&headers)?;
        decode(&text, bounds).map(Some).map(Self)
    }
}

/// Only plain JSON in UTF-8 is taken.
fn check_headers(headers: &HeaderMap) -> Result<(), Problem> {
    let refuse = |why: &str| Err(Problem::new(ProblemKind::UnsupportedMediaType, why));
    if headers.contains_key(CONTENT_ENCODING) {
        return refuse("`Content-Encoding` is not accepted on requests");
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    match (types.next().and_then(|value| value.to_str().ok()), types.next()) {
        (Some(value), None) if is_plain_json(value) => Ok(()),
        _ => refuse("`Content-Type` must be `application/json`, in UTF-8"),
    }
}

fn is_plain_json(value: &str) -> bool {
    is_utf8_of("application/json", value)
}

/// Whether a `Content-Type` is this one, in UTF-8.
pub(super) fn is_utf8_of(media_type: &str, value: &str) -> bool {
    let mut pieces = value.split(';').map(str::trim);
    let fits = pieces.next().is_some_and(|name| name.eq_ignore_ascii_case(media_type));
    let utf8 = pieces.filter_map(|piece| piece.split_once('=')).all(|(name, value)| {
        !name.trim().eq_ignore_ascii_case("charset")
            || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    fits && utf8
}

/// Reads a body and stops at the first byte too many.
pub(super) async fn read(request: Request, bounds: Bounds) -> Result<String, Problem> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let announced = announced.and_then(|text| text.parse::<usize>().ok());
    if announced > Some(bounds.bytes) {
        return Err(too_large(bounds));
    }
    // One piece of memory from the start, rather than ever larger ones that are copied over. What no
    // byte is written to takes no memory.
    let bytes = Vec::with_capacity(announced.unwrap_or_default());
    let bytes = tokio::time::timeout(bounds.total, collect(request, bounds, bytes))
        .await
        .unwrap_or_else(|_| Err(timed_out()))?;
    String::from_utf8(bytes)
        .map_err(|_| Problem::new(ProblemKind::InvalidUtf8, "the body is not UTF-8"))
}

async fn collect(request: Request, bounds: Bounds, mut bytes: Vec<u8>) -> Result<Vec<u8>, Problem> {
    let mut stream = request.into_body().into_data_stream();
    loop {
        let next = tokio::time::timeout(bounds.idle, stream.next());
        let chunk = match next.await.map_err(|_| timed_out())? {
            None => return Ok(bytes),
            Some(Ok(chunk)) => chunk,
            Some(Err(_)) => {
                return Err(Problem::new(ProblemKind::MalformedJson, "the body broke off"));
            }
        };
        if bytes.len() + chunk.len() > bounds.bytes {
            return Err(too_large(bounds));
        }
        bytes.extend_from_slice(&chunk);
    }
}

fn too_large(bounds: Bounds) -> Problem {
    let detail = format!("the body has more than {} bytes", bounds.bytes);
    Problem::new(ProblemKind::BodyTooLarge, detail)
        .member(|view| view.limit = Some(bounds.bytes as u64))
}

fn timed_out() -> Problem {
    Problem::new(ProblemKind::RequestTimeout, "the body did not arrive in time")
}

/// Decodes a text that has passed the strict pass.
fn decode<T: DeserializeOwned + ToSchema + 'static>(
    text: &str,
    bounds: Bounds,
) -> Result<T, Problem> {
    strict::check(text, bounds.elements)?;
    let value: Value = serde_json::from_str(text)
        .map_err(|_| Problem::new(ProblemKind::MalformedJson, "the body cannot be read"))?;
    let findings = shape_of::<T>().findings(&value);
    if !findings.is_empty() {
        return Err(refused(findings));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let pointer = Pointer::from(error.path()).to_string();
        refused(vec![Finding::new(pointer, "invalid_value", message_of(error.inner()))])
    })
}

/// An unknown field explains most other findings, so it names the problem.
fn refused(findings: Vec<Finding>) -> Problem {
    let unknown = findings.iter().any(|finding| finding.code == UNKNOWN_FIELD);
    let kind = if unknown { ProblemKind::UnknownField } else { ProblemKind::ValidationFailed };
    Problem::with_errors(kind, findings)
}

/// The decoder's words without the position, and without values of the body.
fn message_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let words = text.split(" at line ").next().unwrap_or_default();
    match words.split_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => words.to_owned(),
    }
}

/// The published schema of a type, made once.
fn shape_of<T: ToSchema + 'static>() -> Arc<Shape> {
    static SHAPES: LazyLock<Mutex<BTreeMap<TypeId, Arc<Shape>>>> = LazyLock::new(Mutex::default);
    let mut shapes = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
    let shape = shapes.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(make_shape::<T>()));
    Arc::clone(shape)
}

fn make_shape<T: ToSchema>() -> Shape {
    let mut components = Vec::new();
    T::schemas(&mut components);
    components.push((T::name().into_owned(), T::schema()));
    let schemas: serde_json::Map<String, Value> = components
        .into_iter()
        .map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default()))
        .collect();
    let mut document = json!({ "components": { "schemas": schemas } });
    unions::untangle(&mut document);
    Shape { schema: json!({ "$ref": unions::component(&T::name()) }), document }
}
