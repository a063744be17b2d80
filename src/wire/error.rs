//! What can be wrong with a provider's bytes, before it is known whose bytes they are.

use chrono::{DateTime, Utc};

use crate::domain::model::{ModelError, ModelErrorKind, Provider};

/// Bytes of a provider that are an error, or that could not be read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kind}: {detail}")]
pub struct WireError {
    /// What went wrong.
    pub kind: ModelErrorKind,
    /// The HTTP status, where it is not 200.
    pub status: Option<u16>,
    /// The provider's error code, where it gave one.
    pub code: Option<String>,
    /// How long the provider asks to wait.
    pub retry_after_ms: Option<u64>,
    /// Whether another attempt may succeed.
    pub retryable: bool,
    /// The provider's own words or what is wrong with its bytes, for the operator.
    pub detail: String,
}

impl WireError {
    /// An error of a kind, with the kind's own answer to whether it is retryable.
    pub fn new(kind: ModelErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            code: None,
            retry_after_ms: None,
            retryable: kind.is_retryable(),
            detail: detail.into(),
        }
    }

    /// Bytes that are not what the provider's API says.
    pub fn protocol(detail: impl Into<String>) -> Self {
        Self::new(ModelErrorKind::Protocol, detail)
    }

    /// The same, once it is known who sent the bytes.
    #[must_use]
    pub fn for_provider(self, provider: Provider) -> ModelError {
        ModelError {
            kind: self.kind,
            provider,
            provider_status: self.status,
            provider_code: self.code,
            retry_after_ms: self.retry_after_ms,
            retryable: self.retryable,
            operator_detail: self.detail,
        }
    }
}

/// What the headers of a failed answer say about trying again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryHints {
    /// `retry-after-ms`.
    pub retry_after_ms: Option<String>,
    /// `retry-after`: seconds or an HTTP date.
    pub retry_after: Option<String>,
    /// `x-should-retry`: `true` or `false`.
    pub should_retry: Option<String>,
    /// `x-amzn-errortype`: what went wrong, where Amazon says it beside the body.
    pub error_type: Option<String>,
    /// The time of day a date is compared with.
    pub now: DateTime<Utc>,
}

impl RetryHints {
    /// No headers at all.
    pub const fn none(now: DateTime<Utc>) -> Self {
        Self { retry_after_ms: None, retry_after: None, should_retry: None, error_type: None, now }
    }

    /// How long the headers ask to wait: the first of them that can be read.
    ///
    /// A zero in `retry-after-ms` says nothing: Azure sends it beside a real `retry-after`.
    pub fn wait_ms(&self) -> Option<u64> {
        let exact = self.retry_after_ms.as_deref().and_then(|text| millis(text, 1.0));
        exact.filter(|wait| *wait > 0).or_else(|| {
            let text = self.retry_after.as_deref()?;
            millis(text, 1_000.0).or_else(|| self.until(text))
        })
    }

    fn until(&self, date: &str) -> Option<u64> {
        let date = DateTime::parse_from_rfc2822(date.trim()).ok()?;
        let wait = date.with_timezone(&Utc).signed_duration_since(self.now).num_milliseconds();
        Some(u64::try_from(wait).unwrap_or(0))
    }
}

/// Reads a span such as `1.5` in the given number of milliseconds.
pub(crate) fn millis(text: &str, unit: f64) -> Option<u64> {
    let value: f64 = text.trim().parse().ok().filter(|value: &f64| value.is_finite())?;
    // A span beyond a year is nonsense, but it still says not to come back soon; the bound makes the
    // conversion below exact.
    let wait = (value * unit).ceil().min(3.2e10);
    if wait >= 0.0 { format!("{wait:.0}").parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeZone as _;

    fn hints(ms: Option<&str>, after: Option<&str>) -> RetryHints {
        let now = Utc.with_ymd_and_hms(2026, 11, 30, 9, 0, 0).unwrap();
        RetryHints {
            retry_after_ms: ms.map(str::to_owned),
            retry_after: after.map(str::to_owned),
            ..RetryHints::none(now)
        }
    }

    #[test]
    fn the_wait_is_read_from_every_form_and_the_exact_one_wins() {
        for (ms, after, wait) in [
            (Some("250"), Some("9"), Some(250)),
            (Some("0"), Some("1"), Some(1_000)),
            (None, Some("1.5"), Some(1_500)),
            (None, Some(" 20 "), Some(20_000)),
            (None, Some("Mon, 30 Nov 2026 09:00:07 GMT"), Some(7_000)),
            (None, Some("Mon, 30 Nov 2026 08:59:00 GMT"), Some(0)),
            (None, Some("soon"), None),
            (None, Some("-3"), None),
            (None, Some("NaN"), None),
            (None, Some("99999999"), Some(32_000_000_000)),
            (None, Some("1e300"), Some(32_000_000_000)),
            (Some("x"), None, None),
            (None, None, None),
        ] {
            assert_eq!(hints(ms, after).wait_ms(), wait, "{ms:?} {after:?}");
        }
    }
}
