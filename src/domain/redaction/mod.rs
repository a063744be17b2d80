//! Redaction rules: what is kept from a model, from callers and from the log.

mod check;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use check::{RuleFault, faults, pattern_regex};

use crate::labels;

/// The name of the rule that is always there; no other rule may take it.
pub const SECRET_RULE: &str = "secret";

/// How a placeholder begins. No value may hold it, so that a placeholder is never redacted itself.
pub const PLACEHOLDER_START: &str = "[redacted:";

labels! {
    /// A way out of the server that a rule watches.
    RedactionChannel {
        /// What a model is sent.
        Model = "model",
        /// What callers read, streams included.
        Api = "api",
        /// The operator's log.
        Log = "log",
        /// Traces.
        Trace = "trace",
        /// What webhooks deliver.
        Webhook = "webhook",
        /// Exported memory.
        Export = "export",
    }
}

/// Something that is replaced by a placeholder wherever it would leave the server.
///
/// A placeholder is `[redacted:{name}:{number}]`. Within a thread the same value of the same rule has
/// the same number, so that a model can still tell values apart. What is stored is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RedactionRule {
    /// A value that is known.
    Value(ValueRule),
    /// Whatever matches a pattern.
    Pattern(PatternRule),
    /// The value of a member of JSON outputs and arguments.
    Field(FieldRule),
}

impl RedactionRule {
    /// Its name.
    pub fn rule_name(&self) -> &str {
        match self {
            Self::Value(rule) => &rule.name,
            Self::Pattern(rule) => &rule.name,
            Self::Field(rule) => &rule.name,
        }
    }

    /// The rule as it is shown: what stands for its value is refused where a rule is read, so that a
    /// rule that is sent back as it was shown does not lose its value unnoticed.
    #[must_use]
    pub fn without_value(mut self) -> Self {
        if let Self::Value(rule) = &mut self {
            rule.value = format!("{PLACEHOLDER_START}{}]", rule.name);
        }
        self
    }

    /// Where it applies.
    pub const fn channels(&self) -> &BTreeSet<RedactionChannel> {
        match self {
            Self::Value(rule) => &rule.channels,
            Self::Pattern(rule) => &rule.channels,
            Self::Field(rule) => &rule.channels,
        }
    }
}

/// A value that is known: it is found as it is, and JSON-escaped, URL-encoded or in base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ValueRule {
    /// Unique within the agent: `^[a-z][a-z0-9_]{0,31}$`, not `secret`.
    #[schema(pattern = "^[a-z][a-z0-9_]{0,31}$", examples("customer_key"))]
    pub name: String,
    /// The value, 4–4,096 characters.
    #[schema(min_length = 4, max_length = 4096)]
    pub value: String,
    /// Where it is replaced; by default everywhere.
    #[serde(default = "every_channel")]
    #[schema(value_type = Vec<RedactionChannel>, min_items = 1)]
    pub channels: BTreeSet<RedactionChannel>,
}

impl std::fmt::Debug for ValueRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ValueRule").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Whatever matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatternRule {
    /// Unique within the agent: `^[a-z][a-z0-9_]{0,31}$`, not `secret`.
    #[schema(pattern = "^[a-z][a-z0-9_]{0,31}$", examples("card_number"))]
    pub name: String,
    /// A regular expression without look-around and back references, 1–1,024 characters. It must
    /// match some text, and not the empty one. Of a match, 4,096 bytes count: a
    /// longer one may be missed in part.
    #[schema(min_length = 1, max_length = 1024, examples("[0-9]{4}( ?[0-9]{4}){3}"))]
    pub pattern: String,
    /// Where it is replaced; by default everywhere.
    #[serde(default = "every_channel")]
    #[schema(value_type = Vec<RedactionChannel>, min_items = 1)]
    pub channels: BTreeSet<RedactionChannel>,
}

/// The value of a member of JSON outputs and arguments, at any depth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FieldRule {
    /// Unique within the agent: `^[a-z][a-z0-9_]{0,31}$`, not `secret`.
    #[schema(pattern = "^[a-z][a-z0-9_]{0,31}$", examples("password"))]
    pub name: String,
    /// The member's name, 1–128 characters; ASCII letters match in either case.
    #[schema(min_length = 1, max_length = 128, examples("password"))]
    pub field: String,
    /// Where it is replaced; by default everywhere.
    #[serde(default = "every_channel")]
    #[schema(value_type = Vec<RedactionChannel>, min_items = 1)]
    pub channels: BTreeSet<RedactionChannel>,
}

/// All channels.
pub fn every_channel() -> BTreeSet<RedactionChannel> {
    RedactionChannel::ALL.iter().copied().collect()
}
