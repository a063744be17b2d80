//! What bad requests get.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body as Bytes;
use axum::http::{HeaderMap, HeaderValue, Request, StatusCode};
use axum::routing::{get, post};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use utoipa::{IntoParams, ToSchema};

use super::body::{Bounds, read};
use super::*;
use crate::clock::System;
use crate::domain::agent::{AgentSpec, Metadata};
use crate::domain::id::RunId;
use crate::domain::run::RunStatus;
use crate::http::layers;
use crate::http::limits::BodyLimits;
use crate::http::problem::{Problem, ProblemKind};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Note {
    text: String,
    #[serde(default)]
    #[schema(minimum = 1, maximum = 9)]
    level: Option<u32>,
    #[serde(default)]
    inner: Option<Inner>,
    #[serde(default)]
    list: Vec<Inner>,
    #[serde(default)]
    any: Value,
    #[serde(default)]
    #[schema(max_items = 3)]
    metadata: Metadata,
    #[serde(default)]
    status: Option<RunStatus>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Inner {
    count: i64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct Filter {
    #[serde(default)]
    limit: Option<u32>,
    #[serde(default)]
    status: Option<RunStatus>,
    #[serde(default)]
    #[param(value_type = Option<Object>)]
    metadata: Metadata,
}

async fn take(Body(note): Body<Note>) -> Result<String, Problem> {
    let mut checks = Checks::new();
    checks.metadata("/metadata", &note.metadata);
    checks.length("/text", &note.text, 0..=1_000_000);
    checks.finish()?;
    let known = (note.level, note.inner.map(|inner| inner.count), note.list.len(), note.status);
    Ok(format!("{known:?} {}", note.any))
}

async fn hash(HashedBody(_, hash): HashedBody<Note>) -> String {
    format!("{hash:?}")
}

async fn optional(OptionalBody(inner): OptionalBody<Inner>) -> String {
    format!("{:?}", inner.map(|inner| inner.count))
}

async fn list(Query(filter): Query<Filter>) -> String {
    format!("{:?} {:?} {:?}", filter.limit, filter.status, filter.metadata)
}

async fn headers(
    IdempotencyKey(key): IdempotencyKey,
    LastEventId(last): LastEventId,
    if_match: IfMatch,
    prefer: Prefer,
) -> Result<String, Problem> {
    if_match.check("\"7\"")?;
    Ok(format!("{key:?} {last:?} {:?} {}", prefer.wait.map(|wait| wait.as_secs()), prefer.strict))
}

/// A name, a body, and what it gets: status, problem, pointers.
type Row = (&'static str, Vec<u8>, u16, &'static str, Vec<&'static str>);

type Headers<'a> = Vec<(&'a str, &'a [u8])>;

fn app() -> Router {
    let router = Router::new()
        .route("/note", post(take))
        .route(
            "/document",
            post(|LargeText(text): LargeText| async move { text.len().to_string() }),
        )
        .route(
            "/large",
            post(|LargeBody(inner): LargeBody<Inner>| async move { inner.count.to_string() }),
        )
        .route("/agent", post(|Body(_): Body<AgentSpec>| async {}))
        .route("/hash", post(hash))
        .route("/optional", post(optional))
        .route("/nothing", post(|OptionalBody(_): OptionalBody<EmptyObject>| async {}))
        .route("/list", get(list))
        .route("/headers", get(headers))
        .route("/runs/{id}", get(|PathId(id): PathId<RunId>| async move { id.to_string() }));
    layers::wrap(router, Arc::new(System::new()))
}

/// Status, problem type without its path, and body.
async fn send(request: Request<Bytes>) -> (StatusCode, String, Value, HeaderMap) {
    let response = app().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let mut bytes = Vec::new();
    let mut stream = body.into_data_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    let text = String::from_utf8(bytes).unwrap();
    let body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
    let slug =
        body["type"].as_str().unwrap_or_default().trim_start_matches("/problems/").to_owned();
    if !slug.is_empty() {
        assert_eq!(parts.headers["content-type"], "application/problem+json");
        assert_eq!(body["status"], parts.status.as_u16());
        assert!(body["instance"].as_str().unwrap().starts_with("urn:request:"), "{body}");
        assert!(body["error_id"].as_str().unwrap().starts_with("err_"), "{body}");
    }
    (parts.status, slug, body, parts.headers)
}

fn json_post(path: &str, body: impl Into<Bytes>) -> Request<Bytes> {
    Request::post(path).header("content-type", "application/json").body(body.into()).unwrap()
}

fn get_with(path: &str, headers: &[(&str, &[u8])]) -> Request<Bytes> {
    let request = headers.iter().fold(Request::get(path), |request, (name, value)| {
        request.header(*name, HeaderValue::from_bytes(value).unwrap())
    });
    request.body(Bytes::empty()).unwrap()
}

fn pointers(body: &Value) -> Vec<&str> {
    body["errors"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|error| error["pointer"].as_str().unwrap())
        .collect()
}

async fn check(rows: Vec<Row>) {
    for (name, body, status, slug, places) in rows {
        let (got, got_slug, view, _) = send(json_post("/note", body)).await;
        assert_eq!((got.as_u16(), got_slug.as_str()), (status, slug), "{name}: {view}");
        assert_eq!(pointers(&view), places, "{name}: {view}");
    }
}

/// A body that is valid but for what it is given.
fn note(rest: &str) -> Vec<u8> {
    format!(r#"{{"text":"x",{rest}}}"#).into_bytes()
}

#[tokio::test]
async fn what_is_not_json_or_not_an_object_is_refused() {
    let deep =
        |levels: usize| note(&format!("\"any\":{}{}", "[".repeat(levels), "]".repeat(levels)));
    check(vec![
        ("empty", vec![], 400, "malformed-json", vec![]),
        ("white space", b" \n".to_vec(), 400, "malformed-json", vec![]),
        ("breaks off", b"{".to_vec(), 400, "malformed-json", vec![]),
        ("trailing comma", b"{\"text\":\"x\",}".to_vec(), 400, "malformed-json", vec![]),
        ("trailing comma in an array", note(r#""list":[1,]"#), 400, "malformed-json", vec![]),
        ("text after the value", b"{\"text\":\"x\"} x".to_vec(), 400, "malformed-json", vec![]),
        ("two values", b"{\"text\":\"x\"}{}".to_vec(), 400, "malformed-json", vec![]),
        ("array", b"[]".to_vec(), 422, "validation-failed", vec![""]),
        ("text", b"\"x\"".to_vec(), 422, "validation-failed", vec![""]),
        ("null", b"null".to_vec(), 422, "validation-failed", vec![""]),
        ("number", b"1".to_vec(), 422, "validation-failed", vec![""]),
        ("not UTF-8", b"{\"text\":\"\xff\"}".to_vec(), 400, "invalid-utf8", vec![]),
        ("UTF-16", b"\xff\xfe{\0".to_vec(), 400, "invalid-utf8", vec![]),
        (
            "byte order mark",
            b"\xef\xbb\xbf{\"text\":\"x\"}".to_vec(),
            400,
            "malformed-json",
            vec![],
        ),
        ("depth 64", deep(63), 200, "", vec![]),
        ("depth 65", deep(64), 400, "json-too-deep", vec![]),
        ("depth 100,000", deep(100_000), 400, "json-too-deep", vec![]),
        ("key twice", note(r#""text":"y""#), 400, "malformed-json", vec![]),
        (
            "key twice, nested",
            note(r#""inner":{"count":1,"count":2}"#),
            400,
            "malformed-json",
            vec![],
        ),
        ("key twice, escaped", note(r#""te\u0078t":"y""#), 400, "malformed-json", vec![]),
        ("1e400", note(r#""any":1e400"#), 400, "json-number-out-of-range", vec![]),
        ("1e131071", note(r#""any":1e131071"#), 400, "json-number-out-of-range", vec![]),
        ("2^64", note(r#""any":18446744073709551616"#), 400, "json-number-out-of-range", vec![]),
        ("2^64-1", note(r#""any":18446744073709551615"#), 200, "", vec![]),
        ("-2^63-1", note(r#""any":-9223372036854775809"#), 400, "json-number-out-of-range", vec![]),
        ("minus zero", note(r#""any":-0"#), 200, "", vec![]),
        ("NaN", note(r#""any":NaN"#), 400, "malformed-json", vec![]),
        ("leading zero", note(r#""any":01"#), 400, "malformed-json", vec![]),
        ("plus", note(r#""any":+1"#), 400, "malformed-json", vec![]),
        ("no digit", note(r#""any":1."#), 400, "malformed-json", vec![]),
    ])
    .await;
}

#[tokio::test]
async fn text_that_cannot_be_kept_is_refused() {
    check(vec![
        ("U+0000", note(r#""any":["a","\u0000"]"#), 422, "text-not-storable", vec!["/any/1"]),
        (
            "U+0000 in a key",
            note(r#""any":{"\u0000":1}"#),
            422,
            "text-not-storable",
            vec!["/any/\0"],
        ),
        ("raw control character", note("\"any\":\"\u{1}\""), 400, "malformed-json", vec![]),
        ("lone high surrogate", note(r#""any":"\ud800""#), 400, "malformed-json", vec![]),
        ("lone low surrogate", note(r#""any":"\udc00x""#), 400, "malformed-json", vec![]),
        ("surrogate pair", note(r#""any":"\ud83d\ude00""#), 200, "", vec![]),
        ("unknown escape", note(r#""any":"\x41""#), 400, "malformed-json", vec![]),
    ])
    .await;
}

#[tokio::test]
async fn what_does_not_fit_the_published_schema_is_refused_place_by_place() {
    check(vec![
        ("unknown field", note(r#""tenant_id":"t""#), 422, "unknown-field", vec!["/tenant_id"]),
        ("unknown nested field", note(r#""inner":{"count":1,"a/b~":2}"#), 422, "unknown-field", vec!["/inner/a~1b~0"]),
        ("missing field", b"{}".to_vec(), 422, "validation-failed", vec!["/text"]),
        (
            "wrong types everywhere",
            br#"{"text":1,"level":"x","inner":[],"list":[{"count":"1"},null,{}],"metadata":{"a":{}}}"#.to_vec(),
            422,
            "validation-failed",
            vec!["/text", "/level", "/inner", "/list/0/count", "/list/1", "/list/2/count", "/metadata/a"],
        ),
        ("a fraction for a whole number", note(r#""level":1.5"#), 422, "validation-failed", vec!["/level"]),
        ("below the minimum", note(r#""level":0"#), 422, "validation-failed", vec!["/level"]),
        ("negative", note(r#""level":-1"#), 422, "validation-failed", vec!["/level"]),
        ("above the maximum", note(r#""level":10"#), 422, "validation-failed", vec!["/level"]),
        ("label that is not known", note(r#""status":"asleep""#), 422, "validation-failed", vec!["/status"]),
        ("null for an optional field", note(r#""inner":null,"status":null"#), 200, "", vec![]),

    ])
    .await;
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_the_limit_itself_is_not() {
    let many_keys: Vec<String> = (0..1_001).map(|key| format!("\"k{key}\":1")).collect();
    let pairs = |count: usize| {
        let pairs: Vec<String> = (0..count).map(|key| format!("\"k{key}\":\"v\"")).collect();
        note(&format!("\"metadata\":{{{}}}", pairs.join(",")))
    };
    check(vec![
        ("50 labels", pairs(50), 200, "", vec![]),
        ("51 labels", pairs(51), 422, "validation-failed", vec!["/metadata"]),
        (
            "long label",
            note(&format!(r#""metadata":{{"k":"{}"}}"#, "ä".repeat(513))),
            422,
            "validation-failed",
            vec!["/metadata/k"],
        ),
        (
            "long enough label",
            note(&format!(r#""metadata":{{"k":"{}"}}"#, "ä".repeat(512))),
            200,
            "",
            vec![],
        ),
        ("10,000 elements", note(&format!("\"any\":[{}1]", "1,".repeat(9_999))), 200, "", vec![]),
        (
            "10,001 elements",
            note(&format!("\"any\":[{}1]", "1,".repeat(10_000))),
            422,
            "validation-failed",
            vec!["/any"],
        ),
        (
            "1,001 keys",
            note(&format!("\"any\":{{{}}}", many_keys.join(","))),
            422,
            "validation-failed",
            vec!["/any"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_problem_names_line_and_column_and_echoes_nothing() {
    let (_, _, view, _) = send(json_post("/note", "{\n  \"text\": secret}")).await;
    assert_eq!(view["detail"], "a value is expected (line 2, column 11)");
    let (_, _, view, _) = send(json_post("/note", r#"{"text":{"secret":1}}"#)).await;
    assert!(!view.to_string().contains("secret"), "{view}");
}

#[tokio::test]
async fn a_finding_inside_a_tagged_union_has_its_own_pointer() {
    let spec = |tool: &str| {
        format!(r#"{{"name":"a","model":{{"provider":"scripted","name":"m"}},"tools":[{tool}]}}"#)
    };
    let good = r#"{"kind":"http","name":"t","parameters":{},"url":"https://x.example"}"#;
    let (status, _, view, _) = send(json_post("/agent", spec(good))).await;
    assert_eq!(status, StatusCode::OK, "{view}");
    let rows = [
        (r#"{"name":"t"}"#, "validation-failed", vec!["/tools/0/kind"]),
        (r#"{"kind":"shell"}"#, "validation-failed", vec!["/tools/0/kind"]),
        (r#"{"kind":7}"#, "validation-failed", vec!["/tools/0/kind"]),
        (r#"{"kind":"builtin","name":"fly"}"#, "validation-failed", vec!["/tools/0/name"]),
        (r#"{"kind":"builtin","name":"final_answer","x":1}"#, "unknown-field", vec!["/tools/0/x"]),
        (
            r#"{"kind":"http","name":"t","parameters":[],"effect":"odd","timeout_ms":0}"#,
            "validation-failed",
            vec!["/tools/0/parameters", "/tools/0/effect", "/tools/0/timeout_ms", "/tools/0/url"],
        ),
        ("7", "validation-failed", vec!["/tools/0"]),
    ];
    for (tool, slug, places) in rows {
        let (_, got, view, _) = send(json_post("/agent", spec(tool))).await;
        assert_eq!((got.as_str(), pointers(&view)), (slug, places), "{tool}: {view}");
    }
    let (_, slug, view, _) = send(json_post("/agent", r#"{"model":{"provider":"hal"}}"#)).await;
    assert_eq!(slug, "validation-failed");
    assert_eq!(pointers(&view), ["/model/provider", "/model/name", "/name"]);
}

#[tokio::test]
async fn a_body_is_refused_at_its_first_byte_too_many() {
    let text = |bytes: usize| format!(r#"{{"text":"{}"}}"#, "x".repeat(bytes - 11));
    let (status, ..) = send(json_post("/note", text(1024 * 1024))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "read whole, then too long for the check");
    let (status, slug, view, headers) = send(json_post("/note", text(1024 * 1024 + 1))).await;
    assert_eq!((status.as_u16(), slug.as_str()), (413, "body-too-large"));
    assert_eq!(
        (&view["limit"], &headers["connection"]),
        (&json!(1024 * 1024), &"close".parse().unwrap())
    );
    // Without an announced length, a body without an end is cut off all the same.
    let endless = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 65_536]));
    let (status, ..) = send(json_post("/note", Bytes::from_stream(endless))).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    // A length that is too large is refused before anything is read.
    let never = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let mut request = json_post("/note", Bytes::from_stream(never));
    request.headers_mut().insert("content-length", "1048577".parse().unwrap());
    let (status, ..) = send(request).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let padded = format!("{}{{\"count\":7}}", " ".repeat(2 * 1024 * 1024));
    let sent = send(json_post("/large", padded.clone())).await;
    assert_eq!((sent.0.as_u16(), sent.2), (200, json!(7)));
    let (length, sent) = (json!(padded.len()), send(json_post("/document", padded)).await);
    assert_eq!((sent.0.as_u16(), sent.2), (200, length));
    let (status, slug, ..) = send(json_post("/large", r#"{"a":1,"a":2}"#)).await;
    assert_eq!((status.as_u16(), slug.as_str()), (400, "malformed-json"));
}

#[tokio::test]
async fn a_body_that_stalls_or_takes_too_long_times_out() {
    let long = Duration::from_hours(1);
    for (idle, total) in [(Duration::ZERO, long), (long, Duration::ZERO)] {
        let never = futures::stream::pending::<Result<Vec<u8>, std::io::Error>>();
        let request = json_post("/note", Bytes::from_stream(never));
        let bounds = Bounds { idle, total, ..Bounds::ordinary(&request) };
        let problem = read(request, bounds).await.unwrap_err();
        assert_eq!(problem.kind(), ProblemKind::RequestTimeout);
    }
}

#[tokio::test]
async fn the_operator_sets_how_large_a_body_may_be() {
    let limits = BodyLimits { ordinary: 20, ..BodyLimits::default() };
    for (body, status) in [(r#"{"text":"12345678"}"#, 200), (r#"{"text":"1234567890"}"#, 413)] {
        let mut request = json_post("/note", body);
        request.extensions_mut().insert(limits);
        assert_eq!(send(request).await.0.as_u16(), status, "{body}");
    }
}

#[tokio::test]
async fn only_plain_json_in_utf_8_is_taken() {
    let with = |headers: &[(&str, &str)]| {
        headers
            .iter()
            .fold(Request::post("/note"), |request, (name, value)| request.header(*name, *value))
            .body(Bytes::from(r#"{"text":"x"}"#))
            .unwrap()
    };
    for good in [
        "application/json",
        "Application/JSON; charset=UTF-8",
        "application/json;charset=\"utf-8\"",
    ] {
        let (status, _, view, _) = send(with(&[("content-type", good)])).await;
        assert_eq!(status, StatusCode::OK, "{good}: {view}");
    }
    let json = ("content-type", "application/json");
    let rows: [&[(&str, &str)]; 8] = [
        &[],
        &[("content-type", "text/plain")],
        &[("content-type", "multipart/form-data; boundary=x")],
        &[("content-type", "application/json; charset=latin1")],
        &[("content-type", "application/jsonx")],
        &[json, json],
        &[json, ("content-encoding", "gzip")],
        &[json, ("content-encoding", "gzip"), ("content-encoding", "gzip")],
    ];
    for headers in rows {
        let (status, slug, ..) = send(with(headers)).await;
        assert_eq!(
            (status.as_u16(), slug.as_str()),
            (415, "unsupported-media-type"),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn an_optional_body_may_be_absent_but_not_broken() {
    let absent = Request::post("/optional").body(Bytes::empty()).unwrap();
    assert_eq!(send(absent).await.2, json!("None"));
    assert_eq!(send(json_post("/optional", r#"{"count":1}"#)).await.2, json!("Some(1)"));
    assert_eq!(send(json_post("/optional", "garbage")).await.1, "malformed-json");
    assert_eq!(send(json_post("/nothing", "{}")).await.0, StatusCode::OK);
    assert_eq!(send(json_post("/nothing", r#"{"wait":1}"#)).await.1, "unknown-field");
}

#[tokio::test]
async fn the_hash_of_a_body_ignores_spelling_and_sees_meaning() {
    let hash = async |body: &str| send(json_post("/hash", body.to_owned())).await.2;
    let first = hash(r#"{"text":"x","any":{"a":1,"b":[1,2]}}"#).await;
    assert_eq!(first, hash(r#" { "any":{"b":[1, 2],"a":1}, "text":"\u0078" } "#).await);
    assert_ne!(first, hash(r#"{"text":"x","any":{"a":1,"b":[2,1]}}"#).await);
}

#[tokio::test]
async fn queries_take_known_parameters_once() {
    let rows = [
        ("/list", 200, vec![]),
        ("/list?limit=5&status=failed&metadata.a=b%20c", 200, vec![]),
        ("/list?limit=abc", 400, vec!["limit"]),
        ("/list?limit=-1", 400, vec!["limit"]),
        ("/list?limit=", 400, vec!["limit"]),
        ("/list?limit=1&limit=1", 400, vec!["limit"]),
        ("/list?status=foo", 400, vec!["status"]),
        ("/list?page=2", 400, vec!["page"]),
        ("/list?metadata.a=b&metadata.a=c", 400, vec!["metadata.a"]),
        ("/list?page=2&status=foo&limit=x", 400, vec!["page", "status", "limit"]),
    ];
    for (path, status, names) in rows {
        let (got, _, view, _) = send(get_with(path, &[])).await;
        assert_eq!(got.as_u16(), status, "{path}: {view}");
        assert_eq!(pointers(&view), names, "{path}: {view}");
    }
    let (.., view, _) = send(get_with("/list?limit=5&metadata.a=b%20c", &[])).await;
    assert_eq!(view, json!(r#"Some(5) None {"a": "b c"}"#));
}

#[tokio::test]
async fn an_id_of_another_kind_is_answered_like_one_that_is_not_there() {
    let good = format!("/runs/run_{}", "0".repeat(32));
    assert_eq!(send(get_with(&good, &[])).await.0, StatusCode::OK);
    let strip = |mut view: Value| {
        view.as_object_mut().unwrap().retain(|key, _| key != "instance" && key != "error_id");
        view
    };
    let expected = strip(send(get_with("/nowhere", &[])).await.2);
    for id in ["x", "run_", "agt_00000000000000000000000000000000", "run_%00", "%ff"] {
        let (status, _, view, _) = send(get_with(&format!("/runs/{id}"), &[])).await;
        assert_eq!((status.as_u16(), strip(view)), (404, expected.clone()), "{id}");
    }
}

#[tokio::test]
async fn headers_are_read_strictly() {
    let long = "k".repeat(256);
    let rows: Vec<(Headers<'_>, u16, &str)> = vec![
        (vec![], 200, ""),
        (vec![("idempotency-key", b"a")], 200, ""),
        (vec![("idempotency-key", &long.as_bytes()[..255])], 200, ""),
        (vec![("idempotency-key", b"")], 400, "invalid-idempotency-key"),
        (vec![("idempotency-key", long.as_bytes())], 400, "invalid-idempotency-key"),
        (vec![("idempotency-key", b"a\tb")], 400, "invalid-idempotency-key"),
        (vec![("idempotency-key", b"\xc3\xa4")], 400, "invalid-idempotency-key"),
        (
            vec![("idempotency-key", b"a"), ("idempotency-key", b"a")],
            400,
            "invalid-idempotency-key",
        ),
        (vec![("last-event-id", b"12")], 200, ""),
        (vec![("last-event-id", b"-1")], 400, "invalid-last-event-id"),
        (vec![("last-event-id", b"x")], 400, "invalid-last-event-id"),
        (vec![("if-match", b"*")], 200, ""),
        (vec![("if-match", b"\"6\", \"7\"")], 200, ""),
        (vec![("if-match", b"\"6\"")], 412, "precondition-failed"),
        (vec![("if-match", b"W/\"7\"")], 412, "precondition-failed"),
        (vec![("if-match", b"nonsense")], 412, "precondition-failed"),
        (vec![("prefer", b"wait=60, handling=strict")], 200, ""),
        (vec![("prefer", b"respond-async; x=y")], 200, ""),
        (vec![("prefer", b"wait=61")], 400, "invalid-parameter"),
        (vec![("prefer", b"wait=x")], 400, "invalid-parameter"),
    ];
    for (headers, status, slug) in rows {
        let (got, got_slug, view, _) = send(get_with("/headers", &headers)).await;
        assert_eq!((got.as_u16(), got_slug.as_str()), (status, slug), "{headers:?}: {view}");
    }
    let prefer: &[(&str, &[u8])] = &[("prefer", b"wait=5"), ("prefer", b"handling=strict")];
    assert_eq!(send(get_with("/headers", prefer)).await.2, json!("None None Some(5) true"));
}

proptest::proptest! {
    #[test]
    fn the_strict_pass_and_the_decoder_agree_on_what_json_is(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"a\"", "\"b\"", "\"\\u00e9\"", "\"\\ud83d\\ude00\"", "\"\\ud800\"",
                "\"\\n\"", "\"\\x\"", "\"", "\\", "0", "01", "-0", "-", "1.5", "1.", ".5", "1e3", "1e", "E+2", "1e-999",
                "true", "false", "null", "nul", "NaN", " ", "\n", "\u{1}", "\u{e9}", "\u{feff}",
            ]),
            0..12,
        ),
    ) {
        let text = format!("{{\"k\":{}}}", pieces.concat());
        let strict = json::check(&text, usize::MAX).map_err(|problem| problem.kind());
        let lenient = serde_json::from_str::<Value>(&text);
        match strict {
            Ok(()) => assert!(lenient.is_ok(), "{text}"),
            Err(ProblemKind::MalformedJson) => {
                assert!(lenient.is_err() || has_a_key_twice(&text), "{text}");
            }
            Err(other) => panic!("{text}: {other:?}"),
        }
    }
}

/// Whether a text that the decoder takes loses a key when it is written again.
fn has_a_key_twice(text: &str) -> bool {
    let value: Value = serde_json::from_str(text).unwrap();
    let colons = |text: &str| text.matches(':').count();
    colons(&value.to_string()) < colons(text)
}
