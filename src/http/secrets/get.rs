//! `GET /v1/secrets/{name}`.

use axum::extract::State;

use super::view::SecretView;
use crate::domain::secret::SecretName;
use crate::http::AppState;
use crate::http::auth::{AgentsRead, Scoped};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::secrets;

/// Get a secret
///
/// Everything but its value.
#[utoipa::path(get, path = "/v1/secrets/{name}", tag = "secrets", operation_id = "secrets_get",
    params(("name" = SecretName, Path, description = "The name")),
    responses((status = 200, description = "The secret, without its value", body = SecretView)))]
pub(super) async fn get(
    State(app): State<AppState>,
    caller: Scoped<AgentsRead>,
    PathId(name): PathId<SecretName>,
) -> Result<Reply<SecretView>, Problem> {
    let secret = secrets::get(&app.store, &caller.tenant, &name).await?;
    let secret = secret.ok_or_else(Problem::not_found)?;
    Ok(Reply::ok(secret.facts.into()))
}
