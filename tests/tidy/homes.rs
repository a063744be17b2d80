//! The crates of the outside world stay in their homes.

use crate::scan::{self, File, Token};
use crate::{Finding, bites, hold};

/// Where each crate may be named: layers, or files at the root of `src`.
const HOMES: &[(&str, &[&str])] = &[
    ("sqlx", &["store"]),
    ("axum", &["http"]),
    ("tower_http", &["http"]),
    ("utoipa", &["domain", "http"]),
    ("utoipa_axum", &["http"]),
    ("utoipa_swagger_ui", &["http"]),
    ("reqwest", &["provider", "tools"]),
    ("tokio", &["store", "provider", "tools", "engine", "http", "app", "main"]),
    ("tokio_stream", &["store", "provider", "tools", "engine", "http", "app"]),
    ("tokio_util", &["store", "provider", "tools", "engine", "http", "app", "main"]),
    ("clap", &["main", "app"]),
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

fn names_crate(tokens: &[Token], at: usize, name: &str) -> bool {
    let is = |at: Option<usize>, text: &str| {
        at.and_then(|at| tokens.get(at)).is_some_and(|token| token.is(text))
    };
    let here = tokens.get(at).is_some_and(|token| token.is_word() && token.text == name);
    if !here
        || scan::is_continued(tokens, at)
            && !is(at.checked_sub(2), "")
            && !starts_global(tokens, at)
    {
        return false;
    }
    let before = at.checked_sub(1);
    let attribute = is(before, "[") && is(at.checked_sub(2), "#");
    is(Some(at + 1), "::") || is(before, "use") || is(before, "crate") || attribute
}

/// Whether the path is spelt `::name`, from outside the crate.
fn starts_global(tokens: &[Token], at: usize) -> bool {
    let before = at.checked_sub(2).and_then(|before| tokens.get(before));
    !before.is_some_and(|token| token.is_word() && token.text != "use" || token.is(">"))
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
