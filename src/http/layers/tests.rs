//! What every answer has, whatever happened.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::routing::{get, post};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::clock::System;
use crate::domain::caller::{Caller, Scope};
use crate::domain::id::TenantId;
use crate::http::auth::{RunsWrite, Scoped};

async fn panics() {
    panic!("a SECRET reason");
}

fn app() -> Router {
    let caller = Caller {
        tenant: TenantId::default(),
        key: None,
        scopes: [Scope::RunsRead].into_iter().collect(),
    };
    let tenant = Router::new()
        .route("/v1/things", get(|| async { "things" }).post(|| async {}))
        .route("/v1/things/stream", post(|| async { "events" }))
        .route("/v1/scoped", get(|_caller: Scoped<RunsWrite>| async {}))
        .route("/v1/teapot", get(|| async { StatusCode::IM_A_TEAPOT }))
        .route("/v1/panic", get(panics))
        .layer(from_fn(check_accept))
        .layer(axum::Extension(caller));
    wrap(tenant, Arc::new(System::new()))
}

async fn send(method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Value) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = app().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let mut bytes = Vec::new();
    let mut stream = body.into_data_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    (parts.status.as_u16(), parts.headers, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn slug(body: &Value) -> &str {
    body["type"].as_str().unwrap_or_default().trim_start_matches("/problems/")
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_the_security_headers() {
    for path in ["/v1/things", "/nowhere", "/v1/panic"] {
        let (_, headers, _) = send("GET", path, &[]).await;
        assert_eq!(headers["x-request-id"].len(), 32, "{path}");
        assert_eq!(headers["x-content-type-options"], "nosniff");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert!(
            headers["content-security-policy"].to_str().unwrap().contains("default-src 'self'")
        );
        assert_eq!(headers.contains_key("cache-control"), path.starts_with("/v1/"));
    }
}

#[tokio::test]
async fn a_harmless_request_id_is_kept_and_any_other_replaced() {
    let long = "x".repeat(65);
    for (given, kept) in
        [("a.B_1-2", true), ("a b", false), ("a\"b", false), ("", false), (&long, false)]
    {
        let (_, headers, body) = send("GET", "/nowhere", &[("x-request-id", given)]).await;
        assert_eq!(headers["x-request-id"] == given, kept, "{given}");
        let id = headers["x-request-id"].to_str().unwrap();
        assert_eq!(body["instance"], format!("urn:request:{id}"));
    }
}

#[tokio::test]
async fn what_the_router_refuses_is_a_problem_too() {
    let (status, headers, body) = send("PUT", "/v1/things", &[]).await;
    assert_eq!((status, slug(&body)), (405, "method-not-allowed"));
    assert_eq!(
        (&headers["allow"], &body["allowed"]),
        (&"GET, HEAD, POST".parse().unwrap(), &json!(["GET", "HEAD", "POST"]))
    );
    for method in ["TRACE", "CONNECT", "FOO"] {
        let (status, headers, body) = send(method, "/v1/things", &[]).await;
        assert_eq!((status, slug(&body)), (405, "method-not-allowed"), "{method}");
        assert!(headers.contains_key("allow"), "{method}");
    }
    assert_eq!(send("GET", "/v1/nowhere", &[]).await.0, 404);
    // An error status that no one turned into a problem is a fault of ours.
    let (status, _, body) = send("GET", "/v1/teapot", &[]).await;
    assert_eq!((status, slug(&body)), (500, "internal"));
    assert_eq!(send("HEAD", "/v1/things", &[]).await.0, 200);
}

#[tokio::test]
async fn a_panic_is_an_internal_problem_that_says_nothing_of_its_reason() {
    let (status, headers, body) = send("GET", "/v1/panic", &[]).await;
    assert_eq!((status, slug(&body)), (500, "internal"));
    assert_eq!(headers["content-type"], "application/problem+json");
    assert!(!body.to_string().contains("SECRET"), "{body}");
}

#[tokio::test]
async fn requests_that_are_too_large_are_turned_away() {
    let at_limit = format!("/v1/things?{}", "a".repeat(8 * 1024 - "/v1/things?".len()));
    assert_eq!(send("GET", &at_limit, &[]).await.0, 200);
    let (status, _, body) = send("GET", &format!("{at_limit}a"), &[]).await;
    assert_eq!((status, slug(&body)), (414, "uri-too-long"));
    let names: Vec<String> = (0..101).map(|index| format!("x-{index}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    assert_eq!(send("GET", "/v1/things", &many[..100]).await.0, 200);
    let (status, _, body) = send("GET", "/v1/things", &many).await;
    assert_eq!((status, slug(&body)), (431, "headers-too-large"));
    let fits = "v".repeat(32 * 1024 - 5);
    assert_eq!(send("GET", "/v1/things", &[("x", &fits)]).await.0, 200);
    let (status, _, body) = send("GET", "/v1/things", &[("x", &format!("{fits}v"))]).await;
    assert_eq!((status, slug(&body)), (431, "headers-too-large"));
}

#[tokio::test]
async fn an_accept_header_that_rules_out_the_answer_gets_406() {
    let rows = [
        ("GET", "/v1/things", "*/*", 200),
        ("GET", "/v1/things", "application/*;q=0.5", 200),
        ("GET", "/v1/things", "image/png, application/json", 200),
        ("GET", "/v1/things", "image/png", 406),
        ("GET", "/v1/things", "application/json;q=0", 406),
        ("GET", "/v1/things", "text/event-stream", 406),
        ("POST", "/v1/things/stream", "text/event-stream", 200),
        ("POST", "/v1/things/stream", "application/json", 406),
        ("HEAD", "/v1/things/stream", "text/event-stream", 405),
    ];
    for (method, path, accept, expected) in rows {
        let (status, ..) = send(method, path, &[("accept", accept)]).await;
        assert_eq!(status, expected, "{method} {path} {accept}");
    }
}

#[tokio::test]
async fn a_missing_scope_is_named() {
    let (status, _, body) = send("GET", "/v1/scoped", &[]).await;
    assert_eq!(
        (status, slug(&body), &body["required"]),
        (403, "insufficient-scope", &json!("runs:write"))
    );
}

#[tokio::test]
async fn a_preflight_is_answered_with_no_permission() {
    let origin = [("origin", "https://evil.example"), ("access-control-request-method", "POST")];
    let (status, headers, _) = send(Method::OPTIONS.as_str(), "/v1/things", &origin).await;
    assert_eq!(status, 204);
    assert!(headers.keys().all(|name| !name.as_str().starts_with("access-control")));
}
