//! `POST /v1/runs/{run_id}/replay`.

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::caller::{Caller, Scope};
use crate::domain::id::{RequestId, RunId};
use crate::domain::ledger::Purpose;
use crate::engine::{Divergence, Missing, Parted, Parting, Replayed, Segment, replay_run};
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::{EmptyObject, OptionalBody, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::http::requests::view::SpanView;

/// What came of driving a run again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Replay)]
pub(super) struct ReplayView {
    /// How many requests of the run are in the ledger.
    requests: u64,
    /// How many of them were made again, byte for byte.
    matches: u64,
    /// How many of them another version of the renderer made: they are not compared.
    other_renderer: u64,
    /// How many of them cannot be compared, because not even their hash is known.
    unknown: u64,
    /// How many requests were made that are not in the ledger: the run stopped, or its process died,
    /// before they were on record.
    unrecorded: u64,
    /// What it takes to drive the run to its end and is not on record.
    missing: Vec<Missing>,
    /// Where the run first parts from its record; null when it does not.
    first_divergence: Option<DivergenceView>,
}

/// Where a run that is driven again parts from its record.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayDivergence)]
pub(super) struct DivergenceView {
    /// How it parts.
    how: Parting,
    /// The request of the ledger; null where there is none.
    request_id: Option<RequestId>,
    /// The turn.
    turn: u32,
    /// The attempt at it.
    attempt: u32,
    /// What was asked for.
    purpose: Purpose,
    /// How many leading bytes the requests share; null when no bytes were compared.
    offset: Option<u64>,
    /// In which part of the request that was sent they part.
    segment: Option<Segment>,
    /// Where the byte there comes from in the request that was sent.
    expected_span: Option<SpanView>,
    /// Where the byte there comes from in the request that is made now.
    actual_span: Option<SpanView>,
    /// What the request that was sent has from there on, shortened. Only for keys with `ledger:read`.
    expected_excerpt: Option<String>,
    /// What the request that is made now has from there on, shortened. Only for keys with `ledger:read`.
    actual_excerpt: Option<String>,
}

impl ReplayView {
    fn of(caller: &Caller, replayed: Replayed) -> Self {
        let Replayed { requests, matches, other_renderer, unknown, unrecorded, missing, .. } =
            replayed;
        let divergence = replayed.first_divergence;
        let first_divergence = divergence.map(|parting| DivergenceView::of(caller, parting));
        Self { requests, matches, other_renderer, unknown, unrecorded, missing, first_divergence }
    }
}

impl DivergenceView {
    fn of(caller: &Caller, divergence: Divergence) -> Self {
        let Divergence { how, request, turn, attempt, purpose, bytes } = divergence;
        let mut view = Self {
            how,
            request_id: request,
            turn,
            attempt,
            purpose,
            offset: None,
            segment: None,
            expected_span: None,
            actual_span: None,
            expected_excerpt: None,
            actual_excerpt: None,
        };
        if let Some(Parted { offset, segment, expected_span, actual_span, expected, actual }) =
            bytes
        {
            view.offset = Some(offset);
            view.segment = Some(segment);
            view.expected_span = expected_span.map(SpanView::from);
            view.actual_span = actual_span.map(SpanView::from);
            if caller.may(Scope::LedgerRead) {
                (view.expected_excerpt, view.actual_excerpt) = (Some(expected), Some(actual));
            }
        }
        view
    }
}

/// Replay a run
///
/// Drives the run again from its recorded replies and outcomes, through the loop and the renderer that
/// drove it, and compares every request that it makes with the one that was sent, by length and SHA-256.
/// No model and no tool is called, and nothing is written. A run that is under way is driven as far as
/// it is on record. Excerpts of bytes take a key with the scope `ledger:read`; they hold nothing that the
/// rules of redaction keep from callers (channel `api`). A repeated request does the same again.
#[utoipa::path(post, path = "/v1/runs/{run_id}/replay", tag = "runs", operation_id = "runs_replay",
    request_body = Option<EmptyObject>,
    params(("run_id" = RunId, Path, description = "The run")),
    responses((status = 200, description = "How far the requests are the same", body = ReplayView)))]
pub(super) async fn replay(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<RunId>,
    OptionalBody(_nothing): OptionalBody<EmptyObject>,
) -> Result<Reply<ReplayView>, Problem> {
    let replayed = replay_run(&app.engine, &caller.tenant, id).await?;
    Ok(Reply::ok(ReplayView::of(&caller, replayed.ok_or_else(Problem::not_found)?)))
}
