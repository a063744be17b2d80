//! What failed answers are classified as.

use chrono::{TimeZone as _, Utc};
use serde_json::{Value, json};

use crate::domain::model::ModelErrorKind as Kind;
use crate::wire::gemini::GeminiGenerate;
use crate::wire::{Codec as _, RetryHints, WireError};

fn classified(status: u16, error: &Value) -> WireError {
    let hints = RetryHints::none(Utc.with_ymd_and_hms(2026, 11, 30, 9, 0, 0).unwrap());
    let single = json!({"error": error}).to_string();
    let one = GeminiGenerate.classify(status, &hints, single.as_bytes());
    let listed = GeminiGenerate.classify(status, &hints, format!("[{single}]").as_bytes());
    // Where there is no message, the body is shown.
    assert_eq!(one, WireError { detail: one.detail.clone(), ..listed });
    one
}

#[test]
fn reasons_and_quotas_say_more_than_the_status() {
    let reason = json!([{"reason": "API_KEY_INVALID"}]);
    for (status, error, kind) in [
        (400, json!({"code": 400, "status": "INVALID_ARGUMENT", "details": reason}), Kind::Auth),
        (400, json!({"status": "INVALID_ARGUMENT", "message": "Bad."}), Kind::BadRequest),
        (400, json!({"status": "FAILED_PRECONDITION"}), Kind::BadRequest),
        (
            400,
            json!({"message": "The input token count (9) exceeds the maximum number of tokens"}),
            Kind::ContextWindow,
        ),
        (403, json!({"status": "PERMISSION_DENIED"}), Kind::Permission),
        (404, json!({"status": "NOT_FOUND", "message": "models/x is not found"}), Kind::NotFound),
        (429, json!({"status": "RESOURCE_EXHAUSTED"}), Kind::RateLimit),
        (500, json!({"status": "INTERNAL"}), Kind::Server),
        (503, json!({"message": "The model is overloaded."}), Kind::Overloaded),
        (503, json!({"status": "UNAVAILABLE"}), Kind::Unavailable),
        (504, json!({"status": "DEADLINE_EXCEEDED"}), Kind::Timeout),
    ] {
        let read = classified(status, &error);
        assert_eq!((read.kind, read.retryable), (kind, kind.is_retryable()), "{error}");
    }
}

#[test]
fn a_quota_of_the_day_is_used_up_and_one_of_the_minute_comes_back() {
    let exhausted = |quota: &str| {
        json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
            {"violations": [{"quotaId": "Other"}, {"quotaId": quota}]},
            {"retryDelay": "26.5s"},
        ]})
    };
    for (quota, kind) in [
        ("GenerateRequestsPerDayPerProjectPerModel-FreeTier", Kind::Quota),
        ("GenerateRequestsPerMinutePerProjectPerModel", Kind::RateLimit),
    ] {
        let read = classified(429, &exhausted(quota));
        assert_eq!((read.kind, read.retry_after_ms), (kind, Some(26_500)), "{quota}");
    }
}

#[test]
fn the_wait_is_read_from_the_message_where_no_detail_has_it() {
    for (message, wait) in [
        ("Quota exceeded.\nPlease retry in 45.837906927s.", Some(45_838)),
        ("Please retry in 623.5ms.", Some(624)),
        ("Please retry in 7s, or later", Some(7_000)),
        ("Please retry in a while", None),
        ("Please retry in ", None),
        ("Please try again", None),
    ] {
        let read = classified(429, &json!({"message": message}));
        assert_eq!(read.retry_after_ms, wait, "{message}");
    }
    let both = json!({"message": "Please retry in 9s.", "details": [{"retryDelay": "3s"}]});
    assert_eq!(classified(429, &both).retry_after_ms, Some(3_000));
}
