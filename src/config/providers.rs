//! Keys and origins of model providers.

use secrecy::SecretString;
use url::Url;

use super::Setting;
use super::http::web_url;
use super::reader::Reader;

pub(super) const OPENAI_API_KEY: Setting =
    Setting::secret("OPENAI_API_KEY", "the key for the `openai` provider");
pub(super) const OPENAI_ORIGINS: Setting = Setting::plain(
    "AGENTLING_OPENAI_ORIGINS",
    "origins to which the key of the `openai` provider may be sent, separated by commas",
)
.or("https://api.openai.com");

/// The model providers.
#[derive(Debug, Clone)]
pub struct Providers {
    /// The key of `openai`.
    pub openai_api_key: Option<SecretString>,
    /// Where that key may go, as `scheme://host[:port]`.
    ///
    /// An agent names its own `base_url`; the key must not follow it to a stranger.
    pub openai_origins: Vec<String>,
}

impl Providers {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let openai_api_key = reader.foreign_credential(OPENAI_API_KEY);
        let openai_origins = reader.list(OPENAI_ORIGINS, origin);
        Some(Self { openai_api_key, openai_origins: openai_origins? })
    }

    /// Whether the key of `openai` may be sent to this URL.
    pub fn may_send_openai_key(&self, url: &Url) -> bool {
        let origin = url.origin().ascii_serialization();
        self.openai_origins.contains(&origin)
    }
}

fn origin(text: &str) -> Result<String, String> {
    let url = web_url(text).ok().filter(|url| url.path() == "/" && url.query().is_none());
    let origin = url.map(|url| url.origin().ascii_serialization());
    origin.ok_or_else(|| format!("must list origins such as https://host:port, not {text:?}"))
}
