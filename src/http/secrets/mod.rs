//! Secrets: what is sent to tools and models, and never told.

mod delete;
mod get;
mod list;
mod put;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(list::list)).routes(routes!(
        get::get,
        put::put,
        delete::delete
    ))
}
