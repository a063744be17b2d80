//! `GET /v1/runs/{run_id}/events`.

use std::sync::Arc;

use axum::extract::State;

use super::view::{EventBook, EventView};
use crate::domain::event::RunEvent;
use crate::domain::id::{RunId, TenantId};
use crate::domain::redaction::RedactionChannel;
use crate::domain::run::Run;
use crate::engine::Engine;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{PageParams, PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::{events, runs};

/// List the durable events of a run, in order
#[utoipa::path(get, path = "/v1/runs/{run_id}/events", tag = "runs", operation_id = "runs_events",
    params(("run_id" = RunId, Path, description = "The run"), PageParams),
    responses((status = 200, description = "A page of events", body = PageView<EventView>)))]
pub(super) async fn events(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<RunId>,
    Query(query): Query<PageParams>,
) -> Result<Reply<PageView<EventView>>, Problem> {
    let (tenant, route) = (&caller.tenant, format!("/v1/runs/{id}/events"));
    let scope = CursorScope::new(tenant, &route, &());
    let page = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let run = runs::get(&app.store, tenant, id).await?.ok_or_else(Problem::not_found)?;
    let found = events::list(&app.store, tenant, id, &page).await?;
    let next_cursor = found.next.map(|key| app.cursors.seal(&scope, &key));
    let items = views(&app.engine, tenant, &run, found.items).await?;
    Ok(Reply::ok(PageView { items, next_cursor }))
}

/// Events as callers see them, with the steps and calls they are about.
pub(super) async fn views(
    engine: &Engine,
    tenant: &TenantId,
    run: &Run,
    events: Vec<RunEvent>,
) -> Result<Vec<EventView>, AgentlingError> {
    views_on(engine, (tenant, RedactionChannel::Api), run, events).await
}

/// The same by the rules of redaction that watch a channel.
pub(in crate::http) async fn views_on(
    engine: &Engine,
    (tenant, channel): (&TenantId, RedactionChannel),
    run: &Run,
    events: Vec<RunEvent>,
) -> Result<Vec<EventView>, AgentlingError> {
    let book = EventBook::new(Arc::new(engine.tell((tenant, channel), run, events).await?));
    Ok(book.views().collect())
}
