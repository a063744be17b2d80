//! From an agent and a history to the call that asks its model: one way for runs, for dry runs, and
//! for a request that is rendered again.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::redaction::logged;
use crate::domain::agent::AgentSpec;
use crate::domain::request::BodyHash;
use crate::domain::step::StepContent;
use crate::domain::thread::Framing;
use crate::provider::ModelCall;
use crate::render::observation::OutputLimits;
use crate::render::profile::Profile;
use crate::render::redact::Redactor;
use crate::render::{FramingRules, RenderInput, render};
use crate::tools::{ToolSet, Toolbox};

/// Everything that a prompt is made from besides the history.
#[derive(Debug, Clone)]
pub(super) struct Prompter {
    /// Who asks.
    pub(super) agent: Arc<AgentSpec>,
    /// What its model may call.
    pub(super) tools: Arc<ToolSet>,
    /// What its model can do.
    pub(super) profile: Profile,
    /// How the thread frames what others wrote.
    pub(super) framing: FramingRules,
    /// What is kept from the model.
    pub(super) redactor: Arc<Redactor>,
    limits: OutputLimits,
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

impl Prompter {
    pub(super) fn new(
        toolbox: &Toolbox,
        agent: &AgentSpec,
        framing: &Framing,
        redactor: &Arc<Redactor>,
    ) -> Self {
        Self {
            tools: Arc::new(toolbox.toolset(agent).logging(logged(redactor))),
            redactor: Arc::clone(redactor),
            profile: Profile::resolve(&agent.model),
            framing: FramingRules::from(framing),
            limits: OutputLimits::from(agent),
            agent: Arc::new(agent.clone()),
        }
    }

    /// The call of an attempt at a turn, which may take this long.
    pub(super) fn call(
        &self,
        told: Told<'_>,
        (turn, attempt): (u32, u32),
        timeout: Duration,
    ) -> ModelCall {
        let input = RenderInput {
            model: &self.agent.model,
            instructions: self.agent.instructions.as_deref(),
            steps: told.steps,
            first_seq: told.first_seq,
            tools: self.tools.definitions(),
            closing: told.closing,
            output_schema: self.agent.output_schema.as_ref(),
            framing: &self.framing,
            limits: &self.limits,
            redactor: &self.redactor,
        };
        ModelCall {
            spec: self.agent.model.clone(),
            prompt: render(&input, &self.profile),
            profile: self.profile,
            turn,
            attempt,
            timeout,
        }
    }

    /// The call as it would be made now, without making it.
    pub(super) fn dry_call(&self, told: Told<'_>) -> ModelCall {
        self.call(told, (1, 1), Duration::ZERO)
    }
}

/// The hash of a request body.
pub(super) fn body_hash(body: &[u8]) -> BodyHash {
    BodyHash(Sha256::digest(body).into())
}
