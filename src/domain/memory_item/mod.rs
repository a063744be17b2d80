//! Items of long-term memory: JSON values by namespace and key, outside of any thread.

mod bound;
mod name;
mod value;

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

pub use bound::{BoundNamespace, UnboundNamespace};
pub use name::{InvalidKey, InvalidNamespace, ItemKey, Namespace, Prefix};
pub use value::{ItemValue, TextJson, UnfitValue};

use crate::labels;

/// Where an item is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemPlace {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its key there.
    pub key: ItemKey,
}

/// An item as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryItem {
    /// Where it is.
    pub place: ItemPlace,
    /// Its value, as it was spelt.
    pub value: TextJson,
    /// What is known of it beside that.
    pub facts: ItemFacts,
}

/// What is known of an item beside its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemFacts {
    /// Grows by one with each value and each deletion.
    pub version: i32,
    /// When it was put first, or again after it had been deleted or had expired.
    pub created_at: DateTime<Utc>,
    /// When this version was put.
    pub updated_at: DateTime<Utc>,
    /// From when on it is not there any more.
    pub expires_at: Option<DateTime<Utc>>,
}

/// A value that is to be put.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemPut {
    /// Where.
    pub place: ItemPlace,
    /// The value.
    pub value: ItemValue,
    /// How long it is kept; `None` for ever.
    pub ttl: Option<Duration>,
    /// What the caller's model made of it.
    pub embedding: Option<Vec<f32>>,
}

/// An item that was looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The item.
    pub item: MemoryItem,
    /// How well it fits, where that was asked for.
    pub score: Option<f32>,
}

labels! {
    /// What is left of a version.
    VersionState {
        /// Its value.
        Kept = "kept",
        /// Nothing: with it the item was deleted.
        Deleted = "deleted",
        /// When its value was taken out, and who did that.
        Redacted = "redacted",
    }
}

/// A version of an item.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemVersion {
    /// 1, 2, 3 …
    pub version: i32,
    /// Its value; `None` of a deletion, and where it was redacted.
    pub value: Option<TextJson>,
    /// When it was put.
    pub created_at: DateTime<Utc>,
    /// From when on it is not there any more.
    pub expires_at: Option<DateTime<Utc>>,
    /// The call of a tool that put it.
    pub call_id: Option<String>,
    /// When its value was taken out.
    pub redacted_at: Option<DateTime<Utc>>,
    /// The key with which that was asked for.
    pub redacted_by: Option<String>,
}

impl ItemVersion {
    /// What is left of it.
    pub const fn state(&self) -> VersionState {
        match (&self.value, self.redacted_at) {
            (Some(_), _) => VersionState::Kept,
            (None, Some(_)) => VersionState::Redacted,
            (None, None) => VersionState::Deleted,
        }
    }
}

/// What is looked for among items.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemSearch {
    /// Under which namespace.
    pub prefix: Prefix,
    /// Whether only items right in that namespace count, and none further down.
    pub only_here: bool,
    /// What members have to be, each by the keys and places that lead to it. Numbers are equal whatever
    /// their spelling, and what is not there equals nothing.
    pub filter: Vec<(Vec<String>, Value)>,
    /// What its words have to be: `a b` for both, `"a b"` for both in a row, `or`, and `-` for without.
    pub query: Option<String>,
    /// What its embedding has to be near to.
    pub vector: Option<Vec<f32>>,
}

/// A namespace, or one that it is cut to, and how many items are under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceCount {
    /// Which.
    pub namespace: Namespace,
    /// How many items.
    pub n_items: u64,
}
