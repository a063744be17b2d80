//! Steps → turns of blocks, one after the other.
//!
//! Each step only appends, and depends on nothing that comes after it: a longer history begins with
//! the turns of the shorter one. The exception is a summary, which takes the place of what it stands
//! for.

mod action;

use std::collections::BTreeSet;

pub use action::framed_thinking;

use super::FramingRules;
use super::announce::{ToolChange, announcement, is_nameable};
use super::context::Blocks;
use super::file;
use super::fit::CallIds;
use super::framing::lookalike::resembled;
use super::framing::{FramingTag, Tags};
use super::names::ToolNames;
use super::notes::{self, Author};
use super::observation::OutputLimits;
use super::profile::{Profile, is_name_char};
use super::prompt::{Block, MarkedText, PromptTurn, Role};
use super::repair::non_blank;
use super::retry::{RetryText, retry_text};
use super::summary::{self, Compaction};
use crate::domain::ledger::{Origin, Voice};
use crate::domain::limits::STEP_LIMIT;
use crate::domain::model::Provider;
use crate::domain::step::{
    ContextStep, FinalStep, InputPart, StepContent, StepKind, TaskStep, ToolsStep,
};
use crate::domain::thread::FramingPolicy;
use crate::domain::tool::{JsonOutput, ToolDefinition};

use action::Signature;

/// What the lowering of a history depends on beside its steps.
#[derive(Debug, Clone, Copy)]
pub struct Lowering<'a> {
    /// Who reads it.
    pub provider: Provider,
    /// Where it is reached, where that is known.
    pub host: Option<&'a str>,
    /// What the reader can do.
    pub profile: &'a Profile,
    /// How the thread frames what others wrote.
    pub framing: &'a FramingRules,
    /// How much of an output is shown.
    pub limits: &'a OutputLimits,
    /// The tools that the run declares.
    pub tools: &'a [ToolDefinition],
}

impl<'a> Lowering<'a> {
    const fn tags(&self) -> &'a Tags {
        &self.framing.tags
    }
}

/// A history as a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    /// The blocks of context that it began with, framed, for the standing instructions.
    pub standing: Vec<MarkedText>,
    /// Its turns.
    pub turns: Vec<PromptTurn>,
    /// Whether the system speaks in a frame on the user's channel.
    pub has_framed_system: bool,
    /// What its tools are called.
    pub names: ToolNames,
}

/// The conversation of a history whose first step has this `seq`.
pub fn lower<'a>(steps: &'a [StepContent], first_seq: i64, lowering: Lowering<'a>) -> Lowered {
    let compaction = Compaction::of(steps, first_seq);
    let mut conversation = Conversation::new(lowering);
    let (replaced, told) = steps.split_at_checked(compaction.n_replaced).unwrap_or((&[], steps));
    if let Some(text) = compaction.summary {
        let open = open_task(steps, &compaction);
        conversation.summarise((text, compaction.summary_seq), (replaced, first_seq), open);
    }
    for (place, step) in told.iter().enumerate() {
        let is_dropped = place + replaced.len() < compaction.n_dropped;
        conversation.seq = seq_of(first_seq, place + replaced.len());
        conversation.append(step, is_dropped);
    }
    let Conversation { standing, blocks, turns, has_framed_system, names, .. } = conversation;
    let standing = standing.unwrap_or_else(|| blocks.standing(lowering.tags()));
    Lowered { standing, turns, has_framed_system, names }
}

/// A conversation as far as it is lowered.
struct Conversation<'a> {
    lowering: Lowering<'a>,
    /// `seq` of the step that is being told.
    seq: i64,
    /// Whether its reply came from another server.
    is_elsewhere: bool,
    turns: Vec<PromptTurn>,
    /// The context as it stands.
    blocks: Blocks<'a>,
    /// The context that the conversation began with, once it has.
    standing: Option<Vec<MarkedText>>,
    has_framed_system: bool,
    ids: CallIds,
    names: ToolNames,
    /// The tools that an earlier step vouches for: it declared them, or called them with success.
    vouched: BTreeSet<&'a str>,
    /// The calls of the last action that had any, since the run was last told something.
    last_calls: Vec<Signature>,
    /// What the step before was, when it was an action that answers.
    answered: Answered,
}

/// How the last step already holds the answer that may follow it.
enum Answered {
    No,
    ByCall,
    ByText(String),
}

impl<'a> Conversation<'a> {
    fn new(lowering: Lowering<'a>) -> Self {
        Self {
            lowering,
            seq: 0,
            is_elsewhere: false,
            turns: Vec::new(),
            blocks: Blocks::new(),
            standing: None,
            has_framed_system: false,
            ids: CallIds::new(lowering.profile),
            names: ToolNames::new(lowering.tools, lowering.profile),
            vouched: BTreeSet::new(),
            last_calls: Vec::new(),
            answered: Answered::No,
        }
    }

    /// Begins with a summary in place of the first steps. What the operator said in them still holds,
    /// so it is said again, and the context of that moment is what the conversation begins with. A task
    /// that was still open is told in the person's own words.
    fn summarise(
        &mut self,
        (text, seq): (&str, i64),
        (replaced, first_seq): (&'a [StepContent], i64),
        open: Option<(usize, &TaskStep)>,
    ) {
        let mut said = Vec::new();
        for (place, step) in replaced.iter().enumerate() {
            self.seq = seq_of(first_seq, place);
            self.vouch(step);
            if let StepContent::Context(block) = step {
                self.blocks.change(block, &self.origin(0, Voice::System));
            } else if let StepContent::System(system) = step
                && system.text != STEP_LIMIT
            {
                said.push((self.seq, system.text.as_str()));
            }
        }
        self.standing = Some(self.blocks.standing(self.lowering.tags()));
        self.seq = seq;
        let origin = self.origin(0, Voice::Data);
        let framed = summary::framed(text, self.lowering.tags(), &origin);
        self.push(Role::User, vec![Block::Text(framed)]);
        for (seq, text) in said {
            self.seq = seq;
            self.say_as_system(&self.marked(text, Voice::System));
        }
        if let Some((place, task)) = open {
            self.seq = seq_of(first_seq, place);
            self.append_task(task);
        }
    }

    /// `is_dropped`: what its tools gave back is left out.
    fn append(&mut self, step: &'a StepContent, is_dropped: bool) {
        self.note_beginning(step.kind());
        let before = std::mem::replace(&mut self.answered, Answered::No);
        match step {
            StepContent::Task(task) => self.append_task(task),
            StepContent::Action(action) => self.append_action(action, is_dropped),
            StepContent::Retry(retry) => {
                let origin = self.origin(0, Voice::Data);
                match retry_text(retry, self.lowering.tags(), &origin) {
                    RetryText::System(text) => self.say_as_system(&text),
                    RetryText::User(text) => self.push(Role::User, vec![Block::Text(text)]),
                }
            }
            StepContent::System(system) => {
                // As with a task, the same calls may be worth making after it; only the fixed sentence
                // says nothing new. The machine counts the repeats that end a run likewise.
                if system.text != STEP_LIMIT {
                    self.last_calls.clear();
                }
                self.say_as_system(&self.marked(&system.text, Voice::System));
            }
            StepContent::Context(block) => self.change_context(block),
            // It may stand between a reply and the answer that this reply gave.
            StepContent::Tools(tools) => self.announce(tools, before),
            // It was told in place of what it stands for.
            StepContent::Summary(_) => self.answered = before,
            StepContent::Final(answer) => self.append_final(answer, &before),
        }
        self.vouch(step);
    }

    /// Remembers the tools that a step shows to have been there.
    fn vouch(&mut self, step: &'a StepContent) {
        match step {
            StepContent::Tools(tools) => {
                self.vouched.extend(tools.added.iter().map(String::as_str));
            }
            StepContent::Action(action) => {
                let succeeded = action.outcomes.iter().filter(|outcome| !outcome.is_error);
                self.vouched.extend(succeeded.map(|outcome| outcome.name.as_str()));
            }
            StepContent::Task(_)
            | StepContent::Retry(_)
            | StepContent::System(_)
            | StepContent::Context(_)
            | StepContent::Summary(_)
            | StepContent::Final(_) => {}
        }
    }

    /// What an operator writes ahead of the first task is not yet part of the conversation.
    fn note_beginning(&mut self, kind: StepKind) {
        let is_ahead = matches!(
            kind,
            StepKind::System | StepKind::Context | StepKind::Tools | StepKind::Summary
        );
        if !is_ahead && self.standing.is_none() {
            self.standing = Some(self.blocks.standing(self.lowering.tags()));
        }
    }

    fn change_context(&mut self, block: &'a ContextStep) {
        let origin = self.origin(0, Voice::System);
        let change = self.blocks.change(block, &origin);
        if let (Some(change), true) = (change, self.standing.is_some()) {
            let native_system = self.lowering.profile.native_system;
            self.say_as_system(&change.told(native_system, self.lowering.tags(), &origin));
        }
    }

    /// Only what the run declares can have come. What has gone, it no longer declares: an earlier step
    /// has to vouch that there was such a tool, or the words of whoever reports the change would be
    /// said in the system voice; and the name must look like one of a tool, since no declaration is
    /// there to have checked it.
    fn announce(&mut self, change: &ToolsStep, answered: Answered) {
        self.answered = answered;
        let is_declared = |name: &str| self.lowering.tools.iter().any(|tool| tool.name == name);
        let removed = change.removed.iter().map(String::as_str);
        let removed = removed.filter(|name| {
            !is_declared(name) && self.vouched.contains(name) && is_identifier(name)
        });
        let added = change.added.iter().filter(|name| is_declared(name) && is_nameable(name));
        let added = added.map(|name| self.names.find(name).unwrap_or(name));
        let texts =
            [announcement(ToolChange::Removed, removed), announcement(ToolChange::Added, added)];
        for text in texts.into_iter().flatten() {
            self.say_as_system(&self.marked(&text, Voice::Application));
        }
    }

    /// A turn without blocks is no turn.
    fn push(&mut self, role: Role, blocks: Vec<Block>) {
        if !blocks.is_empty() {
            self.turns.push(PromptTurn { role, blocks });
        }
    }

    /// A place in the step that is being told.
    fn origin(&self, part: usize, voice: Voice) -> Origin {
        Origin::step(self.seq, u32::try_from(part).unwrap_or(u32::MAX), voice)
    }

    /// A text of the step that is being told.
    fn marked(&self, text: &str, voice: Voice) -> MarkedText {
        MarkedText::of(text, self.origin(0, voice))
    }

    fn say_as_system(&mut self, text: &MarkedText) {
        if non_blank(text).is_none() {
            return;
        }
        if self.lowering.profile.native_system {
            self.push(Role::System, vec![Block::Text(text.clone())]);
        } else {
            let origin = self.origin(0, Voice::Application);
            let framed = self.lowering.tags().frame(FramingTag::System, text, &[], &origin);
            self.has_framed_system = true;
            self.push(Role::User, vec![Block::Text(framed)]);
        }
    }

    fn append_task(&mut self, task: &TaskStep) {
        // A task begins a run or is said in the middle of one: repeats are counted from here.
        self.last_calls.clear();
        let parts = task.parts.iter().enumerate();
        let mut blocks: Vec<Block> =
            parts.filter_map(|(place, part)| self.input_block(place, part)).collect();
        if blocks.is_empty() {
            // A blank task is still what the person said, and a conversation needs a user's turn.
            let blank = task.parts.iter().find_map(InputPart::text);
            blocks.extend(blank.map(|text| Block::Text(self.marked(text, Voice::User))));
        }
        self.push(Role::User, blocks);
        self.note(Author::User, &self.resemblance(task.parts.iter().filter_map(InputPart::text)));
        let files = task.parts.iter().filter_map(InputPart::file).filter_map(file::text_of);
        self.note(Author::File, &self.resemblance(files));
    }

    /// The tags that texts of others resemble, under the policy that wants to know.
    fn resemblance<T: AsRef<str>>(&self, texts: impl IntoIterator<Item = T>) -> Vec<FramingTag> {
        if self.lowering.framing.policy != FramingPolicy::FramesAndNotes {
            return Vec::new();
        }
        let found: Vec<FramingTag> =
            texts.into_iter().flat_map(|text| resembled(text.as_ref())).collect();
        FramingTag::ALL.iter().copied().filter(|tag| found.contains(tag)).collect()
    }

    /// Says beside an item that was just told what it resembles.
    fn note(&mut self, author: Author, resembled: &[FramingTag]) {
        if let Some(text) = notes::note(author, resembled) {
            self.say_as_system(&self.marked(&text, Voice::Application));
        }
    }

    fn input_block(&self, place: usize, part: &InputPart) -> Option<Block> {
        match part {
            InputPart::Text(part) => non_blank(&part.text)
                .map(|text| Block::Text(MarkedText::of(text, self.origin(place, Voice::User)))),
            InputPart::File(part) => {
                let origin = self.origin(place, Voice::Data);
                Some(file::shown(part, self.lowering.profile, self.lowering.tags(), &origin))
            }
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
                non_blank(&answer.answer)
                    .map(|text| Block::Said {
                        text: self.marked(text, Voice::Assistant),
                        echo: None,
                    })
                    .into_iter()
                    .collect(),
            );
        }
    }
}

/// The task among replaced steps that the run is still at: nothing answered it, no other came before
/// the summary, and what comes after it does not begin with another. Between the requests of a run
/// that stays as it is.
fn open_task<'s>(
    steps: &'s [StepContent],
    compaction: &Compaction<'_>,
) -> Option<(usize, &'s TaskStep)> {
    let (before, after) = steps.split_at_checked(compaction.n_before)?;
    let bounds = |step: &&StepContent| matches!(step, StepContent::Task(_) | StepContent::Final(_));
    let goes_on = |step: &&StepContent| {
        bounds(step) || matches!(step, StepContent::Action(_) | StepContent::Retry(_))
    };
    if matches!(after.iter().find(goes_on), Some(StepContent::Task(_))) {
        return None;
    }
    let (place, last) = before.iter().enumerate().rfind(|(_, step)| bounds(step))?;
    let is_replaced = place < compaction.n_replaced;
    if let (StepContent::Task(task), true) = (last, is_replaced) {
        Some((place, task))
    } else {
        None
    }
}

/// Whether a name has the form that declared tools have.
fn is_identifier(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(is_name_char)
}

fn seq_of(first_seq: i64, place: usize) -> i64 {
    first_seq.saturating_add(i64::try_from(place).unwrap_or(i64::MAX))
}
