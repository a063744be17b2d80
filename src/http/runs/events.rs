//! `GET /v1/runs/{run_id}/events`.

use std::collections::BTreeSet;

use axum::extract::State;

use super::view::{EventBook, EventView};
use crate::domain::event::{EventData, RunEvent};
use crate::domain::id::{RunId, TenantId};
use crate::domain::page::PageRequest;
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
use crate::store::{Store, events, runs, steps};

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
    let items = views(&app.engine, &app.store, tenant, (&run, &found.items)).await?;
    Ok(Reply::ok(PageView { items, next_cursor }))
}

/// Events as callers see them, with the steps and calls they are about.
pub(super) async fn views(
    engine: &Engine,
    store: &Store,
    tenant: &TenantId,
    (run, events): (&Run, &[RunEvent]),
) -> Result<Vec<EventView>, AgentlingError> {
    let about = events.iter().filter_map(|event| match event.data {
        EventData::Call { step_seq, .. } | EventData::Step { step_seq, .. } => Some(step_seq),
        EventData::Run(_) | EventData::Turn { .. } | EventData::Budget(_) => None,
    });
    let seqs: Vec<i64> = about.collect();
    let found = match (seqs.iter().min(), seqs.iter().max()) {
        (Some(first), Some(last)) => {
            // A run appends a contiguous range, so the span holds no more than its steps.
            let limit = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
            let page = PageRequest { limit, after: Some(first - 1) };
            steps::list(store, tenant, (run.thread_id, Some(run.id)), &page).await?.items
        }
        _ => Vec::new(),
    };
    let places = BTreeSet::from([(run.thread_id, Some(run.id))]);
    let redactors = engine.redactors(tenant, RedactionChannel::Api, places).await?;
    let book = EventBook::new(run.clone(), found, redactors);
    Ok(events.iter().filter_map(|event| book.view(event)).collect())
}
