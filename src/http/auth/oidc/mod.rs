//! Tokens of OpenID providers: signed by one of a fixed list of issuers, for this server, for now.
//!
//! A token names its issuer and a key of it, and nothing that it says beside that leads anywhere: keys come
//! only from where the operator's settings lead, whatever `jku`, `x5u` or `jwk` a token carries. What a key
//! can verify is decided by the key, so that no token can choose an algorithm.

mod claims;
mod issuer;
mod jwks;
mod token;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::config;
use crate::domain::caller::Caller;
use crate::engine::tasks::Tasks;
use claims::Expected;
use issuer::Issuer;
use token::Token;

pub use issuer::JwksFetch;

/// Why a token does not count: for the log, callers always read the same.
type Refusal = &'static str;

/// Tells who is behind a token.
#[derive(Debug)]
pub struct Oidc {
    issuers: BTreeMap<String, Arc<Issuer>>,
    expected: Expected,
    fetch: Arc<dyn JwksFetch>,
    tasks: Tasks,
}

impl Oidc {
    /// With the issuers of the settings; `None` when there are none.
    pub fn new(settings: &config::Oidc, fetch: Arc<dyn JwksFetch>) -> Option<Self> {
        let issuers: BTreeMap<String, Arc<Issuer>> = settings
            .issuers
            .iter()
            .map(|issuer| (issuer.url.clone(), Arc::new(Issuer::new(issuer, settings.timeout))))
            .collect();
        let expected = Expected::of(settings);
        (!issuers.is_empty()).then(|| Self { issuers, expected, fetch, tasks: Tasks::default() })
    }

    /// The caller behind a token, unless it does not count. Neither the token nor anything of it is logged.
    pub(super) async fn caller(
        &self,
        token: &str,
        (now, reading): (DateTime<Utc>, Duration),
    ) -> Option<Caller> {
        match self.judge(token, (now, reading)).await {
            Ok(caller) => Some(caller),
            Err(reason) => {
                tracing::debug!(reason, "a token does not count");
                None
            }
        }
    }

    async fn judge(
        &self,
        token: &str,
        (now, reading): (DateTime<Utc>, Duration),
    ) -> Result<Caller, Refusal> {
        let token = Token::read(token)?;
        let issuer = self.issuers.get(token.issuer()?).ok_or("its issuer is not listed")?;
        let key = issuer.key(token.signer(), (&self.fetch, &self.tasks), reading).await;
        let key = key.ok_or("its issuer has no such key")?;
        let claims = token.verified(&key)?;
        self.expected.caller(&claims, now)
    }
}
