//! The pure layers neither wait nor touch the world.

use crate::scan::{self, File};
use crate::tokens;
use crate::{Finding, bites, hold};

const PURE: [&str; 5] = ["domain", "machine", "render", "seal", "wire"];

/// Modules of the standard library that touch the world; test code may read its data with them.
const WORLD: [&str; 5] = ["fs", "env", "net", "process", "thread"];

const ADVICE: &str =
    "decide on values here and let the engine or an adapter act (architecture.md 3.4)";

fn check(file: &File) -> Vec<Finding> {
    if !file.layer().is_some_and(|layer| PURE.contains(&layer)) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (at, token) in file.tokens.iter().enumerate().filter(|(_, token)| !token.in_doc) {
        if token.is_word() && (token.text == "async" || token.text == "await") {
            let what = format!("`{}` in a pure layer", token.text);
            findings.push(Finding::new(&file.path, token.line, what, ADVICE));
        }
        if !token.in_test && tokens::starts_path(&file.tokens, at, "std") {
            let named = tokens::next_words(&file.tokens, at + 2);
            findings.extend(named.iter().filter(|word| WORLD.contains(&word.text.as_str())).map(
                |word| {
                    let what = format!("`std::{}` in a pure layer", word.text);
                    Finding::new(&file.path, word.line, what, ADVICE)
                },
            ));
        }
    }
    findings
}

#[test]
fn pure_layers_are_pure() {
    hold(scan::rust().flat_map(check));
}

#[test]
fn waiting_and_touching_the_world_are_found() {
    let text = "/// async\nasync fn f() {}\nfn g() { x.await }\nuse std::{fmt, fs};\nfn h(a: std::net::IpAddr) {}\n#[cfg(test)]\nmod tests { use std::fs; async fn t() {} }\n";
    bites(&check(&File::new("src/render/x.rs", text)), "in a pure layer", &[2, 3, 4, 5, 7]);
    assert_eq!(check(&File::new("src/engine/x.rs", text)), []);
}
