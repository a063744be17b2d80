//! A reply, put together from a whole body or from the events of a stream.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::block::{Block, Piece, whole};
use super::usage::Counts;
use crate::domain::id::CallId;
use crate::domain::message::{
    RedactedThinkingPart, Reply, ReplyPart, ReplyState, TextPart, ThinkingPart, ToolCallPart,
    UnknownPart,
};
use crate::domain::model::{FinishReason, Provider};
use crate::wire::assembly::{Assembly, check_calls};
use crate::wire::failure;
use crate::wire::json::{items, present, storable, text};
use crate::wire::{DeltaPiece, WireError};

/// What has come of a reply so far.
#[derive(Debug)]
pub(super) struct MessageReply {
    provider: Provider,
    model: Option<String>,
    response_id: Option<String>,
    blocks: Vec<Block>,
    /// Where the block with an index is among the blocks.
    places: BTreeMap<u64, usize>,
    n_calls: usize,
    finish: Option<String>,
    usage: Counts,
    /// Something of a message has come.
    is_begun: bool,
    /// `message_stop` has come.
    is_ended: bool,
    pieces: Vec<DeltaPiece>,
}

/// What a delta or an event is.
pub(super) fn kind_of(value: &Value) -> &str {
    text(value, "type").unwrap_or_default()
}

impl MessageReply {
    pub(super) fn new(provider: Provider) -> Self {
        Self {
            provider,
            model: None,
            response_id: None,
            blocks: Vec::new(),
            places: BTreeMap::new(),
            n_calls: 0,
            finish: None,
            usage: Counts::default(),
            is_begun: false,
            is_ended: false,
            pieces: Vec::new(),
        }
    }

    /// Takes a message, whole or as it begins.
    fn add_message(&mut self, message: &Value) {
        self.is_begun = true;
        self.model = self.model.take().or_else(|| text(message, "model").map(storable));
        self.response_id = self.response_id.take().or_else(|| text(message, "id").map(storable));
        for block in items(message, "content") {
            self.begin(None, block);
        }
        // Some servers send the text alone.
        if let Some(said) = text(message, "content") {
            self.begin(None, &json!({"type": "text", "text": said}));
        }
        self.add_end(message);
    }

    /// Takes why the model stopped and what it cost.
    fn add_end(&mut self, told: &Value) {
        if let Some(usage) = told.get("usage") {
            self.usage.take(usage);
        }
        if let Some(reason) = text(told, "stop_reason") {
            self.finish = Some(reason.to_owned());
        }
    }

    fn begin(&mut self, index: Option<u64>, block: &Value) {
        if !block.is_object() {
            return;
        }
        let block = Block::read(block);
        let piece = block.begun();
        self.push(index, block);
        self.emit(piece);
    }

    fn push(&mut self, index: Option<u64>, block: Block) {
        if let Some(index) = index {
            self.places.insert(index, self.blocks.len());
        }
        self.n_calls += usize::from(matches!(block, Block::Call(_)));
        self.blocks.push(block);
    }

    fn add_delta(&mut self, index: Option<u64>, delta: &Value) {
        let last = self.blocks.len().checked_sub(1);
        let place = index.map_or(last, |index| self.places.get(&index).copied());
        if place.is_none()
            && let Some(block) = Block::for_delta(delta)
        {
            self.push(index, block);
        }
        let place = place.or_else(|| self.blocks.len().checked_sub(1));
        let block = place.and_then(|place| self.blocks.get_mut(place));
        let piece = block.and_then(|block| block.add(delta));
        self.emit(piece);
    }

    fn emit(&mut self, piece: Option<Piece>) {
        if let Some((kind, text)) = piece.filter(|(_, text)| !text.is_empty()) {
            self.pieces.push(DeltaPiece { kind, text });
        }
    }

    /// A call decides, whatever the reason says.
    fn finish_reason(&self) -> Option<FinishReason> {
        let reason = self.finish.as_deref().map(reason);
        match reason {
            None | Some(FinishReason::Stop | FinishReason::Other) if self.n_calls > 0 => {
                Some(FinishReason::ToolCalls)
            }
            told => told,
        }
    }

    fn parts(&self) -> Vec<ReplyPart> {
        let mut ids = BTreeSet::new();
        let mut number = 0_usize;
        let parts = self.blocks.iter().filter_map(|block| match block {
            Block::Call(call) => {
                number = number.saturating_add(1);
                let is_usable = !call.id.is_empty() && ids.insert(call.id.as_str());
                Some(ReplyPart::ToolCall(ToolCallPart {
                    tool_call_id: CallId(format!("call_{number}")),
                    provider_call_id: is_usable.then(|| call.id.clone()),
                    name: call.name.clone(),
                    arguments: call.arguments(),
                    echo: call.echo.clone(),
                }))
            }
            Block::Text { .. }
            | Block::Thinking { .. }
            | Block::Redacted { .. }
            | Block::Other { .. } => self.part(block),
        });
        parts.collect()
    }

    fn part(&self, block: &Block) -> Option<ReplyPart> {
        let issuer = Some(self.provider);
        match block {
            Block::Text { text, citations } => (!text.is_empty()).then(|| {
                let echo = (!citations.is_empty()).then(|| json!({"citations": citations}));
                ReplyPart::Text(TextPart { text: text.clone(), echo })
            }),
            Block::Thinking { text, signature } => {
                let signature = Some(signature.clone()).filter(|it| !it.is_empty());
                (!text.is_empty() || signature.is_some()).then(|| {
                    let text = text.clone();
                    ReplyPart::Thinking(ThinkingPart {
                        text,
                        signature,
                        id: None,
                        issuer,
                        echo: None,
                    })
                })
            }
            Block::Redacted { data } => Some(ReplyPart::RedactedThinking(RedactedThinkingPart {
                data: data.clone(),
                issuer,
            })),
            Block::Other { raw, partial } => {
                Some(ReplyPart::Unknown(UnknownPart { issuer, raw: whole(raw, partial) }))
            }
            Block::Call(_) => None,
        }
    }
}

impl Assembly for MessageReply {
    const END: &'static str = "a stop reason or message_stop";

    fn add_event(&mut self, name: Option<&str>, event: &Value) -> Result<(), WireError> {
        let kind = text(event, "type").or(name).unwrap_or_default();
        if kind == "error" || name == Some("error") {
            return Err(failure::named(event));
        }
        if let Some(error) = failure::in_band(event) {
            return Err(error);
        }
        let index = event.get("index").and_then(Value::as_u64);
        let member = |name: &str| present(event, name).unwrap_or(&Value::Null);
        match kind {
            "message_start" => self.add_message(member("message")),
            "message" => {
                self.add_message(event);
                self.is_ended = true;
            }
            "content_block_start" => self.begin(index, member("content_block")),
            "content_block_delta" => self.add_delta(index, member("delta")),
            "message_delta" => {
                self.is_begun = true;
                self.add_end(member("delta"));
                self.add_end(event);
            }
            "message_stop" => self.is_ended = true,
            // Pings, the ends of blocks, and what later versions add.
            _ => {}
        }
        check_calls(self.n_calls)
    }

    fn add_body(&mut self, body: &Value) -> Result<(), WireError> {
        if let Some(error) = failure::in_band(body) {
            return Err(error);
        }
        if kind_of(body) == "error" {
            return Err(failure::named(body));
        }
        if body.get("content").is_some() || body.get("stop_reason").is_some() {
            self.add_message(body);
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_ended
    }

    fn is_complete(&self) -> bool {
        self.is_ended || self.finish.is_some()
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
            usage: self.usage.total(),
            state,
            parts: self.parts(),
        }
    }

    fn whole(&self) -> Result<Reply, WireError> {
        if self.is_begun || !self.blocks.is_empty() {
            Ok(self.reply(ReplyState::Complete))
        } else {
            Err(WireError::protocol("the answer has no message"))
        }
    }
}

fn reason(raw: &str) -> FinishReason {
    match raw {
        "end_turn" | "stop_sequence" | "compaction" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        // `pause_turn` is a turn to go on with.
        _ => FinishReason::Other,
    }
}
