//! Layers look down only: every path that starts at the crate root, imports, macros and test modules
//! included.

use crate::scan::{self, File};
use crate::tokens::{self, Token};
use crate::{Finding, bites, hold};

/// Which layers a layer may name; composition may name anything.
const LAYERS: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("machine", &["domain"]),
    ("render", &["domain"]),
    ("wire", &["domain", "render"]),
    ("config", &["domain"]),
    ("clock", &[]),
    ("instruments", &["domain"]),
    ("seal", &["domain"]),
    ("store", &["domain", "config", "clock"]),
    ("egress", &[]),
    ("provider", &["domain", "wire", "config", "clock", "egress"]),
    ("tools", &["domain", "render", "config", "clock", "egress"]),
    ("error", &["domain", "wire", "config", "store", "provider", "tools"]),
    (
        "engine",
        &[
            "domain",
            "machine",
            "render",
            "wire",
            "config",
            "clock",
            "egress",
            "seal",
            "store",
            "provider",
            "tools",
            "error",
            "instruments",
        ],
    ),
    ("http", &["domain", "config", "clock", "store", "engine", "error", "instruments"]),
];

/// What composes the layers.
const COMPOSITION: [&str; 4] = ["lib", "main", "app", "telemetry"];

/// Macros at the crate root, which every layer may use.
const ROOT_MACROS: [&str; 1] = ["labels"];

const HIGHER: &str =
    "hand the work up as a value, or move what is needed into a lower layer (architecture.md 3.2)";

/// Every way in which a file names a layer that it may not know.
fn check(file: &File) -> Vec<Finding> {
    let Some(layer) = file.layer() else { return Vec::new() };
    if COMPOSITION.contains(&layer) {
        return Vec::new();
    }
    let Some((_, allowed)) = LAYERS.iter().find(|(name, _)| *name == layer) else {
        let what = format!("`{layer}` is not a layer");
        return vec![Finding::new(
            &file.path,
            1,
            what,
            "list it in tests/tidy/layers.rs with what it may name",
        )];
    };
    let named = root_words(file).into_iter().filter(|token| {
        let name = token.text.as_str();
        name != layer && !allowed.contains(&name) && !ROOT_MACROS.contains(&name)
    });
    named
        .map(|token| {
            let what = format!("`{layer}` may not name `{}`", token.text);
            Finding::new(&file.path, token.line, what, HIGHER)
        })
        .collect()
}

/// The first word after the crate root of every path in the file.
fn root_words(file: &File) -> Vec<&Token> {
    let all = &file.tokens;
    let mut words = Vec::new();
    for at in 0..all.len() {
        let doc = all.get(at).is_some_and(|token| token.in_doc);
        if doc {
            continue;
        }
        if tokens::starts_path(all, at, "crate") {
            words.extend(tokens::next_words(all, at + 2));
        } else if tokens::starts_path(all, at, "super") {
            words.extend(above(file, at));
        }
    }
    words
}

/// What a chain of `super::` leads to when it ends at the crate root.
fn above(file: &File, at: usize) -> Vec<&Token> {
    let all = &file.tokens;
    let mut n_supers = 0;
    let mut next = at;
    while all.get(next).is_some_and(|token| token.is("super"))
        && all.get(next + 1).is_some_and(|token| token.is("::"))
    {
        n_supers += 1;
        next += 2;
    }
    let depth = file.depth() + all.get(at).map_or(0, |token| token.inline);
    if n_supers < depth { Vec::new() } else { tokens::next_words(all, next) }
}

#[test]
fn layers_look_down_only() {
    hold(scan::rust().flat_map(check));
}

#[test]
fn a_path_to_a_higher_layer_is_found_wherever_it_stands() {
    let text = "use crate::domain::id::RunId;\nuse crate::{clock::Clock, http};\n\
        fn f() -> crate::engine::Engine { crate::render!(x) }\n\
        #[cfg(test)]\nmod tests {\n use crate::provider::Fake;\n use super::super::super::tools;\n use super::super::x;\n}\n";
    let findings = check(&File::new("src/store/runs.rs", text));
    bites(&findings, "`store` may not name `", &[2, 3, 3, 6, 7]);
}

#[test]
fn a_new_folder_must_be_listed() {
    bites(&check(&File::new("src/shiny/mod.rs", "")), "`shiny` is not a layer", &[1]);
    bites(&check(&File::new("src/shiny.rs", "")), "`shiny` is not a layer", &[1]);
}

#[test]
fn the_macro_of_vocabularies_is_for_everyone() {
    assert_eq!(check(&File::new("src/domain/x.rs", "use crate::labels;\ncrate::labels! { }")), []);
}
