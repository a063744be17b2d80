//! One call of a tool of an MCP server.

use std::time::Duration;

use rmcp::model::{CallToolResult, JsonObject};
use serde_json::{Value, json};

use super::pool::{McpClients, Reach, Unfound};
use super::{content, pool::ServersUnread};
use crate::domain::mcp::PinnedTool;
use crate::domain::tool::{EffectClass, OutcomeKind};
use crate::egress::Clients;
use crate::tools::loss::{Loss, failure};
use crate::tools::mask::Mask;
use crate::tools::response::Output;
use crate::tools::secrets::Vault;
use crate::tools::{CallRequest, Came, Voice};

/// How often a call is tried that may be repeated, or that nothing was done about.
const TRIES: u32 = 2;

/// How far a call has got.
#[derive(Debug, Clone, Copy, Default)]
struct Sends {
    /// How often it was sent.
    n_sent: u32,
    /// Whether it is being sent, or its answer waited for.
    is_under_way: bool,
}

/// A tool of a server, ready to be called.
#[derive(Debug, Clone)]
pub(in crate::tools) struct McpCall {
    server: String,
    remote: String,
    name: String,
    pub(in crate::tools) effect: EffectClass,
    timeout: Duration,
}

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
        let mut sends = Sends::default();
        let reach = match tokio::time::timeout_at(deadline, found).await {
            Ok(Ok(reach)) => reach,
            Ok(Err(unfound)) => return self.came(Err(self.unfound(unfound)), Mask::NONE, sends),
            Err(_) => return self.came(Err(self.late(sends)), Mask::NONE, sends),
        };
        let exchange = self.exchange((servers, clients), &reach, (call, arguments), &mut sends);
        let result = tokio::time::timeout_at(deadline, exchange).await;
        let result = result.unwrap_or_else(|_| Err(self.late(sends)));
        self.came(result, reach.mask, sends)
    }

    fn came(&self, result: Result<Output, Loss>, mask: Mask, sends: Sends) -> Came {
        let result = result.map_err(|loss| loss.into_error(self.effect));
        Came { result, mask, n_sent: sends.n_sent, voice: Voice::McpServer }
    }

    async fn exchange(
        &self,
        (servers, clients): (&McpClients, &Clients),
        reach: &Reach<'_>,
        (call, arguments): (&CallRequest, &str),
        sends: &mut Sends,
    ) -> Result<Output, Loss> {
        let arguments: JsonObject = serde_json::from_str(arguments).map_err(|_| {
            failure(OutcomeKind::Execution, "InvalidTool", "the arguments are not sendable")
        })?;
        let may_repeat = self.effect != EffectClass::AtMostOnce;
        let mut n_tries = 0;
        loop {
            n_tries += 1;
            let sent = self.once((servers, clients), reach, (call, &arguments), sends).await;
            match sent {
                Ok(result) => return content::read(&self.name, &result, &reach.mask),
                Err(loss) if n_tries < TRIES && may_send_again(&loss, may_repeat) => {}
                Err(loss) => return Err(loss),
            }
        }
    }

    async fn once(
        &self,
        (servers, clients): (&McpClients, &Clients),
        reach: &Reach<'_>,
        (call, arguments): (&CallRequest, &JsonObject),
        sends: &mut Sends,
    ) -> Result<CallToolResult, Loss> {
        let (session, _) = servers.patient_session(clients, reach).await?;
        sends.is_under_way = true;
        sends.n_sent += 1;
        let came = session.call(&self.remote, arguments.clone(), meta(call)).await;
        sends.is_under_way = false;
        let is_unsent = came.as_ref().is_err_and(Loss::is_unsent);
        sends.n_sent -= u32::from(is_unsent);
        let is_over = |loss: &Loss| {
            matches!(loss, Loss::NotSent(_) | Loss::NoSession | Loss::Lost | Loss::Nowhere)
        };
        if came.as_ref().is_err_and(is_over) {
            servers.forget(reach.key, &session).await;
        }
        came
    }

    /// The time of the call is over. What is under way may have been sent.
    fn late(&self, sends: Sends) -> Loss {
        let (tool, bound) = (self.name.clone(), self.timeout);
        if sends.is_under_way {
            Loss::Late { tool, bound }
        } else {
            Loss::TooLateToSend { tool, bound }
        }
    }

    fn unfound(&self, unfound: Unfound) -> Loss {
        let error = match unfound {
            Unfound::Missing => {
                let message =
                    format!("the MCP server '{}' is not registered any more", self.server);
                failure(OutcomeKind::Execution, "McpServerGone", message)
            }
            Unfound::Unread => {
                failure(OutcomeKind::Execution, "McpServerGone", ServersUnread.to_string())
            }
            Unfound::Secret(error) => error,
        };
        Loss::Unmade(error)
    }
}

/// What was not done may be sent again, and what may have been only where its class says so.
const fn may_send_again(loss: &Loss, may_repeat: bool) -> bool {
    loss.is_undone() || (may_repeat && matches!(loss, Loss::Lost | Loss::Nowhere))
}

/// By what a server can tell a call that is repeated, and a worker that is stale.
fn meta(call: &CallRequest) -> JsonObject {
    let members: [(&str, Value); 2] = [
        ("agentling/idempotency-key", json!(call.call_id.as_str())),
        ("agentling/fence", json!(call.epoch)),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
