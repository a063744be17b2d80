//! `GET /v1/usage`.

use axum::extract::State;

use super::params::{UsageParams, wrong};
use super::view::UsageView;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::Query;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::usage;

/// The most rows of one answer.
const MAX_ROWS: usize = 10_000;

/// Get usage
///
/// What calls of models took: tokens, and money where prices are known. A call counts once, at the moment at
/// which it was sent: those that failed or were made for summaries too, where their provider says what they
/// took, and those of sub-runs with the agents of these. A reply that came too late for its run, which was
/// cancelled, counts here and not in the run. What is deleted stays counted; a call that was made and whose
/// record was lost with its server is not.
#[utoipa::path(get, path = "/v1/usage", tag = "usage", operation_id = "usage_get",
    params(UsageParams),
    responses((status = 200, description = "What was used", body = UsageView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    Query(params): Query<UsageParams>,
) -> Result<Reply<UsageView>, Problem> {
    let query = params.checked(app.clock.now())?;
    let used = usage::find(&app.store, &caller.tenant, &query, MAX_ROWS).await?;
    let used = used.ok_or_else(|| {
        let message = "tells apart more than 10,000 groups: ask for less time, or for fewer groups";
        wrong("group_by", "too_many", message)
    })?;
    Ok(Reply::ok(UsageView::of(&query, used)))
}
