//! Where tools may connect.

use std::net::Ipv6Addr;

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

/// The limits of what tools may reach.
#[derive(Debug, Clone, Default)]
pub struct Egress {
    /// Private addresses that are open all the same.
    pub allow: Vec<HostPort>,
    /// Whether plain http is acceptable outside the list.
    pub allow_http: bool,
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
        Some(Self { allow: allow?, allow_http: allow_http? })
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

/// The host without brackets, which only an IPv6 address may and must have.
fn bare(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.strip_suffix(']').filter(|inner| inner.parse::<Ipv6Addr>().is_ok());
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    Some(host).filter(|host| !host.is_empty() && host.bytes().all(is_plain))
}
