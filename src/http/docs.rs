//! The API's own pages: the OpenAPI document, its reference, and what the problems mean.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use bytes::Bytes;
use serde_json::Value;
use utoipa_swagger_ui::Config;

use super::extract::PathId;
use super::openapi;
use super::problem::{Problem, ProblemKind, index_page, kind_page};
use crate::error::AgentlingError;

/// The reference sets styles from its script and shows pictures that are part of its style sheet; it
/// loads nothing from elsewhere.
const REFERENCE_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/// The document in both versions, as it is sent.
#[derive(Debug, Clone)]
struct Documents {
    current: Bytes,
    older: Bytes,
}

/// What servers publish that were not told where callers find them: the same in all of a process.
static PLAIN: LazyLock<Documents> = LazyLock::new(|| Documents::of(&super::openapi_document()));

impl Documents {
    fn of(document: &Value) -> Self {
        let bytes = |document| Bytes::from(serde_json::to_vec(document).unwrap_or_default());
        Self { current: bytes(document), older: bytes(&openapi::to_3_0(document)) }
    }

    /// Those of a server that callers find at a URL.
    fn at(public_url: &str) -> Self {
        let mut document = super::openapi_document();
        if let Some(served) = document.pointer_mut("/servers/0/url") {
            *served = Value::from(public_url);
        }
        Self::of(&document)
    }
}

/// The pages. The reference would ask a validator on the internet about the document if it were not told
/// to leave that.
pub(super) fn routes(public_url: Option<&str>) -> Router {
    let documents = public_url.map_or_else(|| PLAIN.clone(), Documents::at);
    Router::new()
        .route("/openapi.json", document_route(documents.current))
        .route("/openapi-3.0.json", document_route(documents.older))
        .route("/docs", get(|| async { Redirect::to("/docs/") }))
        .route("/docs/", get(reference))
        .route("/docs/{file}", get(reference))
        .with_state(Arc::new(Config::from("/openapi.json").validator_url("none")))
        .route("/problems", get(|| async { Html(index_page()) }))
        .route("/problems/{slug}", get(problem))
}

fn document_route<S: Clone + Send + Sync + 'static>(
    bytes: Bytes,
) -> axum::routing::MethodRouter<S> {
    get(move || async move { ([(CONTENT_TYPE, "application/json")], bytes) })
}

async fn problem(PathId(slug): PathId<String>) -> Result<Html<String>, Problem> {
    let kind = ProblemKind::by_slug(&slug).ok_or_else(Problem::not_found)?;
    Ok(Html(kind_page(kind)))
}

async fn reference(
    State(config): State<Arc<Config<'static>>>,
    file: Result<PathId<String>, Problem>,
) -> Result<Response, Problem> {
    let name = file.map_or_else(|_| String::new(), |PathId(name)| name);
    let file = utoipa_swagger_ui::serve(&name, config)
        .map_err(|error| AgentlingError::internal(error.to_string()))?
        .ok_or_else(Problem::not_found)?;
    let mut headers = HeaderMap::new();
    if let Ok(media) = HeaderValue::from_str(&file.content_type) {
        headers.insert(CONTENT_TYPE, media);
    }
    if file.gzpipped {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(REFERENCE_POLICY));
    Ok((headers, file.bytes.into_owned()).into_response())
}
