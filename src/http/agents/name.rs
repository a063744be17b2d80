//! How callers name an agent: by id or by name, and by version.

use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use crate::domain::id::{AgentId, InvalidId};
use crate::store::agents::AgentRef;

/// An agent's id, or the unique name it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentName(pub(super) AgentRef);

impl FromStr for AgentName {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match text.parse::<AgentId>() {
            Ok(id) => Ok(Self(AgentRef::Id(id))),
            Err(_) if is_name(text) => Ok(Self(AgentRef::Name(text.to_owned()))),
            Err(error) => Err(error),
        }
    }
}

/// Whether an agent can have this name: `^[a-z0-9][a-z0-9_-]{0,63}$`, and not the form of an id, which
/// would make it ambiguous.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=64).contains(&text.len())
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || b"_-".contains(&byte))
        && text.parse::<AgentId>().is_err()
}

/// Which version is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionQuery {
    /// The version; by default the newest.
    #[serde(default, deserialize_with = "version")]
    #[param(value_type = Option<i32>, minimum = 1)]
    pub(super) version: Option<i32>,
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    let version = i32::deserialize(deserializer)?;
    let fits = version >= 1;
    if fits { Ok(Some(version)) } else { Err(serde::de::Error::custom("must be at least 1")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_an_id_or_a_name_or_neither() {
        let id = "agt_0198f2c4a1b27cde8f00112233445566";
        assert_eq!(id.parse(), Ok(AgentName(AgentRef::Id(id.parse().unwrap()))));
        assert!(!is_name(id));
        for name in ["a", "0", "weather-2_b", &"a".repeat(64)] {
            assert_eq!(name.parse(), Ok(AgentName(AgentRef::Name(name.to_owned()))));
        }
        for neither in ["", "_a", "-", "A", "a b", "ä", "a\0", &"a".repeat(65)] {
            assert_eq!(neither.parse::<AgentName>(), Err(InvalidId), "{neither}");
        }
    }
}
