//! A reply, put together from a whole body or from the chunks of a stream, which are alike.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::arguments;
use super::contents::{OWN_MEMBERS, SIGNATURE};
use super::usage;
use crate::domain::event::DeltaKind;
use crate::domain::id::CallId;
use crate::domain::message::{
    Reply, ReplyPart, ReplyState, TextPart, ThinkingPart, ToolCallPart, UnknownPart,
};
use crate::domain::model::{FinishReason, Provider, Usage};
use crate::wire::assembly::{Assembly, check_calls, truncated};
use crate::wire::failure;
use crate::wire::json::{count, items, label, present, storable, text};
use crate::wire::{DeltaPiece, WireError};

/// The most parts that one reply may hold.
const MAX_PARTS: usize = 10_000;

/// What has come of a reply so far.
#[derive(Debug)]
pub(super) struct GeminiReply {
    provider: Provider,
    model: Option<String>,
    response_id: Option<String>,
    parts: Vec<ReplyPart>,
    /// A call whose arguments are still coming.
    open: Option<Call>,
    n_calls: usize,
    call_ids: BTreeSet<String>,
    finish: Option<FinishReason>,
    usage: Option<Usage>,
    has_candidates: bool,
    /// The body is a list of chunks: a stream that did not say so.
    is_list: bool,
    pieces: Vec<DeltaPiece>,
}

/// A call on its way.
#[derive(Debug)]
struct Call {
    id: Option<String>,
    name: String,
    arguments: Value,
    echo: Option<Value>,
}

impl GeminiReply {
    pub(super) fn new(provider: Provider) -> Self {
        Self {
            provider,
            model: None,
            response_id: None,
            parts: Vec::new(),
            open: None,
            n_calls: 0,
            call_ids: BTreeSet::new(),
            finish: None,
            usage: None,
            has_candidates: false,
            is_list: false,
            pieces: Vec::new(),
        }
    }

    /// Takes a chunk, or a list of them.
    fn add(&mut self, value: &Value) -> Result<(), WireError> {
        match value.as_array() {
            Some(chunks) => chunks.iter().try_for_each(|chunk| self.add_chunk(chunk)),
            None => self.add_chunk(value),
        }
    }

    fn add_chunk(&mut self, chunk: &Value) -> Result<(), WireError> {
        // An error may come with the counts of what it cost.
        self.usage = usage::of_chunk(chunk).or(self.usage);
        if let Some(error) = failure::in_band(chunk) {
            return Err(error);
        }
        if !chunk.is_object() {
            return Err(WireError::protocol("a JSON object was expected"));
        }
        self.model = self.model.take().or_else(|| text(chunk, "modelVersion").map(storable));
        self.response_id =
            self.response_id.take().or_else(|| text(chunk, "responseId").map(storable));
        let blocked = chunk.get("promptFeedback").and_then(|it| label(it, "blockReason"));
        if blocked.is_some_and(|reason| !is_unspecified(&reason)) {
            self.finish = Some(FinishReason::ContentFilter);
        }
        // Only one candidate is asked for; where several come, the first one counts.
        let is_first = |one: &&Value| count(one, "index").is_none_or(|index| index == 0);
        let candidates = items(chunk, "candidates");
        self.has_candidates |= !candidates.is_empty();
        candidates.iter().find(is_first).map_or(Ok(()), |candidate| self.add_candidate(candidate))
    }

    fn add_candidate(&mut self, candidate: &Value) -> Result<(), WireError> {
        for part in candidate.get("content").map_or(&[][..], |content| items(content, "parts")) {
            self.add_part(part);
            check_calls(self.n_calls)?;
            if self.parts.len() > MAX_PARTS {
                let error = WireError::protocol("the reply has too many parts");
                return Err(WireError { retryable: false, ..error });
            }
        }
        let reason = label(candidate, "finishReason").filter(|reason| !is_unspecified(reason));
        self.finish = reason.map(|reason| finish_reason(&reason)).or(self.finish);
        Ok(())
    }

    fn add_part(&mut self, part: &Value) {
        let Some(members) = part.as_object().filter(|members| !members.is_empty()) else { return };
        if let Some(call) = part.get("functionCall").filter(|call| call.is_object()) {
            return self.add_call(call, members);
        }
        self.close_call();
        let is_thought = present(part, "thought").is_some();
        let said = part.get("text").and_then(Value::as_str);
        // A signature may come with nothing to sign.
        let is_sealed = members.keys().all(|name| name == SIGNATURE || name == "thought");
        match said.or_else(|| is_sealed.then_some("")) {
            Some(said) if is_thought => self.think(&storable(said), members),
            Some(said) => self.say(&storable(said), members),
            None => self.parts.push(ReplyPart::Unknown(UnknownPart {
                issuer: Some(self.provider),
                raw: part.clone(),
            })),
        }
    }

    /// Text goes on with the text before it, unless one of them comes with something of its own, such as
    /// a signature, which belongs to this piece alone.
    fn say(&mut self, said: &str, members: &Map<String, Value>) {
        let echo = echo(members, |_| true);
        match self.parts.last_mut() {
            _ if said.is_empty() && echo.is_none() => {}
            Some(ReplyPart::Text(last)) if last.echo.is_none() && echo.is_none() => {
                last.text.push_str(said);
            }
            _ => self.parts.push(ReplyPart::Text(TextPart { text: said.to_owned(), echo })),
        }
        self.emit(DeltaKind::Text, said);
    }

    fn think(&mut self, thought: &str, members: &Map<String, Value>) {
        let signature = members.get(SIGNATURE).and_then(Value::as_str);
        let signature = signature.filter(|signature| !signature.is_empty()).map(storable);
        let echo = echo(members, |name| name != SIGNATURE);
        let is_plain = signature.is_none() && echo.is_none();
        match self.parts.last_mut() {
            _ if thought.is_empty() && is_plain => {}
            Some(ReplyPart::Thinking(last))
                if is_plain && last.signature.is_none() && last.echo.is_none() =>
            {
                last.text.push_str(thought);
            }
            _ => {
                let (text, issuer) = (thought.to_owned(), Some(self.provider));
                let part = ThinkingPart { text, signature, id: None, issuer, echo };
                self.parts.push(ReplyPart::Thinking(part));
            }
        }
        self.emit(DeltaKind::Thinking, thought);
    }

    /// Takes a call, or a piece of one. A piece that names no tool goes on with the call that is open;
    /// with none open, it is a placeholder.
    fn add_call(&mut self, call: &Value, members: &Map<String, Value>) {
        let name = text(call, "name").map(storable);
        if name.is_some() || self.open.is_none() {
            self.close_call();
            if name.is_none() && present(call, "args").is_none() {
                return;
            }
            self.open = Some(Call {
                id: label(call, "id").filter(|id| id != "null").map(|id| storable(&id)),
                name: name.unwrap_or_default(),
                arguments: json!({}),
                echo: None,
            });
        }
        if let Some(open) = &mut self.open {
            if let Some(whole) = call.get("args").filter(|args| !args.is_null()) {
                open.arguments = whole.clone();
            }
            arguments::add_pieces(&mut open.arguments, call);
            open.echo = echo(members, |_| true).or_else(|| open.echo.take());
        }
        if present(call, "willContinue").is_none() {
            self.close_call();
        }
    }

    /// The open call is whole.
    fn close_call(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.n_calls += 1;
        let arguments = arguments_text(&open.arguments);
        self.emit(DeltaKind::ToolCall, &arguments);
        let id = open.id.clone().filter(|id| self.call_ids.insert(id.clone()));
        self.parts.push(call_part(open, self.n_calls, id, arguments));
    }

    /// The call that the end of the reply cut off, with arguments that cannot be taken for whole ones.
    fn cut_call(&self) -> Option<ReplyPart> {
        let open = self.open.as_ref()?;
        let mut arguments = arguments_text(&open.arguments);
        arguments.pop();
        let id = open.id.clone().filter(|id| !self.call_ids.contains(id));
        let Call { name, echo, .. } = open;
        let call =
            Call { id: None, name: name.clone(), arguments: Value::Null, echo: echo.clone() };
        Some(call_part(call, self.n_calls + 1, id, arguments))
    }

    fn emit(&mut self, kind: DeltaKind, text: &str) {
        if !text.is_empty() {
            self.pieces.push(DeltaPiece { kind, text: text.to_owned() });
        }
    }

    /// A call decides, whatever the reason says.
    fn finish_reason(&self) -> Option<FinishReason> {
        match self.finish {
            None | Some(FinishReason::Stop | FinishReason::Other) if self.n_calls > 0 => {
                Some(FinishReason::ToolCalls)
            }
            told => told,
        }
    }
}

impl Assembly for GeminiReply {
    const END: &'static str = "a finish reason";

    fn add_event(&mut self, name: Option<&str>, chunk: &Value) -> Result<(), WireError> {
        if name == Some("error") { Err(failure::named(chunk)) } else { self.add(chunk) }
    }

    fn add_body(&mut self, body: &Value) -> Result<(), WireError> {
        self.is_list = body.is_array();
        self.add(body)
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    fn take_pieces(&mut self) -> Vec<DeltaPiece> {
        std::mem::take(&mut self.pieces)
    }

    fn reply(&self, state: ReplyState) -> Reply {
        Reply {
            host: None,
            provider: Some(self.provider),
            model: self.model.clone(),
            response_id: self.response_id.clone(),
            finish_reason: self.finish_reason(),
            usage: self.usage,
            state,
            parts: self.parts.iter().cloned().chain(self.cut_call()).collect(),
        }
    }

    fn whole(&self) -> Result<Reply, WireError> {
        if self.is_list && !self.is_complete() {
            Err(truncated(Self::END))
        } else if self.has_candidates || self.is_complete() {
            Ok(self.reply(ReplyState::Complete))
        } else {
            Err(WireError::protocol("the answer has no candidates"))
        }
    }
}

fn call_part(call: Call, number: usize, id: Option<String>, arguments: String) -> ReplyPart {
    ReplyPart::ToolCall(ToolCallPart {
        tool_call_id: CallId(format!("call_{number}")),
        provider_call_id: id,
        name: call.name,
        arguments,
        echo: call.echo,
    })
}

/// Arguments as text. Those that come as text already are kept as they are.
fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::Null => "{}".to_owned(),
        Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
        Value::String(text) => storable(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            arguments.to_string()
        }
    }
}

/// What stands beside the members that say what a part is, as far as it is meant.
fn echo(members: &Map<String, Value>, is_meant: fn(&str) -> bool) -> Option<Value> {
    let others = members.iter().filter(|(name, value)| {
        let is_own = OWN_MEMBERS.contains(&name.as_str());
        !is_own && is_meant(name) && !value.is_null() && **value != ""
    });
    let others: Map<_, _> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    (!others.is_empty()).then_some(Value::Object(others))
}

fn is_unspecified(reason: &str) -> bool {
    reason == "0" || reason.ends_with("_UNSPECIFIED")
}

/// Why the model stopped. Some clients ask for numbers in place of names; only those are read that mean
/// the same at Google's own API and on Google Cloud.
fn finish_reason(raw: &str) -> FinishReason {
    match raw.to_ascii_uppercase().as_str() {
        "STOP" | "1" => FinishReason::Stop,
        "MAX_TOKENS" | "2" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_RECITATION"
        | "IMAGE_PROHIBITED_CONTENT"
        | "3"
        | "4"
        | "7"
        | "8" => FinishReason::ContentFilter,
        "MALFORMED_FUNCTION_CALL"
        | "MALFORMED_RESPONSE"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "LANGUAGE"
        | "NO_IMAGE" => FinishReason::Error,
        _ => FinishReason::Other,
    }
}
