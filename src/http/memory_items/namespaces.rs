//! `GET /v1/memory/namespaces`.

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::params::joined;
use super::view::NamespaceView;
use crate::domain::limits::NAMESPACE_PARTS;
use crate::domain::memory::Finding;
use crate::domain::memory_item::Prefix;
use crate::http::AppState;
use crate::http::auth::{MemoryRead, Scoped};
use crate::http::cursor::CursorScope;
use crate::http::extract::Query;
use crate::http::problem::{Problem, ProblemKind};
use crate::http::reply::{PageView, Reply};
use crate::store::memory_items;

/// Which namespaces.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct NamespaceParams {
    /// What they begin with: parts with a slash between them; by default every namespace counts.
    #[serde(default, deserialize_with = "joined")]
    #[param(value_type = String, example = "users")]
    prefix: Prefix,
    /// To how many parts they are cut, 1–8; 8 by default, which is whole.
    #[serde(default)]
    #[param(minimum = 1, maximum = 8)]
    depth: Option<u32>,
    /// How many entries at most, 1–200; 20 by default.
    #[serde(default)]
    limit: Option<u32>,
    /// Where to go on: the `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

impl NamespaceParams {
    fn depth(&self) -> Result<u32, Problem> {
        let most = u32::try_from(NAMESPACE_PARTS).unwrap_or(u32::MAX);
        let depth = self.depth.unwrap_or(most);
        if (1..=most).contains(&depth) {
            return Ok(depth);
        }
        let finding = Finding::new("depth", "out_of_range", format!("must be from 1 to {most}"));
        Err(Problem::with_errors(ProblemKind::InvalidParameter, vec![finding]))
    }
}

/// List namespaces
///
/// In order, each with how many items are under it.
#[utoipa::path(get, path = "/v1/memory/namespaces", tag = "memory",
    operation_id = "memory_namespaces",
    params(NamespaceParams),
    responses((status = 200, description = "A page of namespaces", body = PageView<NamespaceView>)))]
pub(super) async fn namespaces(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    Query(params): Query<NamespaceParams>,
) -> Result<Reply<PageView<NamespaceView>>, Problem> {
    let depth = params.depth()?;
    let of = (&params.prefix, depth);
    let scope = CursorScope::new(&caller.tenant, "/v1/memory/namespaces", &of);
    let request = app.cursors.page(&scope, params.limit, params.cursor.as_deref())?;
    let page = memory_items::namespaces(&app.store, &caller.tenant, of, &request).await?;
    let page = page.map(NamespaceView::from);
    Ok(Reply::ok(PageView::of(page, |key| app.cursors.seal(&scope, key))))
}
