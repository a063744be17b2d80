//! The HTTP clients that models are asked with.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Request, Response};
use tokio::time::Instant;

use crate::egress::{EgressPolicy, Route, SetupError, guard};

/// What keeps a client from being made.
pub type ClientError = reqwest::Error;

static TLS: Once = Once::new();

/// How long a connection may lie idle before it is not used again.
const POOL_IDLE: Duration = Duration::from_secs(20);

/// How many servers are remembered that answered of late.
const SERVERS: usize = 1_024;

/// Sends requests over connections that are kept for the next one.
#[derive(Debug, Clone)]
pub struct HttpClient {
    policy: Arc<EgressPolicy>,
    /// To providers, and where the operator vouches for the host.
    vouched: Pair,
    /// To addresses that agents name.
    guarded: Pair,
    answered: Arc<Mutex<BTreeMap<String, Duration>>>,
}

/// The clients of one route.
#[derive(Debug, Clone)]
struct Pair {
    pooled: Client,
    /// One that keeps no connections, and so has none that can have died unnoticed.
    fresh: Client,
}

impl Pair {
    fn of(make: impl Fn() -> Result<ClientBuilder, SetupError>) -> Result<Self, SetupError> {
        let pooled = make()?.pool_idle_timeout(POOL_IDLE).build()?;
        Ok(Self { pooled, fresh: make()?.pool_max_idle_per_host(0).build()? })
    }
}

/// A client with the house's rules: no redirects, which would carry keys and prompts elsewhere; no
/// proxy from the environment; no overall timeout, since every call brings its deadline.
///
/// Addresses that agents name are held to the policy.
///
/// # Errors
/// When the machine's certificates cannot be read.
pub fn http_client(policy: Arc<EgressPolicy>) -> Result<HttpClient, SetupError> {
    let vouched = Pair::of(|| Ok(builder()))?;
    let guarded = Pair::of(|| guard(builder(), &policy))?;
    Ok(HttpClient { policy, vouched, guarded, answered: Arc::default() })
}

fn builder() -> ClientBuilder {
    // reqwest is built without a TLS provider of its own and panics when there is none. That one is
    // there already is as good.
    TLS.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("agentling/", env!("CARGO_PKG_VERSION")))
}

impl HttpClient {
    /// What requests are made with.
    pub(super) const fn maker(&self) -> &Client {
        &self.vouched.pooled
    }

    /// What the operator says about addresses that agents name.
    pub(super) fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    /// Sends a request. `now` is a reading of the monotonic clock.
    ///
    /// A server that closes a connection at the moment at which it is used again answers nothing, which
    /// is no failure of the call: it is made once more, at once, over a connection of its own. That is
    /// told by how soon it fails: a server that hangs up later than `at_once` may have begun to answer,
    /// and is not to be paid twice.
    pub(super) async fn send(
        &self,
        (request, route): (Request, Route),
        now: Duration,
        at_once: Duration,
    ) -> Result<Response, ClientError> {
        let origin = request.url().origin().ascii_serialization();
        let again = if self.may_reuse(&origin, now) { request.try_clone() } else { None };
        let began = Instant::now();
        let clients = match route {
            Route::Vouched => &self.vouched,
            Route::Guarded => &self.guarded,
        };
        let sent = match (clients.pooled.execute(request).await, again) {
            (Err(error), Some(again)) if is_hang_up(&error) && began.elapsed() < at_once => {
                clients.fresh.execute(again).await
            }
            (sent, _) => sent,
        };
        if sent.is_ok() {
            self.note(origin, now);
        }
        sent
    }

    /// Whether a connection to a server may still be there from a call before.
    fn may_reuse(&self, origin: &str, now: Duration) -> bool {
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        answered.get(origin).is_some_and(|at| is_recent(*at, now))
    }

    fn note(&self, origin: String, now: Duration) {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.len() >= SERVERS {
            answered.retain(|_, at| is_recent(*at, now));
        }
        if answered.len() < SERVERS || answered.contains_key(&origin) {
            answered.insert(origin, now);
        }
    }
}

/// An answer may take long, and only then does its connection lie idle; so more than the idle time is
/// recent, and erring costs one request to a server that has just hung up.
fn is_recent(at: Duration, now: Duration) -> bool {
    now.saturating_sub(at) < POOL_IDLE + Duration::from_mins(5)
}

/// Whether a server took the connection and closed it without a word.
fn is_hang_up(error: &ClientError) -> bool {
    error.is_request() && !error.is_connect() && !error.is_timeout()
}
