//! API keys as text: `ag_{id}_{secret}`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret as _, SecretBox, SecretString};

use crate::clock::Ids;
use crate::domain::id::{InvalidId, KeyId};
use crate::http::mac;

/// Bytes of a secret.
const SECRET_BYTES: usize = 32;

/// What the hashes of secrets are made with; whoever has only the database cannot check a guess.
pub struct Pepper(SecretBox<[u8; 32]>);

impl Pepper {
    /// A pepper made from a secret that all replicas share.
    pub fn of(secret: &[u8]) -> Self {
        Self(SecretBox::new(Box::new(mac::derive("pepper of API keys", secret))))
    }
}

impl std::fmt::Debug for Pepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pepper")
    }
}

/// An API key as its holder has it.
#[derive(Debug)]
pub struct ApiKey {
    id: KeyId,
    secret: SecretString,
}

impl ApiKey {
    /// A new key.
    ///
    /// # Errors
    /// When the operating system has no random bytes to give.
    pub fn mint(ids: &dyn Ids) -> std::io::Result<Self> {
        let secret = URL_SAFE_NO_PAD.encode(ids.secret()?);
        Ok(Self { id: KeyId::from(ids.sortable()), secret: secret.into() })
    }

    /// Whether people can call a key that.
    pub fn name_fits(name: &str) -> bool {
        (1..=64).contains(&name.chars().count()) && !name.chars().any(char::is_control)
    }

    /// Its id.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// What is stored of its secret.
    pub fn hash(&self, pepper: &Pepper) -> [u8; 32] {
        let id = self.id.uuid();
        let pieces = [id.as_bytes().as_slice(), self.secret.expose_secret().as_bytes()];
        mac::of(pepper.0.expose_secret(), &pieces)
    }

    /// The whole key as text. It is shown once, when it is made.
    pub fn reveal(&self) -> SecretString {
        format!("ag_{}_{}", self.id.uuid().simple(), self.secret.expose_secret()).into()
    }
}

impl std::str::FromStr for ApiKey {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let rest = text.strip_prefix("ag_").ok_or(InvalidId)?;
        let (id, secret) = rest.split_once('_').ok_or(InvalidId)?;
        let id = format!("{}_{id}", KeyId::PREFIX).parse()?;
        let bytes = URL_SAFE_NO_PAD.decode(secret).map_err(|_| InvalidId)?;
        if bytes.len() == SECRET_BYTES {
            Ok(Self { id, secret: secret.to_owned().into() })
        } else {
            Err(InvalidId)
        }
    }
}
