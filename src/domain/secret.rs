//! Secrets that tenants keep here: their names, where each may be sent, and how they are referred to.
//!
//! A value is written and never read: it leaves the server only towards an origin that it is bound to.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

/// The most origins that a secret is bound to.
pub const MAX_ORIGINS: usize = 16;

/// The bounds of a value in bytes. A shorter one could not be kept out of texts without tearing them
/// apart.
pub const VALUE_BYTES: std::ops::RangeInclusive<usize> = 8..=8_192;

/// The longest text ahead of a secret in a header.
const MAX_PREFIX: usize = 64;

/// The name of a secret, unique within its tenant: `^[a-z0-9][a-z0-9_-]{0,63}$`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^[a-z0-9][a-z0-9_-]{0,63}$", examples("weather-key"))]
pub struct SecretName(String);

/// A text that cannot be the name of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must match ^[a-z0-9][a-z0-9_-]{{0,63}}$")]
pub struct InvalidSecretName;

impl SecretName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for SecretName {
    type Err = InvalidSecretName;

    fn from_str(text: &str) -> Result<Self, InvalidSecretName> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = (1..=64).contains(&text.len())
            && text.bytes().next().is_some_and(plain)
            && text.bytes().all(|byte| plain(byte) || b"_-".contains(&byte));
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidSecretName) }
    }
}

impl TryFrom<String> for SecretName {
    type Error = InvalidSecretName;

    fn try_from(text: String) -> Result<Self, InvalidSecretName> {
        text.parse()
    }
}

impl From<SecretName> for String {
    fn from(name: SecretName) -> Self {
        name.0
    }
}

impl std::fmt::Display for SecretName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A secret by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretRef {
    /// The name.
    pub secret: SecretName,
}

/// The value of a header: a text, or a secret that is read whenever the header is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum HeaderSource {
    /// The text itself.
    Text(String),
    /// A secret.
    Secret(SecretHeader),
}

impl HeaderSource {
    /// The secret, where it is one.
    pub const fn secret(&self) -> Option<&SecretHeader> {
        match self {
            Self::Text(_) => None,
            Self::Secret(header) => Some(header),
        }
    }
}

impl From<&str> for HeaderSource {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The value of a header that is a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretHeader {
    /// The name of the secret.
    pub secret: SecretName,
    /// What stands ahead of its value, such as `Bearer `; at most 64 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 64, examples("Bearer "))]
    pub prefix: String,
}

impl SecretHeader {
    /// Whether the prefix can stand in a header.
    pub fn prefix_fits(&self) -> bool {
        self.prefix.len() <= MAX_PREFIX && self.prefix.bytes().all(is_header_byte)
    }
}

/// Where a secret may be sent: a scheme, a host and a port, in the one spelling that is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, examples("https://api.example.com"))]
pub struct Origin(String);

/// A text that is not an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an origin such as https://host or https://host:port")]
pub struct InvalidOrigin;

impl Origin {
    /// The origin as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a URL leads there.
    pub fn covers(&self, url: &Url) -> bool {
        url.origin().ascii_serialization() == self.0
    }
}

impl std::str::FromStr for Origin {
    type Err = InvalidOrigin;

    fn from_str(text: &str) -> Result<Self, InvalidOrigin> {
        let url = Url::parse(text).map_err(|_| InvalidOrigin)?;
        let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let is_anonymous = url.username().is_empty() && url.password().is_none();
        let is_web = matches!(url.scheme(), "https" | "http");
        // A pattern would name one host and be read as many.
        let is_host = url.host_str().is_some_and(|host| !host.contains('*'));
        let fits = is_bare && is_anonymous && is_web && is_host;
        if fits { Ok(Self(url.origin().ascii_serialization())) } else { Err(InvalidOrigin) }
    }
}

impl TryFrom<String> for Origin {
    type Error = InvalidOrigin;

    fn try_from(text: String) -> Result<Self, InvalidOrigin> {
        text.parse()
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.0
    }
}

/// What is told of a secret: everything but its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFacts {
    /// Its name.
    pub name: SecretName,
    /// 1, 2, 3 … with each value.
    pub version: i32,
    /// Where it may be sent.
    pub origins: Vec<Origin>,
    /// Eight hex digits by which equal values of a tenant can be told, and nothing else.
    pub fingerprint: String,
    /// When it was first stored.
    pub created_at: DateTime<Utc>,
    /// When this version was stored.
    pub updated_at: DateTime<Utc>,
    /// When it was last read to be sent, to the minute.
    pub last_used_at: Option<DateTime<Utc>>,
}

/// Why a secret cannot be sent somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretUnavailable {
    /// There is none of the name.
    #[error("it does not exist")]
    Missing,
    /// It may not be sent there.
    #[error("it is not bound to this origin")]
    OtherOrigin,
    /// What is stored cannot be opened: its key is not configured, or it was tampered with.
    #[error("it cannot be opened")]
    Sealed,
    /// The database did not answer.
    #[error("it cannot be read at the moment")]
    Unread,
}

/// Whether a value fits a header: visible ASCII, and spaces inside of it.
pub fn value_fits(value: &str) -> bool {
    VALUE_BYTES.contains(&value.len())
        && value.bytes().all(is_header_byte)
        && value.trim_ascii() == value
}

const fn is_header_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() || byte == b' '
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_plain() {
        for name in ["a", "0", "weather-key_2", &"a".repeat(64)] {
            assert_eq!(name.parse::<SecretName>().unwrap().as_str(), name);
        }
        for text in ["", "-a", "_a", "A", "a b", "ä", "a/b", &"a".repeat(65)] {
            assert_eq!(text.parse::<SecretName>(), Err(InvalidSecretName), "{text}");
        }
    }

    #[test]
    fn an_origin_has_one_spelling() {
        for (text, origin) in [
            ("https://API.example:443", "https://api.example"),
            ("https://api.example/", "https://api.example"),
            ("https://api.example:8443", "https://api.example:8443"),
            ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().as_str(), origin);
        }
    }

    #[test]
    fn what_is_more_or_less_than_an_origin_is_refused() {
        for text in [
            "",
            "api.example",
            "https://",
            "https://api.example/v1",
            "https://api.example/?a",
            "https://api.example/#a",
            "https://user@api.example",
            "https://user:pw@api.example",
            "ftp://api.example",
            "file:///etc",
            "*",
            "https://*",
        ] {
            assert_eq!(text.parse::<Origin>(), Err(InvalidOrigin), "{text}");
        }
    }

    #[test]
    fn an_origin_covers_what_has_its_scheme_host_and_port() {
        let origin: Origin = "https://api.example".parse().unwrap();
        let covers = |url: &str| origin.covers(&url.parse().unwrap());
        assert!(covers("https://api.example/v1?q"));
        assert!(covers("https://API.example:443/"));
        for url in [
            "http://api.example/",
            "https://api.example:8443/",
            "https://api.example.evil/",
            "https://evil/api.example",
            "https://evil@api.example.evil/",
            "https://api.example./",
        ] {
            assert!(!covers(url), "{url}");
        }
    }

    #[test]
    fn a_header_is_a_text_or_a_secret() {
        let read = |value| serde_json::from_value::<HeaderSource>(value);
        assert_eq!(read(json!("a")).unwrap(), "a".into());
        let header = SecretHeader { secret: "key".parse().unwrap(), prefix: "Bearer ".to_owned() };
        let spelt = json!({ "secret": "key", "prefix": "Bearer " });
        assert_eq!(read(spelt.clone()).unwrap(), HeaderSource::Secret(header.clone()));
        assert_eq!(serde_json::to_value(HeaderSource::Secret(header)).unwrap(), spelt);
        for wrong in
            [json!(1), json!({}), json!({ "secret": "A" }), json!({ "secret": "a", "x": 1 })]
        {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_fits_a_header_and_is_long_enough_to_be_found() {
        for value in ["12345678", "two words", &"a".repeat(8_192)] {
            assert!(value_fits(value), "{value}");
        }
        for value in ["", "1234567", " 2345678", "1234567 ", "12345\n78", "é2345678"] {
            assert!(!value_fits(value), "{value}");
        }
        assert!(!value_fits(&"a".repeat(8_193)));
    }
}
