//! `POST /v1/render`.

mod new_render;
mod turns;
mod view;

use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::AppState;
use super::auth::{MemoryRead, Scoped};
use super::extract::LargeBody;
use super::problem::Problem;
use super::reply::Reply;

use new_render::NewRender;
use view::RenderView;

/// The endpoints.
pub(super) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(routes!(render))
}

/// Render a prompt without asking a model
///
/// The exact request that the model of an agent would be sent for a thread, for a memory document or for
/// nothing but the input; no model is called and nothing is written: a repeated request
/// makes it once more. Of a run under way, the steps that
/// are complete are told. What the rules of redaction keep from callers (channel `api`) is left out as well,
/// and where they keep it from callers alone, a run's request has other bytes. Of a conversation that does not fit the model, a run would send a shorter form
/// where the agent's `context_strategy` has one; here it is whole. MCP servers that the agent uses are asked
/// for their tools now, as a run that begins now would; one that cannot be asked is left out. A stored agent takes the scope
/// `agents:read` as well, and a document that speaks in the system voice `memory:system`.
#[utoipa::path(post, path = "/v1/render", tag = "prompts", operation_id = "prompts_render",
    request_body = NewRender,
    responses((status = 200, description = "What the model would be sent", body = RenderView)),
    extensions(("x-problems" = json!(["not-found", "unknown-agent", "gone", "memory-load-error",
        "memory-version-unsupported", "tool-name-conflict", "invalid-tool-schema",
        "schema-too-complex", "remote-ref-forbidden", "egress-denied", "invalid-header-name"]))))]
async fn render(
    State(app): State<AppState>,
    caller: Scoped<MemoryRead>,
    LargeBody(new): LargeBody<NewRender>,
) -> Result<Reply<RenderView>, Problem> {
    let dry_run = new.dry_run(&caller)?;
    let (rendered, comparison) = app.engine.render(&caller.tenant, dry_run).await?;
    Ok(Reply::ok(RenderView::of(rendered, comparison)))
}
