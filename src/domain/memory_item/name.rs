//! Names of items: namespaces, what namespaces begin with, and keys.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::limits::{ITEM_KEY_CHARS, NAMESPACE_PART_BYTES, NAMESPACE_PARTS};

/// A text or a list that cannot be a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1–8 parts, each of which matches ^[A-Za-z0-9._:@-]{{1,64}}$")]
pub struct InvalidNamespace;

/// A text that cannot be the key of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must have 1–128 characters, no control characters, and no white space at its ends")]
pub struct InvalidKey;

/// Where items are: 1–8 parts, from the widest to the narrowest. Each matches `^[A-Za-z0-9._:@-]{1,64}$`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
#[schema(value_type = Vec<String>, min_items = 1, max_items = 8)]
pub struct Namespace(Vec<String>);

/// What namespaces begin with: 0–8 parts as those of a namespace. Without any, every namespace does.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
#[schema(as = NamespacePrefix, value_type = Vec<String>, max_items = 8)]
pub struct Prefix(Vec<String>);

/// The name of an item in its namespace: 1–128 characters, no control characters, and no white space at its
/// ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, min_length = 1, max_length = 128, examples("favourite colour"))]
pub struct ItemKey(String);

/// Whether a text can be a part of a namespace.
pub(super) fn is_part(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@-".contains(&byte);
    (1..=NAMESPACE_PART_BYTES).contains(&text.len()) && text.bytes().all(is_plain)
}

impl Namespace {
    /// Its parts.
    pub fn parts(&self) -> &[String] {
        &self.0
    }
}

impl Prefix {
    /// Its parts.
    pub fn parts(&self) -> &[String] {
        &self.0
    }
}

impl From<Namespace> for Prefix {
    fn from(namespace: Namespace) -> Self {
        Self(namespace.0)
    }
}

impl TryFrom<Vec<String>> for Prefix {
    type Error = InvalidNamespace;

    fn try_from(parts: Vec<String>) -> Result<Self, InvalidNamespace> {
        let fits = parts.len() <= NAMESPACE_PARTS && parts.iter().all(|part| is_part(part));
        if fits { Ok(Self(parts)) } else { Err(InvalidNamespace) }
    }
}

impl TryFrom<Vec<String>> for Namespace {
    type Error = InvalidNamespace;

    fn try_from(parts: Vec<String>) -> Result<Self, InvalidNamespace> {
        let Prefix(parts) = parts.try_into()?;
        if parts.is_empty() { Err(InvalidNamespace) } else { Ok(Self(parts)) }
    }
}

impl From<Namespace> for Vec<String> {
    fn from(namespace: Namespace) -> Self {
        namespace.0
    }
}

impl From<Prefix> for Vec<String> {
    fn from(prefix: Prefix) -> Self {
        prefix.0
    }
}

/// The parts with a slash between them, as they stand in a query.
impl Display for Namespace {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

impl FromStr for Namespace {
    type Err = InvalidNamespace;

    fn from_str(text: &str) -> Result<Self, InvalidNamespace> {
        text.split('/').map(str::to_owned).collect::<Vec<_>>().try_into()
    }
}

impl FromStr for Prefix {
    type Err = InvalidNamespace;

    fn from_str(text: &str) -> Result<Self, InvalidNamespace> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        text.parse::<Namespace>().map(Self::from)
    }
}

impl ItemKey {
    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ItemKey {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for ItemKey {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        let fits = (1..=ITEM_KEY_CHARS).contains(&text.chars().count())
            && !text.chars().any(char::is_control)
            && text.trim().len() == text.len();
        if fits { Ok(Self(text)) } else { Err(InvalidKey) }
    }
}

impl From<ItemKey> for String {
    fn from(key: ItemKey) -> Self {
        key.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_one_to_eight_plain_parts_and_reads_as_it_is_shown() {
        let long = "x".repeat(64);
        for text in
            ["a", "users/42", "a/b/c/d/e/f/g/h", "A.b:c@d-e_f".replace('_', "-").as_str(), &long]
        {
            assert_eq!(text.parse::<Namespace>().unwrap().to_string(), text);
            assert_eq!(text.parse::<Prefix>().unwrap().parts().join("/"), text);
        }
        let longer = "x".repeat(65);
        for text in
            ["/", "a/", "/a", "a//b", "a b", "é", "a\0", "a+b", "a/b/c/d/e/f/g/h/i", &longer]
        {
            assert_eq!(text.parse::<Namespace>(), Err(InvalidNamespace), "{text}");
            assert_eq!(text.parse::<Prefix>(), Err(InvalidNamespace), "{text}");
        }
        assert_eq!("".parse::<Namespace>(), Err(InvalidNamespace));
        assert_eq!("".parse::<Prefix>(), Ok(Prefix::default()));
    }

    #[test]
    fn a_key_is_any_text_that_can_be_seen_and_is_not_too_long() {
        let long = "é".repeat(128);
        for text in ["k", "favourite colour", "a/b?c=d&e", "名前", &long] {
            assert_eq!(text.parse::<ItemKey>().unwrap().as_str(), text);
        }
        let longer = "é".repeat(129);
        for text in ["", " ", " k", "k\u{a0}", "a\nb", "a\0b", "a\u{85}b", &longer] {
            assert_eq!(text.parse::<ItemKey>(), Err(InvalidKey), "{text:?}");
        }
    }
}
