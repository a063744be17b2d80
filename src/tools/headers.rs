//! The headers that a declaration adds to its calls.

use indexmap::IndexMap;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::mask::Mask;
use super::secrets::Vault;
use crate::domain::secret::{HeaderSource, SecretHeader};
use crate::domain::tool::ToolCallError;

/// Header names that the server sets itself, or that would change how a message is read.
const RESERVED: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "idempotency-key",
];
const RESERVED_PREFIXES: &[&str] = &["proxy-", "agentling-"];

/// A header that cannot be sent, and what is wrong with it.
pub(super) type HeaderFault = (String, String);

/// Declared headers, ready to be sent.
#[derive(Debug, Clone, Default)]
pub(super) struct Headers {
    plain: HeaderMap,
    secret: Vec<(HeaderName, SecretHeader)>,
}

impl Headers {
    /// Reads a declaration; or tells of each header that cannot be sent.
    pub(super) fn compile(
        declared: &IndexMap<String, HeaderSource>,
    ) -> Result<Self, Vec<HeaderFault>> {
        let mut headers = Self::default();
        let mut faults = Vec::new();
        for (name, source) in declared {
            if let Err(text) = headers.add(name, source) {
                faults.push((name.clone(), text.to_owned()));
            }
        }
        if faults.is_empty() { Ok(headers) } else { Err(faults) }
    }

    fn add(&mut self, name: &str, source: &HeaderSource) -> Result<(), &'static str> {
        let name = HeaderName::try_from(name).map_err(|_| "it is not a header name")?;
        let reserved = RESERVED.contains(&name.as_str())
            || RESERVED_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix));
        if reserved {
            return Err("it is reserved for the server");
        }
        if self.plain.contains_key(&name) || self.secret.iter().any(|(other, _)| *other == name) {
            return Err("it is declared twice");
        }
        match source {
            HeaderSource::Text(_) if name == AUTHORIZATION => {
                return Err("its value has to be a secret: {\"secret\": \"name\"}");
            }
            HeaderSource::Text(text) => {
                let value = HeaderValue::try_from(text).map_err(|_| "its value cannot be sent")?;
                self.plain.insert(name, value);
            }
            HeaderSource::Secret(header) if !header.prefix_fits() => {
                return Err("its prefix has at most 64 characters of visible ASCII and spaces");
            }
            HeaderSource::Secret(header) => self.secret.push((name, header.clone())),
        }
        Ok(())
    }

    /// The headers of a request to a URL, and what takes their secrets out of its answer. Secrets are read
    /// now, and nothing may be sent when one of them cannot be had.
    pub(super) async fn resolve(
        &self,
        vault: Vault<'_>,
        url: &Url,
    ) -> Result<(HeaderMap, Mask), ToolCallError> {
        let (secret, mask) = vault.headers(&self.secret, url).await?;
        let mut headers = self.plain.clone();
        headers.extend(secret);
        Ok((headers, mask))
    }
}
