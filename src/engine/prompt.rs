//! From an agent and a history to the call that asks its model: one way for runs, for dry runs, and
//! for a request that is rendered again.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::redaction::logged;
use crate::domain::agent::AgentSpec;
use crate::domain::mcp::Pins;
use crate::domain::model::ModelSpec;
use crate::domain::request::BodyHash;
use crate::domain::skill::{Skill, SkillLine};
use crate::domain::step::StepContent;
use crate::domain::thread::Framing;
use crate::machine::state::State;
use crate::provider::ModelCall;
use crate::render::observation::OutputLimits;
use crate::render::profile::Profile;
use crate::render::redact::Redactor;
use crate::render::{FramingRules, RenderInput, render};
use crate::store::journal::LoadedRun;
use crate::tools::{Extra, ToolSet, Toolbox};

/// Everything that a prompt is made from besides the history.
#[derive(Debug, Clone)]
pub(super) struct Prompter {
    /// Who asks.
    pub(super) agent: Arc<AgentSpec>,
    /// What its model may call from the start.
    tools: Arc<ToolSet>,
    /// The skills that it is told of.
    skills: Arc<[SkillLine]>,
    /// What its model can do.
    pub(super) profile: Profile,
    /// How the thread frames what others wrote.
    pub(super) framing: FramingRules,
    /// What is kept from the model.
    pub(super) redactor: Arc<Redactor>,
    limits: OutputLimits,
}

/// An agent and all that it has in a run, beside what it declares itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Equipped<'a> {
    /// The agent.
    pub(super) agent: &'a AgentSpec,
    /// The tools of MCP servers that the run was given; `None` before it has any.
    pub(super) pins: Option<&'a Pins>,
    /// The skills at the versions that the run is pinned to.
    pub(super) skills: &'a [Skill],
}

impl<'a> Equipped<'a> {
    /// What a run has, whoever drives it and whenever.
    pub(super) fn of(loaded: &'a LoadedRun) -> Self {
        Self { agent: &loaded.agent, pins: loaded.pins.as_ref(), skills: &loaded.skills }
    }
}

/// What a prompt tells of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    /// The steps, oldest first.
    pub(super) steps: &'a [StepContent],
    /// `seq` of the first of them.
    pub(super) first_seq: i64,
    /// Whether it is told for the closing turn.
    pub(super) closing: bool,
}

/// Which attempt a model is asked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The turn.
    pub(super) turn: u32,
    /// The attempt at the turn.
    pub(super) attempt: u32,
    /// How often the model has been asked at the turn, this time included.
    pub(super) tries: u32,
    /// The place of the model among the fallbacks, from 1; 0 for the agent's first model.
    pub(super) fallback: u32,
}

impl Asked {
    /// What is due in a state.
    pub(super) const fn of(state: &State) -> Self {
        Self {
            turn: state.turn(),
            attempt: state.attempt(),
            tries: state.tries(),
            fallback: state.fallback(),
        }
    }
}

impl Prompter {
    pub(super) fn new(
        toolbox: &Toolbox,
        Equipped { agent, pins, skills }: Equipped<'_>,
        framing: &Framing,
        redactor: &Arc<Redactor>,
    ) -> Self {
        let extra = pins.map(Extra::of_pins).unwrap_or_default();
        let tools = toolbox.stock(toolbox.toolset_with(agent, &extra), agent, skills);
        let limits = OutputLimits::from(agent).with(extra.iter().filter_map(Extra::output_limit));
        Self {
            tools: Arc::new(tools.logging(logged(redactor))),
            skills: skills.iter().map(SkillLine::from).collect(),
            redactor: Arc::clone(redactor),
            profile: Profile::resolve(&agent.model),
            framing: FramingRules::from(framing),
            limits: limits.with_skills(skills),
            agent: Arc::new(agent.clone()),
        }
    }

    /// What the model may call from the start.
    pub(super) fn own_tools(&self) -> &ToolSet {
        &self.tools
    }

    /// What the model may call after a history.
    pub(super) fn tools(&self, steps: &[StepContent]) -> Arc<ToolSet> {
        self.tools.after(steps)
    }

    /// The call of an attempt at a turn, which may take this long.
    pub(super) fn call(&self, told: Told<'_>, asked: Asked, timeout: Duration) -> ModelCall {
        let (model, profile) = self.model(asked.fallback);
        let tools = self.tools(told.steps);
        let input = RenderInput {
            model,
            instructions: self.agent.instructions.as_deref(),
            skills: &self.skills,
            steps: told.steps,
            first_seq: told.first_seq,
            tools: tools.definitions(),
            closing: told.closing,
            output_schema: self.agent.output_schema.as_ref(),
            framing: &self.framing,
            limits: &self.limits,
            redactor: &self.redactor,
        };
        ModelCall {
            spec: model.clone(),
            prompt: render(&input, &profile),
            profile,
            turn: asked.turn,
            attempt: asked.attempt,
            tries: asked.tries,
            timeout,
        }
    }

    /// A model of the agent and what it can do: the first one, or a fallback by its place from 1.
    pub(super) fn model(&self, fallback: u32) -> (&ModelSpec, Profile) {
        let place = usize::try_from(fallback).ok().and_then(|place| place.checked_sub(1));
        place.and_then(|place| self.agent.model.fallbacks.get(place)).map_or_else(
            || (&self.agent.model, self.profile),
            |fallback| (fallback, Profile::resolve(fallback)),
        )
    }

    /// The call as it would be made now, without making it.
    pub(super) fn dry_call(&self, told: Told<'_>) -> ModelCall {
        self.call(told, Asked { turn: 1, attempt: 1, tries: 1, fallback: 0 }, Duration::ZERO)
    }
}

/// The hash of a request body.
pub(super) fn body_hash(body: &[u8]) -> BodyHash {
    BodyHash(Sha256::digest(body).into())
}
