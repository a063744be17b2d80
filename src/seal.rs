//! Seals secrets for storage: each version has a random data key of its own, which is wrapped by a
//! key-encryption key of the operator's.
//!
//! What is sealed opens only in its place: tenant, name and version are authenticated with it, so a row
//! that is moved, mixed or written by hand does not open. Key-encryption keys are replaced by wrapping the
//! data keys anew, and the values stay as they are.

use aes_gcm_siv::aead::{Aead as _, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit as _};
use hmac::{Hmac, Mac as _};
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use sha2::Sha256;

use crate::domain::id::TenantId;
use crate::domain::secret::SecretName;

/// The one format there is; the first byte of whatever is sealed.
const FORMAT: u8 = 1;

const NONCE_BYTES: usize = 12;

/// Keys of 256 bits.
pub type Key = [u8; 32];

/// Where a sealed value stands.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Whose it is.
    pub tenant: &'a TenantId,
    /// Its name.
    pub name: &'a SecretName,
    /// Its version.
    pub version: i32,
}

impl Place<'_> {
    /// What is authenticated with a value. None of its parts holds the mark between them.
    fn of_value(self) -> String {
        format!("value|{}|{}|{}", self.tenant, self.name, self.version)
    }

    fn of_key(self, kek_id: &str) -> String {
        format!("key|{}|{}|{}|{kek_id}", self.tenant, self.name, self.version)
    }
}

/// A sealed value with its wrapped key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The value under its data key.
    pub value: Vec<u8>,
    /// The data key under a key-encryption key.
    pub key: WrappedKey,
}

/// A data key under a key-encryption key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    /// Which key-encryption key.
    pub kek_id: String,
    /// The data key.
    pub bytes: Vec<u8>,
}

/// Why something cannot be sealed or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The operator has set no key.
    #[error("no key-encryption key is set")]
    NoKey,
    /// It was sealed under a key that is not set any more.
    #[error("the key-encryption key `{0}` is not set")]
    UnknownKey(String),
    /// It is not what was sealed in this place.
    #[error("what is stored was not sealed in this place")]
    Broken,
}

struct Kek {
    id: String,
    key: SecretBox<Key>,
}

/// The operator's key-encryption keys: the first one seals, and every one opens.
#[derive(Default)]
pub struct Keyring(Vec<Kek>);

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|kek| &kek.id)).finish()
    }
}

impl Keyring {
    /// Keys by their ids.
    pub fn new(keys: impl IntoIterator<Item = (String, SecretBox<Key>)>) -> Self {
        Self(keys.into_iter().map(|(id, key)| Kek { id, key }).collect())
    }

    /// The id of the key that seals.
    ///
    /// # Errors
    /// When there is none.
    pub fn first(&self) -> Result<&str, SealError> {
        self.0.first().map(|kek| kek.id.as_str()).ok_or(SealError::NoKey)
    }

    /// Seals a value. Both draws are 32 random bytes that are used for nothing else.
    ///
    /// # Errors
    /// When there is no key.
    pub fn seal(
        &self,
        place: Place<'_>,
        value: &SecretString,
        (data_key, draw): (Key, Key),
    ) -> Result<Sealed, SealError> {
        let data_key = Zeroizing::new(data_key);
        // A data key seals one value, so one nonce will do.
        let sealed = encrypt(
            &data_key,
            [0; NONCE_BYTES],
            (value.expose_secret().as_bytes(), &place.of_value()),
        )?;
        let key = self.wrap(place, &data_key, draw)?;
        Ok(Sealed { value: [&[FORMAT], sealed.as_slice()].concat(), key })
    }

    /// Opens a value.
    ///
    /// # Errors
    /// When its key is not there, or it is not what was sealed in this place.
    pub fn open(&self, place: Place<'_>, sealed: &Sealed) -> Result<SecretString, SealError> {
        let data_key = self.unwrap(place, &sealed.key)?;
        let Some((&FORMAT, bytes)) = sealed.value.split_first() else {
            return Err(SealError::Broken);
        };
        let value = decrypt(&data_key, [0; NONCE_BYTES], (bytes, &place.of_value()))?;
        let text = std::str::from_utf8(&value).map_err(|_| SealError::Broken)?;
        Ok(text.into())
    }

    /// The data key under the first key; `None` when it is that already.
    ///
    /// # Errors
    /// When its key is not there, or it is not what was wrapped in this place.
    pub fn rewrap(
        &self,
        place: Place<'_>,
        key: &WrappedKey,
        draw: Key,
    ) -> Result<Option<WrappedKey>, SealError> {
        if key.kek_id == self.first()? {
            return Ok(None);
        }
        let data_key = self.unwrap(place, key)?;
        self.wrap(place, &data_key, draw).map(Some)
    }

    /// Eight hex digits by which a tenant's equal values can be told. Without the key nothing can be
    /// told by them.
    ///
    /// # Errors
    /// When there is no key.
    pub fn fingerprint(
        &self,
        tenant: &TenantId,
        value: &SecretString,
    ) -> Result<String, SealError> {
        let kek = self.0.first().ok_or(SealError::NoKey)?;
        // Keys that only seal and keys that only fingerprint are told apart by deriving the latter.
        let key = mac(kek.key.expose_secret(), &[b"fingerprint"]);
        let pieces = [tenant.as_str().as_bytes(), b"|", value.expose_secret().as_bytes()];
        let [a, b, c, d, ..] = mac(&key, &pieces);
        Ok(format!("{:08x}", u32::from_be_bytes([a, b, c, d])))
    }

    fn wrap(&self, place: Place<'_>, data_key: &Key, draw: Key) -> Result<WrappedKey, SealError> {
        let kek = self.0.first().ok_or(SealError::NoKey)?;
        let nonce: [u8; NONCE_BYTES] = std::array::from_fn(|n| draw.get(n).copied().unwrap_or(0));
        let aad = place.of_key(&kek.id);
        let wrapped = encrypt(kek.key.expose_secret(), nonce, (data_key, &aad))?;
        let bytes = [nonce.as_slice(), &wrapped].concat();
        Ok(WrappedKey { kek_id: kek.id.clone(), bytes })
    }

    fn unwrap(&self, place: Place<'_>, key: &WrappedKey) -> Result<Zeroizing<Key>, SealError> {
        let kek = self.0.iter().find(|kek| kek.id == key.kek_id);
        let kek = kek.ok_or_else(|| SealError::UnknownKey(key.kek_id.clone()))?;
        let (nonce, bytes) = key.bytes.split_first_chunk().ok_or(SealError::Broken)?;
        let aad = place.of_key(&kek.id);
        let opened = decrypt(kek.key.expose_secret(), *nonce, (bytes, &aad))?;
        let data_key = Key::try_from(opened.as_slice()).map_err(|_| SealError::Broken)?;
        Ok(Zeroizing::new(data_key))
    }
}

fn encrypt(
    key: &Key,
    nonce: [u8; NONCE_BYTES],
    (msg, aad): (&[u8], &str),
) -> Result<Vec<u8>, SealError> {
    let payload = Payload { msg, aad: aad.as_bytes() };
    Aes256GcmSiv::new(&(*key).into()).encrypt(&nonce.into(), payload).map_err(|_| SealError::Broken)
}

fn decrypt(
    key: &Key,
    nonce: [u8; NONCE_BYTES],
    (msg, aad): (&[u8], &str),
) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let payload = Payload { msg, aad: aad.as_bytes() };
    let opened = Aes256GcmSiv::new(&(*key).into()).decrypt(&nonce.into(), payload);
    opened.map(Zeroizing::new).map_err(|_| SealError::Broken)
}

/// HMAC-SHA-256 of some pieces.
fn mac(key: &Key, pieces: &[&[u8]]) -> Key {
    // HMAC pads a short key with zeros to its block; done here, making it cannot fail.
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new(&block.into());
    for piece in pieces {
        mac.update(piece);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: (Key, Key) = ([3; 32], [4; 32]);

    fn keyring(ids: &[(&str, u8)]) -> Keyring {
        let key =
            |(id, byte): &(&str, u8)| ((*id).to_owned(), SecretBox::new(Box::new([*byte; 32])));
        Keyring::new(ids.iter().map(key))
    }

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    fn name(text: &str) -> SecretName {
        text.parse().unwrap()
    }

    fn sealed(keyring: &Keyring) -> Sealed {
        let (tenant, name) = (tenant("acme"), name("key"));
        let place = Place { tenant: &tenant, name: &name, version: 2 };
        keyring.seal(place, &"hunter22-secret".into(), DRAWS).unwrap()
    }

    fn opened(
        keyring: &Keyring,
        at: (&str, &str, i32),
        sealed: &Sealed,
    ) -> Result<String, SealError> {
        let (tenant, name) = (tenant(at.0), name(at.1));
        let place = Place { tenant: &tenant, name: &name, version: at.2 };
        keyring.open(place, sealed).map(|value| value.expose_secret().to_owned())
    }

    const HERE: (&str, &str, i32) = ("acme", "key", 2);

    #[test]
    fn what_is_sealed_opens_in_its_place_and_holds_nothing_of_the_value() {
        let keyring = keyring(&[("a", 1)]);
        let sealed = sealed(&keyring);
        assert_eq!(opened(&keyring, HERE, &sealed).unwrap(), "hunter22-secret");
        let bytes = [sealed.value.as_slice(), &sealed.key.bytes].concat();
        assert!(!bytes.windows(6).any(|window| window == b"hunter"));
        assert!(!bytes.windows(8).any(|window| window == [3; 8]), "the data key is wrapped");
    }

    #[test]
    fn it_opens_in_no_other_place() {
        let keyring = keyring(&[("a", 1)]);
        let sealed = sealed(&keyring);
        for place in [("other", "key", 2), ("acme", "other", 2), ("acme", "key", 1)] {
            assert_eq!(opened(&keyring, place, &sealed), Err(SealError::Broken), "{place:?}");
        }
    }

    #[test]
    fn a_changed_bit_a_missing_byte_and_a_plain_value_do_not_open() {
        let keyring = keyring(&[("a", 1)]);
        let whole = sealed(&keyring);
        let broken = |sealed: &Sealed| opened(&keyring, HERE, sealed) == Err(SealError::Broken);
        for n in 0..whole.value.len() {
            let mut value = whole.value.clone();
            value[n] ^= 1;
            assert!(broken(&Sealed { value, ..whole.clone() }), "byte {n} of the value");
        }
        for n in 0..whole.key.bytes.len() {
            let mut key = whole.key.clone();
            key.bytes[n] ^= 1;
            assert!(broken(&Sealed { key, ..whole.clone() }), "byte {n} of the key");
        }
        for value in [b"hunter22-secret".to_vec(), b"\x01hunter22-secret".to_vec(), Vec::new()] {
            assert!(broken(&Sealed { value, ..whole.clone() }));
        }
        for bytes in [Vec::new(), vec![0; 12], vec![3; 32]] {
            let key = WrappedKey { kek_id: "a".to_owned(), bytes };
            assert!(broken(&Sealed { key, ..whole.clone() }));
        }
    }

    #[test]
    fn without_its_key_it_does_not_open_and_under_another_one_of_its_name_neither() {
        let sealed = sealed(&keyring(&[("a", 1)]));
        let unknown = Err(SealError::UnknownKey("a".to_owned()));
        assert_eq!(opened(&keyring(&[("b", 1)]), HERE, &sealed), unknown);
        assert_eq!(opened(&keyring(&[("a", 2)]), HERE, &sealed), Err(SealError::Broken));
        let mut renamed = sealed;
        renamed.key.kek_id = "b".to_owned();
        let both = keyring(&[("a", 1), ("b", 1)]);
        assert_eq!(opened(&both, HERE, &renamed), Err(SealError::Broken));
    }

    #[test]
    fn a_key_is_replaced_without_touching_the_value() {
        let old = sealed(&keyring(&[("a", 1)]));
        let both = keyring(&[("b", 2), ("a", 1)]);
        let (tenant, name) = (tenant("acme"), name("key"));
        let place = Place { tenant: &tenant, name: &name, version: 2 };
        let key = both.rewrap(place, &old.key, [5; 32]).unwrap().unwrap();
        assert_eq!(both.rewrap(place, &key, [6; 32]), Ok(None));
        let new = Sealed { key, ..old.clone() };
        assert_eq!(new.value, old.value);
        assert_eq!(opened(&keyring(&[("b", 2)]), HERE, &new).unwrap(), "hunter22-secret");
    }

    #[test]
    fn nothing_is_sealed_without_a_key() {
        let (tenant, name) = (tenant("acme"), name("key"));
        let place = Place { tenant: &tenant, name: &name, version: 1 };
        let sealed = Keyring::default().seal(place, &"hunter22".into(), DRAWS);
        assert_eq!(sealed, Err(SealError::NoKey));
    }

    #[test]
    fn fingerprints_tell_values_and_tenants_apart_and_keys_are_not_printed() {
        let keyring = keyring(&[("a", 1)]);
        let print =
            |of: &str, value: &str| keyring.fingerprint(&tenant(of), &value.into()).unwrap();
        let one = print("acme", "hunter22");
        assert_eq!((one.len(), one.clone()), (8, print("acme", "hunter22")));
        assert_ne!(one, print("acme", "hunter23"));
        assert_ne!(one, print("other", "hunter22"));
        assert_eq!(format!("{keyring:?}"), r#"["a"]"#);
    }
}
