//! The operator's keys, and where they may go.
//!
//! An agent names its own `base_url`, so a key that followed it would be a key for the taking: a key
//! goes to its provider's own address and to origins that the operator lists for it, and nowhere else.

use std::collections::BTreeMap;

use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use super::address::{bedrock_region, is_azure, is_own};
use super::sigv4::AwsCredentials;
use crate::config::Providers;
use crate::domain::model::Provider;
use crate::domain::provider::KeyScheme;

/// The operator's keys.
#[derive(Debug, Clone, Default)]
pub struct ProviderKeys {
    /// By environment variable, since providers may share one.
    keys: BTreeMap<&'static str, SecretString>,
    origins: Vec<(Provider, Url)>,
    aws: Option<AwsCredentials>,
    aws_region: Option<String>,
}

/// How a request shows that it may be made.
#[derive(Debug, Clone)]
pub(super) enum Proof<'k> {
    /// A key in a header.
    Header(&'static str, SecretString),
    /// A signature by Amazon's rules.
    Signature {
        /// Who signs.
        credentials: &'k AwsCredentials,
        /// The region of the service.
        region: String,
        /// The service.
        service: &'static str,
    },
}

impl ProviderKeys {
    /// Those of the settings.
    pub fn of(settings: &Providers) -> Self {
        let origins = settings.origins.iter();
        Self {
            keys: settings.keys.clone(),
            origins: origins
                .filter_map(|(provider, origin)| Some((*provider, Url::parse(origin).ok()?)))
                .collect(),
            aws: settings.aws.as_ref().map(|aws| AwsCredentials {
                access_key_id: aws.access_key_id.expose_secret().to_owned(),
                secret_access_key: aws.secret_access_key.clone(),
                session_token: aws.session_token.clone(),
            }),
            aws_region: settings.aws_region.clone(),
        }
    }

    /// The region in which Amazon is reached.
    pub(super) fn region(&self) -> Option<&str> {
        self.aws_region.as_deref()
    }

    /// What to show at an address that a provider's model is reached at, if anything may be shown there.
    ///
    /// Azure has a key of its own, however it is spoken to; a listed address is what its list says.
    pub(super) fn proof(&self, provider: Provider, url: &Url) -> Option<Proof<'_>> {
        self.owner(provider, url).map(|(_, proof)| proof)
    }

    /// How a key is shown that a tenant keeps for an address.
    pub(super) fn proof_of(provider: Provider, url: &Url, key: &SecretString) -> Proof<'static> {
        let is_openai = matches!(provider, Provider::Openai | Provider::OpenaiResponses);
        let owner = if is_openai && is_azure(url) { Provider::Azure } else { provider };
        match owner.transport().key {
            KeyScheme::Bearer | KeyScheme::Aws(_) => bearer(key),
            KeyScheme::Header(name) => Proof::Header(name, key.clone()),
        }
    }

    /// Whose key is shown, and how.
    fn owner(&self, provider: Provider, url: &Url) -> Option<(Provider, Proof<'_>)> {
        let is_openai = matches!(provider, Provider::Openai | Provider::OpenaiResponses);
        let azure = (is_openai && is_azure(url)).then_some(Provider::Azure);
        let owners = [Some(provider), azure].into_iter().flatten();
        let mut owners = owners.filter(|owner| self.may_see(*owner, url));
        owners.find_map(|owner| Some((owner, self.of_owner(owner, url)?)))
    }

    /// The variable of the key that is shown there, where one is.
    pub(super) fn variable(&self, provider: Provider, url: &Url) -> Option<&'static str> {
        self.owner(provider, url).map(|(owner, _)| owner.transport().key_variable)
    }

    /// Whether an address is a provider's own or listed by the operator, for whichever key.
    pub(super) fn lead_to(&self, provider: Provider, url: &Url) -> bool {
        let mut listed = self.origins.iter();
        is_own(provider, url) || listed.any(|(_, origin)| origin.origin() == url.origin())
    }

    fn may_see(&self, provider: Provider, url: &Url) -> bool {
        let variable = provider.transport().key_variable;
        let is_listed = || {
            let shared = |other: &Provider| other.transport().key_variable == variable;
            let mut listed = self.origins.iter().filter(|(other, _)| shared(other));
            listed.any(|(_, origin)| origin.origin() == url.origin())
        };
        is_own(provider, url) || is_listed()
    }

    fn of_owner(&self, provider: Provider, url: &Url) -> Option<Proof<'_>> {
        let transport = provider.transport();
        let key = self.keys.get(transport.key_variable);
        match (transport.key, key) {
            (KeyScheme::Bearer | KeyScheme::Aws(_), Some(key)) => Some(bearer(key)),
            (KeyScheme::Header(name), Some(key)) => Some(Proof::Header(name, key.clone())),
            (KeyScheme::Aws(service), None) => self.signature(service, url),
            (KeyScheme::Bearer | KeyScheme::Header(_), None) => None,
        }
    }

    fn signature(&self, service: &'static str, url: &Url) -> Option<Proof<'_>> {
        let credentials = self.aws.as_ref()?;
        let region = bedrock_region(url).or_else(|| self.region())?.to_owned();
        Some(Proof::Signature { credentials, region, service })
    }
}

fn bearer(key: &SecretString) -> Proof<'static> {
    let text = format!("Bearer {}", key.expose_secret());
    Proof::Header("authorization", text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AwsKeys, Providers};

    fn settings() -> Providers {
        let variables = Provider::ALL.iter().map(|provider| provider.transport().key_variable);
        let listed = |provider, origin: &str| (provider, origin.to_owned());
        Providers {
            keys: variables.map(|name| (name, SecretString::from(format!("key-{name}")))).collect(),
            origins: vec![
                listed(Provider::Openai, "http://127.0.0.1:8000"),
                listed(Provider::Openai, "https://listed.openai.azure.com"),
                listed(Provider::Groq, "https://gate.example"),
            ],
            aws: Some(AwsKeys {
                access_key_id: "AKIA".into(),
                secret_access_key: "sesame".into(),
                session_token: None,
            }),
            aws_region: Some("eu-west-1".to_owned()),
        }
    }

    fn shown(settings: &Providers, provider: Provider, url: &str) -> Option<String> {
        let keys = ProviderKeys::of(settings);
        keys.proof(provider, &url.parse().unwrap()).map(|proof| match proof {
            Proof::Header(name, value) => format!("{name}: {}", value.expose_secret()),
            Proof::Signature { region, service, .. } => format!("{service} in {region}"),
        })
    }

    #[test]
    fn every_provider_is_shown_its_own_key_at_its_own_address() {
        for provider in Provider::ALL {
            let transport = provider.transport();
            let Some(own) = transport.base_url else { continue };
            let key = format!("key-{}", transport.key_variable);
            let shown = shown(&settings(), *provider, own).unwrap();
            assert!(shown.ends_with(&key), "{provider}: {shown}");
        }
    }

    #[test]
    fn a_key_goes_nowhere_else() {
        let hosts = Provider::ALL.iter().filter_map(|provider| provider.transport().base_url);
        let strangers = ["http://127.0.0.1:8001/v1", "http://localhost:8000", "https://h"];
        let hosts: Vec<_> = hosts.chain(strangers).collect();
        for provider in Provider::ALL {
            let own = provider.transport().base_url;
            for host in hosts.iter().filter(|host| Some(**host) != own) {
                let shown = shown(&settings(), *provider, host);
                assert_eq!(shown, None, "{provider} {host}");
            }
        }
        let empty = Providers::default();
        assert_eq!(shown(&empty, Provider::Openai, "https://api.openai.com/v1"), None);
    }

    #[test]
    fn a_listed_origin_is_listed_for_all_that_share_the_key() {
        let shown = |provider, url| shown(&settings(), provider, url);
        let openai = Some("authorization: Bearer key-OPENAI_API_KEY".to_owned());
        for provider in [Provider::Openai, Provider::OpenaiResponses] {
            assert_eq!(shown(provider, "http://127.0.0.1:8000/v1"), openai);
        }
        assert_eq!(shown(Provider::Groq, "http://127.0.0.1:8000/v1"), None);
        assert_eq!(shown(Provider::Openai, "https://gate.example/x"), None);
        let groq = shown(Provider::Groq, "https://gate.example/x");
        assert_eq!(groq.as_deref(), Some("authorization: Bearer key-GROQ_API_KEY"));
    }

    #[test]
    fn azure_has_its_own_key_however_it_is_spoken_to() {
        let own = "https://res.openai.azure.com/openai/v1";
        let azure = Some("api-key: key-AZURE_OPENAI_API_KEY".to_owned());
        for provider in [Provider::Openai, Provider::OpenaiResponses, Provider::Azure] {
            assert_eq!(shown(&settings(), provider, own), azure);
        }
        assert_eq!(shown(&settings(), Provider::Groq, own), None);
        let listed = "https://listed.openai.azure.com/openai/v1";
        let openai = Some("authorization: Bearer key-OPENAI_API_KEY".to_owned());
        assert_eq!(shown(&settings(), Provider::Openai, listed), openai);
        let mut without = settings();
        without.keys.remove("OPENAI_API_KEY");
        assert_eq!(shown(&without, Provider::Openai, listed), azure);
    }

    #[test]
    fn a_request_to_amazon_is_signed_where_there_is_no_bearer_token() {
        let own = "https://bedrock-runtime.us-east-1.amazonaws.com";
        let mut settings = settings();
        let bearer = shown(&settings, Provider::Bedrock, own);
        assert_eq!(bearer.as_deref(), Some("authorization: Bearer key-AWS_BEARER_TOKEN_BEDROCK"));
        settings.keys.remove("AWS_BEARER_TOKEN_BEDROCK");
        assert_eq!(
            shown(&settings, Provider::Bedrock, own).as_deref(),
            Some("bedrock in us-east-1")
        );
        assert_eq!(shown(&settings, Provider::Bedrock, "https://vpce.example"), None);
        settings.origins.push((Provider::Bedrock, "https://vpce.example".to_owned()));
        let listed = shown(&settings, Provider::Bedrock, "https://vpce.example");
        assert_eq!(listed.as_deref(), Some("bedrock in eu-west-1"));
        settings.aws_region = None;
        assert_eq!(shown(&settings, Provider::Bedrock, "https://vpce.example"), None);
        settings.aws = None;
        assert_eq!(shown(&settings, Provider::Bedrock, own), None);
    }

    #[test]
    fn keys_do_not_show_themselves() {
        let keys = ProviderKeys::of(&settings());
        let proof = keys.proof(Provider::Groq, &"https://api.groq.com".parse().unwrap());
        let told = format!("{keys:?} {proof:?}");
        assert!(!told.contains("key-") && !told.contains("sesame"), "{told}");
    }
}
