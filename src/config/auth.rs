//! The operator's own credentials.

use secrecy::SecretString;

use super::Setting;
use super::reader::Reader;

pub(super) const API_KEY: Setting = Setting::secret(
    "AGENTLING_API_KEY",
    "a key with all scopes for the tenant `default`, at least 16 characters",
);
pub(super) const KEY_PEPPER: Setting = Setting::secret(
    "AGENTLING_KEY_PEPPER",
    "mixed into the stored hashes of API keys, at least 16 characters; changing it voids the keys",
);

/// Credentials.
#[derive(Debug, Clone)]
pub struct Auth {
    /// The bootstrap key.
    pub api_key: Option<SecretString>,
    /// The pepper of stored keys.
    pub key_pepper: Option<SecretString>,
}

impl Auth {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let api_key = reader.credential(API_KEY);
        let key_pepper = reader.credential(KEY_PEPPER);
        Self { api_key, key_pepper }
    }
}
