//! The crates of the outside world stay in their homes.

use crate::scan::{self, File};
use crate::tokens::Token;
use crate::{Finding, bites, hold};

/// Where each crate may be named: layers, or files at the root of `src`.
const HOMES: &[(&str, &[&str])] = &[
    ("sqlx", &["store"]),
    ("axum", &["http"]),
    ("tower_http", &["http"]),
    ("hyper_util", &["egress", "http"]),
    ("utoipa", &["domain", "http"]),
    ("utoipa_axum", &["http"]),
    ("utoipa_swagger_ui", &["http"]),
    ("ring", &["http"]),
    ("hickory_resolver", &["egress"]),
    ("reqwest", &["egress", "provider", "tools"]),
    ("tokio", &["egress", "store", "provider", "tools", "engine", "http", "app", "main"]),
    ("tokio_stream", &["store", "provider", "tools", "engine", "http", "app"]),
    ("tokio_util", &["store", "provider", "tools", "engine", "http", "app", "main"]),
    ("clap", &["main", "app"]),
    ("aes_gcm_siv", &["seal"]),
    ("metrics", &["instruments"]),
    ("metrics_exporter_prometheus", &["instruments"]),
    ("opentelemetry", &["instruments", "app"]),
    ("opentelemetry_sdk", &["instruments", "app"]),
    ("opentelemetry_proto", &["app"]),
    ("prost", &["app"]),
];

/// Every place of a file that names a crate away from its home.
fn check(file: &File) -> Vec<Finding> {
    let Some(layer) = file.layer() else { return Vec::new() };
    let mut findings = Vec::new();
    for (name, homes) in HOMES.iter().filter(|(_, homes)| !homes.contains(&layer)) {
        for (at, token) in file.tokens.iter().enumerate() {
            if names_crate(&file.tokens, at, name) && !token.in_doc {
                let what = format!("`{layer}` may not name the crate `{name}`");
                let advice = format!("its homes are {}; take a value of theirs", homes.join(", "));
                findings.push(Finding::new(&file.path, token.line, what, &advice));
            }
        }
    }
    findings
}

/// Whether the word at `at` is the crate: at the start of a path, in an import, or as an attribute.
fn names_crate(tokens: &[Token], at: usize, name: &str) -> bool {
    let token = |back: usize| at.checked_sub(back).and_then(|at| tokens.get(at));
    let is = |back: usize, text: &str| token(back).is_some_and(|token| token.is(text));
    if !tokens.get(at).is_some_and(|token| token.is_word() && token.text == name) || is(1, ".") {
        return false;
    }
    // `a::tokio` and `<A>::tokio` are something else; `::tokio` and `use ::tokio` are the crate.
    let goes_on =
        token(2).is_some_and(|token| token.is(">") || token.is_word() && !token.is("use"));
    if is(1, "::") && goes_on {
        return false;
    }
    let attribute = is(1, "[") && is(2, "#");
    let leads_on = tokens.get(at + 1).is_some_and(|token| token.is("::"));
    leads_on || is(1, "use") || is(1, "crate") || attribute
}

#[test]
fn outside_crates_stay_home() {
    hold(scan::rust().flat_map(check));
}

#[test]
fn a_crate_away_from_home_is_found_in_paths_imports_and_attributes() {
    let text = "use sqlx;\nuse tokio::time;\n#[tokio::main]\nfn f(x: ::axum::Router) -> reqwest::Url {\n sqlx::query!(\"\") }\n#[sqlx(rename = \"x\")]\nstruct S;\nfn g(tokio: u8) { self.tokio; crate::axum::x }\n";
    let mut findings = check(&File::new("src/machine/x.rs", text));
    findings.sort_by_key(|finding| finding.line);
    bites(&findings, "`machine` may not name the crate", &[1, 2, 3, 4, 4, 5, 6]);
    assert_eq!(check(&File::new("src/store/x.rs", "use sqlx::PgPool;")), []);
}
