//! A tool tried out by itself: one call, made as a run would make it, with nothing written.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::agents::check_tool;
use super::{Engine, equip};
use crate::domain::agent::{AgentSpec, Metadata};
use crate::domain::id::{CallId, TenantId};
use crate::domain::redaction::RedactionChannel;
use crate::domain::tool::{ToolOutcome, ToolSpec};
use crate::error::AgentlingError;
use crate::tools::{CallRequest, Extra, ToolSet};

/// The epoch that tools see of calls that belong to no run: older than that of any.
const NO_LEASE: i64 = 0;

/// What is to be tried out.
#[derive(Debug)]
pub struct ToolTest {
    /// The tool.
    pub tool: ToolSpec,
    /// What it is called with.
    pub arguments: Map<String, Value>,
    /// The caller's key: the tool sees requests that share it as one call.
    pub key: Option<String>,
}

/// Calls a tool once. The outcome is what a caller would be shown of it in a run.
///
/// # Errors
/// When the tool is not one that the server calls, could not be declared so, or the call failed.
pub async fn test_tool(
    engine: &Engine,
    tenant: &TenantId,
    test: ToolTest,
) -> Result<ToolOutcome, AgentlingError> {
    if !matches!(test.tool, ToolSpec::Http(_) | ToolSpec::Mcp(_)) {
        let message = "only tools that the server calls elsewhere can be tried out";
        return Err(AgentlingError::invalid("/tool/kind", "not_applicable", message));
    }
    let toolbox = &engine.context.parts.toolbox;
    let spec = agent_of(test.tool)?;
    check_tool(toolbox, &spec, "/tool")?;
    let (name, tools) = Box::pin(tried(engine, tenant, &spec)).await?;
    let call = CallRequest {
        call_id: call_id(engine, tenant, test.key.as_deref()),
        tenant: tenant.clone(),
        name,
        arguments: Value::Object(test.arguments).to_string(),
        attempt: 1,
        epoch: NO_LEASE,
        labels: Metadata::new(),
    };
    let mut outcome = Box::pin(toolbox.call(&tools, &call)).await;
    engine.redaction().of_server().outcome(RedactionChannel::Api, &mut outcome);
    if outcome.is_error { Err(AgentlingError::ToolCall(Box::new(outcome))) } else { Ok(outcome) }
}

/// The tool of an agent that has one, by its name. Of an MCP server it is the one that the declaration takes
/// in, as the server lists it now.
async fn tried(
    engine: &Engine,
    tenant: &TenantId,
    spec: &AgentSpec,
) -> Result<(String, ToolSet), AgentlingError> {
    let toolbox = &engine.context.parts.toolbox;
    if let Some(name) = spec.tools.first().and_then(ToolSpec::tool_name) {
        return Ok((name.to_owned(), toolbox.toolset(spec)));
    }
    let pins = equip::offered(&engine.context, tenant, (spec, &[])).await;
    if let Some(missing) = pins.missing.first() {
        let why = format!("the server cannot be asked for its tools: {}", missing.reason);
        return Err(AgentlingError::McpUnavailable(why));
    }
    let [tool] = pins.tools.as_slice() else {
        let message = "must name one tool, which the server has";
        return Err(AgentlingError::invalid("/tool/tools", "invalid_value", message));
    };
    Ok((tool.name.clone(), toolbox.toolset_with(spec, &Extra::of_pins(&pins))))
}

/// The id under which the tool sees the call. It says nothing about the caller's key, and another
/// tenant's key of the same text gives another.
fn call_id(engine: &Engine, tenant: &TenantId, key: Option<&str>) -> CallId {
    let Some(key) = key else {
        return CallId(format!("test_{}", engine.context.parts.ids.random().simple()));
    };
    let hash = Sha256::new().chain_update(tenant.as_str()).chain_update([0]).chain_update(key);
    CallId(format!("test_{}", URL_SAFE_NO_PAD.encode(hash.finalize())))
}

/// An agent that has the tool and would never be asked.
fn agent_of(tool: ToolSpec) -> Result<AgentSpec, AgentlingError> {
    let model = json!({"provider": "scripted", "name": "none"});
    let agent: Result<AgentSpec, _> =
        serde_json::from_value(json!({"name": "tool-test", "model": model}));
    let agent = agent.map_err(|error| AgentlingError::internal(error.to_string()))?;
    Ok(AgentSpec { tools: vec![tool], ..agent })
}
