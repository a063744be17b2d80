//! Errors: from a status and a body, or from inside an answer that began well.

use serde_json::Value;

use crate::domain::model::ModelErrorKind as Kind;
use crate::wire::error::millis;
use crate::wire::json::{self, items, label, present, text};
use crate::wire::mask::excerpt;
use crate::wire::{RetryHints, WireError};

/// Codes and types that say what went wrong, whatever the status is.
const WORDS: &[(Kind, &[&str])] = &[
    (
        Kind::Quota,
        &[
            "insufficient_quota",
            "billing_hard_limit_reached",
            "billing_error",
            "exceeded_current_quota_error",
            "1113",
            "1308",
            "ServiceQuotaExceededException",
        ],
    ),
    (
        Kind::ContextWindow,
        &["context_length_exceeded", "exceed_context_size_error", "too_many_prompt_tokens"],
    ),
    (Kind::ToolGenerationFailed, &["tool_use_failed"]),
    (Kind::ContentFilter, &["content_filter", "content_policy_violation"]),
    (Kind::NotFound, &["model_not_found", "invalid_model", "DeploymentNotFound"]),
    (
        Kind::Auth,
        &[
            "invalid_api_key",
            "API_KEY_INVALID",
            "ExpiredToken",
            "ExpiredTokenException",
            "IncompleteSignature",
            "IncompleteSignatureException",
            "InvalidClientTokenId",
            "InvalidSignatureException",
            "MissingAuthenticationToken",
            "MissingAuthenticationTokenException",
            "RequestExpired",
            "SignatureDoesNotMatch",
            "UnrecognizedClientException",
        ],
    ),
];

/// What messages say where status and code do not, in lower case.
const PHRASES: &[(Kind, &[&str])] = &[
    (
        Kind::ContextWindow,
        &[
            "maximum context length",
            "exceed context limit",
            "max context length",
            "prompt is too long",
            "prompt too long",
            "input token count",
            "input tokens exceeded",
            "input is too long",
        ],
    ),
    (
        Kind::NotFound,
        &[
            "invalid model",
            "model not exist",
            "is not a valid model",
            "model identifier is invalid",
            "on-demand throughput",
        ],
    ),
    (Kind::Auth, &["incorrect api key", "api key not valid"]),
    (Kind::Quota, &["credit balance is too low"]),
];

/// The status that an error inside a 200 would have had, by its type or code.
const STATUSES: &[(u16, &[&str])] = &[
    (
        400,
        &[
            "invalid_request_error",
            "BadRequestError",
            "INVALID_ARGUMENT",
            "FAILED_PRECONDITION",
            "OUT_OF_RANGE",
            "invalid_prompt",
            "validationException",
        ],
    ),
    (401, &["authentication_error", "UNAUTHENTICATED"]),
    (403, &["permission_error", "PERMISSION_DENIED", "accessDeniedException"]),
    (404, &["not_found_error", "NOT_FOUND", "resourceNotFoundException"]),
    (408, &["timeout_error", "DEADLINE_EXCEEDED", "modelTimeoutException"]),
    (413, &["request_too_large"]),
    (
        429,
        &[
            "rate_limit_error",
            "rate_limit_exceeded",
            "throttlingException",
            "RESOURCE_EXHAUSTED",
            "requests",
            "tokens",
        ],
    ),
    (424, &["modelErrorException", "modelStreamErrorException"]),
    (
        503,
        &[
            "service_unavailable_error",
            "unavailable_error",
            "UNAVAILABLE",
            "serviceUnavailableException",
        ],
    ),
    (529, &["overloaded_error", "server_is_overloaded"]),
];

/// Reads the body of an answer whose status says that it is an error.
pub fn classify(status: u16, hints: &RetryHints, body: &[u8]) -> WireError {
    let value = json::parse(body).unwrap_or(Value::Null);
    let mut told = Told::read(error_object(&value));
    told.hear(hints.error_type.as_deref());
    let kind = told.kind(status);
    let by_kind = kind.is_retryable() && status != 501 && !(300..400).contains(&status);
    WireError {
        kind,
        status: Some(status),
        retry_after_ms: hints.wait_ms().or(told.wait_ms),
        retryable: match hints.should_retry.as_deref().map(str::trim) {
            Some("true") => true,
            Some("false") => false,
            _ => by_kind,
        },
        detail: match (&*told.message, value.is_null()) {
            ("", true) => excerpt(&String::from_utf8_lossy(body)),
            ("", false) => excerpt(&value.to_string()),
            (message, _) => excerpt(message),
        },
        code: told.code,
    }
}

/// The error inside a body, a chunk or a choice, where there is one.
pub fn in_band(value: &Value) -> Option<WireError> {
    let list = value.as_array().and_then(|list| list.first());
    let outer = list.unwrap_or(value);
    let declared = text(outer, "object") == Some("error");
    (declared || present(outer, "error").is_some()).then(|| named(value))
}

/// The error of an event that says by its name that it is one.
pub fn named(value: &Value) -> WireError {
    let told = Told::read(error_object(value));
    let kind = told.kind(told.status.unwrap_or(500));
    WireError {
        code: told.code,
        retry_after_ms: told.wait_ms,
        ..WireError::new(kind, excerpt(&told.message))
    }
}

/// The object that holds the fields, and the object around it.
fn error_object(value: &Value) -> (&Value, &Value) {
    let outer = value.as_array().and_then(|list| list.first()).unwrap_or(value);
    let inner = outer.get("error").filter(|error| error.is_object());
    (inner.unwrap_or(outer), outer)
}

/// What an error object says.
struct Told {
    code: Option<String>,
    words: Vec<String>,
    message: String,
    status: Option<u16>,
    flagged: bool,
    wait_ms: Option<u64>,
    /// A quota of the day is used up: waiting as long as is asked does not help.
    is_daily: bool,
}

impl Told {
    fn read((error, outer): (&Value, &Value)) -> Self {
        let code = label(error, "code").map(|code| code.chars().take(64).collect::<String>());
        let details = items(error, "details");
        let reasons = details.iter().filter_map(|detail| label(detail, "reason"));
        let words: Vec<String> = [code.clone(), label(error, "type"), label(error, "status")]
            .into_iter()
            .flatten()
            .chain(reasons)
            .collect();
        let message = ["message", "Message", "detail"].iter().find_map(|key| text(error, key));
        let message = message.or_else(|| text(outer, "error")).unwrap_or_default();
        let violations = details.iter().flat_map(|detail| items(detail, "violations"));
        let mut quotas = violations.filter_map(|violation| text(violation, "quotaId"));
        let delay = details.iter().find_map(|detail| span(text(detail, "retryDelay")?));
        Self {
            is_daily: quotas.any(|quota| quota.contains("PerDay")),
            status: status_of(error, &words),
            flagged: error.pointer("/metadata/flagged_input").is_some(),
            wait_ms: delay.or_else(|| asked_wait(message)),
            message: message.to_owned(),
            code,
            words,
        }
    }

    /// Amazon says the type in a header, before a colon and the address of a namespace, or behind one
    /// and a hash.
    fn hear(&mut self, error_type: Option<&str>) {
        let named = error_type.map(|named| named.rsplit('#').next().unwrap_or(named));
        let named = named.and_then(|named| named.split(':').next()).map(str::trim);
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            let named: String = named.chars().take(64).collect();
            self.code.get_or_insert_with(|| named.clone());
            self.words.push(named);
        }
    }

    fn has(&self, words: &[&str]) -> bool {
        self.words.iter().any(|told| words.iter().any(|word| word.eq_ignore_ascii_case(told)))
    }

    fn kind(&self, status: u16) -> Kind {
        if self.flagged {
            return Kind::ContentFilter;
        }
        if self.is_daily {
            return Kind::Quota;
        }
        let by_word = WORDS.iter().find(|(_, words)| self.has(words));
        let by_phrase = || {
            let message = self.message.to_lowercase();
            let found = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
            let speaks = matches!(status, 400 | 404 | 413 | 422 | 500);
            PHRASES.iter().find(|(_, phrases)| speaks && found(phrases))
        };
        by_word.or_else(by_phrase).map_or_else(|| self.kind_by_status(status), |(kind, _)| *kind)
    }

    fn kind_by_status(&self, status: u16) -> Kind {
        match status {
            401 => Kind::Auth,
            402 => Kind::Quota,
            403 => Kind::Permission,
            404 => Kind::NotFound,
            408 | 504 => Kind::Timeout,
            413 => Kind::TooLarge,
            429 => Kind::RateLimit,
            529 => Kind::Overloaded,
            503 if self.is_overloaded() => Kind::Overloaded,
            // 409 is a lock at the provider and 425 a request that came too early: both pass.
            409 | 425 | 503 => Kind::Unavailable,
            424 | 500.. => Kind::Server,
            400..=499 => Kind::BadRequest,
            0..=399 => Kind::Protocol,
        }
    }

    fn is_overloaded(&self) -> bool {
        self.has(&["overloaded_error", "server_is_overloaded"])
            || self.message.to_lowercase().contains("overloaded")
    }
}

/// The status an error object names, as a number or by its type.
fn status_of(error: &Value, words: &[String]) -> Option<u16> {
    let number = ["status_code", "status", "code"].iter().find_map(|key| {
        let number: u16 = label(error, key)?.parse().ok()?;
        (400..600).contains(&number).then_some(number)
    });
    let named = || {
        let told = |names: &[&str]| {
            words.iter().any(|word| names.iter().any(|name| name.eq_ignore_ascii_case(word)))
        };
        // The last row that fits is the most telling: a type says less than a code.
        STATUSES.iter().rev().find(|(_, names)| told(names)).map(|(status, _)| *status)
    };
    number.or_else(named)
}

/// The span that a message asks to wait, as in `Please retry in 45.8s.`
fn asked_wait(message: &str) -> Option<u64> {
    let (_, asked) = message.split_once("retry in ")?;
    let asked = asked.split_whitespace().next()?.trim_end_matches(['.', ',', ';']);
    asked.strip_suffix("ms").and_then(|text| millis(text, 1.0)).or_else(|| span(asked))
}

/// A span in protobuf's spelling, such as `45.8s`.
fn span(text: &str) -> Option<u64> {
    millis(text.strip_suffix('s')?, 1_000.0)
}
