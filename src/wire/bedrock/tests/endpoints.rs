//! Where requests go, and what errors mean.

use chrono::DateTime;
use serde_json::json;

use super::BedrockConverse;
use crate::domain::model::ModelErrorKind;
use crate::wire::codec::Framing;
use crate::wire::{Codec as _, RetryHints, WireError};

#[test]
fn the_model_is_one_segment_of_the_path() {
    for (model, stream, path) in [
        ("amazon.nova-lite-v1:0", false, "model/amazon.nova-lite-v1%3A0/converse"),
        ("amazon.nova-lite-v1:0", true, "model/amazon.nova-lite-v1%3A0/converse-stream"),
        ("arn:aws:b:r:1:p/a~b_c", true, "model/arn%3Aaws%3Ab%3Ar%3A1%3Ap%2Fa~b_c/converse-stream"),
        ("a b%?#é", false, "model/a%20b%25%3F%23%C3%A9/converse"),
    ] {
        let endpoint = BedrockConverse.endpoint(model, stream);
        assert_eq!((endpoint.path.as_str(), endpoint.framing), (path, Framing::EventStream));
    }
}

fn classified(status: u16, error_type: Option<&str>, body: &str) -> WireError {
    let none = RetryHints::none(DateTime::UNIX_EPOCH);
    let hints = RetryHints { error_type: error_type.map(str::to_owned), ..none };
    BedrockConverse.classify(status, &hints, body.as_bytes())
}

#[test]
fn an_error_is_told_by_its_type_in_the_header() {
    for (status, error_type, kind) in [
        (403, "ExpiredTokenException:http://internal.amazon.com/coral/", ModelErrorKind::Auth),
        (403, "UnrecognizedClientException", ModelErrorKind::Auth),
        (403, "com.amazon.coral.service#InvalidSignatureException", ModelErrorKind::Auth),
        (403, "AccessDeniedException:http://x", ModelErrorKind::Permission),
        (400, "ServiceQuotaExceededException:http://x", ModelErrorKind::Quota),
        (400, "ValidationException:http://x", ModelErrorKind::BadRequest),
        (404, "ResourceNotFoundException", ModelErrorKind::NotFound),
        (408, "ModelTimeoutException", ModelErrorKind::Timeout),
        (424, "ModelErrorException", ModelErrorKind::Server),
        (429, "ThrottlingException", ModelErrorKind::RateLimit),
        (503, "ServiceUnavailableException", ModelErrorKind::Unavailable),
        (500, "", ModelErrorKind::Server),
    ] {
        let error = classified(status, Some(error_type), r#"{"message":"no"}"#);
        assert_eq!((error.kind, error.status), (kind, Some(status)), "{error_type}");
        assert_eq!(error.retryable, kind.is_retryable(), "{error_type}");
    }
    let error = classified(429, Some("ThrottlingException:http://x"), r#"{"Message":"slow down"}"#);
    assert_eq!(error.code.as_deref(), Some("ThrottlingException"));
    assert_eq!(error.detail, "slow down");
}

#[test]
fn a_refused_request_is_told_by_its_message() {
    for (message, kind) in [
        ("Input is too long for requested model.", ModelErrorKind::ContextWindow),
        ("prompt is too long: 9 tokens > 8 maximum", ModelErrorKind::ContextWindow),
        ("The provided model identifier is invalid.", ModelErrorKind::NotFound),
        (
            "Invocation of model ID x with on-demand throughput isn\u{2019}t supported.",
            ModelErrorKind::NotFound,
        ),
        ("messages.0 is wrong", ModelErrorKind::BadRequest),
    ] {
        let body = json!({"message": message}).to_string();
        let error = classified(400, Some("ValidationException:http://x"), &body);
        assert_eq!((error.kind, error.retryable), (kind, false), "{message}");
    }
}
