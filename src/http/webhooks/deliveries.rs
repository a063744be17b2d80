//! `GET /v1/webhooks/{webhook_id}/deliveries`.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::find;
use super::view::DeliveryView;
use crate::domain::id::WebhookId;
use crate::domain::webhook::DeliveryState;
use crate::http::AppState;
use crate::http::auth::{RunsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::outbox;

/// Which deliveries are listed.
#[derive(Debug, Deserialize, Serialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct ListDeliveries {
    /// How many entries at most, 1–200; 20 by default.
    #[serde(default, skip_serializing)]
    limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default, skip_serializing)]
    cursor: Option<String>,
    /// Only those that stand like this.
    #[serde(default)]
    state: Option<DeliveryState>,
}

/// List the deliveries to an endpoint
///
/// Newest first.
#[utoipa::path(get, path = "/v1/webhooks/{webhook_id}/deliveries", tag = "webhooks",
    operation_id = "webhooks_deliveries",
    params(("webhook_id" = WebhookId, Path, description = "The endpoint"), ListDeliveries),
    responses((status = 200, description = "A page of deliveries", body = PageView<DeliveryView>)))]
pub(super) async fn deliveries(
    State(app): State<AppState>,
    caller: Scoped<RunsRead>,
    PathId(id): PathId<WebhookId>,
    Query(query): Query<ListDeliveries>,
) -> Result<Reply<PageView<DeliveryView>>, Problem> {
    let webhook = find(&app, &caller, id).await?;
    let route = format!("/v1/webhooks/{id}/deliveries");
    let scope = CursorScope::new(&caller.tenant, &route, &query);
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let which = (webhook.id, query.state);
    let page = outbox::list(&app.store, &caller.tenant, which, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(DeliveryView::from), |key| app.cursors.seal(&scope, key))))
}
