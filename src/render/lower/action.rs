//! An action as turns: what the model thought and said, what it called, and what came of the calls.

use serde_json::Value;

use super::{Answered, Conversation, JsonOutput};
use crate::domain::ledger::{Origin, Voice};
use crate::domain::message::{Reply, ReplyPart, ThinkingPart, ToolCallPart};
use crate::domain::model::Provider;
use crate::domain::step::ActionStep;
use crate::domain::tool::{FINAL_ANSWER, OutcomeKind, ToolOutcome};
use crate::render::file;
use crate::render::fit;
use crate::render::framing::{FramingTag, Tags};
use crate::render::notes::Author;
use crate::render::observation::{ObservationContext, observed};
use crate::render::profile::OwnThinking;
use crate::render::prompt::{Block, MarkedText, Role};
use crate::render::repair::{
    answered_calls, goes_back, is_foreign, is_said, is_thought, non_blank,
};
use crate::render::summary::DROPPED;

/// A call's name, and its arguments in canonical form.
pub(super) type Signature = (String, JsonOutput);

/// How the outcome of a call is shown.
#[derive(Debug, Clone, Copy)]
struct Shown {
    /// Its place among the outcomes.
    place: usize,
    /// The turn before made exactly the same calls.
    is_repeat: bool,
    /// What the tool gave back is left out.
    is_dropped: bool,
}

/// Thinking of another model or transport, as told on the user's channel.
pub fn framed_thinking(text: &str, tags: &Tags, origin: &Origin) -> MarkedText {
    let ours = origin.spoken(Voice::Application);
    let body = MarkedText::of("\n", ours.clone());
    let body = body.with(text, &origin.spoken(Voice::Data)).with("\n", &ours);
    tags.frame(FramingTag::AssistantThinking, &body, &[], origin)
}

impl Conversation<'_> {
    /// `is_dropped`: what its tools gave back is left out.
    pub(super) fn append_action(&mut self, action: &ActionStep, is_dropped: bool) {
        self.is_elsewhere = is_elsewhere(&action.reply, self.lowering.host);
        self.push(Role::User, self.foreign_thinking(&action.reply));
        let answered_calls = answered_calls(action);
        let told: Vec<String> = answered_calls
            .iter()
            .map(|(call, _)| self.ids.next(call.tool_call_id.as_str()))
            .collect();
        for (call, _) in &answered_calls {
            self.names.told(&call.name);
        }
        let is_repeat = self.note_calls(&action.reply);
        let said = self.said(&action.reply, &told);
        self.push(Role::Assistant, said);
        let mut results = Vec::with_capacity(told.len());
        let mut files = Vec::new();
        for (place, ((call, outcome), id)) in answered_calls.iter().zip(&told).enumerate() {
            let shown = Shown { place, is_repeat, is_dropped };
            results.push(self.result(call, outcome, id, shown));
            if !is_dropped {
                files.extend(self.files(call, outcome, (id, place)));
            }
        }
        let of_tools = self.resemblance(results.iter().filter_map(result_text));
        self.push(Role::Tool, results);
        self.push(Role::User, files);
        self.note(Author::Tool, &of_tools);
        if !is_dropped {
            let files = answered_calls.iter().flat_map(|(_, outcome)| &outcome.files);
            self.note(Author::File, &self.resemblance(files.filter_map(file::text_of)));
        }
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
        let parts = reply.parts.iter().enumerate();
        let foreign = parts.filter_map(|(place, part)| match part {
            ReplyPart::Thinking(thinking) if self.is_foreign(thinking) => {
                Some((place, non_blank(&thinking.text)?))
            }
            ReplyPart::Thinking(_)
            | ReplyPart::Text(_)
            | ReplyPart::RedactedThinking(_)
            | ReplyPart::ToolCall(_)
            | ReplyPart::Refusal(_)
            | ReplyPart::Unknown(_) => None,
        });
        foreign
            .map(|(place, text)| {
                let origin = self.origin(place, Voice::Data);
                Block::Text(framed_thinking(text, self.lowering.tags(), &origin))
            })
            .collect()
    }

    fn is_foreign(&self, thinking: &ThinkingPart) -> bool {
        self.is_elsewhere || is_foreign(thinking, self.lowering.provider, self.lowering.profile)
    }

    /// The assistant's turn. `told` are the ids of its calls, in order.
    fn said(&self, reply: &Reply, told: &[String]) -> Vec<Block> {
        let mut told = told.iter();
        let is_own = !self.is_elsewhere && reply.provider == Some(self.lowering.provider);
        let parts = reply.parts.iter().enumerate();
        parts.filter_map(|(place, part)| self.said_part((place, part), is_own, &mut told)).collect()
    }

    fn said_part<'t>(
        &self,
        (place, part): (usize, &ReplyPart),
        is_own: bool,
        told: &mut impl Iterator<Item = &'t String>,
    ) -> Option<Block> {
        let origin = self.origin(place, Voice::Assistant);
        let own = |echo: &Option<Value>| echo.clone().filter(|_| is_own);
        match part {
            ReplyPart::Text(part) => {
                let echo = own(&part.echo);
                is_said(part, is_own)
                    .then(|| Block::Said { text: MarkedText::of(&part.text, origin), echo })
            }
            ReplyPart::Refusal(part) => non_blank(&part.text)
                .map(|text| Block::Said { text: MarkedText::of(text, origin), echo: None }),
            ReplyPart::Thinking(thinking) => self.own_thinking(thinking, origin),
            ReplyPart::ToolCall(call) => Some(Block::ToolCall {
                id: told.next()?.clone(),
                call_id: call.tool_call_id.clone(),
                name: self.told_name(call),
                arguments: fit::arguments(&call.arguments),
                echo: own(&call.echo),
                origin,
            }),
            ReplyPart::RedactedThinking(part) => self
                .goes_back(part.issuer)
                .then(|| Block::RedactedThinking { data: part.data.clone(), origin }),
            ReplyPart::Unknown(part) => {
                self.goes_back(part.issuer).then(|| Block::Opaque { raw: part.raw.clone(), origin })
            }
        }
    }

    fn goes_back(&self, issuer: Option<Provider>) -> bool {
        !self.is_elsewhere && goes_back(issuer, self.lowering.provider, self.lowering.profile)
    }

    fn own_thinking(&self, thinking: &ThinkingPart, origin: Origin) -> Option<Block> {
        let is_left_out = self.lowering.profile.own_thinking == OwnThinking::IsLeftOut;
        if is_left_out || self.is_foreign(thinking) {
            return None;
        }
        is_thought(thinking).then(|| Block::Thinking {
            text: MarkedText::of(&thinking.text, origin),
            signature: thinking.signature.clone(),
            id: thinking.id.clone(),
            echo: thinking.echo.clone(),
        })
    }

    fn result(&self, call: &ToolCallPart, outcome: &ToolOutcome, id: &str, shown: Shown) -> Block {
        let max_chars = self.lowering.limits.of(&call.name);
        let context = ObservationContext { max_chars, is_repeat: shown.is_repeat };
        let origin = self.origin(shown.place, Voice::Data);
        // Only a success gives something back that could be left out or be a file.
        let text = match (outcome.is_error, shown.is_dropped) {
            (false, true) => MarkedText::of(DROPPED, origin.spoken(Voice::Application)),
            (false, false) | (true, _) => observed(outcome, context, &origin),
        };
        Block::ToolResult {
            id: id.to_owned(),
            call_id: call.tool_call_id.clone(),
            name: self.told_name(call),
            text,
            is_error: outcome.is_error,
        }
    }

    /// What the tool of a call is called; every call of an action is named before it is told.
    fn told_name(&self, call: &ToolCallPart) -> String {
        self.names.find(&call.name).unwrap_or(&call.name).to_owned()
    }

    fn files(
        &self,
        call: &ToolCallPart,
        outcome: &ToolOutcome,
        (id, place): (&str, usize),
    ) -> Vec<Block> {
        let name = self.told_name(call);
        let reader = (self.lowering.profile, self.lowering.tags());
        file::framed(&outcome.files, (&name, id), reader, &self.origin(place, Voice::Data))
    }
}

/// Whether a reply is known to have come from another server than the one that reads it now, whatever
/// the two are called: one cannot read what the other sealed, and is not to see it.
fn is_elsewhere(reply: &Reply, host: Option<&str>) -> bool {
    matches!((reply.host.as_deref(), host), (Some(then), Some(now)) if then != now)
}

fn result_text(block: &Block) -> Option<&str> {
    if let Block::ToolResult { text, .. } = block { Some(text) } else { None }
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
