//! Long-term memory: items that outlive threads.
#![expect(unused_qualifications, reason = "the expansion of utoipa::path qualifies query types")]

mod delete;
mod get;
mod namespaces;
mod new_search;
mod params;
mod put;
mod redact;
mod search;
mod versions;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use crate::domain::caller::Caller;
use crate::domain::memory_item::{ItemFacts, ItemPlace};
use crate::error::AgentlingError;
use crate::http::extract::IfMatch;
use crate::store::memory_items;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(get::get, put::put, delete::delete))
        .routes(routes!(versions::versions))
        .routes(routes!(redact::redact))
        .routes(routes!(search::search))
        .routes(routes!(namespaces::namespaces))
}

/// The state that a change may start from: the one seen here, when the caller named one. A caller who named
/// any finds that there is one.
async fn seen(
    app: &AppState,
    caller: &Caller,
    place: &ItemPlace,
    if_match: &IfMatch,
) -> Result<Option<ItemFacts>, AgentlingError> {
    if *if_match == IfMatch::Absent {
        return Ok(None);
    }
    let item = memory_items::get(&app.store, &caller.tenant, place).await?;
    let facts = item.ok_or(AgentlingError::PreconditionFailed)?.facts;
    if_match.check(&view::etag(&facts))?;
    Ok(matches!(if_match, IfMatch::Tags(_)).then_some(facts))
}
