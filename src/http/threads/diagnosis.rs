//! `GET /v1/threads/{thread_id}/diagnosis`.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::find;
use crate::domain::diagnosis::{Diagnosis, Repair, RepairCode};
use crate::domain::id::ThreadId;
use crate::domain::memory::Finding;
use crate::engine;
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::extract::{PathId, Query};
use crate::http::problem::{Problem, ProblemKind};
use crate::http::reply::Reply;
use crate::store::steps;

/// The most repairs that are listed.
const MAX_ITEMS: usize = 1_000;

/// For whom the thread is examined.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct DiagnosisQuery {
    /// The family of models that reads the thread, for example `openai`. By default
    /// `openai_compatible`, the one of which least is known.
    #[serde(default)]
    profile: Option<String>,
}

/// What is repaired in a thread's memory when a model is asked.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Diagnosis)]
pub(super) struct DiagnosisView {
    /// The family of models that the thread is examined for.
    profile: String,
    /// How many repairs there are.
    total: usize,
    /// The first 1,000 of them, in the order of the history.
    items: Vec<RepairView>,
}

/// One repair. What is stored stays as it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Repair)]
pub(super) struct RepairView {
    /// `seq` of the step.
    seq: i64,
    /// What is repaired.
    code: RepairCode,
    /// What is repaired and how, for people.
    message: String,
    /// Where in the step as memory documents of version 2 have it, as a JSON pointer.
    pointer: String,
}

impl From<Repair> for RepairView {
    fn from(Repair { seq, code, pointer }: Repair) -> Self {
        Self { seq, code, message: code.message().to_owned(), pointer }
    }
}

impl From<Diagnosis> for DiagnosisView {
    fn from(Diagnosis { profile, repairs }: Diagnosis) -> Self {
        let total = repairs.len();
        let items = repairs.into_iter().take(MAX_ITEMS).map(RepairView::from).collect();
        Self { profile: profile.to_owned(), total, items }
    }
}

/// Diagnose a thread
///
/// What is repaired in the thread's memory on its way to a model, so that its provider accepts it. The
/// stored steps are not changed by it. Of a run under way, the steps that are complete are examined.
#[utoipa::path(get, path = "/v1/threads/{thread_id}/diagnosis", tag = "threads",
    operation_id = "threads_diagnosis",
    params(("thread_id" = String, Path, description = "The thread"), DiagnosisQuery),
    responses((status = 200, description = "The diagnosis", body = DiagnosisView)))]
pub(super) async fn diagnose(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    PathId(id): PathId<ThreadId>,
    Query(query): Query<DiagnosisQuery>,
) -> Result<Reply<DiagnosisView>, Problem> {
    let from = find(&app, &caller, id).await?.memory_from;
    let steps = steps::memory(&app.store, &caller.tenant, id, from).await?;
    let diagnosis = engine::diagnose(&steps, from, query.profile.as_deref());
    diagnosis.map(|diagnosis| Reply::ok(diagnosis.into())).ok_or_else(no_profile)
}

fn no_profile() -> Problem {
    let finding = Finding::new("profile", "unknown_value", "no model family has this name");
    Problem::with_errors(ProblemKind::InvalidParameter, vec![finding])
}
