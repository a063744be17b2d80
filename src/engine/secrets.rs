//! Secrets of tenants: sealed on their way to the store, opened on their way out of the server, and held
//! by nobody in between.

use std::sync::Arc;

use futures::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;
use url::Url;

use super::{Context, Engine};
use crate::clock::{SharedClock, SharedIds};
use crate::domain::agent::AgentSpec;
use crate::domain::id::TenantId;
use crate::domain::memory::Finding;
use crate::domain::model::ModelSpec;
use crate::domain::secret::{Origin, SecretFacts, SecretName, SecretUnavailable};
use crate::domain::tool::ToolSpec;
use crate::error::AgentlingError;
use crate::seal::{Keyring, Place, SealError, Sealed, WrappedKey};
use crate::store::secrets::{self, SealedRow, StaleKey, StoredSecret};
use crate::store::{Store, StoreError};
use crate::tools::secrets::{SecretSource, SecretUse, secret_uses};

/// How often a secret is written again when others write it at the same time.
const TRIES: u32 = 4;

/// What opens and seals secrets.
#[derive(Debug, Clone)]
pub struct Secrets {
    store: Store,
    keyring: Arc<Keyring>,
    clock: SharedClock,
    ids: SharedIds,
}

impl Secrets {
    /// Secrets over a store, under the operator's keys.
    pub fn new(store: Store, keyring: Keyring, clock: SharedClock, ids: SharedIds) -> Self {
        Self { store, keyring: Arc::new(keyring), clock, ids }
    }

    pub(super) fn opened(
        &self,
        tenant: &TenantId,
        secret: &StoredSecret,
    ) -> Result<SecretString, SealError> {
        let SecretFacts { name, version, .. } = &secret.facts;
        let row = secret.sealed.clone();
        let key = WrappedKey { kek_id: row.kek_id, bytes: row.wrapped_key };
        let sealed = Sealed { value: row.sealed, key };
        self.keyring.open(Place { tenant, name, version: *version }, &sealed)
    }

    /// Whether a secret is there with this value and these origins already.
    fn is_same(&self, tenant: &TenantId, seen: &StoredSecret, new: &NewSecret) -> bool {
        let Ok(value) = self.opened(tenant, seen) else { return false };
        let (seen_value, value) = (value.expose_secret(), new.value.expose_secret());
        seen.facts.origins == new.origins && seen_value.as_bytes().ct_eq(value.as_bytes()).into()
    }

    fn sealed(
        &self,
        tenant: &TenantId,
        seen: Option<&StoredSecret>,
        new: &NewSecret,
    ) -> Result<StoredSecret, AgentlingError> {
        let version = seen.map_or(1, |seen| seen.facts.version.saturating_add(1));
        let place = Place { tenant, name: &new.name, version };
        let draw = || self.ids.secret().map_err(internal);
        let sealed = self.keyring.seal(place, &new.value, (draw()?, draw()?)).map_err(of_seal)?;
        let fingerprint = self.keyring.fingerprint(tenant, &new.value).map_err(of_seal)?;
        let now = self.clock.now();
        let facts = SecretFacts {
            name: new.name.clone(),
            version,
            origins: new.origins.clone(),
            fingerprint,
            created_at: seen.map_or(now, |seen| seen.facts.created_at),
            updated_at: now,
            last_used_at: seen.and_then(|seen| seen.facts.last_used_at),
        };
        let Sealed { value: sealed, key: WrappedKey { kek_id, bytes: wrapped_key } } = sealed;
        Ok(StoredSecret { facts, sealed: SealedRow { sealed, wrapped_key, kek_id } })
    }

    async fn read(
        &self,
        tenant: &TenantId,
        name: &SecretName,
        url: &Url,
    ) -> Result<SecretString, SecretUnavailable> {
        let found = secrets::take(&self.store, tenant, name, self.clock.now()).await;
        let secret = found.map_err(unread)?.ok_or(SecretUnavailable::Missing)?;
        if !secret.facts.origins.iter().any(|origin| origin.covers(url)) {
            return Err(SecretUnavailable::OtherOrigin);
        }
        self.opened(tenant, &secret).map_err(|error| {
            tracing::error!(%tenant, secret = %name, %error, "a secret cannot be opened");
            SecretUnavailable::Sealed
        })
    }

    /// Puts every data key under the first key of the keyring. Whoever breaks off goes on where it is
    /// called again; what cannot be opened is told in the log and stays as it is.
    ///
    /// # Errors
    /// When the database does not answer, or there is no key.
    pub async fn rewrap(&self) -> Result<Rewrapped, AgentlingError> {
        let first = self.keyring.first().map_err(of_seal)?.to_owned();
        let mut done = Rewrapped::default();
        let mut after = (String::new(), String::new());
        loop {
            let at = (after.0.as_str(), after.1.as_str());
            let stale = secrets::stale_keys(&self.store, &first, at).await?;
            let Some(last) = stale.last() else { return Ok(done) };
            after = (last.tenant.to_string(), last.name.to_string());
            for stale in &stale {
                self.rewrap_one(stale, &mut done).await?;
            }
        }
    }

    async fn rewrap_one(
        &self,
        stale: &StaleKey,
        done: &mut Rewrapped,
    ) -> Result<(), AgentlingError> {
        let StaleKey { tenant, name, version, wrapped_key, kek_id } = stale;
        let old = WrappedKey { kek_id: kek_id.clone(), bytes: wrapped_key.clone() };
        let place = Place { tenant, name, version: *version };
        let draw = self.ids.secret().map_err(internal)?;
        match self.keyring.rewrap(place, &old, draw) {
            // One that is written meanwhile is under the first key already.
            Ok(Some(new)) => {
                let wrapped = (new.kek_id.as_str(), new.bytes.as_slice());
                done.n_rewrapped += u64::from(secrets::rewrap(&self.store, stale, wrapped).await?);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%tenant, secret = %name, %error, "a secret cannot be rewrapped");
                done.n_left += 1;
            }
        }
        Ok(())
    }
}

/// What came of replacing keys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rewrapped {
    /// How many data keys are under the first key now that were not.
    pub n_rewrapped: u64,
    /// How many could not be opened.
    pub n_left: u64,
}

/// A secret as a caller gives it.
#[derive(Debug)]
pub struct NewSecret {
    /// Its name.
    pub name: SecretName,
    /// Its value.
    pub value: SecretString,
    /// Where it may be sent.
    pub origins: Vec<Origin>,
}

/// Stores a secret, as a new version unless it is there as it is given.
///
/// # Errors
/// When the operator has set no key, an origin may not be called, or the database does not take it.
pub async fn put(
    engine: &Engine,
    tenant: &TenantId,
    new: NewSecret,
) -> Result<SecretFacts, AgentlingError> {
    let parts = &engine.context.parts;
    parts.secrets.keyring.first().map_err(of_seal)?;
    for (n, origin) in new.origins.iter().enumerate() {
        super::webhooks::check_url(engine, origin.as_str(), &format!("/origins/{n}"))?;
    }
    for _ in 0..TRIES {
        let seen = secrets::get(&parts.store, tenant, &new.name).await?;
        if let Some(seen) = &seen
            && parts.secrets.is_same(tenant, seen, &new)
        {
            return Ok(seen.facts.clone());
        }
        let sealed = parts.secrets.sealed(tenant, seen.as_ref(), &new)?;
        if secrets::put(&parts.store, tenant, &sealed).await? {
            return Ok(sealed.facts);
        }
    }
    Err(AgentlingError::VersionConflict)
}

/// Refuses an agent that names a secret which is not there, or not bound to where it would be sent. It is
/// judged again whenever it is sent. `at` is the pointer to the agent in the caller's document.
pub(super) async fn check(
    context: &Context,
    tenant: &TenantId,
    spec: &AgentSpec,
    at: &str,
) -> Result<(), AgentlingError> {
    check_uses(context, tenant, uses(context, spec), at).await
}

/// Refuses tools for the same reasons. `at` is the pointer to what has them in the caller's document.
pub(super) async fn check_tools(
    context: &Context,
    tenant: &TenantId,
    tools: &[ToolSpec],
    at: &str,
) -> Result<(), AgentlingError> {
    check_uses(context, tenant, secret_uses(tools).collect(), at).await
}

/// Refuses what names secrets for the same reasons.
pub(super) async fn check_uses(
    context: &Context,
    tenant: &TenantId,
    uses: Vec<SecretUse>,
    at: &str,
) -> Result<(), AgentlingError> {
    let mut findings = Vec::new();
    for SecretUse { pointer, name, url } in uses {
        let found = secrets::get(context.store(), tenant, &name).await?;
        let is_bound =
            |secret: &StoredSecret| secret.facts.origins.iter().any(|origin| origin.covers(&url));
        let (code, message) = match found {
            Some(secret) if is_bound(&secret) => continue,
            Some(_) => ("secret_not_bound", "the secret is not bound to the origin of the URL"),
            None => ("unknown_secret", "there is no secret of this name"),
        };
        findings.push(Finding::new(format!("{at}{pointer}"), code, message));
    }
    if findings.is_empty() { Ok(()) } else { Err(AgentlingError::Invalid(findings)) }
}

/// The secrets of an agent and where each is sent.
fn uses(context: &Context, spec: &AgentSpec) -> Vec<SecretUse> {
    let of_model = |(at, model): (String, &ModelSpec)| {
        let name = model.api_key.as_ref()?.secret.clone();
        let url = context.parts.models.address(model).ok()?;
        Some(SecretUse { pointer: format!("{at}/api_key"), name, url })
    };
    let fallbacks = spec.model.fallbacks.iter().enumerate();
    let fallbacks = fallbacks.map(|(n, model)| (format!("/model/fallbacks/{n}"), model));
    let models = std::iter::once(("/model".to_owned(), &spec.model)).chain(fallbacks);
    models.filter_map(of_model).chain(secret_uses(&spec.tools)).collect()
}

/// The key that a model is asked with, where it brings one of its own.
pub(super) async fn model_key(
    context: &Context,
    tenant: &TenantId,
    spec: &ModelSpec,
) -> Result<Option<(SecretName, SecretString)>, SecretUnavailable> {
    let Some(key) = &spec.api_key else { return Ok(None) };
    let url = context.parts.models.address(spec).map_err(|_| SecretUnavailable::OtherOrigin)?;
    let value = context.parts.secrets.read(tenant, &key.secret, &url).await?;
    Ok(Some((key.secret.clone(), value)))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands on")]
fn unread(error: StoreError) -> SecretUnavailable {
    tracing::warn!(%error, source = ?error, "a secret could not be read");
    SecretUnavailable::Unread
}

fn internal(error: impl std::error::Error + Send + Sync + 'static) -> AgentlingError {
    AgentlingError::Internal(Box::new(error))
}

fn of_seal(error: SealError) -> AgentlingError {
    match error {
        SealError::NoKey => AgentlingError::SecretsNotConfigured,
        SealError::UnknownKey(_) | SealError::Broken => internal(error),
    }
}

impl SecretSource for Secrets {
    fn reveal<'a>(
        &'a self,
        tenant: &'a TenantId,
        name: &'a SecretName,
        url: &'a Url,
    ) -> BoxFuture<'a, Result<SecretString, SecretUnavailable>> {
        Box::pin(self.read(tenant, name, url))
    }
}
