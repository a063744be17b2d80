//! `GET /v1/runs`.

use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::view::RunView;
use crate::domain::agent::Metadata;
use crate::domain::id::{AgentId, RunId, ThreadId};
use crate::domain::page::ListFilter;
use crate::domain::redaction::RedactionChannel;
use crate::domain::run::RunStatus;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{Query, in_order};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::runs::{self, RunFilter};

/// Which runs are listed.
#[derive(Debug, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListRuns {
    /// How many entries at most, 1–200; 20 by default.
    #[serde(default, skip_serializing)]
    limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default, skip_serializing)]
    cursor: Option<String>,
    /// Only with this status.
    #[serde(default)]
    status: Option<RunStatus>,
    /// Only of this agent.
    #[serde(default)]
    agent_id: Option<AgentId>,
    /// Only on this thread.
    #[serde(default)]
    thread_id: Option<ThreadId>,
    /// Only the sub-runs of this run.
    #[serde(default)]
    parent_run_id: Option<RunId>,
    /// Only created after this moment.
    #[serde(default)]
    created_after: Option<DateTime<Utc>>,
    /// Only created before this moment.
    #[serde(default)]
    created_before: Option<DateTime<Utc>>,
    #[serde(default)]
    #[param(ignore)]
    metadata: Metadata,
}

/// List runs
///
/// Newest first. `metadata.{key}=value` narrows the list to runs with that label.
#[utoipa::path(get, path = "/v1/runs", tag = "runs", operation_id = "runs_list", params(ListRuns),
    responses((status = 200, description = "A page of runs", body = PageView<RunView>)))]
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    Query(query): Query<ListRuns>,
) -> Result<Reply<PageView<RunView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/runs", &query);
    let page = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let found = runs::list(&app.store, &caller.tenant, &query.filter()?, &page).await?;
    let places = found.items.iter().map(|run| (run.thread_id, Some(run.id))).collect();
    let redactors = app.engine.redactors(&caller.tenant, RedactionChannel::Api, places).await?;
    let shown = found.map(|run| RunView::from(redactors.run(run)));
    Ok(Reply::ok(PageView::of(shown, |key| app.cursors.seal(&scope, key))))
}

impl ListRuns {
    fn filter(&self) -> Result<RunFilter, Problem> {
        let common = in_order(ListFilter {
            metadata: self.metadata.clone(),
            created_after: self.created_after,
            created_before: self.created_before,
        })?;
        let Self { status, agent_id: agent, thread_id: thread, .. } = *self;
        Ok(RunFilter { status, agent, thread, parent: self.parent_run_id, common })
    }
}
