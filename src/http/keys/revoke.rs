//! `DELETE /v1/keys/{key_id}`.

use axum::extract::State;

use crate::domain::id::KeyId;
use crate::http::AppState;
use crate::http::auth::{AdminOnly, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::keys;

/// Revoke a key
///
/// It stops working at once here, and within 30 seconds on every other server over the same database. That
/// is for good; what it was remains listed.
#[utoipa::path(delete, path = "/v1/keys/{key_id}", tag = "keys", operation_id = "keys_revoke",
    params(("key_id" = KeyId, Path, description = "The key")),
    responses((status = 204, description = "Revoked")))]
pub(super) async fn revoke(
    State(app): State<AppState>,
    caller: Scoped<AdminOnly>,
    PathId(id): PathId<KeyId>,
) -> Result<NoContent, Problem> {
    let is_known = keys::revoke(&app.store, &caller.tenant, id, app.clock.now()).await?;
    app.auth.forget(id);
    if is_known { Ok(NoContent) } else { Err(Problem::not_found()) }
}
