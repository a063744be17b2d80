//! Items as callers see them.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::domain::memory_item::{
    Hit, ItemFacts, ItemKey, ItemVersion, MemoryItem, Namespace, NamespaceCount, TextJson,
    VersionState,
};
use crate::error::AgentlingError;
use crate::http::time::Time;

/// An item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryItem, examples(json!({"namespace": ["users", "42"], "key": "tea",
    "value": {"note": "green"}, "version": 3, "created_at": "2026-01-31T09:30:00.000Z",
    "updated_at": "2026-01-31T09:30:00.000Z"})))]
pub(super) struct ItemView {
    /// Its namespace.
    namespace: Namespace,
    /// Its key there.
    key: ItemKey,
    /// Its value, with members in their order and numbers as they were spelt.
    #[schema(value_type = Value)]
    value: Box<RawValue>,
    /// Grows by one with each value and each deletion.
    #[schema(minimum = 1, examples(3))]
    version: i32,
    /// When it was put first, or again after it had been deleted or had expired.
    created_at: Time,
    /// When this version was put.
    updated_at: Time,
    /// From when on it is not there any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
}

/// An item that was found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryHit)]
pub(super) struct HitView {
    /// The item.
    item: ItemView,
    /// With `query`, how well its words fit, more for better ones; with `vector`, its cosine distance, less
    /// for nearer ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f32>,
}

/// A version of an item.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryItemVersion)]
pub(super) struct VersionView {
    /// 1, 2, 3 …
    #[schema(minimum = 1, examples(3))]
    version: i32,
    /// What is left of it.
    state: VersionState,
    /// Its value, where it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    value: Option<Box<RawValue>>,
    /// When it was put.
    created_at: Time,
    /// From when on it is not there any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Time>,
    /// The call of `memory_put` that put it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(examples("call_0198f2c4a1b27cde8f00112233445566"))]
    tool_call_id: Option<String>,
    /// When its value was taken out.
    #[serde(skip_serializing_if = "Option::is_none")]
    redacted_at: Option<Time>,
    /// The id of the key with which that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(examples("key_0198f2c4a1b27cde8f00112233445566"))]
    redacted_by: Option<String>,
}

/// A namespace, and how many items are under it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryNamespace)]
pub(super) struct NamespaceView {
    /// The namespace, cut to the parts that were asked for.
    namespace: Namespace,
    /// How many items are in it and in those that begin with it.
    #[schema(examples(12))]
    n_items: u64,
}

/// The `ETag` of an item. A version number alone would come again where an item is forgotten and put anew.
pub(super) fn etag(facts: &ItemFacts) -> String {
    format!("\"{}-{:x}\"", facts.version, facts.created_at.timestamp_micros())
}

fn raw(text: &TextJson) -> Result<Box<RawValue>, AgentlingError> {
    let raw = RawValue::from_string(text.as_str().to_owned());
    raw.map_err(|error| AgentlingError::internal(error.to_string()))
}

impl ItemView {
    pub(super) fn of(item: MemoryItem) -> Result<Self, AgentlingError> {
        Ok(Self {
            namespace: item.place.namespace,
            key: item.place.key,
            value: raw(&item.value)?,
            version: item.facts.version,
            created_at: item.facts.created_at.into(),
            updated_at: item.facts.updated_at.into(),
            expires_at: item.facts.expires_at.map(Time::from),
        })
    }
}

impl HitView {
    pub(super) fn of(hit: Hit) -> Result<Self, AgentlingError> {
        Ok(Self { item: ItemView::of(hit.item)?, score: hit.score })
    }
}

impl VersionView {
    pub(super) fn of(version: ItemVersion) -> Result<Self, AgentlingError> {
        Ok(Self {
            version: version.version,
            state: version.state(),
            value: version.value.as_ref().map(raw).transpose()?,
            created_at: version.created_at.into(),
            expires_at: version.expires_at.map(Time::from),
            tool_call_id: version.call_id,
            redacted_at: version.redacted_at.map(Time::from),
            redacted_by: version.redacted_by,
        })
    }
}

impl From<NamespaceCount> for NamespaceView {
    fn from(count: NamespaceCount) -> Self {
        Self { namespace: count.namespace, n_items: count.n_items }
    }
}
