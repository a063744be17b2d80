//! A reply, put together from a whole body or from the chunks of a stream.

use serde_json::Value;

use super::calls::Calls;
use super::thinking::{self, Beside};
use super::usage;
use crate::domain::event::DeltaKind;
use crate::domain::message::{
    RedactedThinkingPart, RefusalPart, Reply, ReplyPart, ReplyState, TextPart, ThinkingPart,
    UnknownPart,
};
use crate::domain::model::{FinishReason, Provider, Usage};
use crate::wire::assembly::{Assembly, check_calls};
use crate::wire::failure;
use crate::wire::json::{items, present, storable, storable_value, text};
use crate::wire::think::{Splitter, ThinkTags};
use crate::wire::{DeltaPiece, WireError};

/// Members of a message, beside its content, that hold what this version has no words for.
pub(super) const UNKNOWN: &[&str] = &["images", "audio"];

/// What has come of a reply so far.
#[derive(Debug)]
pub(super) struct ChatReply {
    provider: Provider,
    model: Option<String>,
    response_id: Option<String>,
    thinking: String,
    beside: Beside,
    splitter: Splitter,
    said: String,
    refusal: String,
    calls: Calls,
    unknown: Vec<Value>,
    finish: Option<String>,
    usage: Option<Usage>,
    has_choices: bool,
    /// `[DONE]` has come.
    ended: bool,
    pieces: Vec<DeltaPiece>,
}

impl ChatReply {
    pub(super) fn new(provider: Provider, tags: ThinkTags) -> Self {
        Self {
            provider,
            model: None,
            response_id: None,
            thinking: String::new(),
            beside: Beside::default(),
            splitter: Splitter::new(tags),
            said: String::new(),
            refusal: String::new(),
            calls: Calls::default(),
            unknown: Vec::new(),
            finish: None,
            usage: None,
            has_choices: false,
            ended: false,
            pieces: Vec::new(),
        }
    }

    fn check_calls(&self) -> Result<(), WireError> {
        check_calls(self.calls.len())
    }

    /// Takes what bodies and chunks have in common and gives back the choices that are this reply:
    /// several may come although one is asked for, but some servers number none and spread one reply
    /// over them.
    fn open<'a>(&mut self, chunk: &'a Value) -> Result<Vec<&'a Value>, WireError> {
        let all = items(chunk, "choices");
        let is_first = |choice: &&Value| {
            choice.get("index").is_none_or(|index| index.is_null() || *index == 0)
        };
        let mut choices: Vec<&Value> = all.iter().filter(is_first).collect();
        if choices.is_empty() {
            choices.extend(all.first());
        }
        // An error may come with the counts of what it cost.
        self.usage = usage::of_chunk(chunk, choices.first().copied()).or(self.usage);
        let groq = chunk.get("x_groq").and_then(failure::in_band);
        let within = || choices.iter().find_map(|choice| failure::in_band(choice));
        if let Some(error) = failure::in_band(chunk).or_else(within).or(groq) {
            return Err(error);
        }
        if !chunk.is_object() {
            return Err(WireError::protocol("a JSON object was expected"));
        }
        self.model = self.model.take().or_else(|| text(chunk, "model").map(storable));
        self.response_id = self.response_id.take().or_else(|| text(chunk, "id").map(storable));
        self.has_choices |= !choices.is_empty();
        let reason = choices.iter().rev().find_map(|choice| text(choice, "finish_reason"));
        self.finish = reason.map(str::to_owned).or_else(|| self.finish.take());
        Ok(choices)
    }

    fn add_message(&mut self, message: &Value) {
        let thought = self.beside.take(message);
        self.think(&thought);
        let content = message.get("content").unwrap_or(&Value::Null);
        self.say(content.as_str().unwrap_or_default());
        for part in content.as_array().into_iter().flatten() {
            self.add_content_part(part);
        }
        self.refusal.push_str(text(message, "refusal").unwrap_or_default());
        for name in UNKNOWN.iter().filter(|name| thinking::has(message, name)) {
            let value = message.get(*name).map(storable_value);
            self.unknown.push(serde_json::json!({ *name: value }));
        }
        self.add_function_call(message);
    }

    /// Some servers spell a call both ways at once: the older spelling counts where it is alone.
    fn add_function_call(&mut self, message: &Value) {
        let function = present(message, "function_call");
        let Some(function) = function.filter(|_| items(message, "tool_calls").is_empty()) else {
            return;
        };
        let piece = self.calls.add_function_call(function);
        self.emit(DeltaKind::ToolCall, piece);
    }

    fn add_content_part(&mut self, part: &Value) {
        match text(part, "type").unwrap_or_default() {
            "text" | "output_text" => self.say(text(part, "text").unwrap_or_default()),
            "refusal" => self.refusal.push_str(text(part, "refusal").unwrap_or_default()),
            "thinking" => {
                self.think(text(part, "thinking").unwrap_or_default());
                for piece in items(part, "thinking") {
                    self.think(text(piece, "text").unwrap_or_default());
                }
            }
            _ => self.unknown.push(storable_value(part)),
        }
    }

    fn say(&mut self, piece: &str) {
        for (kind, piece) in self.splitter.push(&storable(piece)) {
            if kind == DeltaKind::Thinking {
                self.thinking.push_str(&piece);
            } else {
                self.said.push_str(&piece);
            }
            self.emit(kind, piece);
        }
    }

    fn think(&mut self, piece: &str) {
        let piece = storable(piece);
        self.thinking.push_str(&piece);
        self.emit(DeltaKind::Thinking, piece);
    }

    fn emit(&mut self, kind: DeltaKind, text: String) {
        if !text.is_empty() {
            self.pieces.push(DeltaPiece { kind, text });
        }
    }

    /// A call decides, whatever the reason says; so does a refusal.
    fn finish_reason(&self) -> Option<FinishReason> {
        if !self.refusal.is_empty() {
            return Some(FinishReason::ContentFilter);
        }
        let reason = self.finish.as_deref().map(reason);
        match reason {
            None | Some(FinishReason::Stop | FinishReason::Other) if !self.calls.is_empty() => {
                Some(FinishReason::ToolCalls)
            }
            told => told,
        }
    }

    fn parts(&self) -> Vec<ReplyPart> {
        let issuer = Some(self.provider);
        let redacted = self
            .beside
            .redacted()
            .map(|data| ReplyPart::RedactedThinking(RedactedThinkingPart { data, issuer }));
        let (text, said) = self.splitter.settled(&self.thinking, &self.said);
        let thinking = (!text.trim().is_empty() || self.beside.is_sealed()).then(|| {
            let (signature, echo) = (self.beside.signature(), Some(self.beside.echo(&text)));
            ReplyPart::Thinking(ThinkingPart { text, signature, id: None, issuer, echo })
        });
        let said = (!said.is_empty()).then(|| ReplyPart::Text(TextPart { text: said, echo: None }));
        let refusal = (!self.refusal.is_empty())
            .then(|| ReplyPart::Refusal(RefusalPart { text: storable(&self.refusal) }));
        let unknown = self
            .unknown
            .iter()
            .map(|raw| ReplyPart::Unknown(UnknownPart { issuer, raw: raw.clone() }));
        let calls = self.calls.parts().into_iter().map(ReplyPart::ToolCall);
        redacted.chain(thinking).chain(said).chain(refusal).chain(unknown).chain(calls).collect()
    }
}

impl Assembly for ChatReply {
    const END: &'static str = "a finish reason or [DONE]";

    fn add_event(&mut self, name: Option<&str>, chunk: &Value) -> Result<(), WireError> {
        if name == Some("error") {
            return Err(failure::named(chunk));
        }
        for choice in self.open(chunk)? {
            let Some(delta) = present(choice, "delta") else { continue };
            self.add_message(delta);
            for call in items(delta, "tool_calls") {
                let piece = self.calls.add_fragment(call);
                self.emit(DeltaKind::ToolCall, piece);
                self.check_calls()?;
            }
        }
        Ok(())
    }

    fn add_body(&mut self, body: &Value) -> Result<(), WireError> {
        for choice in self.open(body)? {
            let Some(message) = present(choice, "message") else { continue };
            self.add_message(message);
            for call in items(message, "tool_calls") {
                self.calls.add_whole(call);
                self.check_calls()?;
            }
        }
        Ok(())
    }

    fn add_done(&mut self) {
        self.ended = true;
    }

    fn is_complete(&self) -> bool {
        self.ended || self.finish.is_some()
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
            parts: self.parts(),
        }
    }

    fn whole(&self) -> Result<Reply, WireError> {
        if self.has_choices {
            Ok(self.reply(ReplyState::Complete))
        } else {
            Err(WireError::protocol("the answer has no choices"))
        }
    }
}

fn reason(raw: &str) -> FinishReason {
    match raw {
        "stop" => FinishReason::Stop,
        "length" | "model_length" => FinishReason::Length,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "content_filter" => FinishReason::ContentFilter,
        "error" | "insufficient_system_resource" => FinishReason::Error,
        _ => FinishReason::Other,
    }
}
