//! `GET /v1/memory/items`.

use axum::extract::State;

use super::params::ItemParams;
use super::view::{ItemView, etag};
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::extract::Query;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::memory_items;

/// Get an item
///
/// One that has expired, was deleted, or whose newest version is redacted is not there. Items are listed by
/// `POST /v1/memory/search` without words.
#[utoipa::path(get, path = "/v1/memory/items", tag = "memory", operation_id = "memory_items_get",
    params(ItemParams),
    responses((status = 200, description = "The item", body = ItemView)),
    extensions(("x-problems" = json!(["not-found"]))))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    Query(params): Query<ItemParams>,
) -> Result<Reply<ItemView>, Problem> {
    let item = memory_items::get(&app.store, &caller.tenant, &params.into()).await?;
    let item = item.ok_or_else(Problem::not_found)?;
    let tag = etag(&item.facts);
    Ok(Reply::ok(ItemView::of(item)?).etag(tag))
}
