//! Tools: runs what a model asks for and always yields an outcome.
//!
//! A call is read against the agent's declarations, sent through the egress guard, and whatever comes
//! of it is told as a [`ToolOutcome`]: no `Result` leaves this layer, so nothing that a tool does can
//! fail a run. Dropping the future cancels the call.

mod address;
mod arguments;
mod builtin;
mod declared;
mod egress;
mod http;
mod outcome;
mod post;
mod probe;
mod response;
mod schema;
mod shape;
mod spec;
mod template;
mod toolset;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use egress::{EgressDenied, EgressPolicy, EgressRule, InvalidAllowEntry};
pub use post::Post;
pub use spec::{SpecFinding, SpecProblem, check_spec};
pub use toolset::ToolSet;

use crate::clock::SharedClock;
use crate::domain::agent::AgentSpec;
use crate::domain::id::CallId;
use crate::domain::tool::{OutcomeKind, ToolCallError, ToolOutcome};
use crate::domain::wait::CallAnswer;
use crate::domain::webhook::Attempted;
use egress::Clients;
use schema::SchemaCache;
use toolset::Reading;

/// The toolbox cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ToolboxError {
    /// The HTTP client has no TLS roots or no resolver.
    #[error("the HTTP client for tools cannot be made")]
    Client(#[source] reqwest::Error),
}

/// What runs tools: one a process.
#[derive(Debug)]
pub struct Toolbox {
    clients: Clients,
    schemas: SchemaCache,
    clock: SharedClock,
}

/// A call to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest {
    /// The call; the tool sees it as its idempotency key.
    pub call_id: CallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model sent them.
    pub arguments: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The epoch of the lease, by which a tool can tell a stale worker.
    pub epoch: i64,
}

impl Toolbox {
    /// Makes the clients that every call goes through.
    pub fn new(egress: EgressPolicy, clock: SharedClock) -> Result<Self, ToolboxError> {
        let clients = Clients::new(Arc::new(egress)).map_err(ToolboxError::Client)?;
        Ok(Self { clients, schemas: SchemaCache::default(), clock })
    }

    /// Everything that is wrong with the tools and schemas of an agent.
    pub fn check(&self, spec: &AgentSpec) -> Vec<SpecFinding> {
        check_spec(spec, self.clients.policy())
    }

    /// Whether a URL that callers named may be called.
    ///
    /// # Errors
    /// With the rule that it breaks.
    pub fn check_url(&self, url: &str) -> Result<(), EgressDenied> {
        post::parsed(url).and_then(|url| self.clients.policy().check(&url))
    }

    /// Tells an endpoint something: one attempt.
    pub async fn post(&self, post: Post) -> Attempted {
        post::send(&self.clients, post).await
    }

    /// Compiles the tools of an agent, once for a run.
    pub fn toolset(&self, spec: &AgentSpec) -> ToolSet {
        ToolSet::compile(spec, &self.schemas)
    }

    /// Asks what became of a call whose answer was lost; `None` when that is not known.
    pub async fn probe(&self, tools: &ToolSet, call: &CallRequest) -> Option<CallAnswer> {
        let read = tools.read(&call.name, &call.arguments);
        let Reading::Send { call: tool, arguments, .. } = read else { return None };
        tool.probe.as_ref()?.ask(tool, &self.clients, (call, &arguments)).await
    }

    /// Runs a call to its end.
    pub async fn call(&self, tools: &ToolSet, call: &CallRequest) -> ToolOutcome {
        let started_at = self.clock.now();
        let result = match tools.read(&call.name, &call.arguments) {
            Reading::Send { call: tool, arguments, .. } => {
                tool.send(&self.clients, call, &arguments).await
            }
            Reading::Answer(output) => Ok(output),
            // The machine lets such a call wait; it comes here only if that is broken.
            Reading::Wait { .. } => Err(elsewhere()),
            Reading::Refused { error, .. } => Err(error),
        };
        let mut outcome = outcome::settled(call.call_id.clone(), &call.name, result);
        if tools.redact_errors {
            outcome::redact(&mut outcome, &tools.log);
        }
        outcome.attempts = call.attempt;
        outcome.started_at = Some(started_at);
        outcome.finished_at = Some(self.clock.now());
        outcome
    }
}

fn elsewhere() -> ToolCallError {
    let message = "the tool is not run by the server".to_owned();
    ToolCallError { kind: OutcomeKind::Execution, type_name: "InvalidTool", message }
}
