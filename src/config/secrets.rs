//! The keys that secrets of tenants are sealed with.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use secrecy::zeroize::Zeroizing;
use secrecy::{ExposeSecret as _, SecretString};

use super::Setting;
use super::reader::Reader;

pub(super) const KEYS: Setting = Setting::secret(
    "AGENTLING_SECRET_KEYS",
    "the keys that secrets of tenants are sealed with, as `id=base64 of 32 bytes`, separated by commas: \
     the first one seals, all of them open",
);
pub(super) const FILE: Setting = Setting::plain(
    "AGENTLING_SECRET_KEYS_FILE",
    "a file with these keys, one a line, in place of `AGENTLING_SECRET_KEYS`",
);

/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// The longest id of a key.
const ID_BYTES: usize = 32;

/// The keys that secrets of tenants are sealed with, in order.
#[derive(Debug, Clone, Default)]
pub struct SecretKeys(Vec<(String, SecretString)>);

impl SecretKeys {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let given = reader.optional(KEYS, keys);
        let Some(path) = reader.path(FILE) else { return Some(given.unwrap_or_default()) };
        if given.is_some() {
            reader.refuse(FILE, format!("cannot be set beside {}", KEYS.name));
            return None;
        }
        let text = match std::fs::read_to_string(path) {
            Ok(text) => Zeroizing::new(text),
            Err(error) => {
                reader.refuse(FILE, format!("names a file that cannot be read: {error}"));
                return None;
            }
        };
        let read = keys(&text).map_err(|problem| reader.refuse(FILE, problem));
        read.ok()
    }

    /// The keys by their ids, in base64.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretString)> {
        self.0.iter().map(|(id, key)| (id.as_str(), key))
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys as bytes.
    pub fn bytes(&self) -> impl Iterator<Item = (&str, [u8; KEY_BYTES])> {
        self.iter().filter_map(|(id, key)| Some((id, decoded(key.expose_secret())?)))
    }
}

fn decoded(text: &str) -> Option<[u8; KEY_BYTES]> {
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(text).ok()?);
    bytes.as_slice().try_into().ok()
}

/// Reads a list of keys. What is wrong is told by place, since anything of the text may be a key.
fn keys(text: &str) -> Result<SecretKeys, String> {
    let items = text.split([',', '\n']).map(str::trim).filter(|item| !item.is_empty());
    let mut keys: Vec<(String, SecretString)> = Vec::new();
    for (n, item) in items.enumerate() {
        let place = n + 1;
        let (id, key) = item.split_once('=').unwrap_or_default();
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=ID_BYTES).contains(&id.len()) || !id.bytes().all(is_id) {
            let form =
                "must be `id=base64 of 32 bytes`, an id being of letters, digits, `.`, `_`, `-`";
            return Err(format!("{form}, and entry {place} is not"));
        }
        if decoded(key).is_none() {
            return Err(format!("must hold 32 bytes in base64, and entry {place} does not"));
        }
        if keys.iter().any(|(other, _)| other == id) {
            return Err(format!("names an id twice, in entry {place}"));
        }
        keys.push((id.to_owned(), key.into()));
    }
    if keys.is_empty() { Err("must hold a key".to_owned()) } else { Ok(SecretKeys(keys)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> String {
        BASE64_STANDARD.encode([byte; KEY_BYTES])
    }

    #[test]
    fn keys_keep_their_order_and_their_ids() {
        let text = format!("b={}, a={}\n", key(2), key(1));
        let read = keys(&text).unwrap();
        let bytes: Vec<_> = read.bytes().collect();
        assert_eq!(bytes, [("b", [2; 32]), ("a", [1; 32])]);
        assert!(!format!("{read:?}").contains(&key(1)));
    }

    #[test]
    fn what_is_no_key_is_refused_without_repeating_it() {
        for text in [
            "hunter22-no-key".to_owned(),
            "a=hunter22".to_owned(),
            format!("={}", key(1)),
            format!("hunter22 x={}", key(1)),
            format!("a={0},a={0}", key(1)),
            format!("a={}", BASE64_STANDARD.encode([1; 31])),
            ",".to_owned(),
        ] {
            let problem = keys(&text).unwrap_err();
            assert!(!problem.contains("hunter22") && !problem.contains(&key(1)), "{problem}");
        }
    }
}
