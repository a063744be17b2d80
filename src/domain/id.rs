//! Prefixed, typed, sortable ids: `run_` followed by a UUIDv7 in 32 lower-case hex digits.

use uuid::Uuid;

/// A text that is not an id of the expected kind. Callers see it as "not found".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an id of this kind")]
pub struct InvalidId;

macro_rules! id {
    ($(#[$meta:meta])* $name:ident, $prefix:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// What stands before the underscore in the text form.
            pub const PREFIX: &'static str = $prefix;

            /// The bare UUID, as stored.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}_{}", $prefix, self.0.simple())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(self, f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                let hex = text.strip_prefix(concat!($prefix, "_")).ok_or(InvalidId)?;
                // One id has one spelling: other UUID notations and upper case are refused.
                let canonical = hex.len() == 32
                    && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
                if !canonical {
                    return Err(InvalidId);
                }
                Uuid::try_parse(hex).map(Self).map_err(|_| InvalidId)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .description(Some(concat!("Opaque id with the prefix `", $prefix, "_`.")))
                    .examples([concat!($prefix, "_0198f2c4a1b27cde8f00112233445566")])
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}

id!(
    /// An agent, whatever its version.
    AgentId, "agt"
);
id!(
    /// A skill, whatever its version.
    SkillId, "skl"
);
id!(
    /// A conversation.
    ThreadId, "thr"
);
id!(
    /// One durable execution on a thread.
    RunId, "run"
);
id!(
    /// One entry of a thread's history.
    StepId, "stp"
);
id!(
    /// One request to a model.
    RequestId, "req"
);
id!(
    /// An endpoint that events of runs are told to.
    WebhookId, "whk"
);
id!(
    /// A registered MCP server.
    McpServerId, "mcp"
);
id!(
    /// An event on its way to an endpoint.
    DeliveryId, "dlv"
);
id!(
    /// A run that the clock starts.
    ScheduleId, "sch"
);
id!(
    /// An API key; the secret part is not in it.
    KeyId, "key"
);
id!(
    /// One failure, as named in a run, in a problem and in the operator's log.
    ErrorId, "err"
);

/// Who a caller acts for. It comes from the credential only and is the first column of every key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(String);

impl TenantId {
    /// The tenant of a server without keys, and of the bootstrap key.
    pub const DEFAULT: &'static str = "default";

    /// Accepts 1–64 characters of `[a-z0-9_-]`.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let fits = (1..=64).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidId) }
    }

    /// The stored text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for TenantId {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl std::fmt::Display for TenantId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A tool call's id, unique within its thread: `call_` and a UUIDv7 when minted here, any text of at
/// most 128 characters when it came with an imported history.
#[derive(
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    utoipa::ToSchema,
)]
#[schema(examples("call_0198f2c4a1b27cde8f00112233445566"))]
#[serde(transparent)]
pub struct CallId(pub String);

impl CallId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for CallId {
    type Err = std::convert::Infallible;

    /// Any text may be the id of a call: providers choose them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl std::fmt::Debug for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A block of context, as the operator named it: a lower-case letter, and at most 63 more characters of
/// `[a-z0-9_-]`.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, utoipa::ToSchema,
)]
#[schema(pattern = "^[a-z][a-z0-9_-]{0,63}$", examples("house_rules"))]
#[serde(transparent)]
pub struct BlockId(String);

impl BlockId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text that cannot name a block of context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a block is named by a lower-case letter and up to 63 more characters of `[a-z0-9_-]`")]
pub struct InvalidBlockId;

impl std::str::FromStr for BlockId {
    type Err = InvalidBlockId;

    fn from_str(text: &str) -> Result<Self, InvalidBlockId> {
        let fits = text.len() <= 64
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
        if fits { Ok(Self(text.to_owned())) } else { Err(InvalidBlockId) }
    }
}

impl<'de> serde::Deserialize<'de> for BlockId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The random token that a worker must show with every write of a run it has claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken(pub Uuid);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = RunId::from(Uuid::from_u128(0x0198_f2c4_a1b2_7cde_8f00_1122_3344_5566));
        assert_eq!(id.to_string(), "run_0198f2c4a1b27cde8f00112233445566");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn an_id_has_exactly_one_spelling() {
        for text in [
            "",
            "run_",
            "thr_0198f2c4a1b27cde8f00112233445566",
            "run_0198F2C4A1B27CDE8F00112233445566",
            "run_0198f2c4-a1b2-7cde-8f00-112233445566",
            "run_0198f2c4a1b27cde8f0011223344556",
            "run_0198f2c4a1b27cde8f00112233445566 ",
        ] {
            assert_eq!(text.parse::<RunId>(), Err(InvalidId), "{text}");
        }
    }

    #[test]
    fn a_block_is_a_plain_name_that_starts_with_a_letter() {
        for text in ["a", "house_rules", "a-1", &"a".repeat(64)] {
            assert_eq!(
                text.parse::<BlockId>().map(|id| id.as_str().to_owned()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "1a", "_a", "A", "a b", "a:b", "\u{e9}", "a\n", &"a".repeat(65)] {
            assert_eq!(text.parse::<BlockId>(), Err(InvalidBlockId), "{text}");
        }
    }

    #[test]
    fn a_tenant_is_plain_lower_case() {
        assert!(TenantId::parse("acme-1").is_ok());
        for text in ["", "Acme", "a b", "ä", &"a".repeat(65)] {
            assert_eq!(TenantId::parse(text), Err(InvalidId), "{text}");
        }
    }
}
