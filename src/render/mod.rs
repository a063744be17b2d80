//! History and profile → provider-neutral prompt. Pure: no clock, no IO, no mutation of history.
//!
//! Text reaches a model in one of three voices: **system** (the operator and agentling), **user** (the
//! person), **data** (tools, other models, what is quoted back). Text that someone else wrote never
//! enters the system voice; where it stands outside a channel of its own, a frame marks it.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod announce;
pub mod context;
pub mod fit;
pub mod framing;
pub mod lower;
pub mod observation;
pub mod profile;
pub mod prompt;
pub mod repair;
pub mod retry;

#[cfg(test)]
mod tests;

use framing::Tags;
use lower::{Lowered, Lowering, lower};
use observation::OutputLimits;
use profile::Profile;
use prompt::Prompt;

use crate::domain::model::ModelSpec;
use crate::domain::step::StepContent;
use crate::domain::tool::ToolDefinition;

/// What a prompt is made from.
#[derive(Debug, Clone, Copy)]
pub struct RenderInput<'a> {
    /// Who is asked.
    pub model: &'a ModelSpec,
    /// Standing instructions.
    pub instructions: Option<&'a str>,
    /// The history, oldest first.
    pub steps: &'a [StepContent],
    /// The tools of the agent, in declared order.
    pub tools: &'a [ToolDefinition],
    /// Whether it is the closing turn, which has no tools.
    pub closing: bool,
    /// The framing tags of the thread.
    pub tags: &'a Tags,
    /// How much of an output is shown.
    pub limits: &'a OutputLimits,
}

/// The prompt of the next turn. Equal inputs give equal prompts, and the turns of a longer history
/// begin with those of a shorter one.
pub fn render(input: &RenderInput<'_>, profile: &Profile) -> Prompt {
    let lowering = Lowering {
        provider: input.model.provider,
        profile,
        tags: input.tags,
        limits: input.limits,
    };
    let Lowered { standing, turns } = lower(input.steps, lowering);
    Prompt {
        model: input.model.name.clone(),
        system: system_text(input.instructions, standing),
        turns,
        tools: if input.closing { Vec::new() } else { input.tools.to_vec() },
        settings: input.model.settings.clone(),
    }
}

/// The standing instructions: those of the agent, and the context that the conversation began with.
fn system_text(instructions: Option<&str>, context: Vec<String>) -> Option<String> {
    let instructions = instructions.and_then(repair::non_blank).map(str::to_owned);
    let pieces: Vec<String> = instructions.into_iter().chain(context).collect();
    (!pieces.is_empty()).then(|| pieces.join("\n\n"))
}
