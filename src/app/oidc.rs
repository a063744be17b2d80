//! Keys of issuers of tokens, fetched as the settings allow.

use std::sync::Arc;

use futures::future::BoxFuture;
use url::Url;

use super::{StartError, egress};
use crate::config::Config;
use crate::egress::{Clients, fetch};
use crate::http::auth::{JwksFetch, Oidc};

/// The largest document of an issuer that is read, in bytes.
const MAX_BYTES: usize = 256 * 1024;

#[derive(Debug)]
struct Fetcher(Clients);

impl JwksFetch for Fetcher {
    fn fetch(&self, url: String) -> BoxFuture<'_, Result<Vec<u8>, String>> {
        Box::pin(
            async move { fetch(&self.0, &url, MAX_BYTES).await.map_err(|error| error.to_string()) },
        )
    }
}

/// What takes tokens, if the settings name an issuer. The operator vouches for the hosts of the settings,
/// where they are asked by `https`; a place that an issuer names itself has to be public.
pub(super) async fn oidc(config: &Config) -> Result<Option<Oidc>, StartError> {
    let settings = &config.oidc;
    if settings.issuers.is_empty() {
        return Ok(None);
    }
    let named = settings.issuers.iter().flat_map(|issuer| {
        [Some(issuer.url.as_str()), issuer.jwks_url.as_deref()].into_iter().flatten()
    });
    let hosts = named.filter_map(vouched_host);
    let policy = egress::policy(config).await?.with_allowed(hosts)?;
    let fetcher = Fetcher(Clients::new(Arc::new(policy))?);
    Ok(Oidc::new(settings, Arc::new(fetcher)))
}

fn vouched_host(url: &str) -> Option<String> {
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "https")?;
    Some(format!("{}:{}", url.host_str()?, url.port_or_known_default()?))
}
