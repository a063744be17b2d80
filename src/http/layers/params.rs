//! Query parameters of operations that have none.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde_json::Value;

use crate::domain::memory::Finding;
use crate::http::problem::{Problem, ProblemKind};

/// The operations that take no query parameters. Those that take some refuse the others by themselves.
#[derive(Debug)]
pub struct Queryless(BTreeSet<(String, String)>);

impl Queryless {
    /// Those of a document.
    pub fn of(document: &utoipa::openapi::OpenApi) -> Self {
        let document = serde_json::to_value(document).unwrap_or_default();
        let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
        let operations = paths.flat_map(|(path, item)| {
            item.as_object()
                .into_iter()
                .flatten()
                .map(move |(method, operation)| (method, path, operation))
        });
        let without = operations.filter(|(.., operation)| !has_query(operation));
        Self(without.map(|(method, path, _)| (method.to_uppercase(), path.clone())).collect())
    }

    fn contains(&self, request: &Request) -> bool {
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        self.0.contains(&(method.to_string(), path.to_owned()))
    }
}

fn has_query(operation: &Value) -> bool {
    let parameters = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
    parameters
        .into_iter()
        .any(|parameter| parameter.get("in").is_some_and(|place| place == "query"))
}

/// Refuses a query where none is read: what a caller asked for would silently not happen. A method that a
/// path does not have is left to the router.
pub async fn check_query(
    State(queryless): State<Arc<Queryless>>,
    request: Request,
    next: Next,
) -> Response {
    let query = request.uri().query().unwrap_or_default();
    if query.is_empty() || !queryless.contains(&request) {
        return next.run(request).await;
    }
    let names = url::form_urlencoded::parse(query.as_bytes());
    let message = "this operation has no query parameters";
    let found = names.map(|(name, _)| Finding::new(name, "unknown_parameter", message)).collect();
    Problem::with_errors(ProblemKind::InvalidParameter, found).into_response()
}
