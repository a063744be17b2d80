//! Behaviour of memory documents.

mod chat;
mod codes;
mod generate;
mod list_files;
mod lists;
mod repair;
mod version_1;
mod version_2;

/// As many cases as asked for, and never fewer than a thousand.
fn cases() -> proptest::test_runner::Config {
    let asked = proptest::test_runner::Config::default();
    proptest::test_runner::Config { cases: asked.cases.max(1_000), ..asked }
}
