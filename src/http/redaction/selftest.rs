//! `POST /v1/redaction/selftest`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::sinks::sinks;
use crate::engine::self_test::{Canaries, Report, search};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// Whether made-up credentials stay in.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RedactionSelfTest {
    /// Whether none came out anywhere.
    #[schema(examples(true))]
    passed: bool,
    /// Every way out that was searched.
    sinks: Vec<SinkView>,
}

/// What came of one way out.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RedactionSink)]
struct SinkView {
    /// The way out: `log`, `problem`, `observation`, `model_request`, `stream`, `step`, `export`, `webhook`,
    /// `trace`; more may be added.
    #[schema(examples("log"))]
    name: &'static str,
    /// Whether none came out here.
    #[schema(examples(true))]
    passed: bool,
    /// The kinds of credentials that were sent down it.
    searched: Vec<&'static str>,
    /// Those that came out; their values are never told.
    leaked: Vec<&'static str>,
}

impl From<Report> for SinkView {
    fn from(report: Report) -> Self {
        let Report { sink, sent, leaked } = report;
        Self { name: sink, passed: leaked.is_empty(), searched: sent, leaked }
    }
}

/// Test what is kept in
///
/// Sends credentials that are made up for this request down every way out of the server, each by the code that
/// serves it, and tells which came out: a value that the server knows, in every form in which values travel,
/// and on the ways that say what went wrong also whatever looks like a credential. Nothing is stored; a
/// repeated request tests again.
#[utoipa::path(post, path = "/v1/redaction/selftest", tag = "redaction",
    operation_id = "redaction_selftest",
    responses((status = 200, description = "What came of it, passed or not", body = RedactionSelfTest)))]
pub(super) async fn selftest(
    State(app): State<AppState>,
    _: Scoped<AdminOnly>,
) -> Result<Reply<RedactionSelfTest>, Problem> {
    let canaries = Canaries::draw(app.ids.as_ref())
        .map_err(|error| AgentlingError::internal(error.to_string()))?;
    let reports = search(app.engine.redaction(), &canaries, &sinks(&app)?);
    let sinks: Vec<SinkView> = reports.into_iter().map(SinkView::from).collect();
    Ok(Reply::ok(RedactionSelfTest { passed: sinks.iter().all(|sink| sink.passed), sinks }))
}
