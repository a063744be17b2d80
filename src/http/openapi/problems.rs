//! Adds to every operation the problems it can answer with.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::unions::component;
use crate::http::problem::{MEDIA_TYPE, ProblemKind as Kind};

/// The extension in which an operation names, by slug, the problems that only it knows of:
/// `extensions(("x-problems" = json!(["thread-busy"])))`. The finished document lists all of them.
pub const PROBLEMS: &str = "x-problems";

/// Problems of every operation.
const ALWAYS: &[Kind] = &[Kind::UriTooLong, Kind::HeadersTooLarge, Kind::Internal];

/// Problems of operations that belong to a tenant.
const TENANT: &[Kind] = &[
    Kind::InvalidParameter,
    Kind::Unauthenticated,
    Kind::InsufficientScope,
    Kind::NotAcceptable,
    Kind::MisdirectedRequest,
    Kind::RateLimited,
    Kind::DatabaseBusy,
    Kind::DatabaseUnavailable,
    Kind::StorageUnavailable,
    Kind::OutcomeUnknown,
];

/// Problems of operations that take a body.
const BODY: &[Kind] = &[
    Kind::MalformedJson,
    Kind::JsonTooDeep,
    Kind::JsonNumberOutOfRange,
    Kind::InvalidUtf8,
    Kind::RequestTimeout,
    Kind::BodyTooLarge,
    Kind::UnsupportedMediaType,
    Kind::ValidationFailed,
    Kind::UnknownField,
    Kind::TextNotStorable,
];

/// Adds the responses: one an exact status, and the two ranges for what may come.
pub(super) fn add(path: &str, operation: &mut Map<String, Value>) {
    let kinds = kinds_of(path, operation);
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    for kind in &kinds {
        by_status.entry(kind.status_code()).or_default().push(kind.slug());
    }
    let slugs: Vec<&str> = kinds.iter().map(|kind| kind.slug()).collect();
    operation.insert(PROBLEMS.to_owned(), json!(slugs));
    let responses = operation.entry("responses").or_insert_with(|| json!({}));
    let Some(responses) = responses.as_object_mut() else { return };
    for (status, slugs) in by_status {
        let names: Vec<String> = slugs.iter().map(|slug| format!("`{slug}`")).collect();
        responses.insert(status.to_string(), response(&names.join(", ")));
    }
    for range in ["4XX", "5XX"] {
        responses.insert(range.to_owned(), response("Any other problem"));
    }
}

fn response(description: &str) -> Value {
    json!({
        "description": description,
        "content": { MEDIA_TYPE: { "schema": { "$ref": component("Problem") } } },
    })
}

fn kinds_of(path: &str, operation: &Map<String, Value>) -> BTreeSet<Kind> {
    let mut kinds: BTreeSet<Kind> = ALWAYS.iter().copied().collect();
    if path.starts_with("/v1/") {
        kinds.extend(TENANT);
    }
    // What was erased is told from what never was.
    if path.contains("{thread_id}") || path.contains("{run_id}") {
        kinds.insert(Kind::Gone);
    }
    if operation.contains_key("requestBody") {
        kinds.extend(BODY);
    }
    for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
        kinds.extend(kinds_of_parameter(parameter));
    }
    let own = operation.get(PROBLEMS).and_then(Value::as_array).into_iter().flatten();
    kinds.extend(own.filter_map(Value::as_str).filter_map(Kind::by_slug));
    kinds
}

fn kinds_of_parameter(parameter: &Value) -> &'static [Kind] {
    let text = |member: &str| parameter.get(member).and_then(Value::as_str).unwrap_or_default();
    match (text("in"), text("name")) {
        ("path", _) => &[Kind::NotFound],
        ("query", "cursor") => &[Kind::InvalidParameter, Kind::InvalidCursor],
        ("query", _) | ("header", "Prefer") => &[Kind::InvalidParameter],
        ("header", "If-Match") => &[Kind::PreconditionFailed],
        ("header", "Last-Event-ID") => &[Kind::InvalidLastEventId, Kind::StreamCursorAhead],
        ("header", "Idempotency-Key") => {
            &[Kind::InvalidIdempotencyKey, Kind::IdempotencyInProgress, Kind::IdempotencyKeyReused]
        }
        _ => &[],
    }
}
