//! Tests are run, say what they expect, and wait for facts only.

use crate::scan::{self, File};
use crate::{Finding, bites, hold};

/// Fake servers that are slow on purpose.
const SLOW_SERVERS: &[&str] = &[];

fn check(file: &File) -> Vec<Finding> {
    let tokens = &file.tokens;
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.is(text));
    let mut findings = Vec::new();
    for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.is_word()) {
        let attribute = at > 1 && is(at - 1, "[") && is(at - 2, "#");
        if attribute && (token.text == "ignore" || token.text == "should_panic") {
            let advice = "a test runs always and asserts what it expects";
            findings.push(Finding::new(
                &file.path,
                token.line,
                format!("`{}`", token.text),
                advice,
            ));
        }
        let called = token.text == "sleep" && is(at + 1, "(");
        let declared = at > 0 && is(at - 1, "fn");
        if called && !declared && token.in_test && !SLOW_SERVERS.contains(&file.path.as_str()) {
            let advice = "use a manual clock or wait for a fact";
            findings.push(Finding::new(&file.path, token.line, "`sleep` in a test", advice));
        }
    }
    findings
}

/// Slow servers that are listed but are not slow.
fn stale(listed: &[&str], files: &[File]) -> Vec<Finding> {
    let slow = |path: &str| {
        files.iter().any(|file| file.path == path && file.tokens.iter().any(|t| t.is("sleep")))
    };
    listed
        .iter()
        .filter(|path| !slow(path))
        .map(|path| Finding::new(path, 1, "listed as slow without need", "take it off the list"))
        .collect()
}

#[test]
fn tests_run_always_and_never_sleep() {
    hold(scan::rust().flat_map(check));
    hold(stale(SLOW_SERVERS, scan::house()));
}

#[test]
fn an_ignored_a_panicking_and_a_sleeping_test_are_found() {
    let text = "async fn f() { sleep(1).await }\n#[cfg(test)]\nmod tests {\n#[ignore = \"slow\"]\n#[should_panic]\nfn t() { tokio::time::sleep(x); }\n fn sleep() {}\n}\n";
    bites(&check(&File::new("src/engine/x.rs", text)), "`", &[4, 5, 6]);
    bites(&stale(&["tests/it/x.rs"], &[]), "without need", &[1]);
}
