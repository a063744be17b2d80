//! Items of long-term memory and their versions. What has expired by the database's clock is not there for
//! any statement, whether it was swept or not.

mod put;
mod read;
mod remove;
mod search;
mod sweep;

use chrono::{DateTime, Utc};

pub use put::{put, put_by_call, replace};
pub use read::{get, get_for_run, namespaces, versions};
pub use remove::{Redacted, delete, purge, redact};
pub use search::{HitKey, compares_vectors, search, search_for_run};
pub use sweep::{forget_expired, forget_versions};

use super::StoreError;
use super::rows::At;
use crate::domain::memory_item::{
    Hit, ItemFacts, ItemPlace, ItemVersion, MemoryItem, Prefix, TextJson,
};

/// What is known of an item that was written.
struct FactsRow {
    version: i32,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
}

impl From<FactsRow> for ItemFacts {
    fn from(row: FactsRow) -> Self {
        let FactsRow { version, created_at, updated_at, expires_at } = row;
        Self { version, created_at, updated_at, expires_at }
    }
}

/// An item that was found.
#[derive(sqlx::FromRow)]
struct HitRow {
    namespace: Vec<String>,
    key: String,
    value: String,
    version: i32,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
    score: Option<f32>,
}

impl TryFrom<HitRow> for Hit {
    type Error = StoreError;

    fn try_from(row: HitRow) -> Result<Self, StoreError> {
        let HitRow { version, created_at, updated_at, expires_at, score, .. } = row;
        let at = At { table: "memory_item", id: &row.key };
        let place = ItemPlace {
            namespace: row.namespace.try_into().map_err(|_| at.wrong("namespace"))?,
            key: row.key.parse().map_err(|_| at.wrong("key"))?,
        };
        let facts = ItemFacts { version, created_at, updated_at, expires_at };
        Ok(Self { item: MemoryItem { place, value: TextJson::stored(row.value), facts }, score })
    }
}

/// A version of an item.
struct VersionRow {
    version: i32,
    value: Option<String>,
    call_id: Option<String>,
    created_at: DateTime<Utc>,
    expires_at: Option<DateTime<Utc>>,
    redacted_at: Option<DateTime<Utc>>,
    redacted_by: Option<String>,
}

impl From<VersionRow> for ItemVersion {
    fn from(row: VersionRow) -> Self {
        Self {
            version: row.version,
            value: row.value.map(TextJson::stored),
            call_id: row.call_id,
            created_at: row.created_at,
            expires_at: row.expires_at,
            redacted_at: row.redacted_at,
            redacted_by: row.redacted_by,
        }
    }
}

/// What comes before and after all namespaces that begin so. With `only_here` the one that is the prefix
/// itself is left alone with it.
///
/// Arrays are ordered part by part, the shorter one first; no text comes before the empty one, and a NULL
/// comes after every text.
fn range(prefix: &Prefix, only_here: bool) -> (Vec<String>, Vec<Option<String>>) {
    let from = prefix.parts().to_vec();
    let next = only_here.then(String::new);
    let to = from.iter().cloned().map(Some).chain([next]).collect();
    (from, to)
}
