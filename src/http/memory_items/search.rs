//! `POST /v1/memory/search`.

use axum::extract::State;

use super::new_search::NewMemorySearch;
use super::view::HitView;
use crate::domain::memory::Finding;
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::Body;
use crate::http::problem::Problem;
use crate::http::reply::{PageView, Reply};
use crate::store::memory_items;

/// Search items
///
/// Without `query` and `vector` all items under the prefix that the filter lets through are listed, in the
/// order of their namespaces and keys. With `query` those whose words fit come, the best first, and with
/// `vector` those with an embedding of as many numbers, the nearest first. Vectors are compared where the
/// database has the extension `vector`. A repeated request searches again.
#[utoipa::path(post, path = "/v1/memory/search", tag = "memory", operation_id = "memory_search",
    request_body = NewMemorySearch,
    responses((status = 200, description = "A page of items", body = PageView<HitView>)),
    extensions(("x-problems" = json!(["invalid-cursor", "not-implemented"]))))]
pub(super) async fn search(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    Body(new): Body<NewMemorySearch>,
) -> Result<Reply<PageView<HitView>>, Problem> {
    let scope = CursorScope::new(&caller.tenant, "/v1/memory/search", &new.narrows());
    let request = app.cursors.page(&scope, new.limit, new.cursor.as_deref())?;
    let search = new.checked()?;
    if search.vector.is_some() && !memory_items::compares_vectors(&app.store).await? {
        return Err(no_vectors().into());
    }
    let page = memory_items::search(&app.store, &caller.tenant, &search, &request).await?;
    let page = page.try_map(HitView::of)?;
    Ok(Reply::ok(PageView::of(page, |key| app.cursors.seal(&scope, key))))
}

fn no_vectors() -> AgentlingError {
    let message = "the database of this server does not have the extension `vector`";
    AgentlingError::NotImplemented(Finding::new("/vector", "not_implemented", message))
}
