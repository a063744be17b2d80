//! The rules that settings follow.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::Duration;

use secrecy::ExposeSecret;

use super::*;
use crate::domain::provider::Provider;

const HOME: (&str, &str) = ("HOME", "/home/ada");

fn read(pairs: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let source = Source::of(pairs.iter().copied().chain([HOME]));
    Config::read(&source).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

fn errors(pairs: &[(&str, &str)]) -> Vec<String> {
    read(pairs).unwrap_err()
}

#[test]
fn nothing_need_be_set() {
    let config = read(&[]).unwrap();
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:8080");
    assert!(config.http.listen_is_loopback());
    assert!(config.database.url.is_none());
    assert_eq!(config.engine.concurrency, 64);
    assert_eq!(config.engine.lease, Duration::from_secs(30));
    assert_eq!(config.engine.drain, Duration::from_secs(25));
    assert!(config.egress.allow.is_empty());
    let openai = (Provider::Openai, "https://api.openai.com".to_owned());
    assert_eq!(config.providers.origins, [openai]);
    assert!(config.providers.secrets().next().is_none() && config.providers.aws_region.is_none());
    assert_eq!(config.telemetry.format, LogFormat::Text);
}

#[test]
fn every_mistake_is_reported_at_once() {
    let found = errors(&[
        ("AGENTLING_LISTEN", "here"),
        ("AGENTLING_CONCURENCY", "8"),
        ("AGENTLING_DB_CONNECTIONS", "3"),
        ("AGENTLING_EGRESS_ALLOW", "localhost"),
        ("AGENTLING_LOG_FORMAT", "xml"),
        ("AGENTLING_API_KEY", "short"),
        ("DATABASE_URL", "mysql://x"),
    ]);
    assert_eq!(
        found,
        [
            "AGENTLING_CONCURENCY is not a setting; `agentling --help` lists them all",
            "AGENTLING_LISTEN must be an IP address and a port, not \"here\"",
            "DATABASE_URL must start with postgres:// or postgresql://",
            "AGENTLING_DB_CONNECTIONS must be a number from 4 to 500, not \"3\"",
            "AGENTLING_EGRESS_ALLOW must list host:port pairs, and \"localhost\" is not one",
            "AGENTLING_API_KEY must be at least 16 visible ASCII characters without spaces",
            "AGENTLING_LOG_FORMAT must be text or json, not \"xml\"",
        ]
    );
}

#[test]
fn a_refused_secret_is_not_repeated() {
    let secrets: Vec<_> = SETTINGS.iter().filter(|setting| setting.secret).collect();
    for setting in secrets {
        let found = errors(&[(setting.name, "ca nary")]);
        assert!(found.iter().all(|text| !text.contains("nary")), "{found:?}");
    }
}

#[test]
fn a_secret_does_not_show_in_debug_output() {
    let config = read(&[
        ("AGENTLING_API_KEY", "canary-canary-canary"),
        ("AGENTLING_KEY_PEPPER", "canary-canary-canary"),
        ("OPENAI_API_KEY", "canary"),
        ("DATABASE_URL", "postgres://u:canary@h/d"),
    ])
    .unwrap();
    assert!(!format!("{config:?}").contains("canary"));
    assert_eq!(config.auth.api_key.unwrap().expose_secret(), "canary-canary-canary");
    let source = Source::of([("AGENTLING_API_KEY", "canary-canary-canary")]);
    assert!(!format!("{source:?}").contains("canary"));
}

#[test]
fn two_roles_are_those_of_one_database_and_have_pools_each() {
    let two = [("AGENTLING_SYSTEM_DATABASE_URL", "postgres://s@h/d")];
    assert_eq!(
        read(&two).unwrap_err(),
        ["AGENTLING_SYSTEM_DATABASE_URL goes with DATABASE_URL: a private database has one role"]
    );
    let two = [two[0], ("DATABASE_URL", "postgres://u@h/d")];
    assert!(read(&two).is_ok());
    let few = [two[0], two[1], ("AGENTLING_DB_CONNECTIONS", "7")];
    let refused = ["AGENTLING_DB_CONNECTIONS must be at least 8 for two roles"];
    assert_eq!(read(&few).unwrap_err(), refused);
}

#[test]
fn an_empty_value_counts_as_absent() {
    let config = read(&[("DATABASE_URL", ""), ("AGENTLING_LISTEN", "")]).unwrap();
    assert!(config.database.url.is_none());
    assert_eq!(config.http.listen.port(), 8080);
}

#[test]
fn a_variable_of_the_test_suite_is_not_a_typo() {
    assert!(read(&[("AGENTLING_SHARED", "/somewhere")]).is_ok());
}

#[test]
fn only_loopback_addresses_count_as_loopback() {
    let is_loopback =
        |listen| read(&[("AGENTLING_LISTEN", listen)]).unwrap().http.listen_is_loopback();
    for listen in
        ["127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "localhost:80", "[::ffff:127.0.0.1]:1"]
    {
        assert!(is_loopback(listen), "{listen}");
    }
    for listen in ["0.0.0.0:80", "[::]:80", "192.168.0.1:80"] {
        assert!(!is_loopback(listen), "{listen}");
    }
}

#[test]
fn a_server_on_all_addresses_is_reached_by_loopback() {
    for (listen, expected) in
        [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "[::1]:80"), ("127.0.0.2:80", "127.0.0.2:80")]
    {
        let http = read(&[("AGENTLING_LISTEN", listen)]).unwrap().http;
        assert_eq!(http.local_address().to_string(), expected);
    }
}

#[test]
fn one_heartbeat_may_be_lost_without_losing_the_lease() {
    let found = errors(&[("AGENTLING_LEASE_MS", "1000"), ("AGENTLING_HEARTBEAT_MS", "501")]);
    assert_eq!(found, ["AGENTLING_HEARTBEAT_MS must be at most half of AGENTLING_LEASE_MS"]);
    assert!(read(&[("AGENTLING_LEASE_MS", "1000"), ("AGENTLING_HEARTBEAT_MS", "500")]).is_ok());
}

#[test]
fn bounds_hold_at_both_ends() {
    for (value, is_fine) in
        [("1", true), ("10000", true), ("0", false), ("10001", false), ("-1", false)]
    {
        assert_eq!(read(&[("AGENTLING_CONCURRENCY", value)]).is_ok(), is_fine, "{value}");
    }
}

#[test]
fn the_allow_list_takes_names_and_addresses() {
    let config = read(&[("AGENTLING_EGRESS_ALLOW", "Tools.internal:80, [::1]:9,127.0.0.1:65535,")]);
    let shown: Vec<_> =
        config.unwrap().egress.allow.into_iter().map(|pair| (pair.host, pair.port)).collect();
    let expected = [("tools.internal", 80), ("::1", 9), ("127.0.0.1", 65535)];
    assert_eq!(shown, expected.map(|(host, port)| (host.to_owned(), port)));
    for wrong in ["::1:80", "a b:1", ":80", "host:", "host:0", "host:65536", "http://x:1", "*:80"] {
        assert_eq!(errors(&[("AGENTLING_EGRESS_ALLOW", wrong)]).len(), 1, "{wrong}");
    }
}

#[test]
fn egress_takes_ports_networks_and_name_servers() {
    let config = read(&[
        ("AGENTLING_EGRESS_PORTS", "443, 9443"),
        ("AGENTLING_EGRESS_DENY", "192.0.2.7,198.51.100.0/24, 2001:db8::/32"),
        ("AGENTLING_EGRESS_DNS", "192.0.2.53:53,[2001:db8::53]:5353"),
        ("AGENTLING_EGRESS_ANY_MODEL", "true"),
    ]);
    let egress = config.unwrap().egress;
    assert_eq!((egress.ports, egress.any_model), (vec![443, 9443], true));
    let lens: Vec<u32> = egress.deny.iter().map(|subnet| subnet.len).collect();
    assert_eq!((lens, egress.dns.len()), (vec![32, 24, 32], 2));
    let egress = read(&[]).unwrap().egress;
    assert_eq!((egress.ports, egress.any_model), (vec![443, 8443], false));
    for (name, wrong) in [
        ("AGENTLING_EGRESS_PORTS", "0"),
        ("AGENTLING_EGRESS_PORTS", "65536"),
        ("AGENTLING_EGRESS_DENY", "host"),
        ("AGENTLING_EGRESS_DENY", "192.0.2.0/33"),
        ("AGENTLING_EGRESS_DENY", "2001:db8::/129"),
        ("AGENTLING_EGRESS_DNS", "192.0.2.53"),
        ("AGENTLING_EGRESS_DNS", "dns.example:53"),
    ] {
        assert_eq!(errors(&[(name, wrong)]).len(), 1, "{name} {wrong}");
    }
}

#[test]
fn registered_tags_are_sorted_and_each_mistaken_one_is_told() {
    let tags = read(&[("AGENTLING_FRAMING_TAGS", "note, case_file,note")]);
    assert_eq!(tags.unwrap().rendering.framing_tags, ["case_file", "note"]);
    assert!(read(&[]).unwrap().rendering.framing_tags.is_empty());
    for wrong in ["system", "context", "Note", "note_diff", "a b", "1a", "<note>"] {
        let found = errors(&[
            ("AGENTLING_FRAMING_TAGS", &format!("fine,{wrong}")),
            ("AGENTLING_CONCURRENCY", "0"),
        ]);
        let [concurrency, tags] = found.as_slice() else { panic!("{found:?}") };
        assert!(concurrency.starts_with("AGENTLING_CONCURRENCY "), "{concurrency}");
        assert_eq!(
            *tags,
            format!(
                "AGENTLING_FRAMING_TAGS must list names of data tags, and {wrong:?} is not a name that \
                 a data tag can have"
            )
        );
    }
}

#[test]
fn origins_are_listed_for_a_provider() {
    let config = read(&[
        ("AGENTLING_OPENAI_ORIGINS", "https://api.openai.com:443,http://127.0.0.1:9999/"),
        ("AGENTLING_PROVIDER_ORIGINS", "groq=https://GATE.example:8443, bedrock = http://[::1]:1"),
    ]);
    let origins = config.unwrap().providers.origins;
    let listed: Vec<_> =
        origins.iter().map(|(provider, origin)| (provider.label(), origin.as_str())).collect();
    let wanted = [
        ("openai", "https://api.openai.com"),
        ("openai", "http://127.0.0.1:9999"),
        ("groq", "https://gate.example:8443"),
        ("bedrock", "http://[::1]:1"),
    ];
    assert_eq!(listed, wanted);
    for wrong in ["https://host/path", "https://host/?q", "host", "ftp://host", "https://u@host"] {
        assert_eq!(errors(&[("AGENTLING_OPENAI_ORIGINS", wrong)]).len(), 1, "{wrong}");
        let pair = format!("groq={wrong}");
        assert_eq!(errors(&[("AGENTLING_PROVIDER_ORIGINS", pair.as_str())]).len(), 1, "{wrong}");
    }
    for wrong in ["https://host", "nobody=https://host", "scripted=https://host", "groq"] {
        assert_eq!(errors(&[("AGENTLING_PROVIDER_ORIGINS", wrong)]).len(), 1, "{wrong}");
    }
}

#[test]
fn every_provider_has_a_setting_for_its_key_and_every_key_is_kept_secret() {
    let variables = Provider::ALL.iter().map(|provider| provider.transport().key_variable);
    let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"];
    for name in variables.filter(|name| !name.is_empty()).chain(names) {
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        assert!(setting.is_some_and(|setting| setting.secret), "{name}");
    }
    let keys: Vec<_> = SETTINGS
        .iter()
        .filter(|setting| setting.secret)
        .filter(|setting| !setting.name.ends_with("DATABASE_URL"))
        .filter(|setting| {
            !["AGENTLING_SECRET_KEYS", "OTEL_EXPORTER_OTLP_HEADERS"].contains(&setting.name)
        })
        .map(|setting| (setting.name, format!("canary-{}", setting.name)))
        .collect();
    let set = |(name, key): &(&'static str, String)| match *name {
        "OTEL_EXPORTER_OTLP_HEADERS" => (*name, format!("x-key={key}")),
        name => (name, key.clone()),
    };
    let set: Vec<_> = keys.iter().map(set).collect();
    let pairs = set.iter().map(|(name, text)| (*name, text.as_str()));
    let pairs: Vec<_> =
        pairs.chain([("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost")]).collect();
    let config = read(&pairs).unwrap();
    assert!(!format!("{config:?}").contains("canary"));
    let scrubbed: Vec<_> =
        config.redaction.credentials.iter().map(ExposeSecret::expose_secret).collect();
    for (name, key) in &keys {
        assert!(scrubbed.contains(&key.as_str()), "{name}");
    }
}

#[test]
fn headers_for_the_collector_are_kept_secret() {
    let config = read(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20canary-one-of-the-collector,x-key=canary-two-of-the-collector",
        ),
    ]);
    let config = config.unwrap();
    assert!(!format!("{config:?}").contains("canary"));
    let scrubbed: Vec<_> =
        config.redaction.credentials.iter().map(ExposeSecret::expose_secret).collect();
    for secret in [
        "Bearer canary-one-of-the-collector",
        "canary-one-of-the-collector",
        "canary-two-of-the-collector",
    ] {
        assert!(scrubbed.contains(&secret), "{secret}");
    }
}

#[test]
fn keys_that_seal_secrets_are_kept_secret_and_come_from_one_place() {
    let key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let keys = format!("one={key}");
    let config = read(&[("AGENTLING_SECRET_KEYS", keys.as_str())]).unwrap();
    assert!(!format!("{config:?}").contains(key));
    let mut scrubbed = config.redaction.credentials.iter().map(ExposeSecret::expose_secret);
    assert!(scrubbed.any(|secret| secret == key));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{keys}\n")).unwrap();
    let path = ("AGENTLING_SECRET_KEYS_FILE", file.path().to_str().unwrap());
    assert_eq!(read(&[path]).unwrap().secret_keys.bytes().count(), 1);
    let found = errors(&[path, ("AGENTLING_SECRET_KEYS", keys.as_str())]);
    assert!(found.len() == 1 && found[0].contains("beside"), "{found:?}");
    std::fs::write(file.path(), "hunter22").unwrap();
    assert!(errors(&[path]).iter().all(|error| !error.contains("hunter22")));
}

#[test]
fn keys_of_amazon_come_in_pairs_and_a_region_is_a_part_of_a_host() {
    let id = ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE");
    let secret = ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG");
    assert!(read(&[id, secret]).unwrap().providers.aws.is_some());
    for lone in [id, secret] {
        let found = errors(&[lone]);
        assert!(found.len() == 1 && found[0].contains("must be set where"), "{found:?}");
    }
    let region = |pairs: &[(&str, &str)]| read(pairs).unwrap().providers.aws_region;
    let (first, second) = (("AWS_REGION", "eu-west-1"), ("AWS_DEFAULT_REGION", "us-east-1"));
    assert_eq!(region(&[second, first]).as_deref(), Some("eu-west-1"));
    assert_eq!(region(&[second]).as_deref(), Some("us-east-1"));
    for wrong in ["eu.west", "EU-WEST-1", "a/b", "evil.example/"] {
        assert_eq!(errors(&[("AWS_REGION", wrong)]).len(), 1, "{wrong}");
    }
}

#[test]
fn the_data_directory_follows_the_user() {
    let dir = |source: Source| Config::read(&source).unwrap().database.data_dir;
    let expected = if cfg!(target_os = "macos") {
        "/home/ada/Library/Application Support/agentling"
    } else {
        "/home/ada/.local/share/agentling"
    };
    assert_eq!(dir(Source::of([HOME])), Path::new(expected));
    assert_eq!(dir(Source::of([HOME, ("XDG_DATA_HOME", "/d")])), Path::new("/d/agentling"));
    assert_eq!(dir(Source::of([HOME]).as_root()), Path::new("/var/lib/agentling"));
    assert_eq!(dir(Source::of([("AGENTLING_DATA_DIR", "/x")]).as_root()), Path::new("/x"));
}

#[test]
fn a_homeless_user_must_say_where_the_data_goes() {
    let nothing = Source::of([("PATH", "/bin")]);
    let found = Config::read(&nothing).unwrap_err();
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["AGENTLING_DATA_DIR or DATABASE_URL must be set, since neither XDG_DATA_HOME nor HOME is"]
    );
    assert!(Config::read(&Source::of([("DATABASE_URL", "postgres://h/d")])).is_ok());
}

#[test]
fn a_value_that_is_not_text_is_refused() {
    let bytes = OsString::from_vec(vec![0xff]);
    let source = Source::of([("AGENTLING_LOG", bytes), ("HOME", "/h".into())]);
    assert_eq!(
        Config::read(&source).unwrap_err(),
        [ConfigError::NotText { name: "AGENTLING_LOG" }]
    );
}

#[test]
fn a_relative_path_is_refused() {
    let found = errors(&[("AGENTLING_DATA_DIR", "data"), ("AGENTLING_PG_BIN", "bin")]);
    assert_eq!(
        found,
        [
            "AGENTLING_DATA_DIR must be an absolute path, not data",
            "AGENTLING_PG_BIN must be an absolute path, not bin",
        ]
    );
}

#[test]
fn every_setting_is_documented_once() {
    let mut names: Vec<_> = SETTINGS.iter().map(|setting| setting.name).collect();
    let (table, help) = (settings_markdown(), settings_help());
    for name in &names {
        assert!(table.contains(&format!("| `{name}` |")), "{name}");
        assert!(help.contains(&format!("  {name}\n")), "{name}");
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(table.contains("| `AGENTLING_LISTEN` | `127.0.0.1:8080` |"), "{table}");
}

#[test]
fn redaction_rules_come_from_a_file_and_their_values_from_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.json");
    let path = file.to_str().unwrap();
    let read_file = |text: &str| {
        std::fs::write(&file, text).unwrap();
        read(&[
            ("AGENTLING_REDACTION_FILE", path),
            ("PARTNER_KEY", "hunter22"),
            ("OPENAI_API_KEY", "ollama"),
            ("AGENTLING_API_KEY", "0123456789abcdef"),
            ("DATABASE_URL", "postgres://u:fedcba9876543210@h/d"),
            ("AGENTLING_SYSTEM_DATABASE_URL", "postgres://s:0f1e2d3c4b5a6978@h/d"),
        ])
    };
    let rule = r#"{"kind":"value","name":"partner","value_env":"PARTNER_KEY"}"#;
    let redaction = read_file(&format!("[{rule}]")).unwrap().redaction;
    assert_eq!(redaction.rules[0].rule_name(), "partner");
    let secrets: Vec<&str> =
        redaction.credentials.iter().map(ExposeSecret::expose_secret).collect();
    assert_eq!(secrets, ["0123456789abcdef", "fedcba9876543210", "0f1e2d3c4b5a6978"]);
    let list = r#"[{"kind":"value","name":"A","value":"hunter22"},
        {"kind":"value","name":"b","value_env":"NO_SUCH"},{"kind":"value","name":"c","value":7}]"#;
    let found = read_file(list).unwrap_err();
    assert_eq!(
        found,
        [
            "AGENTLING_REDACTION_FILE names a file in which /1/value_env must name a variable that is \
             set, and stand in place of `value`",
            "AGENTLING_REDACTION_FILE names a file in which /2 is no rule: a `value` rule has `name`, \
             `value` or `value_env`, and `channels`",
        ]
    );
    let found = read_file(r#"[{"kind":"value","name":"A","value":"hunter22"}]"#).unwrap_err();
    assert!(found[0].contains("in which /0/name must match") && !found[0].contains("hunter22"));
    assert!(read_file("hunter22").unwrap_err()[0].contains("no JSON list, at line 1"));
    assert!(read(&[("AGENTLING_REDACTION_FILE", "/no/such")]).unwrap_err()[0].contains("be read"));
}

#[test]
fn issuers_of_tokens_are_listed_with_whom_the_tokens_are_for() {
    let config = read(&[
        ("AGENTLING_OIDC_ISSUERS", "https://id.example/a, https://b.example=https://b.example/k"),
        ("AGENTLING_OIDC_AUDIENCE", "agentling"),
        ("AGENTLING_OIDC_SCOPES", "urn:x=y=admin, reader=runs:read"),
    ]);
    let oidc = config.unwrap().oidc;
    let issuer = |url: &str, jwks_url: Option<&str>| OidcIssuer {
        url: url.to_owned(),
        jwks_url: jwks_url.map(str::to_owned),
    };
    let second = issuer("https://b.example", Some("https://b.example/k"));
    assert_eq!(oidc.issuers, [issuer("https://id.example/a", None), second]);
    assert_eq!((oidc.tenant_claim.as_str(), oidc.scope_claim.as_str()), ("tenant", "scope"));
    let words: Vec<String> =
        oidc.scopes.iter().map(|(word, scope)| format!("{word} {scope}")).collect();
    assert_eq!(words, ["urn:x=y admin", "reader runs:read"]);
    assert!(read(&[]).unwrap().oidc.issuers.is_empty());
    let unaddressed = errors(&[("AGENTLING_OIDC_ISSUERS", "https://id.example")]);
    assert_eq!(unaddressed, ["AGENTLING_OIDC_AUDIENCE must be set where there are issuers"]);
    for wrong in ["id.example", "ftp://id.example", "https://id.example=keys"] {
        let pairs = [("AGENTLING_OIDC_ISSUERS", wrong), ("AGENTLING_OIDC_AUDIENCE", "agentling")];
        assert_eq!(errors(&pairs), ["AGENTLING_OIDC_ISSUERS must be an http or https URL"]);
    }
    let wrong = errors(&[("AGENTLING_OIDC_SCOPES", "reader=runs:fly")]);
    assert!(wrong[0].contains("word=scope pairs"), "{wrong:?}");
}

#[test]
fn a_rate_is_a_number_and_what_may_come_at_once() {
    let rates = [
        ("AGENTLING_RATE_KEY", "50"),
        ("AGENTLING_RATE_TENANT", "100/400"),
        ("AGENTLING_RATE_RUNS", "30/5"),
    ];
    let rates = read(&rates).unwrap().rates;
    let rate = |millis, burst| Some(Rate { every: Duration::from_millis(millis), burst });
    assert_eq!(
        (rates.key, rates.tenant, rates.runs),
        (rate(20, 50), rate(10, 400), rate(2_000, 5))
    );
    assert_eq!(read(&[]).unwrap().rates, Rates::default());
    for wrong in ["0", "5/0", "1000001", "-1", "1/2/3", "5/s", "on"] {
        let found = errors(&[("AGENTLING_RATE_KEY", wrong)]);
        assert!(found[0].starts_with("AGENTLING_RATE_KEY must be `off`"), "{found:?}");
    }
}
