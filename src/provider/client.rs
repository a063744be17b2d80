//! The HTTP client that models are asked with.

use std::sync::Once;
use std::time::Duration;

use reqwest::Client;
use reqwest::redirect::Policy;

/// What keeps a client from being made.
pub type ClientError = reqwest::Error;

static TLS: Once = Once::new();

/// A client with the house's rules: no redirects, which would carry keys and prompts elsewhere; no
/// proxy from the environment; no overall timeout, since every call brings its deadline.
///
/// # Errors
/// When the machine's certificates cannot be read.
pub fn http_client() -> Result<Client, reqwest::Error> {
    // reqwest is built without a TLS provider of its own and panics when there is none. That one is
    // there already is as good.
    TLS.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
    Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(20))
        .tcp_keepalive(Duration::from_secs(30))
        .user_agent(concat!("agentling/", env!("CARGO_PKG_VERSION")))
        .build()
}
