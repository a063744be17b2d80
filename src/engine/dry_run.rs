//! What a model would be sent, without asking it. Nothing is written.

use std::sync::Arc;

use super::accept::{self, Chosen, WhichAgent};
use super::prompt::{Equipped, Prompter, Told, body_hash};
use super::redaction::{self, Redactor};
use super::replay::excerpt;
use super::{Context, equip};
use crate::domain::agent::AgentSpec;
use crate::domain::id::{TenantId, ThreadId};
use crate::domain::limits::STEP_LIMIT;
use crate::domain::memory::{Finding, Memory};
use crate::domain::model::Provider;
use crate::domain::redaction::RedactionChannel;
use crate::domain::request::{BodyHash, shared_prefix};
use crate::domain::step::{InputPart, Step, StepContent, SystemStep, TaskStep};
use crate::domain::thread::{Announce, Framing, FramingPolicy};
use crate::error::AgentlingError;
use crate::render::profile::Profile;
use crate::render::prompt::Prompt;
use crate::render::size;
use crate::store::{steps, threads};

/// What is to be rendered.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// Who asks.
    pub agent: WhichAgent,
    /// What was said before.
    pub history: GivenHistory,
    /// What a run would be started with; nothing when it is empty.
    pub input: Vec<InputPart>,
    /// Whether it is the closing turn, which has no tools and says so.
    pub closing: bool,
    /// How it is rendered.
    pub manner: Manner,
    /// Another manner to compare with.
    pub compare: Option<Manner>,
}

/// What was said before.
#[derive(Debug, Clone, PartialEq)]
pub enum GivenHistory {
    /// Nothing.
    Empty,
    /// What is committed of a thread.
    Thread(ThreadId),
    /// A memory document.
    Memory(Box<Memory>),
}

/// How a history is rendered, where that is not left to the agent and the thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manner {
    /// The family of models that reads it.
    pub profile: Option<String>,
    /// How it is framed.
    pub framing_policy: Option<FramingPolicy>,
    /// Whether its system blocks are explained.
    pub announce: Option<Announce>,
}

/// What a model would be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// Whose wire it is.
    pub provider: Provider,
    /// The family of models that reads it.
    pub profile: &'static str,
    /// How it is framed.
    pub framing_policy: FramingPolicy,
    /// Whether its system blocks are explained.
    pub announce: Announce,
    /// What is asked, before the provider's spelling.
    pub prompt: Prompt,
    /// The request body, byte for byte.
    pub body: String,
    /// Its hash.
    pub sha256: BodyHash,
    /// About how many tokens it is.
    pub tokens: u64,
}

/// What a model would be sent otherwise, and how much of it is the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What it would be sent.
    pub rendered: Rendered,
    /// How many leading bytes are equal.
    pub shared_bytes: usize,
    /// What follows them here and there; `None` when the bodies are the same.
    pub excerpts: Option<(String, String)>,
}

pub(super) async fn render(
    context: &Context,
    tenant: &TenantId,
    dry_run: DryRun,
) -> Result<(Rendered, Option<Comparison>), AgentlingError> {
    let DryRun { agent, history, input, closing, manner, compare } = dry_run;
    let compare = compare.map(|other| other.or(&manner));
    let profile = find_profiles(&manner, compare.as_ref())?;
    let Chosen { spec: agent, skills, .. } = accept::choose_agent(context, tenant, agent).await?;
    // What a run that began now would be given.
    let pins = Box::pin(equip::offered(context, tenant, (&agent, &skills))).await;
    let equipped = Equipped { agent: &agent, pins: Some(&pins), skills: &skills };
    let mut history = History::of(context, tenant, history).await?;
    history.go_on(input, closing);
    let framing = history.framing(context, &agent);
    let told = Told { steps: &history.steps, first_seq: history.first_seq, closing };
    let redactor = Arc::new(history.redactor(context, &agent));
    let render = |manner: &Manner, profile: Option<Profile>| {
        let framing = Framing {
            policy: manner.framing_policy.unwrap_or(framing.policy),
            announce: manner.announce.unwrap_or(framing.announce),
            tags: framing.tags.clone(),
        };
        let mut prompter = Prompter::new(&context.parts.toolbox, equipped, &framing, &redactor);
        prompter.profile = profile.unwrap_or(prompter.profile);
        Rendered::of(&prompter, told, &framing)
    };
    let rendered = render(&manner, profile.0)?;
    let other = compare.map(|compare| render(&compare, profile.1)).transpose()?;
    let comparison = other.map(|other| Comparison::of(other, &rendered));
    Ok((rendered, comparison))
}

/// The rows of the profiles that are named.
fn find_profiles(
    manner: &Manner,
    compare: Option<&Manner>,
) -> Result<(Option<Profile>, Option<Profile>), AgentlingError> {
    let find = |named: Option<&Manner>, pointer: &str| {
        let Some(family) = named.and_then(|manner| manner.profile.as_deref()) else {
            return Ok(None);
        };
        let unknown = || {
            let message = "no model family has this name";
            AgentlingError::Invalid(vec![Finding::new(pointer, "unknown_value", message)])
        };
        Profile::named(family).map(Some).ok_or_else(unknown)
    };
    Ok((find(Some(manner), "/profile")?, find(compare, "/compare/profile")?))
}

impl Manner {
    /// This one, and where it says nothing, the other.
    fn or(self, other: &Self) -> Self {
        Self {
            profile: self.profile.or_else(|| other.profile.clone()),
            framing_policy: self.framing_policy.or(other.framing_policy),
            announce: self.announce.or(other.announce),
        }
    }
}

/// What is told.
struct History {
    steps: Vec<StepContent>,
    first_seq: i64,
    /// The thread that it belongs to, and how it is framed there.
    thread: Option<(ThreadId, Framing)>,
    /// How it is framed by what its document says.
    framing_policy: Option<FramingPolicy>,
}

impl History {
    async fn of(
        context: &Context,
        tenant: &TenantId,
        given: GivenHistory,
    ) -> Result<Self, AgentlingError> {
        let alone = |steps, framing_policy| Self {
            steps,
            // In a document, steps are counted from its first one.
            first_seq: 1,
            thread: None,
            framing_policy,
        };
        match given {
            GivenHistory::Empty => Ok(alone(Vec::new(), None)),
            GivenHistory::Memory(memory) => Ok(alone(memory.steps, memory.framing_policy)),
            GivenHistory::Thread(id) => {
                let thread = threads::get(context.store(), tenant, id).await?;
                let thread = thread.ok_or(AgentlingError::NotFound { kind: "thread" })?;
                let first_seq = thread.memory_from;
                let steps = steps::memory(context.store(), tenant, id, first_seq).await?;
                let steps = shown(context, tenant, steps).await?;
                let thread = Some((id, thread.framing));
                Ok(Self { steps, first_seq, thread, framing_policy: None })
            }
        }
    }

    /// How it is framed: as its thread says, or as a thread that begins with it would be.
    fn framing(&self, context: &Context, agent: &AgentSpec) -> Framing {
        let of_thread = self.thread.as_ref().map(|(_, framing)| framing.clone());
        let policy = self.framing_policy.unwrap_or(agent.framing_policy);
        of_thread.unwrap_or_else(|| context.framing(policy, agent.announce))
    }

    /// What is kept from the model.
    fn redactor(&self, context: &Context, agent: &AgentSpec) -> Redactor {
        let (redaction, rules) = (&context.parts.redaction, &agent.redaction);
        match &self.thread {
            Some((id, _)) => redaction.of_thread(*id, rules),
            None => redaction.of_no_thread(rules),
        }
    }

    /// What a run would add before it asks.
    fn go_on(&mut self, input: Vec<InputPart>, closing: bool) {
        if !input.is_empty() {
            self.steps.push(StepContent::Task(TaskStep { parts: input }));
        }
        if closing {
            let text = STEP_LIMIT.to_owned();
            self.steps.push(StepContent::System(SystemStep { text }));
        }
    }
}

/// The steps as a caller may see them: whoever asks for the prompt reads them in it.
async fn shown(
    context: &Context,
    tenant: &TenantId,
    steps: Vec<Step>,
) -> Result<Vec<StepContent>, AgentlingError> {
    let places = steps.iter().map(|step| (step.thread_id, step.run_id)).collect();
    let redactors = redaction::redactors(context, tenant, RedactionChannel::Api, places).await?;
    Ok(steps.into_iter().map(|step| redactors.step(step).content).collect())
}

impl Rendered {
    fn of(prompter: &Prompter, told: Told<'_>, framing: &Framing) -> Result<Self, AgentlingError> {
        let call = prompter.dry_call(told);
        let body = String::from_utf8(call.request().into());
        let body = body.map_err(|error| AgentlingError::internal(error.to_string()))?;
        Ok(Self {
            provider: call.spec.provider,
            profile: call.profile.family,
            framing_policy: framing.policy,
            announce: framing.announce,
            sha256: body_hash(body.as_bytes()),
            tokens: size::of_prompt(&call.prompt),
            prompt: call.prompt,
            body,
        })
    }
}

impl Comparison {
    fn of(rendered: Rendered, with: &Rendered) -> Self {
        let (here, there) = (with.body.as_str(), rendered.body.as_str());
        let shared_bytes = shared_prefix(here.as_bytes(), there.as_bytes());
        let differs = here != there;
        let excerpts = differs.then(|| (excerpt(here, shared_bytes), excerpt(there, shared_bytes)));
        Self { rendered, shared_bytes, excerpts }
    }
}
