//! Tools of the server itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::memory_item::BoundNamespace;
use crate::labels;

labels! {
    /// The tools of the server itself.
    Builtin {
        /// Ends the run with an answer; there whether declared or not.
        FinalAnswer = "final_answer",
        /// Keeps a value beyond the conversation.
        MemoryPut = "memory_put",
        /// Returns a value that is kept.
        MemoryGet = "memory_get",
        /// Looks for values that are kept.
        MemorySearch = "memory_search",
    }
}

/// A tool of the server itself.
///
/// Those that remember have a `namespace`, which the model neither chooses nor is told: `memory_put` and
/// `memory_get` reach the items right in it, and `memory_search` finds these. A call that is made again after
/// a crash puts its value once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"kind": "builtin", "name": "memory_put",
    "namespace": ["users", "{{metadata.user_id}}"]})))]
pub struct BuiltinTool {
    /// Which one.
    pub name: Builtin,
    /// Where the items are; needed by those that remember, and by no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<BoundNamespace>,
    /// How many seconds an item is kept that `memory_put` puts, 1–315,360,000; for ever by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 315_360_000)]
    pub ttl_s: Option<u64>,
}

impl Builtin {
    /// Whether it works on items of long-term memory.
    pub const fn remembers(self) -> bool {
        match self {
            Self::FinalAnswer => false,
            Self::MemoryPut | Self::MemoryGet | Self::MemorySearch => true,
        }
    }
}
