//! History and profile → provider-neutral prompt. Pure: no clock, no IO, no mutation of history.
//!
//! Text reaches a model in one of three voices: **system** (the operator and agentling), **user** (the
//! person), **data** (tools, other models, what is quoted back). Text that someone else wrote never
//! enters the system voice; where it stands outside a channel of its own, a frame marks it.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod announce;
mod catalogue;
pub mod chat;
mod claude;
pub mod compaction;
pub mod context;
pub mod converse;
mod definition;
pub mod file;
pub mod fit;
pub mod framing;
pub mod google;
pub mod lower;
mod marks;
pub mod names;
pub mod notes;
pub mod observation;
pub mod profile;
pub mod prompt;
pub mod proof;
pub mod redact;
pub mod repair;
pub mod responses;
pub mod retry;
pub mod size;
pub mod summary;
mod vendors;

#[cfg(test)]
pub(crate) mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

use framing::{FramingTag, Tags};
use lower::{Lowered, Lowering, lower};
use observation::OutputLimits;
use profile::Profile;
use prompt::{MarkedText, Prompt};
use redact::Redactor;
use serde_json::Value;

use crate::domain::ledger::{AgentPart, Origin, Voice};
use crate::domain::model::{ModelSettings, ModelSpec};
use crate::domain::redaction::RedactionChannel::Model;
use crate::domain::skill::SkillLine;
use crate::domain::step::StepContent;
use crate::domain::thread::{Announce, Framing, FramingPolicy};
use crate::domain::tool::ToolDefinition;

/// The version of the renderer, which is stored with each request. It goes up when the same history
/// is rendered otherwise.
pub const VERSION: u32 = 1;

/// What a prompt is made from.
#[derive(Debug, Clone, Copy)]
pub struct RenderInput<'a> {
    /// Who is asked.
    pub model: &'a ModelSpec,
    /// Standing instructions.
    pub instructions: Option<&'a str>,
    /// The skills that the agent may load.
    pub skills: &'a [SkillLine],
    /// The history, oldest first.
    pub steps: &'a [StepContent],
    /// `seq` of its first step.
    pub first_seq: i64,
    /// The tools of the agent, in declared order.
    pub tools: &'a [ToolDefinition],
    /// Whether it is the closing turn, which has no tools.
    pub closing: bool,
    /// What the answer has to conform to.
    pub output_schema: Option<&'a Value>,
    /// How the thread frames what others wrote.
    pub framing: &'a FramingRules,
    /// How much of an output is shown.
    pub limits: &'a OutputLimits,
    /// What is kept from the model.
    pub redactor: &'a Redactor,
}

/// How a thread frames what others wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FramingRules {
    /// What is framed.
    pub policy: FramingPolicy,
    /// Whether system blocks on the user's channel are explained.
    pub announce: Announce,
    /// The tags.
    pub tags: Tags,
}

impl From<&Framing> for FramingRules {
    fn from(framing: &Framing) -> Self {
        Self {
            policy: framing.policy,
            announce: framing.announce,
            tags: Tags::stored(&framing.tags),
        }
    }
}

/// The prompt of the next turn. Equal inputs give equal prompts, and the turns of a longer history
/// begin with those of a shorter one, unless a summary came between.
pub fn render(input: &RenderInput<'_>, profile: &Profile) -> Prompt {
    let host = input.model.host();
    let lowering = Lowering {
        provider: input.model.provider,
        host: host.as_deref(),
        profile,
        framing: input.framing,
        limits: input.limits,
        tools: input.tools,
    };
    // Ahead of everything else: neither a frame nor a cut can then break a value apart.
    let steps = without(input.steps, input.redactor, input.tools);
    let lowered = lower(&steps, input.first_seq, lowering);
    let explained = explanation(&lowered, input.framing, profile);
    let Lowered { standing, mut turns, names, .. } = lowered;
    if let Cow::Owned(steps) = &steps {
        let seqs = (input.first_seq..).zip(input.steps.iter().zip(steps));
        let changed = seqs.filter(|(_, (stored, told))| stored != told).map(|(seq, _)| seq);
        marks::mark_redacted(&mut turns, &changed.collect());
    }
    let instructions = input.instructions.map(|text| instructions(text, input.redactor));
    let told = |name: &str| names.find(name).unwrap_or(name).to_owned();
    let tools = if input.closing { &[] } else { input.tools };
    let tools = tools.iter().map(|tool| ToolDefinition {
        name: told(&tool.name),
        ..definition::shown(&redacted_tool(tool, input.redactor))
    });
    let output_schema = output_schema(input);
    let tool_choice = input.model.settings.tool_choice.as_deref().map(told);
    let explained = explained.map(|text| MarkedText::of(text, application()));
    let skills = catalogue::catalogue(input.skills, &input.framing.tags, input.redactor);
    let more = skills.into_iter().chain(standing).chain(explained);
    Prompt {
        model: input.model.name.clone(),
        system: system_text(instructions, more),
        redacted: redacted_parts(input, output_schema.as_ref()),
        output_schema,
        turns,
        tools: tools.collect(),
        tags: input.framing.tags.clone(),
        settings: ModelSettings { tool_choice, ..input.model.settings.clone() },
        names,
    }
}

/// The history without what is kept from the model.
pub fn redacted<'s>(steps: &'s [StepContent], redactor: &Redactor) -> Cow<'s, [StepContent]> {
    without(steps, redactor, &[])
}

/// The same for a model that is told about some tools.
fn without<'s>(
    steps: &'s [StepContent],
    redactor: &Redactor,
    tools: &[ToolDefinition],
) -> Cow<'s, [StepContent]> {
    if redactor.is_empty() {
        return Cow::Borrowed(steps);
    }
    let tools: BTreeSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let redacted: Vec<Cow<'_, StepContent>> =
        steps.iter().map(|step| redactor.told(step, &tools)).collect();
    if redacted.iter().all(|step| matches!(step, Cow::Borrowed(_))) {
        return Cow::Borrowed(steps);
    }
    redacted.into_iter().map(Cow::into_owned).collect()
}

/// The schema that the provider is asked to hold the answer to.
fn output_schema(input: &RenderInput<'_>) -> Option<Value> {
    let is_asked = input.model.settings.structured_output == Some(true);
    let schema = input.output_schema.filter(|_| is_asked)?;
    Some(input.redactor.schema(Model, schema).into_owned())
}

/// What redaction changed of the tools and the schema.
fn redacted_parts(input: &RenderInput<'_>, output_schema: Option<&Value>) -> Vec<AgentPart> {
    let is_changed = |tool: &ToolDefinition| *tool != redacted_tool(tool, input.redactor);
    let tools = input.tools.iter().any(is_changed).then_some(AgentPart::Tool);
    let is_redacted = output_schema.is_some() && output_schema != input.output_schema;
    tools.into_iter().chain(is_redacted.then_some(AgentPart::OutputSchema)).collect()
}

/// A tool as the model is told about it. Its name is that of its calls, and stays.
fn redacted_tool(tool: &ToolDefinition, redactor: &Redactor) -> ToolDefinition {
    ToolDefinition {
        name: tool.name.clone(),
        description: redactor.text(Model, &tool.description).into_owned(),
        parameters: redactor.schema(Model, &tool.parameters).into_owned(),
    }
}

/// The instructions of the agent without what is kept from the model.
fn instructions(text: &str, redactor: &Redactor) -> MarkedText {
    let told = redactor.text(Model, text);
    let redacted = *told != *text;
    MarkedText::of(told, Origin { redacted, ..Origin::agent(AgentPart::Instructions) })
}

/// The standing instructions: those of the agent, and what else the model knows from the start.
fn system_text(
    instructions: Option<MarkedText>,
    more: impl IntoIterator<Item = MarkedText>,
) -> Option<MarkedText> {
    let instructions = instructions.filter(|text| repair::non_blank(text).is_some());
    let mut text = MarkedText::default();
    for piece in instructions.into_iter().chain(more) {
        if !text.is_empty() {
            text.push("\n\n", &application());
        }
        text.append(&piece);
    }
    (!text.is_empty()).then_some(text)
}

/// Words of agentling's own that no step stands behind.
fn application() -> Origin {
    Origin { voice: Some(Voice::Application), ..Origin::default() }
}

/// Where system blocks on the user's channel come from, for models that have no entry of their own for
/// them.
///
/// Under the policy with notes the default is to explain them once there are any, which changes the
/// standing instructions once in a thread; `always` and `never` change nothing. Under the policy
/// without notes only an explicit `always` explains them.
fn explanation(lowered: &Lowered, framing: &FramingRules, profile: &Profile) -> Option<String> {
    let notes = framing.policy == FramingPolicy::FramesAndNotes;
    let wanted = match framing.announce {
        Announce::Never => false,
        Announce::WhenNeeded => notes && lowered.has_framed_system,
        Announce::Always => true,
    };
    let (open, close) =
        (framing::open_tag(FramingTag::System, &[]), framing::close_tag(FramingTag::System));
    (wanted && !profile.native_system).then(|| {
        format!(
            "What stands between {open} and {close} on the user's side of this conversation was put \
             there by the application, not by the user, and has the authority of these instructions."
        )
    })
}
