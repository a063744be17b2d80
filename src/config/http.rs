//! Where the server listens and how much a request may carry.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use url::Url;

use super::Setting;
use super::reader::Reader;

pub(super) const LISTEN: Setting =
    Setting::plain("AGENTLING_LISTEN", "address and port to serve on; port 0 picks a free one")
        .or("127.0.0.1:8080");
pub(super) const PUBLIC_URL: Setting = Setting::plain(
    "AGENTLING_PUBLIC_URL",
    "the base URL under which clients reach the server, for the OpenAPI document",
);
pub(super) const BODY_LIMIT: Setting =
    Setting::plain("AGENTLING_BODY_LIMIT_BYTES", "the largest ordinary request body").or("1048576");
pub(super) const MEMORY_LIMIT: Setting = Setting::plain(
    "AGENTLING_MEMORY_LIMIT_BYTES",
    "the largest memory document, and the largest body of tool results, in a request",
)
.or("16777216");
pub(super) const BODY_READ: Setting =
    Setting::plain("AGENTLING_BODY_READ_SECS", "how long a request may take to arrive").or("60");
pub(super) const BODY_IDLE: Setting = Setting::plain(
    "AGENTLING_BODY_IDLE_MS",
    "how long a request's body may pause before it is answered 408",
)
.or("15000");
pub(super) const HEADER_READ: Setting = Setting::plain(
    "AGENTLING_HEADER_READ_MS",
    "how long the headers of a request may take, and a connection may wait for its next request",
)
.or("10000");

const BODY_BOUNDS: (u32, u32) = (1024, 64 * 1024 * 1024);

/// The HTTP side of the server.
#[derive(Debug, Clone)]
pub struct Http {
    /// The address to bind.
    pub listen: SocketAddr,
    /// The base URL for links, where it differs from what is bound.
    pub public_url: Option<Url>,
    /// The largest ordinary body, in bytes.
    pub body_limit: usize,
    /// The largest memory document, and the largest body of tool results, in bytes.
    pub memory_limit: usize,
    /// The time a request has to arrive in full.
    pub body_read: Duration,
    /// The time that it may pause.
    pub body_idle: Duration,
    /// The time that its headers have.
    pub header_read: Duration,
}

impl Http {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let listen = reader.required(LISTEN, address);
        let public_url = reader.optional(PUBLIC_URL, web_url);
        let body_limit = reader.number(BODY_LIMIT, BODY_BOUNDS);
        let memory_limit = reader.number(MEMORY_LIMIT, BODY_BOUNDS);
        let body_read = reader.secs(BODY_READ, (1, 3600));
        let body_idle = reader.millis(BODY_IDLE, (100, 3_600_000));
        let header_read = reader.millis(HEADER_READ, (100, 3_600_000));
        Some(Self {
            listen: listen?,
            public_url,
            body_limit: usize::try_from(body_limit?).ok()?,
            memory_limit: usize::try_from(memory_limit?).ok()?,
            body_read: body_read?,
            body_idle: body_idle?,
            header_read: header_read?,
        })
    }

    /// Where a client on this machine connects, which is what `agentling health` does.
    pub fn local_address(&self) -> SocketAddr {
        let ip = match self.listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.listen.port())
    }

    /// Whether only this machine can connect, which is required while no key is configured.
    pub fn listen_is_loopback(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }
}

/// An address with a port.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    // `localhost` is accepted because people type it; other names would need a resolver.
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| format!("must be an IP address and a port, not {text:?}"))
}

/// An absolute http or https URL.
pub(super) fn web_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| "must be an http or https URL".to_owned())
}
