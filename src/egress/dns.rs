//! Looking names up: once a connection, within a bound, and only to addresses that are open.
//!
//! The look-ups are made in this process and not by the system's `getaddrinfo`, which occupies a thread
//! until its server answers and cannot be called off: a name whose servers are silent costs a waiting
//! task, and is given up in time. The system's name servers and its hosts file count all the same, unless
//! the operator names servers. Nothing is remembered from one look-up to the next, so that no tenant can
//! tell from the time of an answer what another has asked.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig,
    ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::read_system_conf;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::policy::EgressPolicy;

/// How long one server has to answer, and how often it is asked again.
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);
const QUERY_RETRIES: usize = 2;

/// The bound of a whole look-up.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(4);

/// A name that has no address, or of which nothing was heard in time.
#[derive(Debug, thiserror::Error)]
#[error("the name has no address")]
struct NoAddress;

/// Resolves a name once and hands on its addresses only if all of them are open, so that what was
/// judged is what is connected to.
#[derive(Debug, Clone)]
pub(super) struct GuardedDns {
    policy: Arc<EgressPolicy>,
    names: TokioResolver,
}

impl GuardedDns {
    pub(super) fn new(policy: Arc<EgressPolicy>) -> Result<Self, NetError> {
        let (config, options) = match policy.name_servers() {
            [] => system(),
            servers => (asking(servers), ResolverOpts::default()),
        };
        let provider = TokioRuntimeProvider::default();
        let builder = TokioResolver::builder_with_config(config, provider);
        Ok(Self { policy, names: builder.with_options(bounded(options)).build()? })
    }
}

impl Resolve for GuardedDns {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { policy, names } = self.clone();
        Box::pin(async move {
            // With the root's dot, the search domains of the operator's network complete nothing.
            let absolute = format!("{}.", name.as_str().trim_end_matches('.'));
            let lookup = tokio::time::timeout(LOOKUP_TIMEOUT, names.lookup_ip(absolute)).await;
            let found: Vec<IpAddr> = lookup.map_err(|_| NoAddress)??.iter().collect();
            if found.is_empty() {
                return Err(NoAddress.into());
            }
            policy.vet(found.iter().copied())?;
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

/// What the system is set up with. Without that, only names of the hosts file have addresses.
fn system() -> (ResolverConfig, ResolverOpts) {
    read_system_conf().unwrap_or_else(|error| {
        tracing::warn!(%error, "the system names no DNS servers, so that names lead nowhere");
        (asking(&[]), ResolverOpts::default())
    })
}

fn asking(servers: &[SocketAddr]) -> ResolverConfig {
    let servers = servers.iter().map(|server| {
        let mut found = NameServerConfig::udp_and_tcp(server.ip());
        let at_port = |connection: &mut ConnectionConfig| connection.port = server.port();
        found.connections.iter_mut().for_each(at_port);
        found
    });
    ResolverConfig::from_name_servers(servers.collect())
}

fn bounded(mut options: ResolverOpts) -> ResolverOpts {
    options.timeout = QUERY_TIMEOUT;
    options.attempts = QUERY_RETRIES;
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.use_hosts_file = ResolveHosts::Always;
    options.cache_size = 0;
    options
}
