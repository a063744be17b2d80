//! `GET /v1/steps/{step_id}/requests`.

use axum::extract::State;

use super::of_step;
use crate::domain::id::StepId;
use crate::domain::page::Page;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::http::requests::view::ModelRequestView;

/// List the requests that were sent for a step
///
/// All attempts at the turn of an `action`, or at the text of a `summary`, in order. Other steps have
/// none, nor have those of loaded memory. There are few, so all of them come at once.
#[utoipa::path(get, path = "/v1/steps/{step_id}/requests", tag = "steps",
    operation_id = "steps_requests",
    params(("step_id" = String, Path, description = "The step")),
    responses((status = 200, description = "The requests", body = PageView<ModelRequestView>)))]
pub(in crate::http::steps) async fn list(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<StepId>,
) -> Result<Reply<PageView<ModelRequestView>>, Problem> {
    let items = of_step(&app, &caller.tenant, id).await?;
    let page: Page<_, ()> = Page { items, next: None };
    Ok(Reply::ok(PageView::of(page.map(ModelRequestView::from), |()| String::new())))
}
