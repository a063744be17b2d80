//! Says what the repairs of a history are.
//!
//! It walks over a history as the lowering does and asks the same functions that repair, so that each
//! finding is a difference between what is stored and what a reader is sent.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{goes_back, is_foreign, is_said, is_thought, non_blank, pair};
use crate::domain::diagnosis::{Diagnosis, Repair, RepairCode};
use crate::domain::id::CallId;
use crate::domain::message::{
    RedactedThinkingPart, Reply, ReplyPart, ThinkingPart, ToolCallPart, UnknownPart,
};
use crate::domain::model::Provider;
use crate::domain::step::{ActionStep, InputPart, StepContent, TaskStep};
use crate::render::fit::{self, CallIds};
use crate::render::names::ToolNames;
use crate::render::profile::{OwnThinking, Profile, ROWS};
use crate::render::summary::Compaction;

/// Who reads a history.
#[derive(Debug, Clone, Copy)]
pub struct Reader {
    provider: Provider,
    profile: &'static Profile,
}

impl Reader {
    /// The reader of whom least is known.
    pub const CONSERVATIVE: &str = "openai_compatible";

    /// The reader with a row of the profiles; `None` when there is no such row.
    pub fn of(family: &str) -> Option<Self> {
        let profile = ROWS.iter().find(|row| row.family == family)?;
        // A row bears the name of its provider, which what it is about may follow; the rows of hosts
        // that are reached through OpenAI's protocol bear others.
        let named = |provider: &&Provider| family.starts_with(provider.label());
        let longest = Provider::ALL.iter().filter(named).max_by_key(|it| it.label().len());
        let provider = longest.copied().unwrap_or(Provider::Openai);
        Some(Self { provider, profile })
    }
}

/// What is repaired in a history, whose first step has this `seq`, for a reader.
pub fn diagnose(steps: &[StepContent], first_seq: i64, reader: Reader) -> Diagnosis {
    let mut walk = Walk {
        reader,
        ids: CallIds::new(reader.profile),
        names: ToolNames::new(&[], reader.profile),
        told: BTreeSet::new(),
        seq: first_seq,
        repairs: Vec::new(),
    };
    // What a summary stands for is not sent.
    let n_replaced = Compaction::of(steps, first_seq).n_replaced;
    for (place, step) in steps.iter().enumerate() {
        if place >= n_replaced {
            walk.step(step);
        }
        walk.seq = walk.seq.saturating_add(1);
    }
    Diagnosis { profile: reader.profile.family, repairs: walk.repairs }
}

struct Walk {
    reader: Reader,
    ids: CallIds,
    names: ToolNames,
    told: BTreeSet<String>,
    seq: i64,
    repairs: Vec<Repair>,
}

impl Walk {
    fn note_if(&mut self, is_repaired: bool, code: RepairCode, pointer: impl Into<String>) {
        if is_repaired {
            self.repairs.push(Repair { seq: self.seq, code, pointer: pointer.into() });
        }
    }

    fn note_blank(&mut self, text: &str, pointer: impl Into<String>) {
        self.note_if(non_blank(text).is_none(), RepairCode::BlankText, pointer);
    }

    fn step(&mut self, step: &StepContent) {
        match step {
            StepContent::Task(task) => self.task(task),
            StepContent::Action(action) => {
                self.parts(&action.reply);
                self.pairs(action);
            }
            StepContent::System(system) => self.note_blank(&system.text, "/text"),
            StepContent::Final(answer) => self.note_blank(&answer.answer, "/answer"),
            StepContent::Retry(_)
            | StepContent::Context(_)
            | StepContent::Tools(_)
            | StepContent::Summary(_) => {}
        }
    }

    /// Of a task that is blank as a whole, the first text is told.
    fn task(&mut self, task: &TaskStep) {
        let is_blank = |part: &InputPart| part.text().is_some_and(|t| non_blank(t).is_none());
        let is_blank_as_a_whole = task.parts.iter().all(is_blank);
        for (place, part) in task.parts.iter().enumerate() {
            let is_told = !is_blank(part) || (is_blank_as_a_whole && place == 0);
            self.note_if(!is_told, RepairCode::BlankText, format!("/parts/{place}/text"));
        }
    }

    fn parts(&mut self, reply: &Reply) {
        for (place, part) in reply.parts.iter().enumerate() {
            let at = format!("/reply/parts/{place}");
            match part {
                ReplyPart::Text(part) => {
                    let is_own = reply.provider == Some(self.reader.provider);
                    self.note_if(!is_said(part, is_own), RepairCode::BlankText, at + "/text");
                }
                ReplyPart::Refusal(part) => self.note_blank(&part.text, at + "/text"),
                ReplyPart::Thinking(part) => self.thinking(part, at),
                ReplyPart::ToolCall(call) => self.call(call, &at),
                ReplyPart::RedactedThinking(RedactedThinkingPart { issuer, .. })
                | ReplyPart::Unknown(UnknownPart { issuer, .. }) => {
                    let Reader { provider, profile } = self.reader;
                    let is_told = goes_back(*issuer, provider, profile);
                    self.note_if(!is_told, RepairCode::LeftOutPart, at);
                }
            }
        }
    }

    fn thinking(&mut self, part: &ThinkingPart, at: String) {
        let Reader { provider, profile } = self.reader;
        let is_foreign = is_foreign(part, provider, profile);
        let is_left_out = profile.own_thinking == OwnThinking::IsLeftOut;
        if non_blank(&part.text).is_none() && (is_foreign || !is_thought(part)) {
            self.note_if(true, RepairCode::BlankText, at + "/text");
        } else if is_foreign {
            self.note_if(true, RepairCode::ForeignThinking, at);
        } else {
            self.note_if(is_left_out, RepairCode::LeftOutPart, at);
        }
    }

    fn call(&mut self, call: &ToolCallPart, at: &str) {
        let id = call.tool_call_id.as_str();
        let told = self.ids.next(id);
        let code =
            if self.told.contains(id) { RepairCode::ReusedCallId } else { RepairCode::UnfitCallId };
        self.note_if(told != id, code, format!("{at}/tool_call_id"));
        self.told.insert(told);
        self.told.insert(id.to_owned());
        let name = self.names.told(&call.name);
        self.note_if(name != call.name, RepairCode::InvalidToolName, format!("{at}/name"));
        let arguments = fit::arguments(&call.arguments);
        let is_repaired = arguments != call.arguments;
        self.note_if(is_repaired, RepairCode::InvalidArguments, format!("{at}/arguments"));
    }

    fn pairs(&mut self, action: &ActionStep) {
        let (answered, left_over) = pair(action);
        let places = action.reply.parts.iter().enumerate();
        let calls = places.filter(|(_, part)| matches!(part, ReplyPart::ToolCall(_)));
        for ((place, _), (_, outcome)) in calls.zip(&answered) {
            let is_made_up = matches!(outcome, Cow::Owned(_));
            let at = format!("/reply/parts/{place}");
            self.note_if(is_made_up, RepairCode::UnansweredCall, at);
        }
        let called: BTreeSet<&CallId> =
            answered.iter().map(|(call, _)| &call.tool_call_id).collect();
        for place in left_over {
            let Some(outcome) = action.outcomes.get(place) else { continue };
            let code = if called.contains(&outcome.tool_call_id) {
                RepairCode::DuplicateOutcome
            } else {
                RepairCode::OrphanOutcome
            };
            self.note_if(true, code, format!("/outcomes/{place}"));
        }
    }
}
