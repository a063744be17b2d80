//! Secrets as callers see them.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::domain::secret::{Origin, SecretFacts, SecretName};
use crate::http::time::Time;

/// How a secret is forgotten.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeleteQuery {
    /// Also while something names it: calls that need it fail from then on.
    #[serde(default)]
    pub(super) force: bool,
}

/// A secret, without its value: nobody is shown that.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Secret)]
pub(super) struct SecretView {
    /// Its name.
    name: SecretName,
    /// Grows by one with each value.
    version: i32,
    /// Where it may be sent.
    origins: Vec<Origin>,
    /// Eight hex digits by which equal values of a tenant can be told. They change when the server's keys
    /// do.
    #[schema(examples("3f9a01c7"))]
    fingerprint: String,
    /// When it was first stored.
    created_at: Time,
    /// When this version was stored.
    updated_at: Time,
    /// When it was last sent, to the minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<Time>,
}

impl From<SecretFacts> for SecretView {
    fn from(facts: SecretFacts) -> Self {
        Self {
            name: facts.name,
            version: facts.version,
            origins: facts.origins,
            fingerprint: facts.fingerprint,
            created_at: facts.created_at.into(),
            updated_at: facts.updated_at.into(),
            last_used_at: facts.last_used_at.map(Time::from),
        }
    }
}
