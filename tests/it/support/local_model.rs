//! A real model on this machine, when the environment names a server that has one.

/// The base URL of a server with a real model, or `None`, said plainly, when there is none.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where it is")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
pub(crate) fn local_model() -> Option<String> {
    let named = std::env::var("AGENTLING_LOCAL_MODEL").ok().filter(|url| !url.is_empty());
    if named.is_none() {
        eprintln!("skipped: AGENTLING_LOCAL_MODEL names no server with a real model");
    }
    named
}
