//! What looks like a credential, what does not, and how long it takes to tell.

use std::time::{Duration, Instant};

use super::*;
use crate::domain::redaction::RedactionChannel;

/// A text with what the shapes leave of it.
const SHAPED: &[(&str, &str)] = &[
    (
        "key ag_0198f2c4a1b27cde8f00112233445566_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI!",
        "key [redacted:secret:agentling_key]!",
    ),
    ("Incorrect: sk-proj-abcdefghijklmnop.", "Incorrect: [redacted:secret:provider_key]."),
    ("authorization: bearer abcdefghijklmnop==", "authorization: [redacted:secret:bearer_token]"),
    (
        "got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl, why?",
        "got [redacted:secret:json_web_token], why?",
    ),
    (
        r#"{"error":"whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTA="}"#,
        r#"{"error":"[redacted:secret:webhook_secret]"}"#,
    ),
    ("AKIAIOSFODNN7EXAMPLE is refused", "[redacted:secret:aws_key] is refused"),
    (
        "no server at postgres://u:p%40ss@db.example:5432/x",
        "no server at postgres[redacted:secret:url_password]db.example:5432/x",
    ),
    ("redis://:hunter22@cache/0", "redis[redacted:secret:url_password]cache/0"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\n-----END RSA PRIVATE KEY----- and so on",
        "[redacted:secret:private_key] and so on",
    ),
    ("-----BEGIN PRIVATE KEY-----\\nMIIE cut off", "[redacted:secret:private_key]"),
];

/// What a credential only resembles.
const SHAPELESS: &[&str] = &[
    "ag_short",
    "the task-based sk-ill and a disk-image-of-many-letters",
    "a bearer of bad news, and Bearer [redacted:secret:key]",
    "eyJ.eyJ.x and eyJhbGciOiJIUzI1NiJ9",
    "AKIASHORT and XAKIAIOSFODNN7EXAMPLE",
    "https://example.com:8443/a@b and http://[::1]:8080/ and 12:30@noon",
    "postgres://u:[redacted:secret:0000000000000001]@db/x",
    "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
];

#[test]
fn what_looks_like_a_credential_is_replaced_by_the_name_of_its_shape() {
    let redactor = Redactor::of_shapes();
    for (text, shown) in SHAPED {
        for channel in [Log, RedactionChannel::Trace, Api, Model] {
            assert_eq!(redactor.text(channel, text), *shown, "{text}");
        }
        assert_eq!(redactor.text(Log, shown), *shown, "twice is once");
        let quoted = json!({ "a": [text] }).to_string();
        let redacted = json!({ "a": [shown] }).to_string();
        assert_eq!(redactor.json_text(Log, &quoted), redacted, "{text}");
    }
}

#[test]
fn what_only_resembles_a_credential_stays() {
    let redactor = Redactor::of_shapes();
    for text in SHAPELESS {
        assert_eq!(redactor.text(Log, text), *text);
    }
}

#[test]
fn a_known_value_within_a_shape_leaves_no_fragment() {
    let sets = [RuleSet::secrets(["abcdefghijklmnopq/rst"]), RuleSet::shapes()];
    let redactor = Redactor::new(&sets, key("t"));
    for text in ["Bearer abcdefghijklmnopq/rst", "x sk-abcdefghijklmnopq/rst y"] {
        let shown = redactor.text(Log, text).into_owned();
        assert!(!shown.contains("abc") && !shown.contains("rst"), "{shown}");
    }
}

/// Time is linear in the text: a text that is sixteen times as long takes no more than some hundred times
/// as long, where one that is looked at again from every place would take thousands.
#[expect(clippy::disallowed_methods, reason = "what is measured here is time")]
#[test]
fn no_text_makes_the_shapes_slow() {
    let redactor = Redactor::of_shapes();
    let took = |text: &str| {
        let begun = Instant::now();
        redactor.text(Log, text);
        begun.elapsed().max(Duration::from_millis(1))
    };
    for piece in [
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY----- - - ",
        "://a",
        "://:",
        "Bearer ",
        "eyJaaaaaaaa.",
        "ag_aaaaaaaa_",
        "sk-",
        "aaaa",
        "AKIA",
        "[redacted:",
    ] {
        let [short, long] = [1 << 16, 1 << 20].map(|n| piece.repeat(n / piece.len()));
        let (short, long) = (took(&short), took(&long));
        assert!(long < short * 150, "{piece}: {short:?} and {long:?}");
    }
}
