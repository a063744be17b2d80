//! The MCP servers of tenants, as the tools layer asks for them.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use url::Url;

use super::{Context, Engine, secrets, webhooks};
use crate::domain::agent::AgentSpec;
use crate::domain::id::TenantId;
use crate::domain::mcp::{Listing, McpRules, McpServerSpec, McpUnavailable};
use crate::domain::memory::Finding;
use crate::domain::tool::ToolSpec;
use crate::error::AgentlingError;
use crate::store::{Store, mcp_servers};
use crate::tools::mcp::{McpSource, ServersUnread};
use crate::tools::rule_flaws;
use crate::tools::secrets::SecretUse;

/// Reads servers from the store, anew for every use.
#[derive(Debug, Clone)]
pub struct StoredServers(pub Store);

impl McpSource for StoredServers {
    fn find<'a>(
        &'a self,
        tenant: &'a TenantId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<McpServerSpec>, ServersUnread>> {
        async move {
            let found = mcp_servers::by_name(&self.0, tenant, name).await.map_err(|error| {
                tracing::warn!(%tenant, %error, source = ?error, "an MCP server cannot be read");
                ServersUnread
            })?;
            Ok(found.map(|server| server.spec))
        }
        .boxed()
    }
}

/// Whether what is said of a server, beyond its bounds, is such that it can be stored.
///
/// # Errors
/// With the place of what is wrong, or when the database does not answer.
pub async fn check(
    engine: &Engine,
    tenant: &TenantId,
    spec: &McpServerSpec,
) -> Result<(), AgentlingError> {
    check_spec(engine, spec)?;
    let Ok(url) = Url::parse(&spec.url) else { return Ok(()) };
    let named = spec.headers.iter().filter_map(|(name, source)| Some((name, source.secret()?)));
    let uses = named.map(|(header, secret)| SecretUse {
        pointer: format!("/headers/{}", escaped(header)),
        name: secret.secret.clone(),
        url: url.clone(),
    });
    secrets::check_uses(&engine.context, tenant, uses.collect(), "").await
}

fn check_spec(engine: &Engine, spec: &McpServerSpec) -> Result<(), AgentlingError> {
    let own = rule_findings(&spec.rules, "/rules");
    let single = spec
        .overrides
        .iter()
        .flat_map(|(tool, rules)| rule_findings(rules, &format!("/overrides/{}", escaped(tool))));
    let found: Vec<Finding> = own.into_iter().chain(single).collect();
    if !found.is_empty() {
        return Err(AgentlingError::Invalid(found));
    }
    let headers = engine.context.parts.toolbox.check_headers(spec);
    if let Some((name, message)) = headers.first() {
        let pointer = format!("/headers/{}", escaped(name));
        let place = Finding::new(pointer, "invalid_header_name", message.as_str());
        return Err(AgentlingError::InvalidHeaderName(place));
    }
    webhooks::check_url(engine, &spec.url, "/url")
}

fn rule_findings(rules: &McpRules, at: &str) -> Vec<Finding> {
    let flaws = rule_flaws(rules).into_iter();
    let finding =
        |(pointer, message)| Finding::new(format!("{at}{pointer}"), "invalid_value", message);
    flaws.map(finding).collect()
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Refuses an agent that names a server which is not there: neither registered nor a program of the
/// operator's. Whether it is there is judged again whenever a run begins. `at` is the pointer to the agent in
/// the caller's document.
pub(super) async fn check_named(
    context: &Context,
    tenant: &TenantId,
    (spec, at): (&AgentSpec, &str),
) -> Result<(), AgentlingError> {
    let mut findings = Vec::new();
    for (index, tool) in spec.tools.iter().enumerate() {
        let ToolSpec::Mcp(tool) = tool else { continue };
        let is_there = context.parts.toolbox.has_program(tenant, &tool.server)
            || mcp_servers::by_name(context.store(), tenant, &tool.server).await?.is_some();
        if !is_there {
            let message = "there is no MCP server of this name";
            let pointer = format!("{at}/tools/{index}/server");
            findings.push(Finding::new(pointer, "unknown_mcp_server", message));
        }
    }
    if findings.is_empty() { Ok(()) } else { Err(AgentlingError::Invalid(findings)) }
}

/// Connects to a server and asks for its tools.
///
/// # Errors
/// When it must not be called, or does not answer as such a server does.
pub async fn test(
    engine: &Engine,
    tenant: &TenantId,
    spec: &McpServerSpec,
) -> Result<Listing, AgentlingError> {
    let tested = engine.context.parts.toolbox.test_server(tenant, spec).await;
    tested.map_err(|error| match error {
        McpUnavailable::Denied(text) => {
            AgentlingError::EgressDenied(Finding::new("", "egress_denied", text))
        }
        error => AgentlingError::McpUnavailable(error.to_string()),
    })
}
