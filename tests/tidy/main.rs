//! House rules as tests. Each guard is a function over text or values, has a planted violation as its
//! twin, and says where, what, and what to do.
#![expect(clippy::unwrap_used, reason = "a guard that cannot read the house has nothing to report")]
#![expect(clippy::panic, reason = "a file that is not Rust ends the run")]

mod attributes;
mod deps;
mod framing;
mod homes;
mod layers;
mod licences;
mod purity;
mod reach;
mod scan;
mod sizes;
mod sql;
mod tokens;
mod words;

use std::fmt;

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
    advice: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>, advice: &str) -> Self {
        Self { path: path.to_owned(), line, what: what.into(), advice: advice.to_owned() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path, self.line, self.what, self.advice)
    }
}

/// Fails with all findings.
#[track_caller]
pub(crate) fn hold(findings: impl IntoIterator<Item = Finding>) {
    let lines: Vec<String> = findings.into_iter().map(|finding| finding.to_string()).collect();
    assert!(lines.is_empty(), "{} house rules are broken\n{}", lines.len(), lines.join("\n"));
}

/// Checks that a planted violation is found: what is said must hold `part`, once per `lines` entry.
#[track_caller]
pub(crate) fn bites(findings: &[Finding], part: &str, lines: &[usize]) {
    let found: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
    assert_eq!(found, lines, "{findings:#?}");
    assert!(findings.iter().all(|finding| finding.what.contains(part)), "{findings:#?}");
}
