//! `DELETE /v1/memory/items`.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::params::joined;
use super::seen;
use crate::domain::memory_item::{ItemKey, ItemPlace, Namespace};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::{IfMatch, Query};
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::memory_items;

/// Which item, and how much of it.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteParams {
    /// Its namespace: 1–8 parts with a slash between them.
    #[serde(deserialize_with = "joined")]
    #[param(value_type = String, example = "users/42")]
    namespace: Namespace,
    /// Its key.
    #[param(value_type = String, example = "favourite colour")]
    key: ItemKey,
    /// Whether all of its versions are forgotten, too, so that nothing is left of it.
    #[serde(default)]
    #[param(default = false)]
    purge: bool,
}

/// Delete an item
///
/// It is not there any more, and its versions stay listed behind one that says so. With `purge` nothing stays,
/// of an item that is there or was deleted before.
#[utoipa::path(delete, path = "/v1/memory/items", tag = "memory",
    operation_id = "memory_items_delete",
    params(DeleteParams,
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the item seen")),
    responses((status = 204, description = "Deleted")),
    extensions(("x-problems" = json!(["not-found"]))))]
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Scoped<MemoryWrite>,
    Query(params): Query<DeleteParams>,
    if_match: IfMatch,
) -> Result<NoContent, Problem> {
    let DeleteParams { namespace, key, purge } = params;
    let (tenant, place) = (&caller.tenant, ItemPlace { namespace, key });
    let seen = seen(&app, &caller, &place, &if_match).await?;
    let is_gone = if purge {
        memory_items::purge(&app.store, tenant, &place, seen.as_ref()).await?
    } else {
        memory_items::delete(&app.store, tenant, &place, seen.as_ref()).await?
    };
    match (is_gone, seen) {
        (true, _) => Ok(NoContent),
        (false, Some(_)) => Err(AgentlingError::PreconditionFailed.into()),
        (false, None) => Err(Problem::not_found()),
    }
}
