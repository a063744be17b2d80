//! `GET /v1/secrets`.

use axum::extract::State;

use super::view::SecretView;
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::{PageParams, Query};
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::secrets;

/// List secrets
///
/// Newest first, without their values.
#[utoipa::path(get, path = "/v1/secrets", tag = "secrets", operation_id = "secrets_list",
    params(PageParams),
    responses((status = 200, description = "A page of secrets", body = PageView<SecretView>)))]
pub(super) async fn list(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    Query(query): Query<PageParams>,
) -> Result<Reply<PageView<SecretView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/secrets", &());
    let request = app.cursors.page(&scope, query.limit, query.cursor.as_deref())?;
    let page = secrets::list(&app.store, &caller.tenant, &request).await?;
    Ok(Reply::ok(PageView::of(page.map(SecretView::from), |key| app.cursors.seal(&scope, key))))
}
