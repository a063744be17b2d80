//! A reply, put together from a whole body or from the lines of a stream, which are alike.

use serde_json::Value;

use crate::domain::event::DeltaKind;
use crate::domain::message::{Reply, ReplyPart, ReplyState, TextPart, ThinkingPart, UnknownPart};
use crate::domain::model::{FinishReason, Provider, Usage};
use crate::wire::assembly::{Assembly, check_calls};
use crate::wire::failure;
use crate::wire::json::{count, items, present, storable, storable_value, text};
use crate::wire::openai_chat::calls::Calls;
use crate::wire::think::{Splitter, ThinkTags};
use crate::wire::{DeltaPiece, WireError};

/// What has come of a reply so far.
#[derive(Debug)]
pub(super) struct OllamaReply {
    provider: Provider,
    model: Option<String>,
    thinking: String,
    /// The server told thinking apart itself.
    has_thinking: bool,
    splitter: Splitter,
    said: String,
    images: Vec<Value>,
    calls: Calls,
    finish: Option<String>,
    usage: Option<Usage>,
    has_message: bool,
    done: bool,
    pieces: Vec<DeltaPiece>,
}

impl OllamaReply {
    pub(super) fn new(provider: Provider, tags: ThinkTags) -> Self {
        Self {
            provider,
            model: None,
            thinking: String::new(),
            has_thinking: false,
            splitter: Splitter::new(tags),
            said: String::new(),
            images: Vec::new(),
            calls: Calls::default(),
            finish: None,
            usage: None,
            has_message: false,
            done: false,
            pieces: Vec::new(),
        }
    }

    fn emit(&mut self, kind: DeltaKind, text: &str) {
        if text.is_empty() {
            return;
        }
        if kind == DeltaKind::Thinking {
            self.thinking.push_str(text);
        } else if kind == DeltaKind::Text {
            self.said.push_str(text);
        }
        self.pieces.push(DeltaPiece { kind, text: text.to_owned() });
    }

    fn add_message(&mut self, message: &Value) -> Result<(), WireError> {
        self.has_message = true;
        if let Some(thought) = text(message, "thinking") {
            self.has_thinking = true;
            self.emit(DeltaKind::Thinking, &storable(thought));
        }
        if let Some(said) = text(message, "content") {
            for (kind, piece) in self.splitter.push(&storable(said)) {
                self.emit(kind, &piece);
            }
        }
        self.images.extend(items(message, "images").iter().map(storable_value));
        for call in items(message, "tool_calls") {
            let piece = self.calls.add_whole(call);
            self.emit(DeltaKind::ToolCall, &piece);
            check_calls(self.calls.len())?;
        }
        Ok(())
    }

    /// The counts come with the end, and one that is nothing is absent.
    fn count(&mut self, line: &Value) {
        let (input, output) = (count(line, "prompt_eval_count"), count(line, "eval_count"));
        if input.is_some() || output.is_some() {
            let (input, output) = (input.unwrap_or(0), output.unwrap_or(0));
            self.usage = Some(Usage { input, output, ..Usage::default() });
        }
    }

    fn finish_reason(&self) -> Option<FinishReason> {
        let reason = self.finish.as_deref().map(|raw| match raw {
            "stop" => FinishReason::Stop,
            "length" => FinishReason::Length,
            _ => FinishReason::Other,
        });
        match reason {
            None | Some(FinishReason::Stop | FinishReason::Other) if !self.calls.is_empty() => {
                Some(FinishReason::ToolCalls)
            }
            told => told,
        }
    }

    fn parts(&self) -> Vec<ReplyPart> {
        let issuer = Some(self.provider);
        let (text, said) = self.splitter.settled(&self.thinking, &self.said);
        let thinking = (!text.trim().is_empty()).then(|| {
            // Thinking that stood in the text does not go back.
            let echo = (!self.has_thinking).then(|| Value::Object(serde_json::Map::new()));
            ReplyPart::Thinking(ThinkingPart { text, signature: None, id: None, issuer, echo })
        });
        let said = (!said.is_empty()).then(|| ReplyPart::Text(TextPart { text: said, echo: None }));
        let images = (!self.images.is_empty()).then(|| {
            let raw = serde_json::json!({"images": self.images});
            ReplyPart::Unknown(UnknownPart { issuer, raw })
        });
        let calls = self.calls.parts().into_iter().map(ReplyPart::ToolCall);
        thinking.into_iter().chain(said).chain(images).chain(calls).collect()
    }
}

impl Assembly for OllamaReply {
    const END: &'static str = "a line that says it is done";

    fn add_event(&mut self, _name: Option<&str>, line: &Value) -> Result<(), WireError> {
        if let Some(error) = failure::in_band(line) {
            return Err(error);
        }
        if !line.is_object() {
            return Err(WireError::protocol("a JSON object was expected"));
        }
        self.model = self.model.take().or_else(|| text(line, "model").map(storable));
        if let Some(message) = present(line, "message") {
            self.add_message(message)?;
        }
        self.count(line);
        if let Some(reason) = text(line, "done_reason") {
            self.finish = Some(reason.to_owned());
        }
        self.done |= line.get("done") == Some(&Value::Bool(true));
        Ok(())
    }

    fn add_body(&mut self, body: &Value) -> Result<(), WireError> {
        self.add_event(None, body)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn is_complete(&self) -> bool {
        self.done
    }

    fn take_pieces(&mut self) -> Vec<DeltaPiece> {
        std::mem::take(&mut self.pieces)
    }

    fn reply(&self, state: ReplyState) -> Reply {
        Reply {
            host: None,
            provider: Some(self.provider),
            model: self.model.clone(),
            response_id: None,
            finish_reason: self.finish_reason(),
            usage: self.usage,
            state,
            parts: self.parts(),
        }
    }

    fn whole(&self) -> Result<Reply, WireError> {
        if self.has_message || self.done {
            Ok(self.reply(ReplyState::Complete))
        } else {
            Err(WireError::protocol("the answer has no message"))
        }
    }
}
