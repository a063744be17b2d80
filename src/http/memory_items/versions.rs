//! `GET /v1/memory/items/versions`.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::params::joined;
use super::view::VersionView;
use crate::domain::memory_item::{ItemKey, ItemPlace, Namespace};
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::Query;
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::memory_items;

/// Which item, and which page of its versions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionParams {
    /// Its namespace: 1–8 parts with a slash between them.
    #[serde(deserialize_with = "joined")]
    #[param(value_type = String, example = "users/42")]
    namespace: Namespace,
    /// Its key.
    #[param(value_type = String, example = "favourite colour")]
    key: ItemKey,
    /// How many entries at most, 1–200; 20 by default.
    #[serde(default)]
    limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// List the versions of an item
///
/// Newest first, those of an item that was deleted included. One that has expired has none.
#[utoipa::path(get, path = "/v1/memory/items/versions", tag = "memory",
    operation_id = "memory_items_versions",
    params(VersionParams),
    responses((status = 200, description = "A page of versions", body = PageView<VersionView>)),
    extensions(("x-problems" = json!(["not-found"]))))]
pub(super) async fn versions(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    Query(params): Query<VersionParams>,
) -> Result<Reply<PageView<VersionView>>, Problem> {
    let VersionParams { namespace, key, limit, cursor } = params;
    let place = ItemPlace { namespace, key };
    let of = (&place.namespace, &place.key);
    let scope = CursorScope::new(&caller.tenant, "/v1/memory/items/versions", &of);
    let request = app.cursors.page(&scope, limit, cursor.as_deref())?;
    let page = memory_items::versions(&app.store, &caller.tenant, &place, &request).await?;
    let page = page.ok_or_else(Problem::not_found)?.try_map(VersionView::of)?;
    Ok(Reply::ok(PageView::of(page, |key| app.cursors.seal(&scope, key))))
}
