//! What failed answers are classified as.

use chrono::{TimeZone as _, Utc};
use serde_json::json;

use crate::domain::model::ModelErrorKind as Kind;
use crate::wire::RetryHints;
use crate::wire::failure::classify;

fn hints() -> RetryHints {
    RetryHints::none(Utc.with_ymd_and_hms(2026, 11, 30, 9, 0, 0).unwrap())
}

#[test]
fn the_status_decides_when_the_body_says_nothing() {
    for (status, kind, retryable) in [
        (400, Kind::BadRequest, false),
        (401, Kind::Auth, false),
        (402, Kind::Quota, false),
        (403, Kind::Permission, false),
        (404, Kind::NotFound, false),
        (408, Kind::Timeout, true),
        (409, Kind::Unavailable, true),
        (413, Kind::TooLarge, false),
        (422, Kind::BadRequest, false),
        (424, Kind::Server, true),
        (425, Kind::Unavailable, true),
        (429, Kind::RateLimit, true),
        (500, Kind::Server, true),
        (501, Kind::Server, false),
        (502, Kind::Server, true),
        (503, Kind::Unavailable, true),
        (504, Kind::Timeout, true),
        (529, Kind::Overloaded, true),
        (302, Kind::Protocol, false),
    ] {
        for body in ["", "<html>", "{}", "null", "[]", "{\"error\":null}"] {
            let error = classify(status, &hints(), body.as_bytes());
            assert_eq!((error.kind, error.retryable), (kind, retryable), "{status} {body}");
            assert_eq!(error.status, Some(status));
        }
    }
}

#[test]
fn codes_and_messages_say_more_than_the_status() {
    for (status, body, kind) in [
        (429, json!({"error": {"code": "insufficient_quota"}}), Kind::Quota),
        (429, json!({"error": {"code": 1113, "message": "no"}}), Kind::Quota),
        (400, json!({"error": {"code": "context_length_exceeded"}}), Kind::ContextWindow),
        (
            400,
            json!({"error": {"message": "Prompt is too long: 9 tokens > 8"}}),
            Kind::ContextWindow,
        ),
        (400, json!({"error": {"code": "tool_use_failed"}}), Kind::ToolGenerationFailed),
        (
            403,
            json!({"error": {"code": 403, "metadata": {"flagged_input": "x"}}}),
            Kind::ContentFilter,
        ),
        (
            400,
            json!({"code": "invalid-argument", "error": "Incorrect API key provided"}),
            Kind::Auth,
        ),
        (400, json!([{"error": {"details": [{"reason": "API_KEY_INVALID"}]}}]), Kind::Auth),
        (400, json!({"error": {"message": "Model Not Exist"}}), Kind::NotFound),
        (503, json!({"error": {"message": "The engine is Overloaded"}}), Kind::Overloaded),
        (429, json!({"error": "INSUFFICIENT QUOTA", "status": 429}), Kind::RateLimit),
        (413, json!({"error": {"code": "rate_limit_exceeded"}}), Kind::TooLarge),
    ] {
        let error = classify(status, &hints(), body.to_string().as_bytes());
        assert_eq!(error.kind, kind, "{status} {body}");
    }
}

#[test]
fn the_provider_may_say_whether_and_when_to_try_again() {
    let mut told = hints();
    told.should_retry = Some("false".to_owned());
    told.retry_after = Some("3".to_owned());
    let error = classify(500, &told, b"{}");
    assert_eq!((error.retryable, error.retry_after_ms), (false, Some(3_000)));
    told.should_retry = Some("true".to_owned());
    assert!(classify(400, &told, b"{}").retryable);
    let body = json!([{"error": {"code": 429, "details": [{"retryDelay": "45.5s"}]}}]);
    let error = classify(429, &hints(), body.to_string().as_bytes());
    assert_eq!(error.retry_after_ms, Some(45_500));
}

#[test]
fn the_detail_is_a_masked_excerpt_and_the_code_is_kept() {
    let body = json!({"error": {"code": "invalid_api_key", "message": "Incorrect key: sk-abcd"}});
    let error = classify(401, &hints(), body.to_string().as_bytes());
    assert_eq!(error.code.as_deref(), Some("invalid_api_key"));
    assert_eq!(error.detail, "Incorrect key: [masked]");
    let error = classify(502, &hints(), b"<html>sk-1</html>");
    assert_eq!((error.code, error.detail.as_str()), (None, "<html>[masked]</html>"));
}
