//! A reply, put together from a whole body or from the events of a stream.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::blocks::{Block, Blocks, base64, input_text, item_value, join};
use crate::domain::event::DeltaKind;
use crate::domain::id::CallId;
use crate::domain::message::{
    RedactedThinkingPart, Reply, ReplyPart, ReplyState, TextPart, ThinkingPart, ToolCallPart,
    UnknownPart,
};
use crate::domain::model::{FinishReason, Provider, Usage};
use crate::wire::assembly::{Assembly, check_calls};
use crate::wire::json::{count, items, present, storable, text};
use crate::wire::{DeltaPiece, WireError, failure};

/// What has come of a reply so far.
#[derive(Debug)]
pub(super) struct ConverseReply {
    provider: Provider,
    blocks: Blocks,
    finish: Option<String>,
    usage: Option<Usage>,
    /// A message has come, as far as a whole body has one.
    has_message: bool,
    /// `messageStop` has come.
    is_stopped: bool,
    /// `metadata` has come.
    is_counted: bool,
    pieces: Vec<DeltaPiece>,
}

impl ConverseReply {
    pub(super) fn new(provider: Provider) -> Self {
        Self {
            provider,
            blocks: Blocks::default(),
            finish: None,
            usage: None,
            has_message: false,
            is_stopped: false,
            is_counted: false,
            pieces: Vec::new(),
        }
    }

    fn begin(&mut self, event: &Value) {
        let index = count(event, "contentBlockIndex");
        let Some(start) = present(event, "start") else { return };
        if let Some(call) = start.get("toolUse") {
            self.blocks.begin(index, Block::call(call));
        } else if start.get("text").is_none() && start.get("reasoningContent").is_none() {
            self.blocks.begin(index, Block::item(start));
        }
    }

    fn add_delta(&mut self, event: &Value) {
        let index = count(event, "contentBlockIndex");
        let Some(delta) = present(event, "delta") else { return };
        for (name, piece) in delta.as_object().into_iter().flatten() {
            match name.as_str() {
                "text" => self.say(index, piece.as_str().unwrap_or_default()),
                "reasoningContent" => self.add_reasoning(index, piece),
                "toolUse" => self.add_input(index, piece.get("input").unwrap_or(&Value::Null)),
                "citation" => self.cite(index, piece),
                _ => self.add_to_item(index, name, piece),
            }
        }
    }

    fn say(&mut self, index: Option<u64>, piece: &str) {
        let piece = storable(piece);
        let is_text = |block: &Block| matches!(block, Block::Text { .. });
        if let Some(Block::Text { said, .. }) = self.blocks.entry(index, is_text, Block::text) {
            said.push_str(&piece);
        }
        self.emit(DeltaKind::Text, piece);
    }

    fn add_reasoning(&mut self, index: Option<u64>, reasoning: &Value) {
        if let Some(data) = text(reasoning, "redactedContent") {
            let is_redacted = |block: &Block| matches!(block, Block::Redacted { .. });
            let new = || Block::Redacted { pieces: Vec::new() };
            if let Some(Block::Redacted { pieces }) = self.blocks.entry(index, is_redacted, new) {
                pieces.push(storable(data));
            }
            return;
        }
        // The members of a whole block stand one level deeper.
        let reasoning = present(reasoning, "reasoningText").unwrap_or(reasoning);
        let piece = storable(text(reasoning, "text").unwrap_or_default());
        let signature = text(reasoning, "signature").map(storable);
        let is_thinking = |block: &Block| matches!(block, Block::Thinking { .. });
        let entry = self.blocks.entry(index, is_thinking, Block::thinking);
        if let Some(Block::Thinking { thought, signature: known }) = entry {
            thought.push_str(&piece);
            if let Some(signature) = signature {
                known.get_or_insert_default().push_str(&signature);
            }
        }
        self.emit(DeltaKind::Thinking, piece);
    }

    /// Input of a call that never began belongs to nothing.
    fn add_input(&mut self, index: Option<u64>, piece: &Value) {
        let is_call = |block: &Block| matches!(block, Block::Call { .. } | Block::Item { .. });
        let piece = input_text(piece);
        match self.blocks.entry(index, is_call, || Block::call(&Value::Null)) {
            Some(Block::Call { input, .. }) => {
                input.push_str(&piece);
                self.emit(DeltaKind::ToolCall, piece);
            }
            Some(Block::Item { input, .. }) => input.push_str(&piece),
            _ => {}
        }
    }

    /// A citation backs the text of its block, or is a block of its own.
    fn cite(&mut self, index: Option<u64>, citation: &Value) {
        let is_cited = |block: &Block| matches!(block, Block::Text { .. } | Block::Item { .. });
        let new = || Block::item(&json!({"citationsContent": {"citations": []}}));
        match self.blocks.entry(index, is_cited, new) {
            Some(Block::Text { citations, .. }) => citations.push(citation.clone()),
            Some(Block::Item { members, .. }) => {
                let known = members.entry("citationsContent").or_insert_with(|| json!({}));
                join(known, &json!({"citations": [citation]}));
            }
            _ => {}
        }
    }

    /// The pieces of a result are its content; other things go on as they began.
    fn add_to_item(&mut self, index: Option<u64>, name: &str, piece: &Value) {
        let is_item = |block: &Block| matches!(block, Block::Item { .. });
        let entry = self.blocks.entry(index, is_item, || Block::item(&Value::Null));
        let Some(Block::Item { members, .. }) = entry else { return };
        let known = members.entry(name).or_insert(Value::Null);
        if name == "toolResult" && piece.is_array() {
            if known.is_null() {
                *known = json!({});
            }
            join(known, &json!({"content": piece}));
        } else {
            join(known, piece);
        }
    }

    fn stop(&mut self, event: &Value) {
        if let Some(reason) = text(event, "stopReason") {
            self.finish = Some(reason.to_owned());
        }
    }

    fn emit(&mut self, kind: DeltaKind, text: String) {
        if !text.is_empty() {
            self.pieces.push(DeltaPiece { kind, text });
        }
    }

    /// The parts, with provisional ids of the calls by position. An id that repeats an earlier one is
    /// left out.
    fn parts(&self) -> Vec<ReplyPart> {
        let mut ids = BTreeSet::new();
        let mut calls = 0_usize;
        let mut parts = Vec::new();
        for block in self.blocks.iter() {
            let Block::Call { id, name, input } = block else {
                parts.extend(part(block, self.provider));
                continue;
            };
            // A placeholder of a server that fills in every optional member.
            if name.is_empty() && input.trim().is_empty() {
                continue;
            }
            calls = calls.saturating_add(1);
            let is_new = !id.is_empty() && ids.insert(id.as_str());
            parts.push(ReplyPart::ToolCall(ToolCallPart {
                tool_call_id: CallId(format!("call_{calls}")),
                provider_call_id: is_new.then(|| id.clone()),
                name: name.clone(),
                arguments: arguments(input),
                echo: None,
            }));
        }
        parts
    }

    /// A call decides, whatever the reason says.
    fn finish_reason(&self, parts: &[ReplyPart]) -> Option<FinishReason> {
        let calls = parts.iter().any(|part| matches!(part, ReplyPart::ToolCall(_)));
        match self.finish.as_deref().map(reason) {
            None | Some(FinishReason::Stop | FinishReason::Other) if calls => {
                Some(FinishReason::ToolCalls)
            }
            told => told,
        }
    }
}

/// Any block but a call as a part.
fn part(block: &Block, provider: Provider) -> Option<ReplyPart> {
    let issuer = Some(provider);
    match block {
        Block::Text { said, citations } => (!said.is_empty()).then(|| {
            let echo = (!citations.is_empty()).then(|| json!({"citations": citations}));
            ReplyPart::Text(TextPart { text: said.clone(), echo })
        }),
        Block::Thinking { thought, signature } => (!thought.is_empty() || signature.is_some())
            .then(|| {
                ReplyPart::Thinking(ThinkingPart {
                    text: thought.clone(),
                    signature: signature.clone(),
                    id: None,
                    issuer,
                    echo: None,
                })
            }),
        Block::Redacted { pieces } => {
            let data = base64(pieces);
            Some(ReplyPart::RedactedThinking(RedactedThinkingPart { data, issuer }))
        }
        Block::Item { members, input } => (!members.is_empty()).then(|| {
            let raw = item_value(members, input);
            ReplyPart::Unknown(UnknownPart { issuer, raw })
        }),
        Block::Call { .. } => None,
    }
}

/// Arguments as they came, where nothing and `null` mean none.
fn arguments(input: &str) -> String {
    match input.trim() {
        "" | "null" => "{}".to_owned(),
        _ => input.to_owned(),
    }
}

impl Assembly for ConverseReply {
    const END: &'static str = "messageStop";

    fn add_event(&mut self, name: Option<&str>, event: &Value) -> Result<(), WireError> {
        match name {
            Some("contentBlockStart") => self.begin(event),
            Some("contentBlockDelta") => self.add_delta(event),
            Some("messageStop") => {
                self.is_stopped = true;
                self.stop(event);
            }
            Some("metadata") => {
                self.is_counted = true;
                self.usage = event.get("usage").and_then(usage).or(self.usage);
            }
            // Some proxies name an event inside of it.
            None => {
                if let Some((name, event)) = event.as_object().and_then(|it| it.iter().next()) {
                    return self.add_event(Some(name), event);
                }
            }
            Some(_) => {}
        }
        check_calls(self.blocks.n_calls())
    }

    fn add_body(&mut self, body: &Value) -> Result<(), WireError> {
        let message = body.pointer("/output/message").filter(|message| message.is_object());
        self.has_message = message.is_some() || text(body, "stopReason").is_some();
        if !self.has_message && body.is_object() {
            let says = ["message", "Message", "__type"].iter().any(|key| text(body, key).is_some());
            let error = says.then(|| failure::named(body)).or_else(|| failure::in_band(body));
            return error.map_or(Ok(()), Err);
        }
        for block in message.map_or(&[][..], |message| items(message, "content")) {
            self.blocks.begin(None, Block::whole(block));
        }
        self.stop(body);
        self.usage = body.get("usage").and_then(usage);
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_stopped && self.is_counted
    }

    fn is_complete(&self) -> bool {
        self.is_stopped
    }

    fn take_pieces(&mut self) -> Vec<DeltaPiece> {
        std::mem::take(&mut self.pieces)
    }

    fn reply(&self, state: ReplyState) -> Reply {
        let parts = self.parts();
        Reply {
            host: None,
            provider: Some(self.provider),
            model: None,
            response_id: None,
            finish_reason: self.finish_reason(&parts),
            usage: self.usage,
            state,
            parts,
        }
    }

    fn whole(&self) -> Result<Reply, WireError> {
        if self.has_message || self.is_stopped {
            Ok(self.reply(ReplyState::Complete))
        } else {
            Err(WireError::protocol("the answer has no message"))
        }
    }
}

fn reason(raw: &str) -> FinishReason {
    match raw {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "guardrail_intervened" | "content_filtered" => FinishReason::ContentFilter,
        malformed if malformed.starts_with("malformed_") => FinishReason::Error,
        _ => FinishReason::Other,
    }
}

/// Converse counts what the cache read and wrote beside the input.
fn usage(usage: &Value) -> Option<Usage> {
    let (input, output) = (count(usage, "inputTokens"), count(usage, "outputTokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let cache_read = count(usage, "cacheReadInputTokens").unwrap_or(0);
    let cache_write = count(usage, "cacheWriteInputTokens").unwrap_or(0);
    Some(Usage {
        input: input.unwrap_or(0).saturating_add(cache_read).saturating_add(cache_write),
        output: output.unwrap_or(0),
        cache_read,
        cache_write,
        reasoning: 0,
    })
}
