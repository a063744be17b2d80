//! Sends wire bytes to a model and reads what comes back: one attempt at a time, within a deadline.
//!
//! The sender never retries. The machine counts attempts, and [`retry`] says how long to wait.

mod address;
mod answer;
mod attempt;
mod budget;
pub mod client;
pub mod keys;
mod opening;
mod peer;
mod request;
pub mod retry;
mod scripted;
mod sigv4;

pub use attempt::Attempt;
pub use keys::ProviderKeys;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use secrecy::SecretString;

use crate::clock::SharedClock;
use crate::domain::message::Reply;
use crate::domain::model::{ModelError, ModelErrorKind, ModelSpec, Provider};
use crate::egress::{EgressDenied, Route};
use crate::wire::{self, DeltaPiece, Encoded, Profile, Prompt};

use answer::{Asked, Reader};
use attempt::Capture;
use budget::{Account, RetryBudgets};
use client::HttpClient;
use opening::Opening;
use peer::Peer;

/// The turn of a model call that writes a summary: it is none of a run's.
pub const SUMMARY_TURN: u32 = 0;

/// One attempt at one turn.
#[derive(Debug, Clone)]
pub struct ModelCall {
    /// Whom to ask.
    pub spec: ModelSpec,
    /// What to ask.
    pub prompt: Prompt,
    /// What the model can do.
    pub profile: Profile,
    /// The turn, from 1, or [`SUMMARY_TURN`].
    pub turn: u32,
    /// The attempt at the turn, from 1.
    pub attempt: u32,
    /// How often the model has been asked at the turn, this time included. It is less than `attempt`
    /// where another model was asked before.
    pub tries: u32,
    /// How long the whole call may take.
    pub timeout: Duration,
}

impl ModelCall {
    /// Whether the reply is asked for as a stream.
    pub fn streams(&self) -> bool {
        self.prompt.settings.stream.unwrap_or(true)
    }

    /// What the answer should look like.
    fn asked(&self) -> Asked {
        let spec = &self.spec;
        let framing = wire::endpoint(spec.provider, &spec.name, self.streams()).framing;
        Asked { framing, streams: self.streams() }
    }

    /// The request body and where its bytes come from.
    pub fn encoded(&self) -> Encoded {
        wire::encode(self.spec.provider, &self.prompt, &self.profile, self.streams())
    }

    /// The request body; the same call always gives the same bytes.
    pub fn request(&self) -> Bytes {
        self.encoded().body.into()
    }
}

/// Bounds of reading an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The longest silence between two reads of a body, once it has begun.
    pub idle: Duration,
    /// How soon a connection that is used again has to fail to count as closed before: only then is its
    /// request sent once more.
    pub at_once: Duration,
    /// How long to wait for token counts and the end marker after the model said why it stopped:
    /// some servers never close.
    pub linger: Duration,
    /// The largest reply in bytes.
    pub reply: usize,
    /// How much of an error's body is read, in bytes.
    pub error: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            idle: Duration::from_mins(1),
            at_once: Duration::from_secs(1),
            linger: Duration::from_secs(3),
            reply: 32 * 1024 * 1024,
            error: 64 * 1024,
        }
    }
}

/// Every model this server can ask.
#[derive(Debug, Clone)]
pub struct Models {
    http: HttpClient,
    keys: ProviderKeys,
    clock: SharedClock,
    bounds: Bounds,
    retries: Arc<Mutex<RetryBudgets>>,
}

impl Models {
    /// A sender over a client of [`client::http_client`].
    pub fn new(http: HttpClient, keys: ProviderKeys, clock: SharedClock) -> Self {
        let retries = Arc::default();
        Self { http, keys, clock, bounds: Bounds::default(), retries }
    }

    /// The same with other bounds.
    #[must_use]
    pub fn with_bounds(self, bounds: Bounds) -> Self {
        Self { bounds, ..self }
    }

    /// Makes one attempt, with a key of the model's own or else that of the server. Pieces of a streamed
    /// reply are handed on as they arrive; the outcome holds all of them again. Dropping the future hangs
    /// up.
    pub async fn call(
        &self,
        call: &ModelCall,
        key: Option<&SecretString>,
        on_delta: &mut (dyn FnMut(DeltaPiece) + Send),
    ) -> Attempt {
        if call.tries == 1
            && let Some(account) = self.account(&call.spec)
        {
            self.retries().called(account, self.clock.monotonic());
        }
        let mut capture = Capture::of(&self.clock, call.encoded());
        let exchange = Box::pin(self.exchange((call, key), &mut capture, on_delta));
        let outcome = tokio::time::timeout(call.timeout, exchange).await.unwrap_or_else(|_| {
            let what = format!("no whole reply within {} ms", call.timeout.as_millis());
            Err(ModelError::new(call.spec.provider, ModelErrorKind::Timeout, what))
        });
        capture.over(outcome)
    }

    /// An attempt that was given up before anything was sent.
    pub fn unsent(&self, call: &ModelCall, error: ModelError) -> Attempt {
        Capture::of(&self.clock, call.encoded()).over(Err(error))
    }

    /// Where a model is reached, without what is asked there.
    ///
    /// # Errors
    /// When that is nowhere.
    pub fn address(&self, spec: &ModelSpec) -> Result<Url, ModelError> {
        address::of_base(spec, self.keys.region())
    }

    /// Whether the address that an agent names for a model may be called. One that is not even an address
    /// is somebody else's to tell.
    ///
    /// # Errors
    /// With the rule that it breaks.
    pub fn check_address(&self, spec: &ModelSpec) -> Result<(), EgressDenied> {
        let Ok(url) = address::of_base(spec, self.keys.region()) else { return Ok(()) };
        self.route(spec.provider, &url).map(|_| ())
    }

    /// Providers' own addresses and those that the operator lists are reached as they are. Every other
    /// one was named by a tenant, and is held to what holds for the URLs of tools.
    fn route(&self, provider: Provider, url: &Url) -> Result<Route, EgressDenied> {
        if self.keys.lead_to(provider, url) {
            return Ok(Route::Vouched);
        }
        self.http.policy().route_model(url)
    }

    /// Whether a call that failed may be made again, as far as what is called has retries left. A yes
    /// counts as one: it is asked for right before.
    pub fn may_retry(&self, spec: &ModelSpec) -> bool {
        let account = self.account(spec);
        account.is_none_or(|account| self.retries().take(account, self.clock.monotonic()))
    }

    /// What a model's retries are counted for: the key it is asked with, else its server. What runs
    /// inside this process, or has no address, has nothing to spare.
    fn account(&self, spec: &ModelSpec) -> Option<Account> {
        if spec.provider == Provider::Scripted {
            return None;
        }
        let url = address::of_base(spec, self.keys.region()).ok()?;
        let key = self.keys.variable(spec.provider, &url).filter(|_| spec.api_key.is_none());
        Some(key.map_or_else(|| Account::Origin(url.origin().ascii_serialization()), Account::Key))
    }

    fn retries(&self) -> MutexGuard<'_, RetryBudgets> {
        // Counts are as good after a panic as before.
        self.retries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn exchange(
        &self,
        (call, key): (&ModelCall, Option<&SecretString>),
        capture: &mut Capture,
        on_delta: &mut (dyn FnMut(DeltaPiece) + Send),
    ) -> Result<Reply, ModelError> {
        let provider = call.spec.provider;
        wire::prove(&call.prompt, capture.encoded()).map_err(|violation| {
            ModelError::new(provider, ModelErrorKind::FramingViolation, violation.to_string())
        })?;
        let peer = match provider {
            Provider::Scripted => scripted::answer(call, &capture.request()).await,
            _ => self.send(call, key, capture).await?,
        };
        capture.answered(peer.status, &peer.content_type);
        let (profile, bounds) = (call.profile, self.bounds);
        let opening = Opening::default();
        let reader = Reader { provider, profile, bounds, peer, capture, opening };
        let mut reply = reader.read(call.asked(), self.clock.now(), on_delta).await?;
        call.prompt.names.restore(&mut reply);
        Ok(reply)
    }

    async fn send(
        &self,
        call: &ModelCall,
        key: Option<&SecretString>,
        capture: &mut Capture,
    ) -> Result<Peer, ModelError> {
        let (http, keys) = (self.http.maker(), (&self.keys, key));
        let request = request::of(call, http, keys, capture.request(), self.clock.now())?;
        let provider = call.spec.provider;
        let route = self.route(provider, request.url());
        let route = route.map_err(|refusal| peer::denied(provider, refusal))?;
        capture.sending(&request);
        let (now, at_once) = (self.clock.monotonic(), self.bounds.at_once);
        let sent = self.http.send((request, route), now, at_once).await;
        sent.map(Peer::http).map_err(|error| peer::transport(provider, error))
    }
}

#[cfg(test)]
mod tests;
