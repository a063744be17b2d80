//! The operator's keys, and where they may go.
//!
//! An agent names its own `base_url`, so a key that followed it would be a key for the taking: the
//! operator's key goes to OpenAI itself and to origins the operator lists, and nowhere else.

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};

use crate::domain::model::{ModelError, ModelErrorKind, Provider};

/// Where OpenAI is reached.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// The operator's keys.
#[derive(Debug, Clone, Default)]
pub struct ProviderKeys {
    /// The key for OpenAI and for `openai_origins`.
    pub openai: Option<SecretString>,
    /// Origins beside OpenAI's own that get the key, such as `http://127.0.0.1:8000`.
    pub openai_origins: Vec<String>,
}

impl ProviderKeys {
    /// The key to show at an address, if any may be shown there.
    pub(super) fn openai_for(&self, url: &Url) -> Option<&str> {
        let key = self.openai.as_ref()?;
        let listed = self.openai_origins.iter().map(String::as_str);
        let trusted = std::iter::once(OPENAI_BASE_URL)
            .chain(listed)
            .filter_map(|origin| Url::parse(origin).ok())
            .any(|trusted| trusted.origin() == url.origin());
        trusted.then(|| key.expose_secret())
    }
}

/// The address of an endpoint below a base address; a query of the base address is kept.
pub(super) fn endpoint(base: Option<&str>, path: &str) -> Result<Url, ModelError> {
    let refuse = |why: &str| {
        let what = format!("the model's base_url {why}");
        ModelError::new(Provider::Openai, ModelErrorKind::BadRequest, what)
    };
    let mut url = Url::parse(base.unwrap_or(OPENAI_BASE_URL))
        .map_err(|error| refuse(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refuse("is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("holds credentials"));
    }
    let joined = format!("{}/{path}", url.path().trim_end_matches('/'));
    url.set_path(&joined);
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> ProviderKeys {
        ProviderKeys {
            openai: Some(SecretString::from("k")),
            openai_origins: vec!["http://127.0.0.1:8000".to_owned(), "rubbish".to_owned()],
        }
    }

    fn address(base: &str) -> Url {
        endpoint(Some(base), "chat/completions").unwrap()
    }

    #[test]
    fn the_operators_key_goes_to_openai_and_to_listed_origins_only() {
        assert_eq!(keys().openai_for(&endpoint(None, "x").unwrap()), Some("k"));
        for base in
            ["https://api.openai.com/v1", "https://API.openai.com:443/x", "http://127.0.0.1:8000"]
        {
            assert_eq!(keys().openai_for(&address(base)), Some("k"), "{base}");
        }
        for base in [
            "http://api.openai.com/v1",
            "https://api.openai.com:444/v1",
            "https://api.openai.com.example/v1",
            "https://example.com/api.openai.com",
            "http://127.0.0.1:8001/v1",
            "http://localhost:8000/v1",
        ] {
            assert_eq!(keys().openai_for(&address(base)), None, "{base}");
        }
        assert_eq!(ProviderKeys::default().openai_for(&address(OPENAI_BASE_URL)), None);
    }

    #[test]
    fn the_endpoint_is_below_the_base_address_and_keeps_its_query() {
        for (base, whole) in [
            ("http://h/v1", "http://h/v1/chat/completions"),
            ("http://h/v1//", "http://h/v1/chat/completions"),
            ("http://h:1", "http://h:1/chat/completions"),
            ("https://h/d?api-version=1#x", "https://h/d/chat/completions?api-version=1"),
        ] {
            assert_eq!(address(base).as_str(), whole);
        }
    }

    #[test]
    fn addresses_that_are_not_plain_http_are_refused() {
        for base in ["", "v1", "ftp://h", "file:///etc", "http://user:pw@h/v1", "https://u@h"] {
            let error = endpoint(Some(base), "x").unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::BadRequest, "{base}");
            assert!(!error.retryable);
        }
    }

    #[test]
    fn keys_do_not_show_themselves() {
        let keys = ProviderKeys { openai: Some(SecretString::from("sesame")), ..keys() };
        assert!(!format!("{keys:?}").contains("sesame"));
    }
}
