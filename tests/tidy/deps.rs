//! What the house is built on: which crates, from where, under which licences, how often.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::licences::is_allowed;
use crate::{Finding, bites, hold};

/// Crates that the house names itself.
const DIRECT: &[&str] = &[
    "aes-gcm-siv",
    "axum",
    "base64",
    "bytes",
    "chrono",
    "chrono-tz",
    "clap",
    "flate2",
    "futures",
    "getrandom",
    "hickory-resolver",
    "hmac",
    "http",
    "hyper-util",
    "indexmap",
    "jsonschema",
    "memchr",
    "metrics",
    "metrics-exporter-prometheus",
    "opentelemetry",
    "opentelemetry-proto",
    "opentelemetry_sdk",
    "prost",
    "regex",
    "reqwest",
    "ring",
    "rmcp",
    "rustix",
    "rustls",
    "secrecy",
    "serde",
    "serde-saphyr",
    "serde_json",
    "serde_path_to_error",
    "sha2",
    "sqlx",
    "sse-stream",
    "subtle",
    "thiserror",
    "tokio",
    "tokio-stream",
    "tokio-util",
    "tower",
    "tower-http",
    "tracing",
    "tracing-subscriber",
    "unicode-normalization",
    "url",
    "utoipa",
    "utoipa-axum",
    "utoipa-swagger-ui",
    "uuid",
];

/// Crates that tests name.
const FOR_TESTS: [&str; 6] =
    ["criterion", "proc-macro2", "proptest", "sqlparser", "syn", "tempfile"];

/// Crates that must not be there at all: one TLS stack, and it is rustls on ring.
const BANNED: [&str; 5] = ["aws-lc-rs", "aws-lc-sys", "native-tls", "openssl", "openssl-sys"];

/// Crates that are there in several versions, and who keeps the older one.
const TWICE: &[(&str, &str)] = &[
    ("base64", "sqlx is a version behind"),
    ("block-buffer", "sqlx hashes with digest 0.10"),
    ("core-foundation", "the resolver of names is a version behind; on macOS only"),
    ("cpufeatures", "sqlx hashes with digest 0.10"),
    ("crypto-common", "sqlx hashes with digest 0.10"),
    ("digest", "sqlx hashes with digest 0.10"),
    ("getrandom", "ring and jsonschema are behind"),
    ("hashbrown", "hashlink of sqlx is a version behind"),
    ("nix", "rmcp starts programs with a version behind"),
    ("r-efi", "comes with getrandom"),
    ("rand", "opentelemetry_sdk is a version behind"),
    ("rand_core", "opentelemetry_sdk is a version behind"),
    ("sha2", "sqlx hashes with digest 0.10"),
    ("syn", "the procedural macros are moving to version 3"),
    ("tower-http", "reqwest is a version behind"),
    ("windows-core", "loom of left-right is ahead; never built"),
    ("windows-implement", "loom of left-right is ahead; never built"),
    ("windows-interface", "loom of left-right is ahead; never built"),
    ("windows-link", "loom of left-right is ahead; never built"),
    ("windows-result", "loom of left-right is ahead; never built"),
    ("windows-strings", "loom of left-right is ahead; never built"),
    ("windows-sys", "ring is a version behind; on Windows only"),
];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// One package of `Cargo.lock`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
}

/// The packages of `Cargo.lock`, for every platform.
fn locked(text: &str) -> Vec<Locked> {
    let field = |block: &str, name: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    text.split("[[package]]")
        .skip(1)
        .filter_map(|block| {
            Some(Locked {
                name: field(block, "name")?,
                version: field(block, "version")?,
                source: field(block, "source"),
            })
        })
        .collect()
}

fn lock(what: impl Into<String>, advice: &str) -> Finding {
    Finding::new("Cargo.lock", 1, what, advice)
}

/// Banned crates and crates from elsewhere than the registry.
fn origins(packages: &[Locked]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for Locked { name, version, source } in packages {
        if BANNED.contains(&name.as_str()) {
            let advice = "choose features that use rustls with ring";
            findings.push(lock(format!("`{name}` {version} is banned"), advice));
        }
        if name != "agentling" && source.as_deref() != Some(REGISTRY) {
            let advice = "use a released version";
            findings.push(lock(format!("`{name}` {version} is not from the registry"), advice));
        }
    }
    findings
}

/// Crates that are there more than once and not listed, and the other way round.
fn duplicates(packages: &[Locked], listed: &[(&str, &str)]) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let twice: BTreeSet<&str> =
        versions.iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| *name).collect();
    let known: BTreeSet<&str> = listed.iter().map(|(name, _)| *name).collect();
    let new = twice.difference(&known).map(|name| {
        let advice = "agree on one version, or list it in tests/tidy/deps.rs with the reason";
        lock(format!("`{name}` is there in several versions"), advice)
    });
    let gone = known.difference(&twice).map(|name| {
        lock(format!("`{name}` is there once"), "take it off the list in tests/tidy/deps.rs")
    });
    new.chain(gone).collect()
}

/// Direct dependencies that differ from the lists.
fn direct(metadata: &Value) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().unwrap();
    let root = packages.iter().find(|package| package["name"] == "agentling").unwrap();
    let named = |for_tests: bool| -> BTreeSet<&str> {
        let dependencies = root["dependencies"].as_array().unwrap().iter();
        dependencies
            .filter(|dependency| (dependency["kind"] == "dev") == for_tests)
            .filter_map(|dependency| dependency["name"].as_str())
            .collect()
    };
    let mut findings = differing(&named(false), DIRECT);
    // A test may name what the house names anyway.
    let tests_only = named(true).into_iter().filter(|name| !DIRECT.contains(name)).collect();
    findings.extend(differing(&tests_only, &FOR_TESTS));
    findings
}

fn differing(found: &BTreeSet<&str>, listed: &[&str]) -> Vec<Finding> {
    let listed: BTreeSet<&str> = listed.iter().copied().collect();
    found
        .symmetric_difference(&listed)
        .map(|name| {
            let what = format!("the direct dependency `{name}` is not in both lists");
            let advice =
                "a dependency is a decision: change Cargo.toml and tests/tidy/deps.rs together";
            Finding::new("Cargo.toml", 1, what, advice)
        })
        .collect()
}

/// Packages whose licence is not among the allowed ones.
fn licences(metadata: &Value) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .filter(|package| !package["license"].as_str().is_some_and(is_allowed))
        .map(|package| {
            let what = format!("`{}` has the licence {}", package["name"], package["license"]);
            lock(what, "do without it, or allow the licence in licences.rs and deny.toml")
        })
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn lock_file() -> Vec<Locked> {
    locked(&std::fs::read_to_string(root().join("Cargo.lock")).unwrap())
}

fn stdout(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What cargo knows about the packages of this platform: they are all there, since this test is built.
fn metadata() -> Value {
    let version = stdout("rustc", &["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let fixed = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let arguments = [&fixed[..], &["--filter-platform", host]].concat();
    serde_json::from_str(&stdout(env!("CARGO"), &arguments)).unwrap()
}

#[test]
fn direct_dependencies_and_licences_are_the_listed_ones() {
    let metadata = metadata();
    hold(direct(&metadata).into_iter().chain(licences(&metadata)));
}

#[test]
fn an_unlisted_dependency_and_a_strange_licence_are_found() {
    let package =
        |name: &str, licence: Value| serde_json::json!({"name": name, "license": licence});
    let mut house = package("agentling", "MIT OR Apache-2.0".into());
    let all = DIRECT.iter().map(|name| serde_json::json!({"name": name, "kind": null}));
    let tests = FOR_TESTS.iter().map(|name| serde_json::json!({"name": name, "kind": "dev"}));
    let extra = serde_json::json!({"name": "left-pad", "kind": null});
    house["dependencies"] = all.skip(1).chain(tests).chain([extra]).collect();
    let strange = [package("a", "GPL-3.0".into()), package("b", Value::Null)];
    let metadata = serde_json::json!({"packages": [house, strange[0], strange[1]]});
    bites(&direct(&metadata), "not in both lists", &[1, 1]);
    bites(&licences(&metadata), "has the licence", &[1, 1]);
}

#[test]
fn locked_packages_come_from_the_registry_and_once() {
    let packages = lock_file();
    assert!(packages.iter().any(|package| package.name == "agentling"));
    hold(origins(&packages).into_iter().chain(duplicates(&packages, TWICE)));
}

#[test]
fn a_banned_a_foreign_and_a_doubled_package_are_found() {
    let text = "[[package]]\nname = \"openssl\"\nversion = \"1.0.0\"\nsource = \"registry+https://github.com/rust-lang/crates.io-index\"\n\n\
        [[package]]\nname = \"x\"\nversion = \"1.0.0\"\nsource = \"git+https://example.com/x\"\n\n\
        [[package]]\nname = \"x\"\nversion = \"2.0.0\"\ndependencies = [\n \"openssl\",\n]\n";
    let packages = locked(text);
    assert_eq!(packages.len(), 3);
    bites(&origins(&packages[..1]), "is banned", &[1]);
    bites(&origins(&packages[1..]), "is not from the registry", &[1, 1]);
    bites(&duplicates(&packages, &[]), "several versions", &[1]);
    bites(&duplicates(&packages, &[("x", ""), ("y", "")]), "`y` is there once", &[1]);
}

/// Crates and licences that `deny.toml` does not name as these lists do.
fn unlike_deny_toml(text: &str) -> Vec<Finding> {
    let banned = BANNED.iter().map(|name| format!("crate = \"{name}\""));
    let skipped = TWICE.iter().map(|(name, _)| format!("crate = \"{name}@"));
    let licences = crate::licences::ALLOWED.iter().map(|name| format!("  \"{name}\","));
    banned
        .chain(skipped)
        .chain(licences)
        .filter(|entry| !text.contains(entry.as_str()))
        .map(|entry| {
            let advice = "the lists of tests/tidy and deny.toml say the same";
            Finding::new("deny.toml", 1, format!("`{entry}` is missing"), advice)
        })
        .collect()
}

#[test]
fn deny_toml_says_the_same() {
    let text = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    hold(unlike_deny_toml(&text));
    let cut = text.replace("\"openssl\"", "").replace("syn@2", "").replace("\"ISC\"", "");
    bites(&unlike_deny_toml(&cut), "is missing", &[1, 1, 1]);
}
