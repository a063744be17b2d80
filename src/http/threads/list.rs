//! `GET /v1/threads`.

use axum::extract::State;

use super::ThreadView;
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{ListParams, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::threads;

/// List threads
///
/// Newest first. `metadata.{key}=value` narrows the list to threads with that label.
#[utoipa::path(get, path = "/v1/threads", tag = "threads", operation_id = "threads_list",
    params(ListParams),
    responses((status = 200, description = "A page of threads", body = PageView<ThreadView>)))]
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    Query(query): Query<ListParams>,
) -> Result<Reply<PageView<ThreadView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/threads", &query);
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = threads::list(&app.store, &caller.tenant, &query.filter()?, &request).await?;
    let page = page.map(|thread| ThreadView::of(&app, thread));
    Ok(Reply::ok(PageView::of(page, |key| app.cursors.seal(&scope, key))))
}
