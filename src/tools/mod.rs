//! Tools: runs what a model asks for and always yields an outcome.
//!
//! A call is read against the agent's declarations, sent through the egress guard, and whatever comes
//! of it is told as a [`ToolOutcome`]: no `Result` leaves this layer, so nothing that a tool does can
//! fail a run. Dropping the future cancels the call.

mod arguments;
mod asking;
mod body;
mod builtin;
mod declared;
mod entry;
mod extra;
mod headers;
mod http;
mod loss;
pub mod mask;
pub mod mcp;
pub mod memory;
mod outcome;
mod pattern;
mod post;
mod probe;
mod response;
mod schema;
pub mod secrets;
mod shape;
mod skills;
mod spec;
mod template;
mod toolset;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use extra::Extra;
pub use post::Post;
pub use spec::{MAX_TOOLS, SpecFinding, SpecProblem, check_spec, check_tools, rule_flaws};
pub use toolset::{ToolSet, UNKNOWN_KIND};

use crate::clock::SharedClock;
use crate::domain::agent::{AgentSpec, Metadata};
use crate::domain::id::{CallId, TenantId};
use crate::domain::mcp::{Listing, McpServerSpec, McpUnavailable};
use crate::domain::redaction::RedactionChannel;
use crate::domain::skill::Skill;
use crate::domain::tool::{OutcomeKind, ToolCallError, ToolOutcome, ToolSpec};
use crate::domain::wait::CallAnswer;
use crate::domain::webhook::Attempted;
use crate::egress::{Clients, EgressDenied, EgressPolicy, SetupError};
use crate::render::redact::Redactor;
use headers::Headers;
use mask::Mask;
use mcp::{McpClients, NoServers, Offer};
use memory::{Items, NoItems};
use schema::SchemaCache;
use secrets::{SecretSource, Vault};
use toolset::Reading;

/// The toolbox cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ToolboxError {
    /// The HTTP client has no TLS roots or no resolver.
    #[error("the HTTP client for tools cannot be made")]
    Client(#[source] SetupError),
}

/// What runs tools: one a process.
#[derive(Debug)]
pub struct Toolbox {
    clients: Clients,
    schemas: SchemaCache,
    clock: SharedClock,
    secrets: Arc<dyn SecretSource>,
    servers: McpClients,
    items: Arc<dyn Items>,
    scrubber: Redactor,
}

/// Where what leaves the toolbox is scrubbed: what a model reads goes everywhere else too.
const SCRUBBED: RedactionChannel = RedactionChannel::Model;

/// Whose words an outcome holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Voice {
    /// Our own, or those of the agent's skills.
    Server,
    /// Those of a tool that is called elsewhere.
    Tool,
    /// Those of an MCP server, which judges arguments too.
    McpServer,
}

/// A call to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest {
    /// For whom.
    pub tenant: TenantId,
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
    /// The labels of the run.
    pub labels: Metadata,
}

impl Toolbox {
    /// Makes the clients that every call goes through.
    pub fn new(
        egress: Arc<EgressPolicy>,
        clock: SharedClock,
        secrets: Arc<dyn SecretSource>,
    ) -> Result<Self, ToolboxError> {
        let clients = Clients::new(egress).map_err(ToolboxError::Client)?;
        let servers = McpClients::new(Arc::new(NoServers), Vec::new(), Arc::clone(&clock));
        let (schemas, items) = (SchemaCache::default(), Arc::new(NoItems));
        let scrubber = Redactor::of_shapes();
        Ok(Self { clients, schemas, clock, secrets, servers, items, scrubber })
    }

    /// The same with the MCP servers that there are.
    #[must_use]
    pub fn with_servers(self, servers: McpClients) -> Self {
        Self { servers, ..self }
    }

    /// The same with what keeps items of long-term memory.
    #[must_use]
    pub fn with_items(self, items: Arc<dyn Items>) -> Self {
        Self { items, ..self }
    }

    /// The same; what tools say is scrubbed by this.
    #[must_use]
    pub fn scrubbing(self, scrubber: Redactor) -> Self {
        Self { scrubber, ..self }
    }

    /// Takes out of what a caller or a tool answers to a call what must not be kept.
    pub fn scrub(&self, answer: &mut CallAnswer) {
        self.scrubber.answer(SCRUBBED, answer);
    }

    /// What the calls of a tenant reach.
    fn outside<'a>(&'a self, tenant: &'a TenantId) -> (&'a Clients, Vault<'a>) {
        (&self.clients, Vault { source: &self.secrets, tenant })
    }

    /// Asks the MCP servers that an agent uses for their tools, all at once.
    pub async fn offers(&self, tenant: &TenantId, spec: &AgentSpec) -> BTreeMap<String, Offer> {
        let (clients, vault) = self.outside(tenant);
        let asked = mcp_servers(spec)
            .into_iter()
            .map(async |name| (name.to_owned(), self.servers.list(clients, (vault, name)).await));
        futures::future::join_all(asked).await.into_iter().collect()
    }

    /// Connects to an MCP server and asks for its tools, as a run would.
    ///
    /// # Errors
    /// When it must not be called, or does not answer as such a server does.
    pub async fn test_server(
        &self,
        tenant: &TenantId,
        spec: &McpServerSpec,
    ) -> Result<Listing, McpUnavailable> {
        let (clients, vault) = self.outside(tenant);
        self.servers.test(clients, (vault, spec)).await
    }

    /// Whether an MCP server is a program of the operator's that is there for a tenant.
    pub fn has_program(&self, tenant: &TenantId, name: &str) -> bool {
        self.servers.program(tenant, name).is_some()
    }

    /// The headers of an MCP server that cannot be sent, with what is wrong with each.
    pub fn check_headers(&self, spec: &McpServerSpec) -> Vec<(String, String)> {
        Headers::compile(&spec.headers).err().unwrap_or_default()
    }

    /// Everything that is wrong with the tools and schemas of an agent.
    pub fn check(&self, spec: &AgentSpec) -> Vec<SpecFinding> {
        check_spec(spec, self.clients.policy())
    }

    /// Everything that is wrong with the tools of a skill.
    pub fn check_tools(&self, tools: &[ToolSpec]) -> Vec<SpecFinding> {
        check_tools(tools, self.clients.policy())
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

    /// Compiles the tools of an agent.
    pub fn toolset(&self, spec: &AgentSpec) -> ToolSet {
        self.toolset_with(spec, &[])
    }

    /// Compiles the tools of an agent and those that a run has beside them, once for a run.
    pub fn toolset_with(&self, spec: &AgentSpec, extra: &[Extra]) -> ToolSet {
        ToolSet::compile(spec, extra, &self.schemas)
    }

    /// Adds what loads the skills of an agent to its tools, and keeps the tools that they bring at hand.
    pub fn stock(&self, tools: ToolSet, spec: &AgentSpec, skills: &[Skill]) -> ToolSet {
        tools.with_skills(spec, skills, &self.schemas)
    }

    /// Asks what became of a call whose answer was lost; `None` when that is not known.
    pub async fn probe(&self, tools: &ToolSet, call: &CallRequest) -> Option<CallAnswer> {
        let read = tools.read(&call.name, &call.arguments);
        let Reading::Send { call: tool, arguments, .. } = read else { return None };
        let outside = self.outside(&call.tenant);
        let mut answer = tool.probe.as_ref()?.ask(tool, outside, (call, &arguments)).await?;
        self.scrub(&mut answer);
        Some(answer)
    }

    /// Runs a call to its end. What it was sent itself is taken out of what comes of it.
    pub async fn call(&self, tools: &ToolSet, call: &CallRequest) -> ToolOutcome {
        self.call_among(tools, call, std::future::ready(Mask::NONE)).await
    }

    /// The same for one call of many: what others are sent is taken out as well, by a mask that is made
    /// while the call is under way.
    pub async fn call_among(
        &self,
        tools: &ToolSet,
        call: &CallRequest,
        others: impl Future<Output = Mask>,
    ) -> ToolOutcome {
        let started_at = self.clock.now();
        let (came, others) = futures::join!(self.came(tools, call), others);
        let Came { result, mask, n_sent, voice } = came;
        let mut outcome = outcome::settled(call.call_id.clone(), &call.name, result);
        mask.outcome(&mut outcome);
        others.outcome(&mut outcome);
        if voice != Voice::Server {
            self.scrubber.outcome(SCRUBBED, &mut outcome);
        }
        if tools.withholds_errors(&call.name) {
            outcome::redact(&mut outcome, voice == Voice::McpServer, &tools.log);
        }
        outcome.attempts = call.attempt.saturating_add(n_sent.saturating_sub(1));
        outcome.started_at = Some(started_at);
        outcome.finished_at = Some(self.clock.now());
        outcome
    }

    async fn came(&self, tools: &ToolSet, call: &CallRequest) -> Came {
        let mut voice = Voice::Server;
        let result = match tools.read(&call.name, &call.arguments) {
            Reading::Send { call: tool, arguments, .. } => {
                voice = Voice::Tool;
                tool.send(self.outside(&call.tenant), call, &arguments).await
            }
            Reading::Answer(output) => Ok(*output),
            Reading::Loads(loaded) => Ok(loaded.output),
            Reading::Mcp { call: tool, arguments, .. } => {
                let outside = self.outside(&call.tenant);
                return Box::pin(tool.send(&self.servers, outside, (call, arguments))).await;
            }
            Reading::Memory { call: tool, ask, .. } => {
                Box::pin(tool.run(self.items.as_ref(), call, *ask)).await
            }
            // The machine lets such a call wait; it comes here only if that is broken.
            Reading::Wait { .. } => Err(elsewhere()),
            Reading::Refused { error, .. } => Err(error),
        };
        Came { result, mask: Mask::NONE, n_sent: 1, voice }
    }
}

/// What came of a call.
struct Came {
    result: Result<response::Output, ToolCallError>,
    /// What takes the secrets out of it that were sent.
    mask: Mask,
    /// How often it was sent.
    n_sent: u32,
    /// Whose words the result holds.
    voice: Voice,
}

/// The MCP servers that an agent uses, each once.
fn mcp_servers(spec: &AgentSpec) -> BTreeSet<&str> {
    let mut servers = BTreeSet::new();
    for tool in &spec.tools {
        if let ToolSpec::Mcp(tool) = tool {
            servers.insert(tool.server.as_str());
        }
    }
    servers
}

fn elsewhere() -> ToolCallError {
    let message = "the tool is not run by the server".to_owned();
    ToolCallError { kind: OutcomeKind::Execution, type_name: "InvalidTool", message }
}
