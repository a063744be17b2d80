//! API keys of the caller's tenant.

mod create;
mod get;
mod list;
mod new_key;
mod revoke;
mod rotate;
mod view;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(create::create, list::list))
        .routes(routes!(get::get, revoke::revoke))
        .routes(routes!(rotate::rotate))
}
