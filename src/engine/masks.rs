//! What comes of the calls of a run, without any secret that the run knows: also where another tool, a caller
//! or a sub-run says it than the one that it was sent to.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::Context;
use crate::domain::agent::AgentSpec;
use crate::domain::id::{RunId, TenantId};
use crate::domain::skill::Skill;
use crate::domain::tool::ToolSpec;
use crate::domain::wait::{CallAnswer, GivenAnswer};
use crate::store::journal::LoadedRun;
use crate::store::{StoreError, secret_uses};
use crate::tools::mask::Mask;

/// How long a look for secrets waits before it is tried again.
const READ_PAUSE: Duration = Duration::from_millis(250);

/// The masks of a run, one a turn: a secret that is replaced counts from the next turn on.
#[derive(Debug, Clone)]
pub(super) struct Masks {
    tenant: TenantId,
    run: RunId,
    /// Whether the run knows any secret.
    is_needed: bool,
    turn: u32,
    mask: Arc<OnceCell<Mask>>,
}

impl Masks {
    pub(super) fn of(tenant: &TenantId, loaded: &LoadedRun) -> Self {
        Self {
            tenant: tenant.clone(),
            run: loaded.run.id,
            is_needed: names_any(&loaded.agent, &loaded.skills),
            turn: 0,
            mask: Arc::default(),
        }
    }

    /// The same for a turn.
    pub(super) fn at(&mut self, turn: u32) -> Self {
        if self.turn != turn {
            (self.turn, self.mask) = (turn, Arc::default());
        }
        self.clone()
    }

    /// The mask of the turn, made once. Nothing is told before it is.
    pub(super) async fn get(&self, context: &Context) -> Mask {
        if !self.is_needed {
            return Mask::NONE;
        }
        self.mask.get_or_init(|| self.make(context)).await.clone()
    }

    async fn make(&self, context: &Context) -> Mask {
        loop {
            match of_run(context, &self.tenant, self.run).await {
                Ok(mask) => return mask,
                Err(error) => {
                    tracing::warn!(run = %self.run, %error, "what came of a call waits for the secrets");
                }
            }
            tokio::time::sleep(READ_PAUSE).await;
        }
    }

    /// Takes secrets out of what a probe found, if it found anything.
    pub(super) async fn answer(
        &self,
        context: &Context,
        answer: Option<CallAnswer>,
    ) -> Option<CallAnswer> {
        let mut answer = answer?;
        self.get(context).await.answer(&mut answer);
        Some(answer)
    }

    /// Takes secrets out of the answers to calls that wait.
    pub(super) async fn answers(&self, context: &Context, answers: &mut [GivenAnswer]) {
        if answers.iter().any(|given| says_something(&given.answer)) {
            let mask = self.get(context).await;
            for given in answers {
                mask.answer(&mut given.answer);
            }
        }
    }
}

/// What takes out the secrets that a run knows as they stand. One that cannot be opened is sent nowhere
/// either.
pub(super) async fn of_run(
    context: &Context,
    tenant: &TenantId,
    run: RunId,
) -> Result<Mask, StoreError> {
    let stored = secret_uses::of_run(context.store(), tenant, run).await?;
    let secrets = &context.parts.secrets;
    let open = |secret| Some((secret, secrets.opened(tenant, secret).ok()?));
    let opened: Vec<_> = stored.iter().filter_map(open).collect();
    Ok(Mask::of(opened.iter().map(|(secret, value)| (&secret.facts.name, value))))
}

/// Whether an answer has words in which a secret could be.
pub(super) const fn says_something(answer: &CallAnswer) -> bool {
    match answer {
        CallAnswer::Succeeded { output } => output.is_some(),
        CallAnswer::Failed { .. } => true,
        CallAnswer::Denied { message } => message.is_some(),
        CallAnswer::Approved { .. } | CallAnswer::Retry => false,
    }
}

/// Whether an agent with its skills may name a secret. What its MCP servers are sent is not known here.
fn names_any(agent: &AgentSpec, skills: &[Skill]) -> bool {
    let of_skills = skills.iter().flat_map(|skill| &skill.spec.tools);
    let is_sent_one = |tool: &ToolSpec| match tool {
        ToolSpec::Http(tool) => tool.headers.values().any(|source| source.secret().is_some()),
        ToolSpec::Mcp(_) => true,
        ToolSpec::Agent(_) | ToolSpec::Client(_) | ToolSpec::Builtin(_) => false,
    };
    let models = std::iter::once(&agent.model).chain(&agent.model.fallbacks);
    models.into_iter().any(|model| model.api_key.is_some())
        || agent.tools.iter().chain(of_skills).any(is_sent_one)
}
