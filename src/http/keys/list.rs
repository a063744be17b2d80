//! `GET /v1/keys`.

use axum::extract::State;

use super::view::KeyView;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{PageParams, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::keys;

/// List keys
///
/// Newest first, those that no longer work among them, without their texts. The key that the operator sets
/// is none of them.
#[utoipa::path(get, path = "/v1/keys", tag = "keys", operation_id = "keys_list",
    params(PageParams),
    responses((status = 200, description = "A page of keys", body = PageView<KeyView>)))]
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    Query(query): Query<PageParams>,
) -> Result<Reply<PageView<KeyView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/keys", &());
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = keys::page(&app.store, &caller.tenant, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(KeyView::from), |key| app.cursors.seal(&scope, key))))
}
