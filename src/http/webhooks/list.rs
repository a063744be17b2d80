//! `GET /v1/webhooks`.

use axum::extract::State;

use super::view::WebhookView;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{ListParams, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::webhooks;

/// List endpoints
///
/// Newest first. `metadata.{key}=value` narrows the list to endpoints with that label.
#[utoipa::path(get, path = "/v1/webhooks", tag = "webhooks", operation_id = "webhooks_list",
    params(ListParams),
    responses((status = 200, description = "A page of endpoints", body = PageView<WebhookView>)))]
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    Query(query): Query<ListParams>,
) -> Result<Reply<PageView<WebhookView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/webhooks", &query);
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = webhooks::list(&app.store, &caller.tenant, &query.filter()?, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(WebhookView::from), |key| app.cursors.seal(&scope, key))))
}
