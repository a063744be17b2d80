//! `POST /v1/tools/test`.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::domain::tool::{ToolOutcome, ToolSpec};
use crate::engine::{ToolTest, test_tool};
use crate::http::AppState;
use crate::http::auth::{Scoped, ToolsWrite};
use crate::http::extract::{Body, IdempotencyKey};
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// A tool to be tried out.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewToolTest {
    /// The tool, declared as an agent would: an `http` one, or an `mcp` one that takes in one tool by `tools`.
    tool: ToolSpec,
    /// What it is called with, as a model would.
    #[serde(default)]
    #[schema(value_type = Object)]
    arguments: Map<String, Value>,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ToolTestView {
    /// The outcome, as it would stand in a run.
    outcome: ToolOutcome,
}

/// Try a tool out
///
/// Calls a tool once, for real, with the checks and within the bounds of a run, and shows what came of it;
/// nothing is stored. A call that fails is the problem `tool-call-error`, whose `outcome` is what a run would
/// show a model. No approval is asked for: whoever sends this gives it. The tool sees requests with the same
/// `Idempotency-Key` as one call, by its own `Idempotency-Key`.
#[utoipa::path(post, path = "/v1/tools/test", tag = "tools", operation_id = "tools_test",
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes repeated requests one call to the tool; 1–255 visible ASCII characters")),
    request_body = NewToolTest,
    responses((status = 200, description = "What the tool gave back", body = ToolTestView)),
    extensions(("x-problems" = json!(["tool-call-error", "egress-denied", "invalid-tool-schema",
        "schema-too-complex", "remote-ref-forbidden", "invalid-header-name",
        "invalid-idempotency-key", "mcp-unavailable"]))))]
pub(super) async fn test(
    State(app): State<AppState>,
    caller: Scoped<ToolsWrite>,
    IdempotencyKey(key): IdempotencyKey,
    Body(new): Body<NewToolTest>,
) -> Result<Reply<ToolTestView>, Problem> {
    let test = ToolTest { tool: new.tool, arguments: new.arguments, key };
    let outcome = test_tool(&app.engine, &caller.tenant, test).await?;
    Ok(Reply::ok(ToolTestView { outcome }))
}
