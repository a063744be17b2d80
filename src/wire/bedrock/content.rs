//! Messages and their blocks as JSON.

use serde_json::Value;

use super::files::{self, Names};
use super::history::{Message, Piece, is_image};
use crate::domain::file::FilePart;
use crate::domain::ledger::Origin;
use crate::render::prompt::{Block, MarkedText};
use crate::wire::writer::{Array, Object};

/// What stands where something has to be said and nothing is.
const FILLER: &str = ".";

/// Writes messages one after the other.
#[derive(Debug)]
pub(super) struct Content {
    /// Whether a result says by a member of its own that it is a failure.
    pub(super) result_status: bool,
    pub(super) names: Names,
}

impl Content {
    pub(super) fn add_message(&mut self, messages: &mut Array<'_>, message: &Message<'_>) {
        messages.object(|entry| {
            entry.wire("role", message.speaker.name());
            entry.array("content", |content| {
                message.pieces.iter().for_each(|piece| self.add_piece(content, *piece));
            });
        });
    }

    fn add_piece(&mut self, content: &mut Array<'_>, piece: Piece<'_>) {
        match piece {
            Piece::Block(block) => self.add_block(content, block),
            Piece::Filler => content.object(|part| part.wire("text", FILLER)),
        }
    }

    fn add_block(&mut self, content: &mut Array<'_>, block: &Block) {
        content.object(|part| match block {
            Block::Text(text) | Block::Said { text, echo: None } => part.text("text", text),
            Block::Said { text, echo: Some(echo) } => add_cited(part, text, echo),
            Block::File { file, origin } => self.add_file(part, file, origin),
            Block::Thinking { text, signature, .. } => {
                add_thinking(part, text, signature.as_deref());
            }
            Block::RedactedThinking { data, origin } => part.object("reasoningContent", |it| {
                it.string("redactedContent", data, origin);
            }),
            Block::Opaque { raw, origin } => {
                for (name, value) in raw.as_object().into_iter().flatten() {
                    part.value(name, value, origin);
                }
            }
            Block::ToolCall { id, name, arguments, origin, .. } => part.object("toolUse", |call| {
                call.string("toolUseId", id, origin);
                call.string("name", name, origin);
                call.json("input", arguments, origin);
            }),
            Block::ToolResult { id, text, is_error, .. } => part.object("toolResult", |result| {
                self.add_result(result, id, (text, *is_error));
            }),
        });
    }

    fn add_result(&self, result: &mut Object<'_>, id: &str, (text, is_error): (&MarkedText, bool)) {
        result.string("toolUseId", id, text.origin());
        result.array("content", |content| {
            content.object(|part| match text.trim() {
                "" => part.wire("text", FILLER),
                _ => part.text("text", text),
            });
        });
        if self.result_status {
            result.wire("status", if is_error { "error" } else { "success" });
        }
    }

    fn add_file(&mut self, part: &mut Object<'_>, file: &FilePart, origin: &Origin) {
        let kind = if is_image(file) { "image" } else { "document" };
        part.object(kind, |it| {
            it.string("format", files::format(&file.media_type), origin);
            if !is_image(file) {
                it.string("name", &self.names.next(&file.id), origin);
            }
            it.object("source", |source| source.string("bytes", &files::bytes(file), origin));
        });
    }
}

/// A text that the model backed with citations.
fn add_cited(part: &mut Object<'_>, text: &MarkedText, echo: &Value) {
    let Some(citations) = echo.get("citations").filter(|it| it.is_array()) else {
        return part.text("text", text);
    };
    part.object("citationsContent", |cited| {
        cited.array("content", |content| content.object(|part| part.text("text", text)));
        cited.value("citations", citations, text.origin());
    });
}

fn add_thinking(part: &mut Object<'_>, text: &MarkedText, signature: Option<&str>) {
    part.object("reasoningContent", |it| {
        it.object("reasoningText", |thought| {
            thought.text("text", text);
            if let Some(signature) = signature {
                thought.string("signature", signature, text.origin());
            }
        });
    });
}
