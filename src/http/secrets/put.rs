//! `PUT /v1/secrets/{name}`.

use std::collections::BTreeSet;

use axum::extract::State;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::SecretView;
use crate::domain::secret::{MAX_ORIGINS, Origin, SecretName, value_fits};
use crate::engine::secrets::{self, NewSecret};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{Scoped, SecretsWrite};
use crate::http::extract::{Body, Checks, PathId};
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// A secret.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSecret)]
pub(super) struct PutSecret {
    /// The value: 8–8,192 visible ASCII characters, with spaces inside of it at most. It is never shown.
    #[schema(value_type = String, write_only, min_length = 8, max_length = 8192,
        pattern = "^[!-~]([ -~]*[!-~])?$",
        examples("a-token-of-the-weather-service"))]
    value: SecretString,
    /// Where it may be sent, 1–16 origins: to a tool or model elsewhere it is not.
    #[schema(value_type = Vec<Origin>, min_items = 1, max_items = 16)]
    origins: Vec<String>,
}

impl PutSecret {
    fn checked(self, name: SecretName) -> Result<NewSecret, AgentlingError> {
        let mut checks = Checks::new();
        let message = "must have 8–8192 visible ASCII characters, with spaces inside of it at most";
        let fits = value_fits(self.value.expose_secret());
        checks.require(fits, "/value", "invalid_value", message);
        let n_origins = self.origins.len();
        let message = "must list 1–16 origins";
        checks.require((1..=MAX_ORIGINS).contains(&n_origins), "/origins", "out_of_range", message);
        let mut origins = BTreeSet::new();
        for (n, text) in self.origins.iter().enumerate() {
            let origin = text.parse::<Origin>();
            let message = "must be an origin such as https://host or https://host:port";
            checks.require(origin.is_ok(), &format!("/origins/{n}"), "invalid_url", message);
            origins.extend(origin);
        }
        checks.finish()?;
        Ok(NewSecret { name, value: self.value, origins: origins.into_iter().collect() })
    }
}

/// Store a secret
///
/// It can be named by headers of tools and as the key of a model, and is sent to the origins that it is
/// bound to and nowhere else. A new value is a new version, which is what is sent from then on; a value
/// that is there already changes nothing, so that a request can be repeated.
#[utoipa::path(put, path = "/v1/secrets/{name}", tag = "secrets", operation_id = "secrets_put",
    params(("name" = SecretName, Path, description = "The name")),
    request_body = PutSecret,
    responses((status = 200, description = "The secret, without its value", body = SecretView)),
    extensions(("x-problems" = json!(["egress-denied", "secrets-not-configured",
        "version-conflict"]))))]
pub(super) async fn put(
    State(app): State<AppState>,
    caller: Scoped<SecretsWrite>,
    PathId(name): PathId<SecretName>,
    Body(new): Body<PutSecret>,
) -> Result<Reply<SecretView>, Problem> {
    let facts = secrets::put(&app.engine, &caller.tenant, new.checked(name)?).await?;
    Ok(Reply::ok(facts.into()))
}
