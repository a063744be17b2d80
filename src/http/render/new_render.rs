//! What is to be rendered.

use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::domain::agent::AgentSpec;
use crate::domain::caller::{Caller, Scope};
use crate::domain::id::ThreadId;
use crate::domain::thread::{Announce, FramingPolicy};
use crate::engine::{DryRun, GivenHistory, Manner};
use crate::error::AgentlingError;
use crate::http::extract::Checks;
use crate::http::problem::Problem;
use crate::http::runs::new_run::{RunInput, check_agent, check_input, which_agent};
use crate::http::threads::memory::{self, LoadableMemory};

/// Renders for a stored agent by `agent_id`, or for an agent that is defined right here.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRender {
    /// An agent's id or unique name.
    #[serde(default)]
    #[schema(examples("weather"))]
    agent_id: Option<String>,
    /// The version of that agent; by default the newest.
    #[serde(default)]
    #[schema(minimum = 1)]
    agent_version: Option<i32>,
    /// An agent defined by the request; exactly one of this and `agent_id` is given.
    #[serde(default)]
    agent: Option<AgentSpec>,
    /// The thread whose memory is told; not together with `memory`.
    #[serde(default)]
    thread_id: Option<ThreadId>,
    /// A memory document that is told, in any form that can be loaded.
    #[serde(default)]
    #[schema(value_type = Option<LoadableMemory>)]
    memory: Option<Box<RawValue>>,
    /// What a run would be started with.
    #[serde(default)]
    input: Option<RunInput>,
    /// Renders the closing turn: the agent's tools are left out, and the model is told so.
    #[serde(default)]
    closing: bool,
    /// The family of models that reads it, for example `openai`, without what the agent overrides. By
    /// default the agent's own, as overridden.
    #[serde(default)]
    profile: Option<String>,
    /// How the history is framed; by default as the thread or the memory document says, else the agent.
    #[serde(default)]
    framing_policy: Option<FramingPolicy>,
    /// Whether system blocks are explained to models that have no entry of their own for them; by default
    /// as the thread says, else the agent.
    #[serde(default)]
    announce: Option<Announce>,
    /// Renders it in another way too, and compares.
    #[serde(default)]
    compare: Option<OtherManner>,
}

/// Another way to render; what is not named is as it is in the request.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OtherManner {
    /// The family of models that reads it.
    #[serde(default)]
    profile: Option<String>,
    /// How the history is framed.
    #[serde(default)]
    framing_policy: Option<FramingPolicy>,
    /// Whether system blocks are explained.
    #[serde(default)]
    announce: Option<Announce>,
}

impl From<OtherManner> for Manner {
    fn from(OtherManner { profile, framing_policy, announce }: OtherManner) -> Self {
        Self { profile, framing_policy, announce }
    }
}

impl NewRender {
    /// Checks everything that can be known without looking anything up.
    pub(super) fn dry_run(self, caller: &Caller) -> Result<DryRun, Problem> {
        if self.agent_id.is_some() && !caller.may(Scope::AgentsRead) {
            return Err(AgentlingError::Forbidden { required: Scope::AgentsRead }.into());
        }
        let mut checks = Checks::new();
        check_agent(&mut checks, self.agent_id.as_ref(), self.agent_version, self.agent.as_ref());
        let input = self.input.map(RunInput::parts);
        if let Some(input) = &input {
            check_input(&mut checks, "/input", input);
        }
        let one = self.thread_id.is_none() || self.memory.is_none();
        let message = "at most one of `thread_id` and `memory` may be given";
        checks.require(one, "/memory", "invalid_value", message);
        checks.finish()?;
        let manner = OtherManner {
            profile: self.profile,
            framing_policy: self.framing_policy,
            announce: self.announce,
        };
        Ok(DryRun {
            agent: which_agent(self.agent_id, self.agent_version, self.agent),
            history: history(caller, self.thread_id, self.memory.as_deref())?,
            input: input.unwrap_or_default(),
            closing: self.closing,
            manner: manner.into(),
            compare: self.compare.map(Manner::from),
        })
    }
}

fn history(
    caller: &Caller,
    thread: Option<ThreadId>,
    document: Option<&RawValue>,
) -> Result<GivenHistory, Problem> {
    Ok(match (thread, document) {
        (Some(thread), _) => GivenHistory::Thread(thread),
        (None, Some(document)) => {
            let memory = memory::load(caller, document.get(), "/memory")?;
            GivenHistory::Memory(Box::new(memory))
        }
        (None, None) => GivenHistory::Empty,
    })
}
