//! What the settings say about outbound calls.

use std::net::IpAddr;
use std::time::Duration;

use secrecy::ExposeSecret as _;
use url::Url;

use super::StartError;
use crate::config::{Config, HostPort};
use crate::egress::{EgressPolicy, Network};

/// How long the database's name is looked up. It is closed by name as well.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// The policy of a process. Its database, by whatever name, is closed to tenants, and so is the name it goes by itself.
pub(super) async fn policy(config: &Config) -> Result<EgressPolicy, StartError> {
    let egress = &config.egress;
    let allow = egress.allow.iter().map(entry);
    let denied = egress.deny.iter().map(|subnet| Network::new(subnet.address, subnet.len));
    let databases = config.database.url.iter().chain(&config.database.system_url);
    let databases: Vec<String> = databases.filter_map(|url| host(url.expose_secret())).collect();
    let addresses = futures::future::join_all(databases.iter().map(|host| addresses(host))).await;
    let own = config.http.public_url.as_ref().and_then(|url| url.host_str().map(str::to_owned));
    Ok(EgressPolicy::new(allow, egress.allow_http)?
        .with_ports(egress.ports.iter().copied())
        .with_name_servers(egress.dns.iter().copied())
        .with_any_model(egress.any_model)
        .without(denied)
        .without(addresses.concat())
        .without_names(databases.iter().chain(&own)))
}

/// A pair as the policy reads it: an IPv6 address in brackets.
fn entry(pair: &HostPort) -> String {
    let HostPort { host, port } = pair;
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The host of a database that is not reached through a socket file.
fn host(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let named = url.query_pairs().find(|(name, _)| name == "host").map(|(_, host)| host);
    let host = named.or_else(|| url.host_str().map(Into::into))?;
    (!host.is_empty() && !host.starts_with('/')).then(|| host.into_owned())
}

async fn addresses(host: &str) -> Vec<IpAddr> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let found = tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((bare, 0))).await;
    match found {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Source;

    #[test]
    fn the_host_of_a_database_is_found_wherever_it_stands_in_its_url() {
        for (url, expected) in [
            ("postgres://u:p@db.example:5432/d", Some("db.example")),
            ("postgres://u@[2001:db8::1]/d", Some("[2001:db8::1]")),
            ("postgres://u@ignored/d?host=db.example", Some("db.example")),
            ("postgres://u@localhost/d?host=/run/pg", None),
            ("postgres:///d", None),
            ("host=db.example", None),
        ] {
            assert_eq!(host(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn an_ipv6_address_of_the_allow_list_is_one_that_the_policy_reads() {
        for (listed, url) in
            [("[::1]:9000", "http://[::1]:9000/"), ("tools.internal:80", "http://tools.internal/")]
        {
            let policy = EgressPolicy::new([entry(&listed.parse().unwrap())], false).unwrap();
            assert_eq!(policy.check(&url.parse().unwrap()), Ok(()), "{listed}");
        }
    }

    #[tokio::test]
    async fn the_addresses_of_a_database_are_closed() {
        let address: IpAddr = "192.0.2.7".parse().unwrap();
        assert_eq!(addresses("192.0.2.7").await, [address]);
        assert_eq!(addresses("[2001:db8::1]").await, ["2001:db8::1".parse::<IpAddr>().unwrap()]);
    }

    #[tokio::test]
    async fn a_database_is_closed_by_the_names_of_both_of_its_roles() {
        let source = Source::of([
            ("DATABASE_URL", "postgres://tenant@9.9.9.9/d"),
            ("AGENTLING_SYSTEM_DATABASE_URL", "postgres://system@9.9.9.10/d"),
            ("AGENTLING_LISTEN", "127.0.0.1:0"),
        ]);
        let policy = policy(&Config::read(&source).unwrap()).await.unwrap();
        let is_open = ["https://9.9.9.9/", "https://9.9.9.10/", "https://9.9.9.11/"]
            .map(|url| policy.check(&url.parse().unwrap()).is_ok());
        assert_eq!(is_open, [false, false, true]);
    }
}
