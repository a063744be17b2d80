//! What errors are classified as.

use chrono::{TimeZone as _, Utc};
use serde_json::{Value, json};

use crate::domain::model::{ModelErrorKind as Kind, Provider};
use crate::wire::anthropic::AnthropicMessages;
use crate::wire::{Codec as _, RetryHints};

fn error(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": null})
}

#[test]
fn errors_are_classified_by_status_type_and_message() {
    let hints = RetryHints::none(Utc.with_ymd_and_hms(2026, 11, 30, 9, 0, 0).unwrap());
    for (status, kind, message, expected) in [
        (400, "invalid_request_error", "max_tokens: Field required", Kind::BadRequest),
        (400, "invalid_request_error", "Your credit balance is too low", Kind::Quota),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 9 tokens > 8 maximum",
            Kind::ContextWindow,
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 9 + 8 > 10",
            Kind::ContextWindow,
        ),
        (401, "authentication_error", "invalid x-api-key", Kind::Auth),
        (402, "billing_error", "no", Kind::Quota),
        (403, "permission_error", "no", Kind::Permission),
        (404, "not_found_error", "model: m", Kind::NotFound),
        (413, "request_too_large", "no", Kind::TooLarge),
        (429, "rate_limit_error", "no", Kind::RateLimit),
        (500, "api_error", "no", Kind::Server),
        (504, "timeout_error", "no", Kind::Timeout),
        (529, "overloaded_error", "Overloaded", Kind::Overloaded),
    ] {
        let body = error(kind, message).to_string();
        let read = AnthropicMessages.classify(status, &hints, body.as_bytes());
        assert_eq!(read.kind, expected, "{status} {message}");
        assert_eq!((read.status, read.detail.as_str()), (Some(status), message));
    }
}

#[test]
fn an_error_in_a_stream_has_the_class_of_its_status_and_keeps_what_came() {
    for (kind, expected) in [
        ("overloaded_error", Kind::Overloaded),
        ("rate_limit_error", Kind::RateLimit),
        ("api_error", Kind::Server),
        ("timeout_error", Kind::Timeout),
        ("authentication_error", Kind::Auth),
        ("permission_error", Kind::Permission),
        ("not_found_error", Kind::NotFound),
        ("request_too_large", Kind::TooLarge),
        ("billing_error", Kind::Quota),
        ("invalid_request_error", Kind::BadRequest),
        ("something_new", Kind::Server),
    ] {
        for name in ["event: error\n", ""] {
            let mut decoder = AnthropicMessages.stream(Provider::Anthropic);
            let said = "data: {\"type\":\"content_block_delta\",\"index\":0,\
                        \"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
            decoder.push(said.as_bytes()).unwrap();
            let failed = format!("{name}data: {}\n\n", error(kind, "no"));
            let read = decoder.push(failed.as_bytes()).unwrap_err();
            assert_eq!((read.kind, read.status), (expected, None), "{kind}");
            assert_eq!(read.retryable, expected.is_retryable());
            assert_eq!(decoder.partial().text().as_deref(), Some("a"));
        }
    }
}

#[test]
fn an_error_that_stands_alone_in_the_body_of_a_stream_is_read() {
    let mut decoder = AnthropicMessages.stream(Provider::Anthropic);
    decoder.push(error("overloaded_error", "no").to_string().as_bytes()).unwrap();
    assert_eq!(decoder.finish().unwrap_err().kind, Kind::Overloaded);
}
