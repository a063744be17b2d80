//! What failed answers are classified as.

use chrono::{TimeZone as _, Utc};
use serde_json::{Value, json};

use crate::domain::model::{ModelErrorKind as Kind, Provider};
use crate::wire::{self, RetryHints, StreamDecoder};

#[test]
fn codes_and_messages_say_more_than_the_status() {
    let hints = RetryHints::none(Utc.with_ymd_and_hms(2026, 11, 30, 9, 0, 0).unwrap());
    for (status, body, kind) in [
        (400, json!({"error": {"code": "model_not_found", "message": "no"}}), Kind::NotFound),
        (400, json!({"error": {"code": "context_length_exceeded"}}), Kind::ContextWindow),
        (
            400,
            json!({"error": {"code": null, "message": "No tool output found"}}),
            Kind::BadRequest,
        ),
        (400, json!({"code": "invalid-argument", "error": "Incorrect API key"}), Kind::Auth),
        (400, json!({"error": {"code": "content_filter"}}), Kind::ContentFilter),
        (429, json!({"error": {"code": "insufficient_quota"}}), Kind::Quota),
        (429, json!({"error": {"code": "rate_limit_exceeded"}}), Kind::RateLimit),
        (401, json!({"detail": "Unauthorized"}), Kind::Auth),
    ] {
        let provider = Provider::OpenaiResponses;
        let error = wire::classify(provider, status, &hints, body.to_string().as_bytes());
        assert_eq!(error.kind, kind, "{status} {body}");
    }
}

#[test]
fn an_error_event_has_the_class_that_it_would_have_had_as_a_status() {
    for (event, kind) in [
        (json!({"type": "error", "code": "rate_limit_exceeded", "message": "m"}), Kind::RateLimit),
        (json!({"type": "error", "error": {"type": "server_error", "message": "m"}}), Kind::Server),
        (json!({"type": "error", "error": {"type": "overloaded_error"}}), Kind::Overloaded),
        (json!({"type": "response.error", "code": "server_is_overloaded"}), Kind::Overloaded),
        (json!({"error": {"code": 429, "message": "m"}}), Kind::RateLimit),
        (failed(&json!({"code": "server_error", "message": "m"})), Kind::Server),
        (failed(&json!({"code": "rate_limit_exceeded"})), Kind::RateLimit),
        (failed(&json!({"code": "insufficient_quota"})), Kind::Quota),
        (failed(&json!({"code": "context_length_exceeded"})), Kind::ContextWindow),
        (failed(&json!({"code": "invalid_prompt", "message": "m"})), Kind::BadRequest),
        (failed(&Value::Null), Kind::Server),
        (json!({"type": "response.cancelled", "response": {"status": "cancelled"}}), Kind::Server),
    ] {
        let mut decoder = StreamDecoder::new(Provider::OpenaiResponses);
        let error = decoder.push(format!("data: {event}\n\n").as_bytes()).unwrap_err();
        assert_eq!((error.kind, error.provider_status), (kind, None), "{event}");
    }
    let mut decoder = StreamDecoder::new(Provider::OpenaiResponses);
    let named = b"event: error\ndata: {\"code\":\"rate_limit_exceeded\"}\n\n";
    assert_eq!(decoder.push(named).unwrap_err().kind, Kind::RateLimit);
}

fn failed(error: &Value) -> Value {
    json!({"type": "response.failed", "response": {"status": "failed", "error": error}})
}

#[test]
fn a_body_that_is_no_response_or_not_a_whole_one_is_refused() {
    let read = |body: &str| wire::decode(Provider::OpenaiResponses, body.as_bytes());
    for body in [
        "",
        "<html>",
        "null",
        "[]",
        "{}",
        "{\"choices\":[]}",
        "{\"status\":\"queued\"}",
        "{\"status\":\"in_progress\",\"output\":[]}",
    ] {
        let error = read(body).unwrap_err();
        assert_eq!((error.kind, error.retryable), (Kind::Protocol, true), "{body}");
    }
    let failed = json!({"status": "failed", "error": {"code": "server_error"}, "output": []});
    assert_eq!(read(&failed.to_string()).unwrap_err().kind, Kind::Server);
    let cancelled = json!({"status": "cancelled", "error": null, "output": []});
    assert_eq!(read(&cancelled.to_string()).unwrap_err().kind, Kind::Server);
}
