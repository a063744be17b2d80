//! `DELETE /v1/secrets/{name}`.

use axum::extract::State;

use crate::domain::secret::SecretName;
use crate::http::AppState;
use crate::http::auth::{Scoped, SecretsWrite};
use crate::http::extract::PathId;
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::secrets;

/// Forget a secret
///
/// Calls that name it fail from then on.
#[utoipa::path(delete, path = "/v1/secrets/{name}", tag = "secrets",
    operation_id = "secrets_delete",
    params(("name" = SecretName, Path, description = "The name")),
    responses((status = 204, description = "Forgotten")))]
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Scoped<SecretsWrite>,
    PathId(name): PathId<SecretName>,
) -> Result<NoContent, Problem> {
    let is_gone = secrets::delete(&app.store, &caller.tenant, &name).await?;
    if is_gone { Ok(NoContent) } else { Err(Problem::not_found()) }
}
