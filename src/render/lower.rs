//! Steps → turns of blocks, one after the other.
//!
//! Each step only appends, and depends on nothing that comes after it: a longer history begins with
//! the turns of the shorter one.

use serde_json::Value;

use super::context::Blocks;
use super::fit::{self, CallIds};
use super::framing::{FramingTag, Tags};
use super::observation::{ObservationContext, OutputLimits, observation};
use super::profile::{OwnThinking, Profile};
use super::prompt::{Block, PromptTurn, Role};
use super::repair::{answered_calls, non_blank};
use super::retry::{RetryText, retry_text};
use crate::domain::message::{Reply, ReplyPart, ThinkingPart, ToolCallPart};
use crate::domain::model::Provider;
use crate::domain::step::{
    ActionStep, ContextStep, FinalStep, InputPart, StepContent, StepKind, TaskStep,
};
use crate::domain::tool::{FINAL_ANSWER, JsonOutput, OutcomeKind, ToolOutcome};

/// What the lowering of a history depends on beside its steps.
#[derive(Debug, Clone, Copy)]
pub struct Lowering<'a> {
    /// Who reads it.
    pub provider: Provider,
    /// What the reader can do.
    pub profile: &'a Profile,
    /// The framing tags of the thread.
    pub tags: &'a Tags,
    /// How much of an output is shown.
    pub limits: &'a OutputLimits,
}

/// A history as a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    /// The blocks of context that it began with, framed, for the standing instructions.
    pub standing: Vec<String>,
    /// Its turns.
    pub turns: Vec<PromptTurn>,
}

/// The conversation of a history.
pub fn lower<'a>(steps: &'a [StepContent], lowering: Lowering<'a>) -> Lowered {
    let mut conversation = Conversation::new(lowering);
    for step in steps {
        conversation.append(step);
    }
    let Conversation { standing, blocks, turns, .. } = conversation;
    Lowered { standing: standing.unwrap_or_else(|| blocks.standing(lowering.tags)), turns }
}

/// Thinking of another model or transport, as told on the user's channel.
pub fn framed_thinking(text: &str, tags: &Tags) -> String {
    tags.wrap(FramingTag::AssistantThinking, &format!("\n{text}\n"), &[])
}

/// A conversation as far as it is lowered.
struct Conversation<'a> {
    lowering: Lowering<'a>,
    turns: Vec<PromptTurn>,
    /// The context as it stands.
    blocks: Blocks<'a>,
    /// The context that the conversation began with, once it has.
    standing: Option<Vec<String>>,
    ids: CallIds,
    /// The calls of the run's last action that had any.
    last_calls: Vec<Signature>,
    /// What the step before was, when it was an action that answers.
    answered: Answered,
}

/// A call's name, and its arguments in canonical form.
type Signature = (String, JsonOutput);

/// How the last step already holds the answer that may follow it.
enum Answered {
    No,
    ByCall,
    ByText(String),
}

impl<'a> Conversation<'a> {
    const fn new(lowering: Lowering<'a>) -> Self {
        Self {
            lowering,
            turns: Vec::new(),
            blocks: Blocks::new(),
            standing: None,
            ids: CallIds::new(lowering.profile),
            last_calls: Vec::new(),
            answered: Answered::No,
        }
    }

    fn append(&mut self, step: &'a StepContent) {
        self.note_beginning(step.kind());
        let before = std::mem::replace(&mut self.answered, Answered::No);
        match step {
            StepContent::Task(task) => self.append_task(task),
            StepContent::Action(action) => self.append_action(action),
            StepContent::Retry(retry) => match retry_text(retry, self.lowering.tags) {
                RetryText::System(text) => self.say_as_system(&text),
                RetryText::User(text) => self.push(Role::User, vec![Block::Text(text)]),
            },
            StepContent::System(system) => self.say_as_system(&system.text),
            StepContent::Context(block) => self.change_context(block),
            StepContent::Final(answer) => self.append_final(answer, &before),
        }
    }

    /// What an operator writes ahead of the first task is not yet part of the conversation.
    fn note_beginning(&mut self, kind: StepKind) {
        let is_ahead = matches!(kind, StepKind::System | StepKind::Context);
        if !is_ahead && self.standing.is_none() {
            self.standing = Some(self.blocks.standing(self.lowering.tags));
        }
    }

    fn change_context(&mut self, block: &'a ContextStep) {
        let change = self.blocks.change(block);
        if let (Some(change), true) = (change, self.standing.is_some()) {
            let native_system = self.lowering.profile.native_system;
            self.say_as_system(&change.told(native_system, self.lowering.tags));
        }
    }

    /// A turn without blocks is no turn.
    fn push(&mut self, role: Role, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.turns.push(PromptTurn { role, blocks });
        }
    }

    fn say_as_system(&mut self, text: &str) {
        let Some(text) = non_blank(text) else { return };
        if self.lowering.profile.native_system {
            self.push(Role::System, vec![Block::Text(text.to_owned())]);
        } else {
            let framed = self.lowering.tags.wrap(FramingTag::System, text, &[]);
            self.push(Role::User, vec![Block::Text(framed)]);
        }
    }

    fn append_task(&mut self, task: &TaskStep) {
        // A task begins a run, and repeats are counted within one.
        self.last_calls.clear();
        let texts = || task.parts.iter().map(|InputPart::Text(part)| part.text.as_str());
        let mut blocks: Vec<Block> = texts().filter_map(non_blank).map(text_block).collect();
        if blocks.is_empty() {
            // A blank task is still what the person said, and a conversation needs a user's turn.
            blocks.extend(texts().next().map(text_block));
        }
        self.push(Role::User, blocks);
    }

    fn append_action(&mut self, action: &ActionStep) {
        self.push(Role::User, self.foreign_thinking(&action.reply));
        let answered_calls = answered_calls(action);
        let told: Vec<String> = answered_calls
            .iter()
            .map(|(call, _)| self.ids.next(call.tool_call_id.as_str()))
            .collect();
        let is_repeat = self.note_calls(&action.reply);
        let said = self.said(&action.reply, &told);
        self.push(Role::Assistant, said);
        let results = answered_calls
            .iter()
            .zip(&told)
            .map(|((call, outcome), id)| self.result(call, outcome, id, is_repeat))
            .collect();
        self.push(Role::Tool, results);
        self.answered = answered(&action.reply, answered_calls.iter().map(|(_, o)| o.as_ref()));
    }

    /// Remembers the calls of a reply, and says whether they repeat those of the turn before.
    fn note_calls(&mut self, reply: &Reply) -> bool {
        let calls: Vec<Signature> = reply.tool_calls().map(signature).collect();
        if calls.is_empty() {
            return false;
        }
        let is_repeat = calls == self.last_calls;
        self.last_calls = calls;
        is_repeat
    }

    /// What the reader cannot take back as its own thinking, framed.
    fn foreign_thinking(&self, reply: &Reply) -> Vec<Block> {
        let foreign = reply.parts.iter().filter_map(|part| match part {
            ReplyPart::Thinking(thinking) if self.is_foreign(thinking) => non_blank(&thinking.text),
            ReplyPart::Thinking(_)
            | ReplyPart::Text(_)
            | ReplyPart::RedactedThinking(_)
            | ReplyPart::ToolCall(_)
            | ReplyPart::Refusal(_)
            | ReplyPart::Unknown(_) => None,
        });
        foreign.map(|text| Block::Text(framed_thinking(text, self.lowering.tags))).collect()
    }

    fn is_foreign(&self, thinking: &ThinkingPart) -> bool {
        let Lowering { provider, profile, .. } = self.lowering;
        let needs_signature = profile.own_thinking == OwnThinking::GoesBackSigned;
        thinking.issuer != Some(provider) || (needs_signature && thinking.signature.is_none())
    }

    /// The assistant's turn. `told` are the ids of its calls, in order.
    fn said(&self, reply: &Reply, told: &[String]) -> Vec<Block> {
        let mut told = told.iter();
        reply.parts.iter().filter_map(|part| self.said_part(part, &mut told)).collect()
    }

    fn said_part<'t>(
        &self,
        part: &ReplyPart,
        told: &mut impl Iterator<Item = &'t String>,
    ) -> Option<Block> {
        match part {
            ReplyPart::Text(part) => non_blank(&part.text).map(text_block),
            ReplyPart::Refusal(part) => non_blank(&part.text).map(text_block),
            ReplyPart::Thinking(thinking) => self.own_thinking(thinking),
            ReplyPart::ToolCall(call) => Some(Block::ToolCall {
                id: told.next()?.clone(),
                call_id: call.tool_call_id.clone(),
                name: fit::tool_name(&call.name, self.lowering.profile),
                arguments: fit::arguments(&call.arguments),
            }),
            // No wire of this version has a place for what only its issuer can read.
            ReplyPart::RedactedThinking(_) | ReplyPart::Unknown(_) => None,
        }
    }

    fn own_thinking(&self, thinking: &ThinkingPart) -> Option<Block> {
        let is_left_out = self.lowering.profile.own_thinking == OwnThinking::IsLeftOut;
        if is_left_out || self.is_foreign(thinking) {
            return None;
        }
        non_blank(&thinking.text).map(|text| Block::Thinking {
            text: text.to_owned(),
            signature: thinking.signature.clone(),
        })
    }

    fn result(
        &self,
        call: &ToolCallPart,
        outcome: &ToolOutcome,
        id: &str,
        is_repeat: bool,
    ) -> Block {
        let max_chars = self.lowering.limits.of(&call.name);
        Block::ToolResult {
            id: id.to_owned(),
            call_id: call.tool_call_id.clone(),
            name: fit::tool_name(&call.name, self.lowering.profile),
            text: observation(outcome, ObservationContext { max_chars, is_repeat }),
            is_error: outcome.is_error,
        }
    }

    /// The answer, unless the step before it already holds it.
    fn append_final(&mut self, answer: &FinalStep, before: &Answered) {
        self.last_calls.clear();
        let is_said = match before {
            Answered::No => false,
            Answered::ByCall => true,
            Answered::ByText(text) => text.trim() == answer.answer.trim(),
        };
        if !is_said {
            self.push(
                Role::Assistant,
                non_blank(&answer.answer).map(text_block).into_iter().collect(),
            );
        }
    }
}

fn text_block(text: &str) -> Block {
    Block::Text(text.to_owned())
}

/// Arguments that are no JSON are compared by their text, and so is what a value cannot hold exactly.
/// `Value` equality ignores the order of keys.
fn signature(call: &ToolCallPart) -> Signature {
    let arguments = JsonOutput::of(&call.arguments);
    let by_text = |_| JsonOutput::from(Value::String(call.arguments.clone()));
    (call.name.clone(), arguments.unwrap_or_else(by_text))
}

fn answered<'o>(reply: &Reply, mut outcomes: impl Iterator<Item = &'o ToolOutcome>) -> Answered {
    let is_answer = |outcome: &ToolOutcome| {
        outcome.name == FINAL_ANSWER && outcome.kind == OutcomeKind::Success
    };
    if outcomes.any(is_answer) {
        return Answered::ByCall;
    }
    reply.text().or_else(|| reply.refusal()).map_or(Answered::No, Answered::ByText)
}
