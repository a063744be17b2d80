//! What a load balancer reads.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use futures::future::BoxFuture;
use tower::ServiceExt as _;

use super::{live, ready};
use crate::clock::System;
use crate::error::AgentlingError;
use crate::http::problem::{Problem, ProblemKind};
use crate::http::{Readiness, layers};

#[derive(Debug)]
struct Ready(bool);

impl Readiness for Ready {
    fn check(&self) -> BoxFuture<'_, Result<(), AgentlingError>> {
        Box::pin(async { if self.0 { Ok(()) } else { Err(AgentlingError::Draining) } })
    }
}

#[tokio::test]
async fn health_says_that_the_process_answers_and_readiness_whether_it_takes_work() {
    for (is_ready, path, status) in
        [(false, "/healthz", 200), (true, "/readyz", 200), (false, "/readyz", 503)]
    {
        let readiness: Arc<dyn Readiness> = Arc::new(Ready(is_ready));
        let router = Router::new()
            .route("/healthz", get(live::live))
            .route("/readyz", get(ready::ready))
            .with_state(readiness);
        let app = layers::wrap(router, Arc::new(System::new()));
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = app.oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{path}");
        if status == 503 {
            assert_eq!(response.headers()["retry-after"], "1");
            assert_eq!(Problem::from(AgentlingError::Draining).kind(), ProblemKind::Draining);
        }
    }
}
