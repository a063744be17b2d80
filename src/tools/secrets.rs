//! Where calls get their secrets from: read for each call, just before it is sent, and dropped with it.

use std::sync::Arc;

use futures::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::mask::Mask;
use super::shape::escape;
use super::template::UrlTemplate;
use crate::domain::id::TenantId;
use crate::domain::secret::{SecretHeader, SecretName, SecretUnavailable};
use crate::domain::tool::{HttpTool, OutcomeKind, ToolCallError, ToolSpec};

/// Reads secrets. Who keeps them belongs to another layer, which hands this down.
pub trait SecretSource: Send + Sync + std::fmt::Debug {
    /// The value of a secret that is about to be sent to a URL.
    ///
    /// # Errors
    /// When there is none, it may not be sent there, or it cannot be opened.
    fn reveal<'a>(
        &'a self,
        tenant: &'a TenantId,
        name: &'a SecretName,
        url: &'a Url,
    ) -> BoxFuture<'a, Result<SecretString, SecretUnavailable>>;
}

/// A source without secrets.
#[derive(Debug, Clone, Copy)]
pub struct NoSecrets;

impl SecretSource for NoSecrets {
    fn reveal<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a SecretName,
        _: &'a Url,
    ) -> BoxFuture<'a, Result<SecretString, SecretUnavailable>> {
        Box::pin(std::future::ready(Err(SecretUnavailable::Missing)))
    }
}

/// A secret that a declaration names, and where it would be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretUse {
    /// Where it is named, as an RFC 6901 JSON pointer into the agent.
    pub pointer: String,
    /// Its name.
    pub name: SecretName,
    /// A URL at the origin that it would be sent to.
    pub url: Url,
}

/// The secrets that tools name. A URL that is none names no place; that it is none is told elsewhere.
pub fn secret_uses(tools: &[ToolSpec]) -> impl Iterator<Item = SecretUse> {
    tools.iter().enumerate().flat_map(|(index, tool)| match tool {
        ToolSpec::Http(tool) => of_http(index, tool),
        ToolSpec::Agent(_) | ToolSpec::Client(_) | ToolSpec::Mcp(_) | ToolSpec::Builtin(_) => {
            Vec::new()
        }
    })
}

fn of_http(index: usize, tool: &HttpTool) -> Vec<SecretUse> {
    let urls = [Some(tool.url.as_str()), tool.probe_url.as_deref()];
    let urls = urls.into_iter().flatten().filter_map(|url| UrlTemplate::parse(url).ok());
    let urls: Vec<Url> = urls.map(|template| template.origin().clone()).collect();
    let named = tool.headers.iter().filter_map(|(name, source)| Some((name, source.secret()?)));
    let uses = named.flat_map(|(header, secret)| {
        let pointer = format!("/tools/{index}/headers/{}", escape(header));
        let of_url = move |url: &Url| SecretUse {
            pointer: pointer.clone(),
            name: secret.secret.clone(),
            url: url.clone(),
        };
        urls.iter().map(of_url)
    });
    uses.collect()
}

/// The secrets of one tenant, as calls ask for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vault<'a> {
    pub(super) source: &'a Arc<dyn SecretSource>,
    pub(super) tenant: &'a TenantId,
}

impl Vault<'_> {
    /// The headers that are secrets, for a URL, and what takes their values out of the answer. Nothing is
    /// sent when one of them cannot be had.
    pub(super) async fn headers(
        self,
        declared: &[(HeaderName, SecretHeader)],
        url: &Url,
    ) -> Result<(HeaderMap, Mask), ToolCallError> {
        let mut headers = HeaderMap::new();
        let mut used = Vec::new();
        for (name, header) in declared {
            let secret = &header.secret;
            let value = self.source.reveal(self.tenant, secret, url).await;
            let value = value.map_err(|why| unavailable(secret, why))?;
            headers.insert(name.clone(), sendable(header, &value)?);
            used.push((secret, value));
        }
        let mask = Mask::of(used.iter().map(|(name, value)| (*name, value)));
        Ok((headers, mask))
    }
}

/// The value of a header, which the HTTP client does not show either.
fn sendable(header: &SecretHeader, value: &SecretString) -> Result<HeaderValue, ToolCallError> {
    let text = SecretString::from(format!("{}{}", header.prefix, value.expose_secret()));
    let mut value = HeaderValue::from_str(text.expose_secret())
        .map_err(|_| unavailable(&header.secret, SecretUnavailable::Sealed))?;
    value.set_sensitive(true);
    Ok(value)
}

fn unavailable(name: &SecretName, why: SecretUnavailable) -> ToolCallError {
    let message = format!("the call was not sent: the secret '{name}' is not available, {why}");
    ToolCallError { kind: OutcomeKind::Execution, type_name: "SecretUnavailable", message }
}
