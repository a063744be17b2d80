//! `GET /v1/threads/{thread_id}/diagnosis`.

mod view;

use axum::extract::State;

use super::find;
use crate::domain::id::ThreadId;
use crate::domain::memory::Finding;
use crate::engine;
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::extract::{PathId, Query};
use crate::http::problem::{Problem, ProblemKind};
use crate::http::reply::Reply;
use crate::store::steps;

use view::{DiagnosisView, ReadBy};

/// Diagnose a thread
///
/// What is repaired in the thread's memory on its way to a model, so that its provider accepts it. The
/// stored steps are not changed by it. Of a run under way, the steps that are complete are examined.
#[utoipa::path(get, path = "/v1/threads/{thread_id}/diagnosis", tag = "threads",
    operation_id = "threads_diagnosis",
    params(("thread_id" = String, Path, description = "The thread"), ReadBy),
    responses((status = 200, description = "The diagnosis", body = DiagnosisView)))]
pub(super) async fn diagnose(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    PathId(id): PathId<ThreadId>,
    Query(query): Query<ReadBy>,
) -> Result<Reply<DiagnosisView>, Problem> {
    let from = find(&app, &caller, id).await?.memory_from;
    let steps = steps::memory(&app.store, &caller.tenant, id, from).await?;
    // As stored, since a diagnosis says where something is and what it is, and never what it says.
    let steps: Vec<_> = steps.into_iter().map(|step| step.content).collect();
    let diagnosis = engine::diagnose(&steps, from, query.profile.as_deref());
    diagnosis.map(|diagnosis| Reply::ok(diagnosis.into())).ok_or_else(no_profile)
}

fn no_profile() -> Problem {
    let finding = Finding::new("profile", "unknown_value", "no model family has this name");
    Problem::with_errors(ProblemKind::InvalidParameter, vec![finding])
}
