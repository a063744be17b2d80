//! Authentication: from the `Authorization` header to a caller.

mod key;
mod keys;
mod layer;
mod oidc;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST};
use secrecy::{ExposeSecret as _, SecretString};
use subtle::ConstantTimeEq as _;

use crate::clock::{Ids, SharedClock};
use crate::domain::caller::{Caller, Scope};
use crate::domain::id::{KeyId, TenantId};
use crate::error::AgentlingError;
use crate::http::problem::{Problem, ProblemKind};
use crate::store::keys::StoredKey;

pub use key::{ApiKey, Pepper};
pub use keys::{KeyLookup, KeySource};
pub use layer::{
    AdminOnly, AgentsRead, AgentsWrite, LedgerRead, MemoryRead, MemorySystem, MemoryWrite,
    NeedsScope, RunsRead, RunsWrite, Scoped, SecretsWrite, ToolsWrite, authenticate,
};
pub use oidc::{JwksFetch, Oidc};

/// Decides who a caller is.
#[derive(Debug)]
pub struct Auth {
    keys: KeySource,
    pepper: Pepper,
    clock: SharedClock,
    bootstrap: Option<SecretString>,
    loopback: bool,
    oidc: Option<Oidc>,
}

/// How a server authenticates.
#[derive(Debug)]
pub struct AuthSettings {
    /// What the stored hashes are made with.
    pub pepper: Pepper,
    /// The operator's key with all scopes for the default tenant.
    pub bootstrap: Option<SecretString>,
    /// Whether the server is bound to loopback only: then it is open while there is no key.
    pub loopback: bool,
    /// What takes tokens in place of keys.
    pub oidc: Option<Oidc>,
}

impl Auth {
    /// With keys from a store.
    pub fn new(keys: Box<dyn KeyLookup>, clock: SharedClock, settings: AuthSettings) -> Self {
        let AuthSettings { pepper, bootstrap, loopback, oidc } = settings;
        Self { keys: KeySource::new(keys), pepper, clock, bootstrap, loopback, oidc }
    }

    /// A new key, and what is stored of its secret.
    ///
    /// # Errors
    /// When the operating system has no random bytes to give.
    pub fn mint(&self, ids: &dyn Ids) -> Result<(ApiKey, Vec<u8>), AgentlingError> {
        let key = ApiKey::mint(ids).map_err(|error| AgentlingError::internal(error.to_string()))?;
        let hash = key.hash(&self.pepper).to_vec();
        Ok((key, hash))
    }

    /// Has the stored key looked up again the next time that it is shown, because it has changed.
    pub fn forget(&self, id: KeyId) {
        self.keys.forget(id);
    }

    /// The caller behind a request. `named` is the server as the request's target names it, which is what
    /// HTTP/2 has in place of `Host`.
    pub async fn caller(
        &self,
        headers: &HeaderMap,
        named: Option<&str>,
    ) -> Result<Caller, Problem> {
        let mut given = headers.get_all(AUTHORIZATION).iter();
        match (given.next(), given.next()) {
            (None, _) => self.without_key(headers, named).await,
            (Some(value), None) => {
                let token = value.to_str().ok().and_then(bearer).ok_or_else(unauthenticated)?;
                self.with_key(token).await
            }
            (Some(_), Some(_)) => Err(unauthenticated()),
        }
    }

    /// A server that has no keys at all and that only this machine can reach is open.
    async fn without_key(
        &self,
        headers: &HeaderMap,
        named: Option<&str>,
    ) -> Result<Caller, Problem> {
        let may_be_open = self.loopback && self.bootstrap.is_none() && self.oidc.is_none();
        if !may_be_open || self.keys.any().await? {
            return Err(unauthenticated());
        }
        check_host(headers, named)?;
        Ok(everything())
    }

    async fn with_key(&self, token: &str) -> Result<Caller, Problem> {
        let bootstrap = self
            .bootstrap
            .as_ref()
            .is_some_and(|key| bool::from(key.expose_secret().as_bytes().ct_eq(token.as_bytes())));
        if bootstrap {
            return Ok(everything());
        }
        // No key holds a dot, and every token two.
        if let Some(oidc) = self.oidc.as_ref().filter(|_| token.contains('.')) {
            let times = (self.clock.now(), self.clock.monotonic());
            return oidc.caller(token, times).await.ok_or_else(unauthenticated);
        }
        let key: ApiKey = token.parse().map_err(|_| unauthenticated())?;
        let stored = self.keys.find(key.id(), self.clock.monotonic()).await?;
        // An unknown id costs the same as a wrong secret.
        let hash = stored.as_ref().map_or([0; 32].as_slice(), |stored| stored.hash.as_slice());
        let genuine = bool::from(key.hash(&self.pepper).ct_eq(hash));
        let now = self.clock.now();
        stored
            .filter(|stored| genuine && stored.is_live(now))
            .map(caller_of)
            .ok_or_else(unauthenticated)
    }
}

/// One answer for every way in which a credential does not count.
fn unauthenticated() -> Problem {
    AgentlingError::Unauthenticated.into()
}

/// The token of `Bearer <token>`, in any case of the word.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim()).filter(|token| !token.is_empty())
}

fn caller_of(key: StoredKey) -> Caller {
    Caller { tenant: key.tenant, key: Some(key.id), scopes: key.scopes.into_iter().collect() }
}

/// The caller with all scopes for the default tenant.
fn everything() -> Caller {
    let scopes: BTreeSet<Scope> = Scope::ALL.iter().copied().collect();
    Caller { tenant: TenantId::default(), key: None, scopes }
}

/// An open server answers only to the names of this machine: a web page that has its own name point
/// here is told apart by `Host`, and by the target where that names a server as well.
fn check_host(headers: &HeaderMap, named: Option<&str>) -> Result<(), Problem> {
    let mut hosts = headers.get_all(HOST).iter();
    let is_named_well = match (hosts.next(), hosts.next()) {
        (None, _) => named.is_some_and(is_local),
        (Some(host), None) => host.to_str().is_ok_and(is_local) && named.is_none_or(is_local),
        (Some(_), Some(_)) => false,
    };
    if is_named_well {
        return Ok(());
    }
    let detail = "without API keys this server answers only to localhost, 127.0.0.1 and [::1]";
    Err(Problem::new(ProblemKind::MisdirectedRequest, detail))
}

fn is_local(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        let port = host
            .get(..name.len())
            .filter(|start| start.eq_ignore_ascii_case(name))
            .and_then(|_| host.get(name.len()..));
        port.is_some_and(|port| {
            port.is_empty()
                || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
        })
    })
}
