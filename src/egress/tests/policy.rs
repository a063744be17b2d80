//! Where calls may go.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use proptest::prelude::*;
use reqwest::dns::Resolve;
use url::Url;

use crate::egress::address::{is_forbidden, is_own};
use crate::egress::dns::GuardedDns;
use crate::egress::{EgressDenied, EgressPolicy, EgressRule, Network, Route, guard, refusal_in};

/// The rule that a URL breaks under a policy; a text that is no URL breaks the first.
fn judge(policy: &EgressPolicy, text: &str) -> Result<(), EgressRule> {
    let url = Url::parse(text).map_err(|_| EgressRule::Url)?;
    policy.check(&url).map_err(|denied| denied.rule)
}

const TABLE: &[(&str, Option<EgressRule>)] = &[
    ("https://tool.example/x", None),
    ("https://tool.example:8443/", None),
    ("https://TOOL.EXAMPLE./", None),
    ("https://bücher.example/", None),
    ("https://8.8.8.8/", None),
    ("https://[2606:4700:4700::1111]/", None),
    ("https://[::ffff:8.8.8.8]/", None),
    ("https://[::8.8.8.8]/", None),
    ("https://172.15.255.255/", None),
    ("https://172.32.0.0/", None),
    ("https://100.63.255.255/", None),
    ("https://223.255.255.255/", None),
    ("https://127.0.0.1.nip.io/", None), // Only the resolver can tell.
    ("tool.example/x", Some(EgressRule::Url)),
    ("https://", Some(EgressRule::Url)),
    ("https://1.2.3.4.5/", Some(EgressRule::Url)),
    ("https://[::1/", Some(EgressRule::Url)),
    ("https://[fe80::1%25eth0]/", Some(EgressRule::Url)),
    ("https://tool.example:99999/", Some(EgressRule::Url)),
    ("http://tool.example/", Some(EgressRule::Scheme)),
    ("HTTP://tool.example:443/", Some(EgressRule::Scheme)),
    ("ftp://tool.example/", Some(EgressRule::Scheme)),
    ("file:///etc/passwd", Some(EgressRule::Scheme)),
    ("data:text/plain,x", Some(EgressRule::Scheme)),
    ("gopher://tool.example:443/", Some(EgressRule::Scheme)),
    ("unix:/run/docker.sock", Some(EgressRule::Scheme)),
    ("javascript:alert(1)", Some(EgressRule::Scheme)),
    ("https://user@tool.example/", Some(EgressRule::Userinfo)),
    ("https://user:pw@tool.example/", Some(EgressRule::Userinfo)),
    ("https://:pw@tool.example/", Some(EgressRule::Userinfo)),
    ("https://tool.example@127.0.0.1/", Some(EgressRule::Userinfo)),
    ("https://tool.example:22/", Some(EgressRule::Port)),
    ("https://tool.example:80/", Some(EgressRule::Port)),
    ("https://tool.example:0/", Some(EgressRule::Port)),
    ("https://tool.example:5432/", Some(EgressRule::Port)),
    ("https://localhost/", Some(EgressRule::Host)),
    ("https://localhost./", Some(EgressRule::Host)),
    ("https://LOCALHOST/", Some(EgressRule::Host)),
    ("https://a.localhost/", Some(EgressRule::Host)),
    ("https://postgres/", Some(EgressRule::Host)),
    ("https://printer.local/", Some(EgressRule::Host)),
    ("https://metadata.google.internal/", Some(EgressRule::Host)),
    ("https://nas.home.arpa/", Some(EgressRule::Host)),
    ("https://tool.example../", Some(EgressRule::Host)),
    ("https://a..example/", Some(EgressRule::Host)),
    ("https://127.0.0.1/", Some(EgressRule::Address)),
    ("https://127.0.0.1./", Some(EgressRule::Address)),
    ("https://127.1/", Some(EgressRule::Address)),
    ("https://0x7f000001/", Some(EgressRule::Address)),
    ("https://2130706433/", Some(EgressRule::Address)),
    ("https://0177.0.0.1/", Some(EgressRule::Address)),
    ("https://0x7f.0.0.1/", Some(EgressRule::Address)),
    ("https://%31%32%37.0.0.1/", Some(EgressRule::Address)),
    ("https://①②⑦.0.0.1/", Some(EgressRule::Address)),
    ("https://0/", Some(EgressRule::Address)),
    ("https://0.0.0.0/", Some(EgressRule::Address)),
    ("https://10.0.0.1/", Some(EgressRule::Address)),
    ("https://100.64.0.1/", Some(EgressRule::Address)),
    ("https://169.254.169.254/latest/meta-data", Some(EgressRule::Address)),
    ("https://172.16.0.1/", Some(EgressRule::Address)),
    ("https://192.168.1.1/", Some(EgressRule::Address)),
    ("https://198.19.0.1/", Some(EgressRule::Address)),
    ("https://224.0.0.1/", Some(EgressRule::Address)),
    ("https://255.255.255.255/", Some(EgressRule::Address)),
    ("https://[::]/", Some(EgressRule::Address)),
    ("https://[::1]/", Some(EgressRule::Address)),
    ("https://[0:0:0:0:0:0:0:1]:8443/", Some(EgressRule::Address)),
    ("https://[::ffff:127.0.0.1]/", Some(EgressRule::Address)),
    ("https://[::ffff:a9fe:a9fe]/", Some(EgressRule::Address)),
    ("https://[::127.0.0.1]/", Some(EgressRule::Address)),
    ("https://[64:ff9b::7f00:1]/", Some(EgressRule::Address)),
    ("https://[64:ff9b::808:808]/", Some(EgressRule::Address)),
    ("https://[64:ff9b:1::1]/", Some(EgressRule::Address)),
    ("https://[2002:7f00:1::]/", Some(EgressRule::Address)),
    ("https://[2001:0:1::1]/", Some(EgressRule::Address)),
    ("https://[fd00::1]/", Some(EgressRule::Address)),
    ("https://[fe80::1]/", Some(EgressRule::Address)),
    ("https://[fec0::1]/", Some(EgressRule::Address)),
    ("https://[ff02::1]/", Some(EgressRule::Address)),
];

#[test]
fn every_spelling_of_a_url_is_judged_by_where_it_leads() {
    assert!(TABLE.len() >= 60);
    let policy = EgressPolicy::default();
    for (text, rule) in TABLE {
        assert_eq!(judge(&policy, text).err(), *rule, "{text}");
    }
    let long = format!("https://{}.example/", vec!["a".repeat(60); 5].join("."));
    assert_eq!(judge(&policy, &long), Err(EgressRule::Host));
}

#[test]
fn an_allow_list_opens_exact_pairs_and_nothing_beside_them() {
    let allow = ["127.0.0.1:8080", "[::1]:9000", "Tools.Internal:443", "localhost:80"];
    let policy = EgressPolicy::new(allow, false).unwrap();
    for open in [
        "http://127.0.0.1:8080/x",
        "https://127.0.0.1:8080/",
        "http://0x7f.1:8080/",
        "http://[0::1]:9000/",
        "https://tools.internal./",
        "http://localhost/",
    ] {
        assert_eq!(judge(&policy, open), Ok(()), "{open}");
    }
    for closed in [
        "http://127.0.0.1:8081/",
        "http://127.0.0.2:8080/",
        "http://user@127.0.0.1:8080/",
        "ftp://127.0.0.1:8080/",
        "http://[::1]:9001/",
        "http://tools.internal/",
        "https://a.tools.internal/",
        "https://localhost/",
    ] {
        assert!(judge(&policy, closed).is_err(), "{closed}");
    }
}

#[test]
fn plain_http_opens_port_80_and_no_private_address() {
    let policy = EgressPolicy::new([""; 0], true).unwrap();
    assert_eq!(judge(&policy, "http://tool.example/"), Ok(()));
    assert_eq!(judge(&policy, "http://tool.example:8080/"), Err(EgressRule::Port));
    assert_eq!(judge(&policy, "https://tool.example:80/"), Err(EgressRule::Port));
    assert_eq!(judge(&policy, "http://127.0.0.1/"), Err(EgressRule::Address));
}

/// Where tenants may name URLs, each of these is refused; here by its rule.
const HOSTILE: &str = include_str!("../../../tests/data/hostile_urls.json");

#[test]
fn every_hostile_url_breaks_its_rule() {
    let hostile: Vec<(EgressRule, String)> = serde_json::from_str(HOSTILE).unwrap();
    let policy = EgressPolicy::default();
    let wrong: Vec<String> = hostile
        .iter()
        .map(|(rule, url)| (rule, url.replace("{port}", "8443")))
        .filter(|(rule, url)| judge(&policy, url) != Err(**rule))
        .map(|(rule, url)| format!("{url:?} breaks {:?} and not {rule}", judge(&policy, &url)))
        .collect();
    assert_eq!(wrong, [""; 0], "{wrong:#?}");
}

#[test]
fn the_operator_chooses_the_open_ports() {
    let policy = EgressPolicy::default().with_ports([9443]);
    assert_eq!(judge(&policy, "https://tool.example:9443/"), Ok(()));
    assert_eq!(judge(&policy, "https://tool.example/"), Err(EgressRule::Port));
}

#[test]
fn names_that_are_closed_are_closed_in_every_spelling_and_only_they() {
    let policy = EgressPolicy::default().without_names(["DB.example", "b\u{fc}cher.example"]);
    for closed in ["https://db.example/", "https://DB.EXAMPLE./", "https://xn--bcher-kva.example/"]
    {
        assert_eq!(judge(&policy, closed), Err(EgressRule::Host), "{closed}");
    }
    assert_eq!(judge(&policy, "https://a.db.example/"), Ok(()));
}

#[test]
fn a_network_is_closed_whole_and_in_every_form() {
    let network = Network::new("198.41.0.0".parse().unwrap(), 16);
    let policy = EgressPolicy::default().without([network]);
    for closed in ["https://198.41.0.4/", "https://198.41.255.255/", "https://[::ffff:198.41.0.4]/"]
    {
        assert_eq!(judge(&policy, closed), Err(EgressRule::Address), "{closed}");
    }
    assert_eq!(judge(&policy, "https://198.42.0.0/"), Ok(()));
}

#[test]
fn an_agents_model_may_be_anywhere_only_where_the_operator_says_so() {
    let route = |policy: &EgressPolicy, url: &str| policy.route_model(&Url::parse(url).unwrap());
    let strict = EgressPolicy::default();
    assert_eq!(route(&strict, "https://api.example/v1"), Ok(Route::Guarded));
    assert!(route(&strict, "http://127.0.0.1:8000/v1").is_err());
    let open = EgressPolicy::default().with_any_model(true);
    assert_eq!(route(&open, "http://127.0.0.1:8000/v1"), Ok(Route::Vouched));
    assert!(route(&open, "http://user@127.0.0.1:8000/v1").is_err());
    assert!(judge(&open, "http://127.0.0.1:8000/v1").is_err(), "tools stay where they were");
}

#[test]
fn the_machines_own_addresses_are_closed() {
    assert!(is_own(Ipv4Addr::LOCALHOST.into()));
    let probe = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    if probe.connect("192.31.196.1:9").is_ok() {
        assert!(is_own(probe.local_addr().unwrap().ip()));
    }
    assert!(!is_own(Ipv4Addr::new(192, 31, 196, 1).into()));
}

#[test]
fn the_servers_own_addresses_are_closed_however_public() {
    let own: IpAddr = Ipv4Addr::new(8, 8, 8, 8).into();
    let policy = EgressPolicy::default().without([own]);
    assert_eq!(judge(&policy, "https://8.8.8.8/"), Err(EgressRule::Address));
    assert_eq!(judge(&policy, "https://8.8.4.4/"), Ok(()));
}

#[test]
fn an_allow_entry_is_a_host_and_a_port() {
    for entry in
        ["", "host", "host:", ":80", "host:0", "host:65536", "http://h:80", "a b:80", "[::1]"]
    {
        let error = EgressPolicy::new([entry], false).unwrap_err();
        assert_eq!(error.entry, entry);
    }
}

#[test]
fn a_name_is_refused_as_soon_as_one_of_its_addresses_is_closed() {
    let policy = EgressPolicy::default();
    let public: IpAddr = Ipv4Addr::new(8, 8, 8, 8).into();
    assert_eq!(policy.vet([public]), Ok(()));
    let denied = policy.vet([public, Ipv6Addr::LOCALHOST.into()]).unwrap_err();
    assert_eq!(denied.to_string(), "egress-denied: address");
}

#[tokio::test]
async fn the_resolver_refuses_a_name_that_leads_home() {
    let resolver = GuardedDns::new(Arc::new(EgressPolicy::default())).unwrap();
    let error = resolver.resolve("localhost".parse().unwrap()).await.err().unwrap();
    let denied = error.downcast_ref::<EgressDenied>().unwrap();
    assert_eq!(denied.rule, EgressRule::Address);
}

#[tokio::test]
async fn the_resolvers_refusal_comes_out_of_the_client() {
    let policy = Arc::new(EgressPolicy::new([""; 0], true).unwrap());
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = guard(reqwest::Client::builder().no_proxy(), &policy).unwrap().build().unwrap();
    let error = client.get("http://localhost/").send().await.unwrap_err();
    let refusal = refusal_in(&error).unwrap();
    assert_eq!(refusal.rule, EgressRule::Address);
}

/// The forbidden networks as the specification lists them.
const NETWORKS_V4: &[(&str, u32)] = &[
    ("0.0.0.0", 8),
    ("10.0.0.0", 8),
    ("100.64.0.0", 10),
    ("127.0.0.0", 8),
    ("169.254.0.0", 16),
    ("172.16.0.0", 12),
    ("192.0.0.0", 24),
    ("192.0.2.0", 24),
    ("192.88.99.0", 24),
    ("192.168.0.0", 16),
    ("198.18.0.0", 15),
    ("198.51.100.0", 24),
    ("203.0.113.0", 24),
    ("224.0.0.0", 4),
    ("240.0.0.0", 4),
];
const NETWORKS_V6: &[(&str, u32)] = &[
    ("::", 128),
    ("::1", 128),
    ("64:ff9b::", 96),
    ("64:ff9b:1::", 48),
    ("100::", 64),
    ("2001::", 23),
    ("2001:db8::", 32),
    ("2002::", 16),
    ("fc00::", 7),
    ("fe80::", 10),
    ("fec0::", 10),
    ("ff00::", 8),
];

#[test]
fn the_first_and_last_address_of_every_forbidden_network_is_refused() {
    for (net, len) in NETWORKS_V4 {
        let first = net.parse::<Ipv4Addr>().unwrap().to_bits();
        let last = first | (u32::MAX >> len);
        assert!(is_forbidden(Ipv4Addr::from_bits(first).into()), "{net}");
        assert!(is_forbidden(Ipv4Addr::from_bits(last).into()), "{net}");
    }
    for (net, len) in NETWORKS_V6 {
        let first = net.parse::<Ipv6Addr>().unwrap().to_bits();
        let last = first | u128::MAX.checked_shr(*len).unwrap_or(0);
        assert!(is_forbidden(Ipv6Addr::from_bits(first).into()), "{net}");
        assert!(is_forbidden(Ipv6Addr::from_bits(last).into()), "{net}");
    }
}

proptest! {
    #[test]
    fn every_address_of_a_forbidden_network_is_refused_in_every_form(
        network in 0..NETWORKS_V4.len(),
        host in any::<u32>(),
    ) {
        let (net, len) = NETWORKS_V4[network];
        let bits = net.parse::<Ipv4Addr>().unwrap().to_bits() | (host & (u32::MAX >> len));
        let v4 = Ipv4Addr::from_bits(bits);
        prop_assert!(is_forbidden(v4.into()));
        prop_assert!(is_forbidden(v4.to_ipv6_mapped().into()));
        prop_assert!(is_forbidden(v4.to_ipv6_compatible().into()));
        let policy = EgressPolicy::default();
        let spellings = [v4.to_string(), bits.to_string(), format!("{bits:#x}"), format!("0{bits:o}")];
        for host in spellings {
            prop_assert_eq!(judge(&policy, &format!("https://{host}/")), Err(EgressRule::Address));
        }
    }

    #[test]
    fn an_address_outside_of_the_list_is_open(bits in any::<u32>()) {
        let listed = NETWORKS_V4.iter().any(|(net, len)| {
            net.parse::<Ipv4Addr>().unwrap().to_bits() >> (32 - len) == bits >> (32 - len)
        });
        let address = SocketAddr::from((Ipv4Addr::from_bits(bits), 443)).ip();
        prop_assert_eq!(is_forbidden(address), listed);
    }
}
