//! Where tools may connect.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::Setting;
use super::reader::Reader;

pub(super) const ALLOW: Setting = Setting::plain(
    "AGENTLING_EGRESS_ALLOW",
    "private `host:port` pairs that tools may reach, separated by commas",
)
.or("");
pub(super) const ALLOW_HTTP: Setting = Setting::plain(
    "AGENTLING_EGRESS_ALLOW_HTTP",
    "whether tools may use plain http towards public addresses",
)
.or("false");

pub(super) const PORTS: Setting = Setting::plain(
    "AGENTLING_EGRESS_PORTS",
    "ports that tools may reach at public addresses, separated by commas",
)
.or("443,8443");
pub(super) const DENY: Setting = Setting::plain(
    "AGENTLING_EGRESS_DENY",
    "public addresses and networks, such as 192.0.2.0/24, that tools may not reach all the same, \
     separated by commas",
)
.or("");
pub(super) const DNS: Setting = Setting::plain(
    "AGENTLING_EGRESS_DNS",
    "DNS servers that the names of tools' hosts are asked of, as `address:port`, separated by \
     commas; by default those of the system",
)
.or("");
pub(super) const ANY_MODEL: Setting = Setting::plain(
    "AGENTLING_EGRESS_ANY_MODEL",
    "whether agents may name any `base_url` for their models, private ones as well: for servers \
     whose callers are all trusted",
)
.or("false");

/// The limits of what tools may reach.
#[derive(Debug, Clone, Default)]
pub struct Egress {
    /// Private addresses that are open all the same.
    pub allow: Vec<HostPort>,
    /// Whether plain http is acceptable outside the list.
    pub allow_http: bool,
    /// Ports that are open at public addresses.
    pub ports: Vec<u16>,
    /// Public addresses that are closed all the same.
    pub deny: Vec<Subnet>,
    /// Who is asked for the addresses of names; the system's servers when empty.
    pub dns: Vec<SocketAddr>,
    /// Whether models may be anywhere.
    pub any_model: bool,
}

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    /// One of them.
    pub address: IpAddr,
    /// How many bits they share.
    pub len: u32,
}

/// A host and a port, the host in lower case and an IPv6 address without its brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Egress {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let allow = reader.list(ALLOW, str::parse);
        let allow_http = reader.flag(ALLOW_HTTP);
        let ports = reader.list(PORTS, port);
        let deny = reader.list(DENY, str::parse);
        let dns = reader.list(DNS, server);
        let any_model = reader.flag(ANY_MODEL);
        Some(Self {
            allow: allow?,
            allow_http: allow_http?,
            ports: ports?,
            deny: deny?,
            dns: dns?,
            any_model: any_model?,
        })
    }
}

impl std::str::FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(host, port)| Some((bare(host)?, port)));
        let port = parts.and_then(|(_, port)| port.parse().ok()).filter(|port| *port != 0);
        match (parts, port) {
            (Some((host, _)), Some(port)) => Ok(Self { host: host.to_ascii_lowercase(), port }),
            _ => Err(format!("must list host:port pairs, and {text:?} is not one")),
        }
    }
}

impl std::str::FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, len) = text.split_once('/').map_or((text, None), |(a, len)| (a, Some(len)));
        let subnet = address.parse().ok().and_then(|address: IpAddr| {
            let whole = if address.is_ipv4() { 32 } else { 128 };
            let len = len.map_or(Ok(whole), str::parse).ok()?;
            (len <= whole).then_some(Self { address, len })
        });
        subnet.ok_or_else(|| {
            format!("must list addresses and networks such as 192.0.2.0/24, not {text:?}")
        })
    }
}

fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| format!("must list ports from 1 to 65535, not {text:?}"))
}

fn server(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("must list servers such as 192.0.2.53:53, not {text:?}"))
}

/// The host without brackets, which only an IPv6 address may and must have.
fn bare(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.strip_suffix(']').filter(|inner| inner.parse::<Ipv6Addr>().is_ok());
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    Some(host).filter(|host| !host.is_empty() && host.bytes().all(is_plain))
}
