//! `GET /v1/keys/{key_id}`.

use axum::extract::State;

use super::view::KeyView;
use crate::domain::id::KeyId;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::keys;

/// Get a key
///
/// Everything but its text, which is stored nowhere.
#[utoipa::path(get, path = "/v1/keys/{key_id}", tag = "keys", operation_id = "keys_get",
    params(("key_id" = KeyId, Path, description = "The key")),
    responses((status = 200, description = "The key, without its text", body = KeyView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    PathId(id): PathId<KeyId>,
) -> Result<Reply<KeyView>, Problem> {
    let key = keys::get(&app.store, &caller.tenant, id).await?;
    Ok(Reply::ok(key.ok_or_else(Problem::not_found)?.into()))
}
