//! The pages that need neither a key nor a database.

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use futures::StreamExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::clock::System;

fn app() -> Router {
    layers::wrap(docs::routes(None), Arc::new(System::new()))
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
async fn the_documents_are_served_as_they_are_published() {
    let (status, headers, body) = get(app(), "/openapi.json").await;
    assert_eq!((status, &headers["content-type"]), (200, &"application/json".parse().unwrap()));
    let document: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(document, openapi_document());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let (_, _, older) = get(app(), "/openapi-3.0.json").await;
    let older: Value = serde_json::from_str(&older).unwrap();
    assert_eq!(older["openapi"], "3.0.3");
}

#[tokio::test]
async fn the_reference_loads_nothing_from_elsewhere() {
    let (status, headers, _) = get(app(), "/docs").await;
    assert_eq!((status, &headers["location"]), (303, &"/docs/".parse().unwrap()));
    let (status, headers, page) = get(app(), "/docs/").await;
    assert_eq!(status, 200);
    assert!(headers["content-security-policy"].to_str().unwrap().contains("default-src 'self'"));
    assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
    for link in page.split(['"', '\'']).filter_map(|piece| piece.strip_prefix("./")) {
        let (status, ..) = get(app(), &format!("/docs/{link}")).await;
        assert_eq!(status, 200, "{link}");
    }
    for script in page.split("<script").skip(1) {
        assert!(script.split('>').next().unwrap().contains("src="), "an inline script: {script}");
    }
    let (_, _, start) = get(app(), "/docs/swagger-initializer.js").await;
    assert!(start.contains("/openapi.json"), "{start}");
    assert!(start.contains(r#""validatorUrl": "none""#), "{start}");
    assert_eq!(get(app(), "/docs/nothing.js").await.0, 404);
}

#[tokio::test]
async fn every_problem_has_a_page_where_its_type_says() {
    let (status, _, index) = get(app(), "/problems").await;
    assert_eq!(status, 200);
    for kind in ProblemKind::ALL {
        assert!(index.contains(&kind.type_uri()));
        let (status, headers, page) = get(app(), &kind.type_uri()).await;
        assert_eq!(
            (status, &headers["content-type"]),
            (200, &"text/html; charset=utf-8".parse().unwrap())
        );
        assert!(page.contains(kind.title()));
    }
    assert_eq!(get(app(), "/problems/nonsense").await.0, 404);
}
