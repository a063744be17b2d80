//! `DELETE /v1/secrets/{name}`.

use axum::extract::State;

use super::view::DeleteQuery;
use crate::domain::secret::SecretName;
use crate::http::AppState;
use crate::http::auth::{Scoped, SecretsWrite};
use crate::http::extract::{PathId, Query};
use crate::http::problem::Problem;
use crate::http::reply::NoContent;
use crate::store::{Conflict, StoreError, secret_uses, secrets};

/// Forget a secret
///
/// Refused while an agent, a skill or an MCP server names it, as these stand now; `references` lists some of
/// them. With `force` it is forgotten all the same, and calls that name it fail from then on.
#[utoipa::path(delete, path = "/v1/secrets/{name}", tag = "secrets",
    operation_id = "secrets_delete",
    params(("name" = SecretName, Path, description = "The name"), DeleteQuery),
    responses((status = 204, description = "Forgotten")),
    extensions(("x-problems" = json!(["in-use"]))))]
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Scoped<SecretsWrite>,
    PathId(name): PathId<SecretName>,
    Query(how): Query<DeleteQuery>,
) -> Result<NoContent, Problem> {
    if !how.force {
        let references = secret_uses::references(&app.store, &caller.tenant, &name).await?;
        if !references.is_empty() {
            return Err(StoreError::Conflict(Conflict::SecretInUse { references }).into());
        }
    }
    let is_gone = secrets::delete(&app.store, &caller.tenant, &name).await?;
    if is_gone { Ok(NoContent) } else { Err(Problem::not_found()) }
}
