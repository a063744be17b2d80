//! `PUT /v1/memory/items`.

use std::time::Duration;

use axum::extract::State;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::params::ItemParams;
use super::seen;
use super::view::{ItemView, etag};
use crate::domain::limits::{ITEM_EMBEDDING, ITEM_TTL_SECS};
use crate::domain::memory::Finding;
use crate::domain::memory_item::{ItemPlace, ItemPut, ItemValue, MemoryItem};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::{Body, Checks, IfMatch, Query};
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::memory_items;

/// The value of an item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"value": {"colour": "blue"}, "ttl_s": 86400})))]
pub(super) struct NewMemoryItem {
    /// Any JSON of at most 64 KiB without white space between its tokens, nested at most 32 levels deep.
    #[schema(value_type = Value)]
    value: Box<RawValue>,
    /// How many seconds it is kept, 1–315,360,000; for ever by default.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 315_360_000)]
    ttl_s: Option<u64>,
    /// What a model of yours made of it, 1–4,096 numbers, by which it can be found where vectors are compared.
    #[serde(default)]
    #[schema(min_items = 1, max_items = 4096)]
    embedding: Option<Vec<f32>>,
}

impl NewMemoryItem {
    fn checked(self, place: ItemPlace) -> Result<ItemPut, AgentlingError> {
        let mut checks = Checks::new();
        if let Some(ttl_s) = self.ttl_s {
            checks.range("/ttl_s", ttl_s, 1..=ITEM_TTL_SECS);
        }
        check_vector(&mut checks, "/embedding", self.embedding.as_deref());
        let value = ItemValue::of(self.value.get());
        if let Err(unfit) = &value {
            let pointer = format!("/value{}", unfit.pointer);
            checks.add(Finding::new(pointer, unfit.code, unfit.message.as_str()));
        }
        checks.finish()?;
        let value = value.map_err(|unfit| AgentlingError::internal(unfit.message))?;
        let ttl = self.ttl_s.map(Duration::from_secs);
        Ok(ItemPut { place, value, ttl, embedding: self.embedding })
    }
}

/// Notes what is wrong with a vector, if there is one.
pub(super) fn check_vector(checks: &mut Checks, pointer: &str, vector: Option<&[f32]>) {
    let Some(vector) = vector else { return };
    let message = "must have 1–4096 numbers";
    let fits = (1..=ITEM_EMBEDDING).contains(&vector.len());
    checks.require(fits, pointer, "out_of_range", message);
    if let Some(n) = vector.iter().position(|number| !number.is_finite()) {
        let message = "must fit a number of 32 bits";
        checks.add(Finding::new(format!("{pointer}/{n}"), "out_of_range", message));
    }
}

/// Put an item
///
/// Each value is a version behind the one before; those before stay, and stay listed. With `If-Match` it
/// takes the place of the version that was seen and of no other.
#[utoipa::path(put, path = "/v1/memory/items", tag = "memory", operation_id = "memory_items_put",
    params(ItemParams,
        ("If-Match" = Option<String>, Header, description = "The `ETag` of the item seen")),
    request_body = NewMemoryItem,
    responses((status = 200, description = "The item", body = ItemView)))]
pub(super) async fn put(
    State(app): State<AppState>,
    caller: Scoped<MemoryWrite>,
    Query(params): Query<ItemParams>,
    if_match: IfMatch,
    Body(new): Body<NewMemoryItem>,
) -> Result<Reply<ItemView>, Problem> {
    let (put, tenant) = (new.checked(params.into())?, &caller.tenant);
    let facts = match seen(&app, &caller, &put.place, &if_match).await? {
        None => memory_items::put(&app.store, tenant, &put).await,
        Some(seen) => memory_items::replace(&app.store, tenant, &put, &seen).await,
    };
    let facts = facts.map_err(|error| if_match.explain(error))?;
    let item = MemoryItem { place: put.place, value: put.value.text, facts };
    Ok(Reply::ok(ItemView::of(item)?).etag(etag(&facts)))
}
