//! Where calls may go: scheme, host, port and address of every URL, judged anew at every use.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use url::{Host, Url};

use super::address::{Network, is_forbidden, is_own};
use crate::labels;

/// The longest host name that DNS can carry.
const MAX_HOST: usize = 253;

/// The longest part of one between dots.
const MAX_LABEL: usize = 63;

/// Ports that are open to everyone, beside 80 where the operator allows `http`.
const OPEN_PORTS: [u16; 2] = [443, 8443];

/// Names that by convention lead into the operator's own network, or that clouds answer there.
const INTERNAL_SUFFIXES: &[&str] = &[
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "home.arpa",
    "lan",
    "svc",
    "onion",
    "metadata.goog",
];

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
pub enum Route {
    /// Through the resolver that refuses addresses which are not public.
    Guarded,
    /// The operator vouches for this exact host and port.
    Vouched,
}

/// What the operator says about outbound calls.
///
/// By default only `https` to public addresses on ports 443 and 8443 is open. An allow-list opens
/// exact pairs of host and port, with `http` as well; nothing opens a URL with user info.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressPolicy {
    allow: BTreeSet<(String, u16)>,
    allow_http: bool,
    ports: BTreeSet<u16>,
    closed: Vec<Network>,
    closed_names: BTreeSet<String>,
    name_servers: Vec<SocketAddr>,
    any_model: bool,
}

impl Default for EgressPolicy {
    fn default() -> Self {
        Self {
            allow: BTreeSet::new(),
            allow_http: false,
            ports: OPEN_PORTS.into(),
            closed: Vec::new(),
            closed_names: BTreeSet::new(),
            name_servers: Vec::new(),
            any_model: false,
        }
    }
}

impl EgressPolicy {
    /// Reads an allow-list of `host:port` pairs; `allow_http` opens plain `http` and port 80.
    pub fn new<S: AsRef<str>>(
        allow: impl IntoIterator<Item = S>,
        allow_http: bool,
    ) -> Result<Self, InvalidAllowEntry> {
        let allow = allow.into_iter().map(|entry| allow_entry(entry.as_ref()));
        Ok(Self { allow: allow.collect::<Result<_, _>>()?, allow_http, ..Self::default() })
    }

    /// Opens further exact pairs of host and port.
    ///
    /// # Errors
    /// With an entry that is none.
    pub fn with_allowed<S: AsRef<str>>(
        mut self,
        pairs: impl IntoIterator<Item = S>,
    ) -> Result<Self, InvalidAllowEntry> {
        for pair in pairs {
            self.allow.insert(allow_entry(pair.as_ref())?);
        }
        Ok(self)
    }

    /// Opens these ports to everyone, and no others but 80 where plain `http` is allowed.
    #[must_use]
    pub fn with_ports(self, ports: impl IntoIterator<Item = u16>) -> Self {
        Self { ports: ports.into_iter().collect(), ..self }
    }

    /// Asks these servers for the addresses of names, instead of those that the system asks.
    #[must_use]
    pub fn with_name_servers(self, servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self { name_servers: servers.into_iter().collect(), ..self }
    }

    /// Closes addresses, public as they may be: the database's and those of the operator's deny list. The
    /// machine's own are closed anyway.
    #[must_use]
    pub fn without<N: Into<Network>>(mut self, networks: impl IntoIterator<Item = N>) -> Self {
        self.closed.extend(networks.into_iter().map(Into::into));
        self
    }

    /// Closes hosts by name, wherever they lead.
    #[must_use]
    pub fn without_names<S: AsRef<str>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        let hosts = names.into_iter().filter_map(|name| Host::parse(name.as_ref()).ok());
        self.closed_names.extend(hosts.map(|host| plain(&host)));
        self
    }

    /// Lets agents name any address for their models, private ones as well.
    #[must_use]
    pub const fn with_any_model(mut self, any_model: bool) -> Self {
        self.any_model = any_model;
        self
    }

    /// Who is asked for the addresses of names; nobody in particular when empty.
    pub(super) fn name_servers(&self) -> &[SocketAddr] {
        &self.name_servers
    }

    /// Judges everything about a URL that can be known without the network.
    pub fn check(&self, url: &Url) -> Result<(), EgressDenied> {
        self.route(url).map(|_| ())
    }

    /// How the address that an agent names for its model is to be reached, if it may be called at all.
    pub fn route_model(&self, url: &Url) -> Result<Route, EgressDenied> {
        if self.any_model { check_form(url).map(|()| Route::Vouched) } else { self.route(url) }
    }

    /// How a URL is to be reached, if it may be called at all.
    pub(super) fn route(&self, url: &Url) -> Result<Route, EgressDenied> {
        check_form(url)?;
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
        let is_open = self.ports.contains(&port) || (plain_http && port == 80);
        if !is_open {
            return Err(EgressRule::Port.into());
        }
        // The connector never asks the resolver about literals, so they are judged here.
        match host {
            Host::Ipv4(address) => self.vet([IpAddr::V4(*address)]),
            Host::Ipv6(address) => self.vet([IpAddr::V6(*address)]),
            Host::Domain(_) if self.name_is_open(&plain(host)) => Ok(()),
            Host::Domain(_) => Err(EgressRule::Host.into()),
        }
    }

    /// Refuses a host as soon as one of its addresses is closed: a mixed answer is an attack.
    pub(super) fn vet(
        &self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), EgressDenied> {
        let closed = |address: IpAddr| {
            is_forbidden(address)
                || self.closed.iter().any(|network| network.contains(address))
                || is_own(address)
        };
        if addresses.into_iter().any(closed) { Err(EgressRule::Address.into()) } else { Ok(()) }
    }

    fn name_is_open(&self, name: &str) -> bool {
        name_is_public(name) && !self.closed_names.contains(name)
    }
}

/// What holds for every URL, whoever vouches for its host.
fn check_form(url: &Url) -> Result<(), EgressDenied> {
    if !matches!(url.scheme(), "https" | "http") {
        return Err(EgressRule::Scheme.into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(EgressRule::Userinfo.into());
    }
    Ok(())
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
    let internal = |suffix: &&str| {
        let rest = name.strip_suffix(*suffix);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_label = |label: &str| (1..=MAX_LABEL).contains(&label.len());
    // A name without a dot is completed by the operator's search domains.
    name.len() <= MAX_HOST
        && name.contains('.')
        && name.split('.').all(is_label)
        && !INTERNAL_SUFFIXES.iter().any(internal)
}
