//! What a run is started with.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::agent::{AgentSpec, Metadata};
use crate::domain::budget::Budget;
use crate::domain::caller::{Caller, Scope};
use crate::domain::file::{FilePart, FileSource};
use crate::domain::id::{RunId, ThreadId, WebhookId};
use crate::domain::run::{OnBusy, OnDisconnect};
use crate::domain::step::{InputPart, InputText};
use crate::engine::webhooks::check_url;
use crate::engine::{Engine, StartRun, ThreadChoice, WhichAgent};
use crate::error::AgentlingError;
use crate::http::agents::spec;
use crate::http::extract::Checks;
use crate::store::agents::AgentRef;
use crate::store::idempotency::IdempotencyKey;

/// Starts a run: of a stored agent by `agent_id`, or of an agent that is defined right here.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRun {
    /// An agent's id or unique name.
    #[serde(default)]
    #[schema(examples("weather"))]
    agent_id: Option<String>,
    /// The version of that agent; by default the newest.
    #[serde(default)]
    #[schema(minimum = 1)]
    agent_version: Option<i32>,
    /// An agent defined by the request; exactly one of this and `agent_id` is given. One that names a secret
    /// or an MCP server, or remembers, needs scope `agents:write` as well.
    #[serde(default)]
    agent: Option<AgentSpec>,
    /// The thread to go on with; by default a new one.
    #[serde(default)]
    thread_id: Option<ThreadId>,
    /// What is asked: a text, or texts and files. A file counts towards `AGENTLING_BODY_LIMIT_BYTES`,
    /// which is 1 MiB by default.
    input: RunInput,
    /// Starts the thread's memory afresh for this run and those after it.
    #[serde(default)]
    reset: bool,
    /// Model turns before the run is asked for its best answer; by default the agent's.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000)]
    max_steps: Option<u32>,
    /// Bound of the run in milliseconds; by default the agent's.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 86_400_000)]
    run_timeout_ms: Option<u64>,
    /// What is done when the thread has an active run; only with `thread_id`.
    #[serde(default)]
    on_busy: OnBusy,
    /// What becomes of the run when the client that waits for it with `Prefer: wait`, or streams it with
    /// the request that starts it, goes away.
    #[serde(default)]
    on_disconnect: OnDisconnect,
    /// What the run may use up; what is absent is bounded as its agent says.
    #[serde(default)]
    budget: Budget,
    /// The caller's own labels.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    /// An endpoint of `/v1/webhooks` that is told of it, beside those that are told of every run.
    #[serde(default)]
    webhook: Option<WebhookId>,
    /// The run's id, when the caller chooses it: a repeated request then cannot start a second run.
    #[serde(default)]
    id: Option<RunId>,
}

/// A text, or typed parts.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(examples(
    "What is the weather in Brest?",
    json!([
        {"part_kind": "text", "text": "What does this say?"},
        {"part_kind": "file", "id": "invoice.pdf", "media_type": "application/pdf",
         "source": {"source_kind": "base64", "base64": "JVBERi0xLjcK"}},
        {"part_kind": "file", "id": "stamp.png", "media_type": "image/png",
         "source": {"source_kind": "url", "url": "https://files.example/stamp.png"}},
        {"part_kind": "file", "id": "notes.txt", "media_type": "text/plain",
         "source": {"source_kind": "text", "text": "Paid on the 3rd."}}
    ])
))]
pub(in crate::http) enum RunInput {
    /// A text.
    Text(String),
    /// Typed parts, at least one.
    Parts(Vec<InputPart>),
}

impl RunInput {
    /// The parts, to look at.
    pub(in crate::http) fn shown(&self) -> Cow<'_, [InputPart]> {
        match self {
            Self::Text(text) => vec![InputPart::Text(InputText { text: text.clone() })].into(),
            Self::Parts(parts) => parts.into(),
        }
    }

    /// The parts.
    pub(in crate::http) fn parts(self) -> Vec<InputPart> {
        match self {
            Self::Text(text) => vec![InputPart::Text(InputText { text })],
            Self::Parts(parts) => parts,
        }
    }
}

impl NewRun {
    /// Checks everything that can be known without looking anything up.
    pub(super) fn start(
        self,
        engine: &Engine,
        caller: &Caller,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<StartRun, AgentlingError> {
        // A key that may only start runs is not to find new uses for a tenant's secrets.
        let required = Scope::AgentsWrite;
        let uses_what_is_kept = self.agent.as_ref().is_some_and(AgentSpec::uses_what_is_kept);
        if uses_what_is_kept && !caller.may(required) {
            return Err(AgentlingError::Forbidden { required });
        }
        check_addresses(engine, "/input", &self.input.shown())?;
        let mut checks = Checks::new();
        self.check(&mut checks);
        let input = self.input.parts();
        check_input(&mut checks, "/input", &input);
        checks.finish()?;
        Ok(StartRun {
            id: self.id,
            agent: which_agent(self.agent_id, self.agent_version, self.agent),
            thread: self
                .thread_id
                .map_or(ThreadChoice::New, |id| ThreadChoice::Existing { id, reset: self.reset }),
            input,
            max_steps: self.max_steps,
            run_timeout: self.run_timeout_ms.map(Duration::from_millis),
            on_busy: self.on_busy,
            on_disconnect: self.on_disconnect,
            budget: self.budget,
            key: caller.key,
            metadata: self.metadata,
            idempotency,
            webhook: self.webhook,
            firing: None,
        })
    }

    fn check(&self, checks: &mut Checks) {
        check_agent(checks, self.agent_id.as_ref(), self.agent_version, self.agent.as_ref());
        if let Some(max_steps) = self.max_steps {
            checks.range("/max_steps", max_steps.into(), 1..=1000);
        }
        if let Some(timeout) = self.run_timeout_ms {
            checks.range("/run_timeout_ms", timeout, 1..=86_400_000);
        }
        checks.metadata("/metadata", &self.metadata);
    }
}

/// Exactly one agent must be named, and one that is defined here must be sound.
pub(in crate::http) fn check_agent(
    checks: &mut Checks,
    id: Option<&String>,
    version: Option<i32>,
    inline: Option<&AgentSpec>,
) {
    let one = id.is_some() != inline.is_some();
    let message = "exactly one of `agent_id` and `agent` must be given";
    checks.require(one, "/agent_id", "invalid_value", message);
    let versioned = version.is_none_or(|version| version >= 1);
    checks.require(versioned, "/agent_version", "invalid_value", "must be at least 1");
    if let Some(agent) = inline {
        spec::check(agent, "/agent", checks);
    }
}

/// Input must say something.
pub(in crate::http) fn check_input(checks: &mut Checks, at: &str, input: &[InputPart]) {
    let mut says_something = false;
    for (place, part) in input.iter().enumerate() {
        match part {
            InputPart::Text(part) => says_something |= !part.text.trim().is_empty(),
            InputPart::File(file) => {
                says_something = true;
                if let Some(flaw) = file.flaw().or_else(|| file.misfit()) {
                    let at = format!("{at}/{place}{}", flaw.pointer);
                    checks.require(false, &at, "invalid_value", flaw.message);
                }
            }
        }
    }
    let message = "must hold a file, or text that is not blank";
    checks.require(says_something, at, "invalid_value", message);
}

/// Files may lie only where the server itself may go: whoever fetches them is asked to by it.
pub(in crate::http) fn check_addresses(
    engine: &Engine,
    at: &str,
    input: &[InputPart],
) -> Result<(), AgentlingError> {
    for (place, part) in input.iter().enumerate() {
        if let InputPart::File(FilePart { source: FileSource::Url(source), .. }) = part {
            check_url(engine, &source.url, &format!("{at}/{place}/source/url"))?;
        }
    }
    Ok(())
}

/// The agent that is named.
pub(in crate::http) fn which_agent(
    id: Option<String>,
    version: Option<i32>,
    inline: Option<AgentSpec>,
) -> WhichAgent {
    match (inline, id) {
        (Some(agent), _) => WhichAgent::Inline(Box::new(agent)),
        (None, id) => WhichAgent::Stored(AgentRef::of(&id.unwrap_or_default()), version),
    }
}
