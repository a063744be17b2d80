//! The router as a whole, without a database.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tower::ServiceExt as _;

use super::auth::{Auth, AuthSettings, KeyLookup, Pepper};
use super::cursor::Cursors;
use super::*;
use crate::clock::System;
use crate::domain::id::KeyId;
use crate::error::AgentlingError;
use crate::store::StoreError;
use crate::store::keys::StoredKey;

#[derive(Debug)]
struct NoKeys;

impl KeyLookup for NoKeys {
    fn find(&self, _: KeyId) -> BoxFuture<'_, Result<Option<StoredKey>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    fn any(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async { Ok(false) })
    }
}

#[derive(Debug)]
struct Ready(bool);

impl Readiness for Ready {
    fn check(&self) -> BoxFuture<'_, Result<(), AgentlingError>> {
        Box::pin(async { if self.0 { Ok(()) } else { Err(AgentlingError::Draining) } })
    }
}

fn app(ready: bool) -> Router {
    let system = Arc::new(System::new());
    let settings = AuthSettings { pepper: Pepper::of(b"one"), bootstrap: None, loopback: true };
    let clock: crate::clock::SharedClock = Arc::<System>::clone(&system);
    router(AppState {
        auth: Arc::new(Auth::new(Box::new(NoKeys), Arc::clone(&clock), settings)),
        cursors: Arc::new(Cursors::of(b"secret")),
        clock,
        ids: system,
        body_limits: limits::BodyLimits::default(),
        readiness: Arc::new(Ready(ready)),
    })
}

async fn get(app: Router, path: &str) -> (u16, HeaderMap, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let (parts, body) = app.oneshot(request).await.unwrap().into_parts();
    let mut bytes = Vec::new();
    let mut stream = body.into_data_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.unwrap());
    }
    (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn health_says_that_the_process_answers_and_readiness_why_it_takes_no_work() {
    assert_eq!(get(app(false), "/healthz").await.0, 200);
    assert_eq!(get(app(true), "/readyz").await.0, 200);
    let (status, headers, body) = get(app(false), "/readyz").await;
    assert_eq!((status, &headers["retry-after"]), (503, &"1".parse().unwrap()));
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (&body["type"], &body["retry_after_ms"]),
        (&"/problems/draining".into(), &1_000.into())
    );
}

#[tokio::test]
async fn the_documents_are_served_as_they_are_published() {
    let (status, headers, body) = get(app(true), "/openapi.json").await;
    assert_eq!((status, &headers["content-type"]), (200, &"application/json".parse().unwrap()));
    let document: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(document, openapi_document());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let (_, _, older) = get(app(true), "/openapi-3.0.json").await;
    let older: Value = serde_json::from_str(&older).unwrap();
    assert_eq!(older["openapi"], "3.0.3");
}

#[tokio::test]
async fn the_reference_loads_nothing_from_elsewhere() {
    let (status, headers, _) = get(app(true), "/docs").await;
    assert_eq!((status, &headers["location"]), (303, &"/docs/".parse().unwrap()));
    let (status, headers, page) = get(app(true), "/docs/").await;
    assert_eq!(status, 200);
    assert!(headers["content-security-policy"].to_str().unwrap().contains("default-src 'self'"));
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    for link in page.split(['"', '\'']).filter_map(|piece| piece.strip_prefix("./")) {
        let (status, ..) = get(app(true), &format!("/docs/{link}")).await;
        assert_eq!(status, 200, "{link}");
    }
    for script in page.split("<script").skip(1) {
        assert!(script.split('>').next().unwrap().contains("src="), "an inline script: {script}");
    }
    let (_, _, start) = get(app(true), "/docs/swagger-initializer.js").await;
    assert!(start.contains("/openapi.json"), "{start}");
    assert_eq!(get(app(true), "/docs/nothing.js").await.0, 404);
}

#[tokio::test]
async fn every_problem_has_a_page_where_its_type_says() {
    let (status, _, index) = get(app(true), "/problems").await;
    assert_eq!(status, 200);
    for kind in problem::ProblemKind::ALL {
        assert!(index.contains(&kind.type_uri()));
        let (status, headers, page) = get(app(true), &kind.type_uri()).await;
        assert_eq!(
            (status, &headers["content-type"]),
            (200, &"text/html; charset=utf-8".parse().unwrap())
        );
        assert!(page.contains(kind.title()));
    }
    assert_eq!(get(app(true), "/problems/nonsense").await.0, 404);
}
