//! What credentials look like. Nobody needs to have told the server of one for it to be kept from what
//! is said of failures and from what tools of others say.
//!
//! Each pattern begins with a text that is rare, so that looking for it costs next to nothing, and
//! matches in time that is linear.

use std::sync::LazyLock;

use regex::Regex;

/// The shapes by name, with what is replaced of a text.
const SHAPES: [(&str, &str); 8] = [
    ("agentling_key", r"\bag_[0-9A-Za-z]{8,64}_[0-9A-Za-z_-]{16,}"),
    ("provider_key", r"\bsk-[0-9A-Za-z_-]{16,}"),
    ("bearer_token", r"(?i-u:\bbearer)[ \t]+[0-9A-Za-z._~+/-]{16,}=*"),
    ("json_web_token", r"\beyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]*"),
    ("webhook_secret", r"\bwhsec_[0-9A-Za-z+/_-]{16,}=*"),
    ("aws_key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    // Of a URL, what stands between its scheme and its host; a placeholder in it is none of it.
    ("url_password", r#"://[^\s/?#@:\[\]"'<>\\]*:[^\s/?#@\[\]"'<>\\]+@"#),
    // A key that is cut off goes up to the next dashes.
    (
        "private_key",
        "-----BEGIN [0-9A-Z ]{0,32}PRIVATE KEY-----[^-]*(?:-[^-]+)*\
         (?:-----END [0-9A-Z ]{0,32}PRIVATE KEY-----)?",
    ),
];

static COMPILED: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "constant patterns that a test compiles")]
    let compiled = |(name, pattern): (&'static str, &str)| {
        (name, Regex::new(pattern).expect("a valid pattern"))
    };
    SHAPES.map(compiled).to_vec()
});

/// The shapes, ready to be looked for.
pub(super) fn shapes() -> impl Iterator<Item = (&'static str, Regex)> {
    COMPILED.iter().map(|(name, regex)| (*name, regex.clone()))
}
