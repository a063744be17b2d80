//! Keys of model providers, and where each may be sent.
//!
//! An agent names its own `base_url`, so a key must not follow it to a stranger: a key goes to its
//! provider's own address and to the origins that the operator lists, and nowhere else.

use std::collections::BTreeMap;

use secrecy::SecretString;

use super::Setting;
use super::http::web_url;
use super::reader::Reader;
use crate::domain::provider::Provider;

pub(super) const ORIGINS: Setting = Setting::plain(
    "AGENTLING_PROVIDER_ORIGINS",
    "origins beside the provider's own address to which its key may be sent, as \
     `provider=https://host:port`, separated by commas",
)
.or("");
pub(super) const OPENAI_ORIGINS: Setting = Setting::plain(
    "AGENTLING_OPENAI_ORIGINS",
    "origins to which the key of the `openai` provider may be sent, separated by commas",
)
.or("https://api.openai.com");
pub(super) const AWS_ACCESS_KEY_ID: Setting = Setting::secret(
    "AWS_ACCESS_KEY_ID",
    "the id of the key that requests to Amazon Bedrock are signed with",
);
pub(super) const AWS_SECRET_ACCESS_KEY: Setting =
    Setting::secret("AWS_SECRET_ACCESS_KEY", "the secret half of that key");
pub(super) const AWS_SESSION_TOKEN: Setting =
    Setting::secret("AWS_SESSION_TOKEN", "what comes with that key when it is a temporary one");
pub(super) const AWS_REGION: Setting = Setting::plain(
    "AWS_REGION",
    "the region in which Amazon Bedrock is reached; without it `AWS_DEFAULT_REGION` counts",
);
pub(super) const AWS_DEFAULT_REGION: Setting =
    Setting::plain("AWS_DEFAULT_REGION", "the region where `AWS_REGION` is absent");

const KEY: &str = "the key of the model provider of that name";

/// One setting for each variable that holds a provider's key. Providers may share one.
pub(super) fn key_settings() -> Vec<Setting> {
    let mut settings: Vec<Setting> = Vec::new();
    for provider in Provider::ALL {
        let name = provider.transport().key_variable;
        if !name.is_empty() && settings.iter().all(|setting| setting.name != name) {
            settings.push(Setting::secret(name, KEY));
        }
    }
    settings
}

/// The model providers.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    /// The keys, by the environment variables that they were given in.
    pub keys: BTreeMap<&'static str, SecretString>,
    /// Where a provider's key may go beside its own address, as `scheme://host[:port]`.
    pub origins: Vec<(Provider, String)>,
    /// What requests to Amazon are signed with.
    pub aws: Option<AwsKeys>,
    /// Amazon's region.
    pub aws_region: Option<String>,
}

/// What requests to Amazon are signed with.
#[derive(Debug, Clone)]
pub struct AwsKeys {
    /// The public half.
    pub access_key_id: SecretString,
    /// The secret half.
    pub secret_access_key: SecretString,
    /// What temporary keys are sent with.
    pub session_token: Option<SecretString>,
}

impl Providers {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let keys = key_settings().into_iter().filter_map(|setting| {
            let key = reader.foreign_credential(setting)?;
            Some((setting.name, key))
        });
        let keys = keys.collect();
        let (listed, openai) =
            (reader.list(ORIGINS, provider_origin), reader.list(OPENAI_ORIGINS, origin));
        let region = reader.optional(AWS_REGION, region);
        let region = region.or_else(|| reader.optional(AWS_DEFAULT_REGION, self::region));
        let aws = AwsKeys::read(reader);
        let openai = openai?.into_iter().map(|origin| (Provider::Openai, origin));
        let origins = openai.chain(listed?).collect();
        Some(Self { keys, origins, aws, aws_region: region })
    }

    /// All keys.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretString> {
        let aws = self.aws.iter().flat_map(|aws| {
            [Some(&aws.access_key_id), Some(&aws.secret_access_key), aws.session_token.as_ref()]
        });
        self.keys.values().chain(aws.flatten())
    }
}

impl AwsKeys {
    /// Both halves or none.
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let access_key_id = reader.foreign_credential(AWS_ACCESS_KEY_ID);
        let secret_access_key = reader.foreign_credential(AWS_SECRET_ACCESS_KEY);
        let session_token = reader.foreign_credential(AWS_SESSION_TOKEN);
        let is_set = |setting: Setting| reader.source.get(setting.name).is_some();
        let (has_id, has_secret) = (is_set(AWS_ACCESS_KEY_ID), is_set(AWS_SECRET_ACCESS_KEY));
        if has_id != has_secret {
            let (there, missing) = if has_id {
                (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)
            } else {
                (AWS_SECRET_ACCESS_KEY, AWS_ACCESS_KEY_ID)
            };
            reader.refuse(missing, format!("must be set where {} is", there.name));
        }
        Some(Self {
            access_key_id: access_key_id?,
            secret_access_key: secret_access_key?,
            session_token,
        })
    }
}

fn provider_origin(text: &str) -> Result<(Provider, String), String> {
    let (name, address) = text.split_once('=').unwrap_or_default();
    let provider = name.trim().parse().ok().filter(|provider| *provider != Provider::Scripted);
    let Some(provider) = provider else {
        return Err(format!(
            "must list pairs such as openai=https://host:port, and {text:?} names no provider"
        ));
    };
    Ok((provider, origin(address.trim())?))
}

fn origin(text: &str) -> Result<String, String> {
    let url = web_url(text).ok().filter(|url| url.path() == "/" && url.query().is_none());
    let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
    let origin = url.map(|url| url.origin().ascii_serialization());
    origin.ok_or_else(|| format!("must list origins such as https://host:port, not {text:?}"))
}

/// A region becomes a part of a host's name.
fn region(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.len() <= 32 && text.bytes().all(fits) {
        Ok(text.to_owned())
    } else {
        Err(format!("must be a region such as us-east-1, not {text:?}"))
    }
}
