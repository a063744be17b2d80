//! Whose tokens are taken beside API keys.

use std::time::Duration;

use super::Setting;
use super::http::web_url;
use super::reader::Reader;
use crate::domain::caller::Scope;

pub(super) const ISSUERS: Setting = Setting::plain(
    "AGENTLING_OIDC_ISSUERS",
    "OpenID providers whose tokens are taken like API keys: their `iss`, separated by commas, each \
     with `=` and the URL of its keys where discovery is not to be used; needs \
     `AGENTLING_OIDC_AUDIENCE`",
)
.or("");
pub(super) const AUDIENCE: Setting = Setting::plain(
    "AGENTLING_OIDC_AUDIENCE",
    "the `aud` that tokens must have: this server, in the words of the providers",
);
pub(super) const TENANT_CLAIM: Setting =
    Setting::plain("AGENTLING_OIDC_TENANT_CLAIM", "the claim that holds the tenant of a token")
        .or("tenant");
pub(super) const SCOPE_CLAIM: Setting = Setting::plain(
    "AGENTLING_OIDC_SCOPE_CLAIM",
    "the claim that holds the scopes of a token: a text of words, or a list",
)
.or("scope");
pub(super) const SCOPES: Setting = Setting::plain(
    "AGENTLING_OIDC_SCOPES",
    "what the words of that claim allow, as `word=scope` pairs separated by commas; when it is \
     empty, the words are the names of scopes",
)
.or("");
pub(super) const TIMEOUT: Setting = Setting::plain(
    "AGENTLING_OIDC_TIMEOUT_MS",
    "how long a request with a new token waits for the provider's keys at most",
)
.or("5000");

/// How tokens are taken.
#[derive(Debug, Clone)]
pub struct Oidc {
    /// Whose; nobody's when empty.
    pub issuers: Vec<OidcIssuer>,
    /// For whom they must be.
    pub audience: String,
    /// The claim that holds the tenant.
    pub tenant_claim: String,
    /// The claim that holds the scopes.
    pub scope_claim: String,
    /// Words of that claim and what they allow; our own names when empty.
    pub scopes: Vec<(String, Scope)>,
    /// The bound of fetching keys.
    pub timeout: Duration,
}

/// A provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcIssuer {
    /// Its `iss`, to the letter.
    pub url: String,
    /// Where its keys are, unless it is asked for that.
    pub jwks_url: Option<String>,
}

impl Oidc {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let issuers = reader.list(ISSUERS, str::parse);
        let audience = reader.optional(AUDIENCE, word);
        let tenant_claim = reader.required(TENANT_CLAIM, word);
        let scope_claim = reader.required(SCOPE_CLAIM, word);
        let scopes = reader.list(SCOPES, pair);
        let timeout = reader.millis(TIMEOUT, (100, 60_000));
        let issuers: Vec<OidcIssuer> = issuers?;
        if !issuers.is_empty() && audience.is_none() {
            // A token for anybody would be one for somebody else as well.
            reader.refuse(AUDIENCE, "must be set where there are issuers");
            return None;
        }
        Some(Self {
            issuers,
            audience: audience.unwrap_or_default(),
            tenant_claim: tenant_claim?,
            scope_claim: scope_claim?,
            scopes: scopes?,
            timeout: timeout?,
        })
    }
}

impl std::str::FromStr for OidcIssuer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (url, jwks_url) = match text.split_once('=') {
            Some((url, jwks_url)) => (url, Some(jwks_url)),
            None => (text, None),
        };
        web_url(url)?;
        let jwks_url = jwks_url.map(|url| web_url(url).map(|url| url.to_string())).transpose()?;
        Ok(Self { url: url.to_owned(), jwks_url })
    }
}

fn word(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.len() <= 256 && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| text.to_owned())
        .ok_or_else(|| "must be 1–256 visible ASCII characters without spaces".to_owned())
}

fn pair(text: &str) -> Result<(String, Scope), String> {
    let pair = text
        .rsplit_once('=')
        .and_then(|(said, scope)| Some((word(said).ok()?, scope.parse::<Scope>().ok()?)));
    pair.ok_or_else(|| format!("must list word=scope pairs, and {text:?} is not one"))
}
