//! `GET /v1/runs/{run_id}/diff/{other_run_id}`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::caller::{Caller, Scope};
use crate::domain::id::{RequestId, RunId, StepId};
use crate::domain::ledger::Purpose;
use crate::domain::step::StepKind;
use crate::engine::{
    Difference, RequestDiff, RequestFacts, RunDiff, Sameness, StepDiff, WireDiff, diff_runs,
};
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::PathIds;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::requests::view::SpanView;

/// How two runs differ.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunDiff)]
pub(super) struct DiffView {
    /// Their steps, in the order of turns.
    steps: Vec<StepDiffView>,
    /// Their requests to models, in the order of turns and attempts.
    requests: Vec<RequestDiffView>,
    /// Whether a run has more steps or requests than are compared, which are 1,000 of each.
    cut: bool,
}

/// A step of one run and the one at its place in the other.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StepDiff)]
pub(super) struct StepDiffView {
    /// What they have of it.
    status: Sameness,
    /// The turn.
    turn: u32,
    /// What it is.
    step_kind: StepKind,
    /// The step of the first run.
    a: Option<StepId>,
    /// The step of the second run.
    b: Option<StepId>,
    /// Where they say something else: at most 20 places.
    differences: Vec<DifferencePlaceView>,
}

/// A place where two steps say something else.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StepDifference)]
pub(super) struct DifferencePlaceView {
    /// The JSON pointer to it.
    pointer: String,
    /// What the first step says there, as JSON and shortened; null when it says nothing.
    a: Option<String>,
    /// What the second step says there.
    b: Option<String>,
}

/// A request of one run and the one at its place in the other.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RequestDiff)]
pub(super) struct RequestDiffView {
    /// What they have of it.
    status: Sameness,
    /// The turn.
    turn: u32,
    /// The attempt at it.
    attempt: u32,
    /// What was asked for.
    purpose: Purpose,
    /// The request of the first run.
    a: Option<RequestFactsView>,
    /// The request of the second run.
    b: Option<RequestFactsView>,
    /// Where they part; only of the first 10 that do, and only where their bytes are kept.
    parts: Option<WireDiffView>,
}

/// What tells a request from others.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RequestFacts)]
pub(super) struct RequestFactsView {
    /// Its id.
    request_id: RequestId,
    /// The SHA-256 of its body.
    sha256: Option<String>,
    /// How long its body was.
    bytes: Option<u64>,
}

/// Where two requests part.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WireDiff)]
pub(super) struct WireDiffView {
    /// How many leading bytes they share.
    offset: u64,
    /// Where the byte there comes from in the first request; null when it ends there.
    a_span: Option<SpanView>,
    /// Where the byte there comes from in the second request; null when it ends there.
    b_span: Option<SpanView>,
    /// What the first request has from there on, shortened. Only for keys with `ledger:read`.
    a_excerpt: Option<String>,
    /// What the second request has from there on, shortened. Only for keys with `ledger:read`.
    b_excerpt: Option<String>,
}

impl DiffView {
    fn of(caller: &Caller, diff: RunDiff) -> Self {
        let shows_bytes = caller.may(Scope::LedgerRead);
        let request = |request| RequestDiffView::of(request, shows_bytes);
        Self {
            steps: diff.steps.into_iter().map(StepDiffView::from).collect(),
            requests: diff.requests.into_iter().map(request).collect(),
            cut: diff.is_cut,
        }
    }
}

impl From<StepDiff> for StepDiffView {
    fn from(diff: StepDiff) -> Self {
        let StepDiff { status, turn, kind: step_kind, a, b, differences } = diff;
        let place =
            |Difference { pointer, a, b }: Difference| DifferencePlaceView { pointer, a, b };
        let differences = differences.into_iter().map(place).collect();
        Self { status, turn, step_kind, a, b, differences }
    }
}

impl RequestDiffView {
    fn of(diff: RequestDiff, shows_bytes: bool) -> Self {
        let RequestDiff { status, turn, attempt, purpose, a, b, parts } = diff;
        let parts = parts.map(|parts| WireDiffView::of(parts, shows_bytes));
        let (a, b) = (a.map(RequestFactsView::from), b.map(RequestFactsView::from));
        Self { status, turn, attempt, purpose, a, b, parts }
    }
}

impl From<RequestFacts> for RequestFactsView {
    fn from(facts: RequestFacts) -> Self {
        let RequestFacts { id, sha256, bytes } = facts;
        Self { request_id: id, sha256: sha256.map(|hash| hash.to_string()), bytes }
    }
}

impl WireDiffView {
    fn of(diff: WireDiff, shows_bytes: bool) -> Self {
        Self {
            offset: diff.offset,
            a_span: diff.a_span.map(SpanView::from),
            b_span: diff.b_span.map(SpanView::from),
            a_excerpt: shows_bytes.then_some(diff.a_excerpt),
            b_excerpt: shows_bytes.then_some(diff.b_excerpt),
        }
    }
}

/// Compare two runs
///
/// By step: each with the one of the same turn and kind in the other run. What differs by nature, such as
/// ids and times, is not compared. By wire: each request with the one of the same attempt at the same turn,
/// by hash and length, and where they part, with the origin of the byte there. Nothing is shown that the
/// rules of redaction keep from callers (channel `api`); excerpts of bytes take a key with the scope
/// `ledger:read` as well.
#[utoipa::path(get, path = "/v1/runs/{run_id}/diff/{other_run_id}", tag = "runs",
    operation_id = "runs_diff",
    params(("run_id" = RunId, Path, description = "The first run"),
        ("other_run_id" = RunId, Path, description = "The second run")),
    responses((status = 200, description = "How they differ", body = DiffView)))]
pub(super) async fn diff(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathIds(a, b): PathIds<RunId, RunId>,
) -> Result<Reply<DiffView>, Problem> {
    let diff =
        diff_runs(&app.engine, &caller.tenant, (a, b)).await?.ok_or_else(Problem::not_found)?;
    Ok(Reply::ok(DiffView::of(&caller, diff)))
}
