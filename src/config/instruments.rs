//! What operators see of a server at work, and where.

use std::net::SocketAddr;

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::Setting;
use super::http::{address, web_url};
use super::reader::Reader;

pub(super) const LISTEN: Setting = Setting::plain(
    "AGENTLING_METRICS_LISTEN",
    "address and port at which alone `/metrics` is served; absent: it is served with everything else",
);
pub(super) const ENDPOINT: Setting = Setting::plain(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "the base URL of a collector that takes traces by OTLP over HTTP, at `/v1/traces` below it; absent: \
     there are no traces",
);
pub(super) const TRACES_ENDPOINT: Setting = Setting::plain(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "the whole URL that traces are sent to, where it is not below that one",
);
pub(super) const HEADERS: Setting = Setting::secret(
    "OTEL_EXPORTER_OTLP_HEADERS",
    "headers for the collector, as `name=value` pairs separated by commas, values percent-encoded",
);
pub(super) const SERVICE_NAME: Setting =
    Setting::plain("OTEL_SERVICE_NAME", "the name of the service in traces").or("agentling");
pub(super) const CONTENT: Setting = Setting::plain(
    "AGENTLING_CAPTURE_CONTENT",
    "whether traces also hold prompts, replies and what tools are sent and answer, redacted and cut: \
     `true` or `false`",
)
.or("false");

/// Metrics and traces.
#[derive(Debug, Clone)]
pub struct Instruments {
    /// Where metrics are served, if not with everything else.
    pub metrics_listen: Option<SocketAddr>,
    /// Where traces go, if anywhere.
    pub collector: Option<Collector>,
    /// Whether traces hold content.
    pub captures_content: bool,
}

/// Where traces go.
#[derive(Debug, Clone)]
pub struct Collector {
    /// The URL that they are sent to.
    pub url: Url,
    /// What is sent with them: names in lower case, and values.
    pub headers: Vec<(String, SecretString)>,
    /// Whose they are.
    pub service: String,
}

impl Instruments {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let metrics_listen = reader.optional(LISTEN, address);
        let below = reader.optional(ENDPOINT, bare_url).map(|base| traces_below(&base));
        let whole = reader.optional(TRACES_ENDPOINT, bare_url);
        let headers = reader.optional(HEADERS, headers);
        let service = reader.required(SERVICE_NAME, |text| Ok(text.to_owned()));
        let captures_content = reader.flag(CONTENT);
        let (service, headers) = (service?, headers.unwrap_or_default());
        let collector = whole.or(below).map(|url| Collector { url, headers, service });
        Some(Self { metrics_listen, collector, captures_content: captures_content? })
    }

    /// What must not get out of what is sent to the collector: values, and what stands behind the scheme of
    /// an authorization.
    pub(super) fn secrets(&self) -> Vec<SecretString> {
        let headers = self.collector.iter().flat_map(|collector| &collector.headers);
        let texts = headers.map(|(_, value)| value.expose_secret());
        let words =
            texts.flat_map(|text| [Some(text), text.rsplit_once(' ').map(|(_, word)| word)]);
        words.flatten().map(SecretString::from).collect()
    }
}

/// A URL without credentials, which have a setting of their own.
fn bare_url(text: &str) -> Result<Url, String> {
    let url = web_url(text)?;
    let is_bare = url.username().is_empty() && url.password().is_none();
    is_bare.then_some(url).ok_or_else(|| {
        "must hold no credentials: send them as a header, by OTEL_EXPORTER_OTLP_HEADERS".to_owned()
    })
}

fn traces_below(base: &Url) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/v1/traces", base.path().trim_end_matches('/')));
    url
}

/// Pairs as the specification of OpenTelemetry has them. What is wrong with one is told without it.
fn headers(text: &str) -> Result<Vec<(String, SecretString)>, String> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let read = pairs.map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let name = http::HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
        let value = SecretString::from(decoded(value.trim())?);
        http::HeaderValue::from_str(value.expose_secret()).ok()?;
        Some((name.as_str().to_owned(), value))
    });
    let all: Option<Vec<_>> = read.collect();
    all.ok_or_else(|| "must be `name=value` pairs of headers, separated by commas".to_owned())
}

/// A text without its percent-encoding.
fn decoded(text: &str) -> Option<String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (code, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_pairs_with_percent_encoded_values() {
        let read = headers("Authorization=Bearer%20one-two, x-tenant = a=b ,").unwrap();
        let read: Vec<_> =
            read.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        assert_eq!(read, [("authorization", "Bearer one-two"), ("x-tenant", "a=b")]);
        for text in ["no-pair", "a b=c", "a=%zz", "a=%2", "a=%0a", "=c"] {
            let wrong = headers(text).unwrap_err();
            assert!(!wrong.contains(text), "{wrong}");
        }
    }

    #[test]
    fn credentials_are_no_part_of_the_url() {
        assert!(bare_url("http://user:word@localhost").unwrap_err().contains("no credentials"));
        assert!(bare_url("http://localhost").is_ok());
    }

    #[test]
    fn traces_are_sent_below_the_base_url() {
        for (base, url) in [
            ("http://localhost:4318", "http://localhost:4318/v1/traces"),
            ("https://collector.example/otlp/", "https://collector.example/otlp/v1/traces"),
        ] {
            assert_eq!(traces_below(&web_url(base).unwrap()).as_str(), url);
        }
    }
}
