//! Where calls may go: scheme, host, port and address of every URL, judged anew at every use.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::address::is_forbidden;
use crate::labels;

/// Bound of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of response headers that are taken.
pub(super) const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// The longest host name that DNS can carry.
const MAX_HOST: usize = 253;

/// Ports that are open to everyone, beside 80 where the operator allows `http`.
const OPEN_PORTS: &[u16] = &[443, 8443];

/// Names that by convention lead into the operator's own network.
const INTERNAL_SUFFIXES: &[&str] = &["localhost", "local", "internal", "home.arpa"];

labels! {
    /// Which rule a URL breaks. Answers name the rule and never an address.
    EgressRule {
        /// It is not a URL.
        Url = "url",
        /// Its scheme is not allowed.
        Scheme = "scheme",
        /// It carries a user name or a password.
        Userinfo = "userinfo",
        /// Its host is missing, too long or internal by name.
        Host = "host",
        /// Its port is not allowed.
        Port = "port",
        /// It leads to an address that is not public.
        Address = "address",
    }
}

/// A URL that must not be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("egress-denied: {rule}")]
pub struct EgressDenied {
    /// The rule it breaks.
    pub rule: EgressRule,
}

impl From<EgressRule> for EgressDenied {
    fn from(rule: EgressRule) -> Self {
        Self { rule }
    }
}

/// An entry of the operator's allow-list that is not `host:port`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{entry:?} is not of the form host:port")]
pub struct InvalidAllowEntry {
    /// The entry as given.
    pub entry: String,
}

/// How an admitted URL is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// Through the resolver that refuses addresses which are not public.
    Guarded,
    /// The operator vouches for this exact host and port.
    Vouched,
}

/// What the operator says about outbound calls.
///
/// By default only `https` to public addresses on ports 443 and 8443 is open. An allow-list opens
/// exact pairs of host and port, with `http` as well; nothing opens a URL with user info.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    allow: BTreeSet<(String, u16)>,
    allow_http: bool,
    own: BTreeSet<IpAddr>,
}

impl EgressPolicy {
    /// Reads an allow-list of `host:port` pairs; `allow_http` opens plain `http` and port 80.
    pub fn new<S: AsRef<str>>(
        allow: impl IntoIterator<Item = S>,
        allow_http: bool,
    ) -> Result<Self, InvalidAllowEntry> {
        let allow = allow.into_iter().map(|entry| allow_entry(entry.as_ref()));
        Ok(Self { allow: allow.collect::<Result<_, _>>()?, allow_http, own: BTreeSet::new() })
    }

    /// Closes the server's own addresses and the operator's deny list, public as they may be.
    #[must_use]
    pub fn without(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.own.extend(addresses);
        self
    }

    /// Judges everything about a URL that can be known without the network.
    pub fn check(&self, url: &Url) -> Result<(), EgressDenied> {
        self.route(url).map(|_| ())
    }

    fn route(&self, url: &Url) -> Result<Route, EgressDenied> {
        if !matches!(url.scheme(), "https" | "http") {
            return Err(EgressRule::Scheme.into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressRule::Userinfo.into());
        }
        let host = url.host().ok_or(EgressRule::Host)?.to_owned();
        let port = url.port_or_known_default().ok_or(EgressRule::Port)?;
        if self.allow.contains(&(plain(&host), port)) {
            return Ok(Route::Vouched);
        }
        self.check_public(url.scheme(), &host, port)?;
        Ok(Route::Guarded)
    }

    fn check_public(&self, scheme: &str, host: &Host, port: u16) -> Result<(), EgressDenied> {
        let plain_http = scheme == "http";
        if plain_http && !self.allow_http {
            return Err(EgressRule::Scheme.into());
        }
        let is_open = OPEN_PORTS.contains(&port) || (plain_http && port == 80);
        if !is_open {
            return Err(EgressRule::Port.into());
        }
        // The connector never asks the resolver about literals, so they are judged here.
        match host {
            Host::Ipv4(address) => self.vet([IpAddr::V4(*address)]),
            Host::Ipv6(address) => self.vet([IpAddr::V6(*address)]),
            Host::Domain(_) if name_is_public(&plain(host)) => Ok(()),
            Host::Domain(_) => Err(EgressRule::Host.into()),
        }
    }

    /// Refuses a host as soon as one of its addresses is closed: a mixed answer is an attack.
    pub(super) fn vet(
        &self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), EgressDenied> {
        let closed = |address: IpAddr| is_forbidden(address) || self.own.contains(&address);
        if addresses.into_iter().any(closed) { Err(EgressRule::Address.into()) } else { Ok(()) }
    }
}

fn allow_entry(entry: &str) -> Result<(String, u16), InvalidAllowEntry> {
    let pair = entry.trim().rsplit_once(':').and_then(|(host, port)| {
        let host = Host::parse(host).ok()?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        Some((plain(&host), port))
    });
    pair.ok_or_else(|| InvalidAllowEntry { entry: entry.to_owned() })
}

/// The one spelling of a host under which it is compared: without the root's trailing dot.
fn plain(host: &Host) -> String {
    let text = host.to_string();
    text.strip_suffix('.').map_or_else(|| text.clone(), ToOwned::to_owned)
}

fn name_is_public(name: &str) -> bool {
    let internal = INTERNAL_SUFFIXES
        .iter()
        .any(|suffix| name.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.')));
    // A name without a dot is completed by the operator's search domains.
    name.len() <= MAX_HOST && name.contains('.') && !name.split('.').any(str::is_empty) && !internal
}

/// Resolves a name once and hands on its addresses only if all of them are open, so that what was
/// judged is what is connected to.
#[derive(Debug)]
pub(super) struct GuardedDns(pub(super) Arc<EgressPolicy>);

impl Resolve for GuardedDns {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = Arc::clone(&self.0);
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            policy.vet(found.iter().map(std::net::SocketAddr::ip))?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// The clients of the two routes. Neither follows redirects, sends a referer, keeps cookies, obeys a
/// proxy of the environment or repeats a request by itself.
///
/// No connection is kept for a second call: a reused one may be closed by its server just as a
/// request goes out, which leaves a call that must not run twice in doubt for no reason.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    policy: Arc<EgressPolicy>,
    guarded: reqwest::Client,
    vouched: reqwest::Client,
}

impl Clients {
    pub(super) fn new(policy: Arc<EgressPolicy>) -> Result<Self, reqwest::Error> {
        // A second installation is refused and changes nothing.
        drop(rustls::crypto::ring::default_provider().install_default());
        let guarded = builder().dns_resolver(GuardedDns(Arc::clone(&policy))).build()?;
        Ok(Self { policy, guarded, vouched: builder().build()? })
    }

    /// What the operator says about outbound calls.
    pub(super) fn policy(&self) -> &EgressPolicy {
        &self.policy
    }

    /// The client for a URL, if it may be called at all.
    pub(super) fn admit(&self, url: &Url) -> Result<&reqwest::Client, EgressDenied> {
        Ok(match self.policy.route(url)? {
            Route::Guarded => &self.guarded,
            Route::Vouched => &self.vouched,
        })
    }
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .referer(false)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(0)
        .tls_version_min(reqwest::tls::Version::TLS_1_2)
        .http1_max_headers(100)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .user_agent(concat!("agentling/", env!("CARGO_PKG_VERSION")))
}
