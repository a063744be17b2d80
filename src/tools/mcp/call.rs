//! One call of a tool of an MCP server.

use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject};
use serde_json::{Value, json};

use super::loss::Loss;
use super::pool::{McpClients, Reach, Unfound};
use super::{content, pool::ServersUnread};
use crate::domain::mcp::PinnedTool;
use crate::domain::tool::{EffectClass, OutcomeKind, ToolCallError};
use crate::egress::Clients;
use crate::tools::CallRequest;
use crate::tools::mask::Mask;
use crate::tools::response::Output;
use crate::tools::secrets::Vault;

/// How often a call is sent that may be repeated, or that nothing was done about.
const SENDS: u32 = 2;

/// A tool of a server, ready to be called.
#[derive(Debug, Clone)]
pub(in crate::tools) struct McpCall {
    server: String,
    remote: String,
    name: String,
    pub(in crate::tools) effect: EffectClass,
    timeout: Duration,
}

/// What came of a call, and what takes the secrets out of it that were sent.
pub(in crate::tools) type Came = (Result<Output, ToolCallError>, Mask);

impl McpCall {
    pub(in crate::tools) fn of(tool: &PinnedTool, agent_timeout_ms: u64) -> Self {
        Self {
            server: tool.server.clone(),
            remote: tool.remote.clone(),
            name: tool.name.clone(),
            effect: tool.rules.effect(),
            timeout: Duration::from_millis(tool.rules.timeout_ms.unwrap_or(agent_timeout_ms)),
        }
    }

    /// Calls the tool. The time bound covers everything, whatever a server sends meanwhile.
    pub(in crate::tools) async fn send(
        &self,
        servers: &McpClients,
        (clients, vault): (&Clients, Vault<'_>),
        (call, arguments): (&CallRequest, &str),
    ) -> Came {
        let deadline = tokio::time::Instant::now() + self.timeout;
        let found = servers.find((vault, &self.server));
        let reach = match tokio::time::timeout_at(deadline, found).await {
            Ok(Ok(reach)) => reach,
            Ok(Err(unfound)) => return (Err(self.unfound(unfound)), Mask::NONE),
            Err(_) => return (Err(self.timed_out()), Mask::NONE),
        };
        let exchange = self.exchange((servers, clients), &reach, (call, arguments));
        let result = tokio::time::timeout_at(deadline, exchange).await;
        (result.unwrap_or_else(|_| Err(self.timed_out())), reach.mask)
    }

    async fn exchange(
        &self,
        (servers, clients): (&McpClients, &Clients),
        reach: &Reach<'_>,
        (call, arguments): (&CallRequest, &str),
    ) -> Result<Output, ToolCallError> {
        let arguments: JsonObject = serde_json::from_str(arguments).map_err(|_| {
            failure(OutcomeKind::Execution, "InvalidTool", "the arguments are not sendable".into())
        })?;
        let may_repeat = self.effect != EffectClass::AtMostOnce;
        let mut n_sent = 0;
        loop {
            n_sent += 1;
            let sent = self.once((servers, clients), reach, (call, &arguments)).await;
            match sent {
                Ok(result) => return content::read(&self.name, &result, &reach.mask),
                Err(loss) if n_sent < SENDS && may_send_again(&loss, may_repeat) => {}
                Err(loss) => return Err(loss.into_error(may_repeat)),
            }
        }
    }

    async fn once(
        &self,
        (servers, clients): (&McpClients, &Clients),
        reach: &Reach<'_>,
        (call, arguments): (&CallRequest, &JsonObject),
    ) -> Result<CallToolResult, Loss> {
        let (session, _) = servers.patient_session(clients, reach).await?;
        let came = session.call(&self.remote, arguments.clone(), meta(call)).await;
        if matches!(came, Err(Loss::NotSent(_) | Loss::Lost)) {
            servers.forget(reach.key, &session).await;
        }
        came
    }

    fn timed_out(&self) -> ToolCallError {
        let bound = self.timeout.as_secs_f64();
        let message = format!("tool '{}' exceeded its {bound}s timeout", self.name);
        failure(OutcomeKind::Timeout, "Timeout", message)
    }

    fn unfound(&self, unfound: Unfound) -> ToolCallError {
        match unfound {
            Unfound::Missing => {
                let message =
                    format!("the MCP server '{}' is not registered any more", self.server);
                failure(OutcomeKind::Execution, "McpServerGone", message)
            }
            Unfound::Unread => {
                failure(OutcomeKind::Execution, "McpServerGone", ServersUnread.to_string())
            }
            Unfound::Secret(error) => error,
        }
    }
}

/// What was not sent may be sent, and what was sent only where its class says so.
const fn may_send_again(loss: &Loss, may_repeat: bool) -> bool {
    loss.is_unsent() || (may_repeat && matches!(loss, Loss::Lost))
}

/// By what a server can tell a call that is repeated, and a worker that is stale.
fn meta(call: &CallRequest) -> JsonObject {
    let members: [(&str, Value); 2] = [
        ("agentling/idempotency-key", json!(call.call_id.as_str())),
        ("agentling/fence", json!(call.epoch)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

const fn failure(kind: OutcomeKind, type_name: &'static str, message: String) -> ToolCallError {
    ToolCallError { kind, type_name, message }
}
