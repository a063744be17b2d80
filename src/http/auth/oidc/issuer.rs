//! An issuer, and the keys that it has published, remembered for a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Deserialize;
use tokio::sync::watch;

use super::jwks::{self, Algorithm, KeySet, VerifyingKey};
use crate::config::OidcIssuer;
use crate::engine::tasks::Tasks;

/// How long an issuer is left alone after it was asked: tokens that name keys which do not exist are free
/// to make.
const PAUSE: Duration = Duration::from_mins(1);

/// How old keys may get before they are asked for anew, while they are used. A key that its issuer has
/// withdrawn stops working after that.
const FRESH: Duration = Duration::from_mins(15);

/// How long keys are used when their issuer cannot be reached.
const KEPT: Duration = Duration::from_hours(24);

/// Fetches what issuers publish.
pub trait JwksFetch: Send + Sync + std::fmt::Debug {
    /// The body behind a URL; otherwise a sentence for the operator about why it cannot be had.
    fn fetch(&self, url: String) -> BoxFuture<'_, Result<Vec<u8>, String>>;
}

/// An issuer of tokens.
#[derive(Debug)]
pub(super) struct Issuer {
    url: String,
    /// Where its keys are, if the operator says that.
    jwks_url: Option<String>,
    timeout: Duration,
    known: Mutex<Known>,
}

/// What is known of an issuer's keys.
#[derive(Debug, Default)]
struct Known {
    keys: KeySet,
    fetched: Option<Duration>,
    asked: Option<Duration>,
    /// Closed when the fetch that is under way is over.
    fetching: Option<watch::Receiver<()>>,
}

/// What a provider says of itself.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

impl Issuer {
    pub(super) fn new(settings: &OidcIssuer, timeout: Duration) -> Self {
        Self {
            url: settings.url.clone(),
            jwks_url: settings.jwks_url.clone(),
            timeout,
            known: Mutex::default(),
        }
    }

    /// The key of a name, for an algorithm. One that is not known is looked for at the issuer, for a bounded
    /// time and not more often than once a minute, however many ask.
    pub(super) async fn key(
        self: &Arc<Self>,
        wanted: &(String, Algorithm),
        (fetch, tasks): (&Arc<dyn JwksFetch>, &Tasks),
        now: Duration,
    ) -> Option<VerifyingKey> {
        if let Some((key, is_fresh)) = self.known(wanted, now) {
            if !is_fresh {
                // Nobody waits for it, so that an issuer which is down holds nobody up.
                drop(self.ask((fetch, tasks), now));
            }
            return Some(key);
        }
        let mut fetching = self.ask((fetch, tasks), now)?;
        // The fetch says nothing when it is over: it hangs up.
        fetching.changed().await.unwrap_or_default();
        self.known(wanted, now).map(|(key, _)| key)
    }

    /// A key that may be used, and whether it need not be asked for anew yet.
    fn known(&self, wanted: &(String, Algorithm), now: Duration) -> Option<(VerifyingKey, bool)> {
        let known = self.lock();
        let age = now.saturating_sub(known.fetched?);
        let key = known.keys.get(wanted).filter(|_| age < KEPT)?;
        Some((key.clone(), age < FRESH))
    }

    /// Asks the issuer, unless that was done just now. Answers what tells when the fetch is over. It is a
    /// task of its own, which goes on when the request that began it is dropped.
    fn ask(
        self: &Arc<Self>,
        (fetch, tasks): (&Arc<dyn JwksFetch>, &Tasks),
        now: Duration,
    ) -> Option<watch::Receiver<()>> {
        let mut known = self.lock();
        let under_way = known.fetching.take().filter(|fetching| fetching.has_changed().is_ok());
        if under_way.is_some() {
            known.fetching.clone_from(&under_way);
            return under_way;
        }
        if known.asked.is_some_and(|asked| now.saturating_sub(asked) < PAUSE) {
            return None;
        }
        known.asked = Some(now);
        let (done, fetching) = watch::channel(());
        known.fetching = Some(fetching.clone());
        drop(known);
        let (issuer, fetch) = (Arc::clone(self), Arc::clone(fetch));
        tasks.spawn(async move {
            issuer.refresh(&*fetch, now).await;
            drop(done);
        });
        Some(fetching)
    }

    /// Replaces the keys by those that the issuer has now; keeps them when it cannot be asked.
    async fn refresh(&self, fetch: &dyn JwksFetch, now: Duration) {
        let found = tokio::time::timeout(self.timeout, self.fetched(fetch)).await;
        match found.unwrap_or_else(|_| Err("it did not answer in time".to_owned())) {
            Ok(keys) => {
                let mut known = self.lock();
                known.keys = keys;
                known.fetched = Some(now);
            }
            Err(reason) => {
                tracing::warn!(issuer = %self.url, reason, "the keys of an issuer cannot be had");
            }
        }
    }

    async fn fetched(&self, fetch: &dyn JwksFetch) -> Result<KeySet, String> {
        let url = match &self.jwks_url {
            Some(url) => url.clone(),
            None => self.discovered(fetch).await?,
        };
        let document = fetch.fetch(url).await?;
        jwks::read(&document).ok_or_else(|| "its keys cannot be read".to_owned())
    }

    async fn discovered(&self, fetch: &dyn JwksFetch) -> Result<String, String> {
        let base = self.url.trim_end_matches('/');
        let document = fetch.fetch(format!("{base}/.well-known/openid-configuration")).await?;
        let found: Discovery = serde_json::from_slice(&document)
            .map_err(|_| "what it says of itself cannot be read".to_owned())?;
        if found.issuer == self.url {
            Ok(found.jwks_uri)
        } else {
            Err("it says that it is another issuer".to_owned())
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
