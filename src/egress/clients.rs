//! The clients of the two routes.

use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::net::NetError;
use reqwest::{Client, ClientBuilder};
use url::Url;

use super::dns::GuardedDns;
use super::peer::PeerCheck;
use super::policy::{EgressDenied, EgressPolicy, Route};
use super::reach::Noting;

/// Bound of establishing a connection, look-up and TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of response headers that are taken.
pub const MAX_HEADER_BYTES: u32 = 64 * 1024;
/// The most response headers that are taken.
const MAX_HEADERS: usize = 100;

/// The clients cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There are no TLS roots.
    #[error("an HTTP client cannot be made")]
    Client(#[from] reqwest::Error),
    /// There is nothing to look names up with.
    #[error("names cannot be looked up")]
    Names(#[from] NetError),
}

/// The clients of the two routes. Neither follows redirects, sends a referer, keeps cookies, obeys a
/// proxy of the environment, unpacks a body or repeats a request by itself.
///
/// No connection is kept for a second call: a reused one may be closed by its server just as a
/// request goes out, which leaves a call that must not run twice in doubt for no reason.
#[derive(Debug, Clone)]
pub struct Clients {
    policy: Arc<EgressPolicy>,
    guarded: Client,
    vouched: Client,
}

impl Clients {
    /// The clients of a process.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn new(policy: Arc<EgressPolicy>) -> Result<Self, SetupError> {
        // A second installation is refused and changes nothing.
        drop(rustls::crypto::ring::default_provider().install_default());
        let guarded = guard(builder(), &policy)?.build()?;
        Ok(Self { policy, guarded, vouched: builder().build()? })
    }

    /// What the operator says about outbound calls.
    pub fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    /// The client for a URL, if it may be called at all.
    ///
    /// # Errors
    /// With the rule that the URL breaks.
    pub fn admit(&self, url: &Url) -> Result<&Client, EgressDenied> {
        Ok(match self.policy.route(url)? {
            Route::Guarded => &self.guarded,
            Route::Vouched => &self.vouched,
        })
    }
}

/// A client that reaches open addresses only: for URLs that the policy routes as [`Route::Guarded`].
///
/// # Errors
/// When there is nothing to look names up with.
pub fn guard(
    builder: ClientBuilder,
    policy: &Arc<EgressPolicy>,
) -> Result<ClientBuilder, SetupError> {
    let names = GuardedDns::new(Arc::clone(policy))?;
    Ok(builder.dns_resolver(names).connector_layer(PeerCheck(Arc::clone(policy))))
}

/// The refusal of the guarded client, somewhere below the error that came out of it.
pub fn refusal_in(error: &reqwest::Error) -> Option<EgressDenied> {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(refusal) = cause.downcast_ref::<EgressDenied>() {
            return Some(*refusal);
        }
        source = cause.source();
    }
    None
}

fn builder() -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .referer(false)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(0)
        .tls_version_min(reqwest::tls::Version::TLS_1_2)
        // Whoever reads a body unpacks it, so that what comes out is counted against what came in.
        .no_gzip()
        .http1_max_headers(MAX_HEADERS)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .connector_layer(Noting)
        .user_agent(concat!("agentling/", env!("CARGO_PKG_VERSION")))
}
