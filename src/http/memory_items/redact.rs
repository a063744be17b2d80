//! `POST /v1/memory/items/versions/redact`.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::VersionView;
use crate::domain::memory_item::{ItemKey, ItemPlace, Namespace};
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::Body;
use crate::http::problem::Problem;
use crate::http::reply::Reply;
use crate::store::memory_items::{self, Redacted};

/// A version of an item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"namespace": ["users", "42"], "key": "address", "version": 3})))]
pub(super) struct MemoryVersionRef {
    /// The item's namespace.
    namespace: Namespace,
    /// Its key.
    key: ItemKey,
    /// The version.
    #[schema(minimum = 1)]
    version: i32,
}

/// Redact a version of an item
///
/// Its value is removed from where it is stored and from what is searched, for good; when that was and with
/// which key stays. Where it is the newest version, the item is not there until it is put again. A
/// repeated request is answered the same. What was told of the value in threads is theirs.
#[utoipa::path(post, path = "/v1/memory/items/versions/redact", tag = "memory",
    operation_id = "memory_items_redact",
    request_body = MemoryVersionRef,
    responses((status = 200, description = "What is left of the version", body = VersionView)),
    extensions(("x-problems" = json!(["not-found"]))))]
pub(super) async fn redact(
    State(app): State<AppState>,
    caller: Scoped<MemoryWrite>,
    Body(which): Body<MemoryVersionRef>,
) -> Result<Reply<VersionView>, Problem> {
    let MemoryVersionRef { namespace, key, version } = which;
    let place = ItemPlace { namespace, key };
    let by = caller.key.map(|key| key.to_string());
    let what = Redacted { version, by: by.as_deref() };
    let left = memory_items::redact(&app.store, &caller.tenant, &place, what).await?;
    let left = left.ok_or_else(Problem::not_found)?;
    Ok(Reply::ok(VersionView::of(left)?))
}
