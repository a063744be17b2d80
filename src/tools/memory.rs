//! Tools that remember: they keep values beyond a conversation and find them again. Where, is settled by
//! whoever made the agent; the model names keys and words only.

use std::time::Duration;

use chrono::SecondsFormat;
use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::CallRequest;
use super::arguments::{Arguments, is_null, plain_text};
use super::response::Output;
use crate::domain::id::{CallId, TenantId};
use crate::domain::limits::{ITEM_KEY_CHARS, ITEM_QUERY_CHARS};
use crate::domain::memory_item::{
    BoundNamespace, Hit, ItemFacts, ItemKey, ItemPlace, ItemPut, ItemSearch, ItemValue, MemoryItem,
    Namespace,
};
use crate::domain::tool::{
    Builtin, BuiltinTool, EffectClass, OutcomeKind, ToolCallError, ToolDefinition,
};

/// The most items that one search tells a model of, and how many it tells of by default.
const MOST_FOUND: u32 = 20;
const FOUND: u32 = 10;

/// Keeps items. Who does belongs to another layer, which hands this down.
pub trait Items: Send + Sync + std::fmt::Debug {
    /// Puts a value for a call, once however often the call is made.
    ///
    /// # Errors
    /// When nobody can say that it was put.
    fn put<'a>(
        &'a self,
        tenant: &'a TenantId,
        put: &'a ItemPut,
        call: &'a CallId,
    ) -> BoxFuture<'a, Result<ItemFacts, ItemsUnreached>>;

    /// An item.
    ///
    /// # Errors
    /// When it cannot be read.
    fn get<'a>(
        &'a self,
        tenant: &'a TenantId,
        place: &'a ItemPlace,
    ) -> BoxFuture<'a, Result<Option<MemoryItem>, ItemsUnreached>>;

    /// The first items that are found.
    ///
    /// # Errors
    /// When they cannot be read.
    fn search<'a>(
        &'a self,
        tenant: &'a TenantId,
        search: &'a ItemSearch,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<Hit>, ItemsUnreached>>;
}

/// Items cannot be reached at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("what is remembered cannot be reached at the moment")]
pub struct ItemsUnreached;

/// Nothing that keeps items.
#[derive(Debug, Clone, Copy)]
pub struct NoItems;

impl Items for NoItems {
    fn put<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a ItemPut,
        _: &'a CallId,
    ) -> BoxFuture<'a, Result<ItemFacts, ItemsUnreached>> {
        Box::pin(std::future::ready(Err(ItemsUnreached)))
    }

    fn get<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a ItemPlace,
    ) -> BoxFuture<'a, Result<Option<MemoryItem>, ItemsUnreached>> {
        Box::pin(std::future::ready(Err(ItemsUnreached)))
    }

    fn search<'a>(
        &'a self,
        _: &'a TenantId,
        _: &'a ItemSearch,
        _: u32,
    ) -> BoxFuture<'a, Result<Vec<Hit>, ItemsUnreached>> {
        Box::pin(std::future::ready(Err(ItemsUnreached)))
    }
}

/// What the model is told about a tool that remembers; `None` for another.
pub(super) fn definition(name: Builtin) -> Option<ToolDefinition> {
    let key = json!({"type": "string", "minLength": 1, "maxLength": ITEM_KEY_CHARS,
                     "description": "The name that it is kept under."});
    let (description, properties, required) = match name {
        Builtin::FinalAnswer => return None,
        Builtin::MemoryPut => (
            "Keeps a value beyond this conversation. What was kept under the key before is replaced.",
            json!({"key": key, "value": {"description": "What is kept: any JSON, 64 KiB at most."}}),
            json!(["key", "value"]),
        ),
        Builtin::MemoryGet => {
            ("Returns what is kept under a key.", json!({"key": key}), json!(["key"]))
        }
        Builtin::MemorySearch => (
            "Finds what is kept by the words in it and in its key; all of it, in the order of the keys, where \
             no words are given.",
            json!({
                "query": {"type": "string", "maxLength": ITEM_QUERY_CHARS,
                          "description": "Words that all have to be in it; \"in quotes\" for those in a row, \
                                          or for one or the other, - for without."},
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND,
                          "description": "How many at most; 10 where it is not said."},
            }),
            json!([]),
        ),
    };
    Some(ToolDefinition {
        name: name.label().to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": required,
                           "additionalProperties": false}),
    })
}

/// A tool that remembers, ready to be called.
#[derive(Debug, Clone)]
pub(super) struct MemoryCall {
    name: Builtin,
    namespace: BoundNamespace,
    ttl: Option<Duration>,
}

/// What a call asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum MemoryAsk {
    /// That a value is kept.
    Put(ItemKey, Box<ItemValue>),
    /// What is kept.
    Get(ItemKey),
    /// What is found, and how much of it.
    Search(Option<String>, u32),
}

impl MemoryCall {
    /// The tool; `None` for one that does not remember.
    pub(super) fn of(tool: &BuiltinTool) -> Option<Self> {
        let namespace = tool.namespace.clone().filter(|_| tool.name.remembers())?;
        Some(Self { name: tool.name, namespace, ttl: tool.ttl_s.map(Duration::from_secs) })
    }

    /// Whether a call may be made again.
    pub(super) const fn effect(&self) -> EffectClass {
        match self.name {
            Builtin::MemoryPut => EffectClass::Idempotent,
            Builtin::FinalAnswer | Builtin::MemoryGet | Builtin::MemorySearch => EffectClass::Pure,
        }
    }

    /// What arguments ask for that fit the tool's parameters, or what is wrong with them in words that the
    /// model can use.
    pub(super) fn read(&self, arguments: &Arguments) -> Result<MemoryAsk, String> {
        let given = |name: &str| arguments.get(name).map(AsRef::as_ref).filter(|it| !is_null(it));
        if self.name == Builtin::MemorySearch {
            let query = given("query").map(plain_text).filter(|query| !query.trim().is_empty());
            if query.as_ref().is_some_and(|query| query.contains('\0')) {
                return Err("/query: U+0000 cannot be looked for".to_owned());
            }
            let limit = given("limit").and_then(|limit| limit.get().parse().ok()).unwrap_or(FOUND);
            return Ok(MemoryAsk::Search(query, limit));
        }
        let key = given("key").map(plain_text).unwrap_or_default();
        let key = ItemKey::try_from(key).map_err(|error| format!("/key: {error}"))?;
        if self.name == Builtin::MemoryGet {
            return Ok(MemoryAsk::Get(key));
        }
        let value = arguments.get("value").map_or("null", |value| value.get());
        let value = ItemValue::of(value)
            .map_err(|unfit| format!("/value{}: {}", unfit.pointer, unfit.message))?;
        Ok(MemoryAsk::Put(key, Box::new(value)))
    }

    /// Does what a call asks for.
    pub(super) async fn run(
        &self,
        items: &dyn Items,
        call: &CallRequest,
        ask: MemoryAsk,
    ) -> Result<Output, ToolCallError> {
        let namespace = self.namespace.of(&call.labels);
        let namespace = namespace.map_err(|error| failure("NamespaceUnavailable", &error))?;
        let tenant = &call.tenant;
        let said = match ask {
            MemoryAsk::Put(key, value) => {
                let place = ItemPlace { namespace, key };
                let put = ItemPut { place, value: *value, ttl: self.ttl, embedding: None };
                let facts = items.put(tenant, &put, &call.call_id).await;
                facts.map(|facts| told(&Kept { key: put.place.key, version: facts.version }))
            }
            MemoryAsk::Get(key) => {
                let found = items.get(tenant, &ItemPlace { namespace, key }).await;
                found.map(|item| {
                    told(&Got { found: item.is_some(), item: item.as_ref().and_then(Told::of) })
                })
            }
            MemoryAsk::Search(query, limit) => {
                let found = items.search(tenant, &search(namespace, query), limit).await;
                found.map(|hits| {
                    let items = hits.iter().filter_map(|hit| Told::of(&hit.item)).collect();
                    told(&Found { items })
                })
            }
        };
        said.map_err(|error| failure("MemoryUnavailable", &error))
    }
}

fn search(namespace: Namespace, query: Option<String>) -> ItemSearch {
    ItemSearch { prefix: namespace.into(), only_here: true, query, ..ItemSearch::default() }
}

/// What a model is told of a value that is kept.
#[derive(Serialize)]
struct Kept {
    key: ItemKey,
    version: i32,
}

/// What a model is told that asked for a key.
#[derive(Serialize)]
struct Got<'a> {
    found: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<Told<'a>>,
}

/// What a model is told that looked for something.
#[derive(Serialize)]
struct Found<'a> {
    items: Vec<Told<'a>>,
}

/// What a model is told of an item.
#[derive(Serialize)]
struct Told<'a> {
    key: &'a str,
    /// As it was spelt.
    value: &'a RawValue,
    version: i32,
    updated_at: String,
}

impl<'a> Told<'a> {
    fn of(item: &'a MemoryItem) -> Option<Self> {
        Some(Self {
            key: item.place.key.as_str(),
            // What was stored is JSON.
            value: serde_json::from_str(item.value.as_str()).ok()?,
            version: item.facts.version,
            updated_at: item.facts.updated_at.to_rfc3339_opts(SecondsFormat::Secs, true),
        })
    }
}

fn told(what: &impl Serialize) -> Output {
    let text = serde_json::to_string(what).unwrap_or_default();
    Output::json(&text).unwrap_or_else(|| Output::text(&text))
}

fn failure(type_name: &'static str, error: &impl std::fmt::Display) -> ToolCallError {
    ToolCallError { kind: OutcomeKind::Execution, type_name, message: error.to_string() }
}
