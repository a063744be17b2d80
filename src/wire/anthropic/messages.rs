//! Messages and their blocks as JSON.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::history::Message;
use crate::domain::file::{FilePart, FileSource};
use crate::domain::ledger::Origin;
use crate::render::prompt::{Block, MarkedText};
use crate::wire::json::text;
use crate::wire::writer::{Array, Object};

/// What stands where the user has to say something and says nothing.
const ANCHOR: &str = ".";

/// Adds a message.
pub(super) fn add(messages: &mut Array<'_>, message: &Message<'_>) {
    messages.object(|entry| {
        entry.wire("role", message.speaker.name());
        entry.array("content", |content| {
            if message.blocks.is_empty() {
                add_anchor(content);
            }
            message.blocks.iter().for_each(|block| add_block(content, block));
        });
    });
}

fn add_anchor(content: &mut Array<'_>) {
    content.object(|part| {
        part.wire("type", "text");
        part.wire("text", ANCHOR);
    });
}

fn add_block(content: &mut Array<'_>, block: &Block) {
    match block {
        // A text of white space alone is refused, whoever says it.
        Block::Text(text) if text.trim().is_empty() => add_anchor(content),
        Block::Text(text) => add_text(content, text, None),
        Block::Said { text, echo } => add_text(content, text, echo.as_ref()),
        Block::File { file, origin } => content.object(|part| add_file(part, file, origin)),
        Block::Thinking { text, signature, .. } => content.object(|part| {
            part.wire("type", "thinking");
            part.text("thinking", text);
            if let Some(signature) = signature {
                part.string("signature", signature, text.origin());
            }
        }),
        Block::RedactedThinking { data, origin } => content.object(|part| {
            part.wire("type", "redacted_thinking");
            part.string("data", data, origin);
        }),
        Block::Opaque { raw, origin } => content.value(raw, origin),
        Block::ToolCall { id, name, arguments, echo, origin, .. } => content.object(|part| {
            part.wire("type", "tool_use");
            part.string("id", id, origin);
            part.string("name", name, origin);
            part.json("input", arguments, origin);
            add_echo(part, echo.as_ref(), origin);
        }),
        Block::ToolResult { id, text, is_error, .. } => {
            content.object(|part| add_result(part, id, text, *is_error));
        }
    }
}

fn add_text(content: &mut Array<'_>, text: &MarkedText, echo: Option<&Value>) {
    content.object(|part| {
        part.wire("type", "text");
        part.text("text", text);
        add_echo(part, echo, text.origin());
    });
}

/// The members that the decoder keeps of a text or a call. A loaded history can claim anything to have
/// come.
const KEPT: &[&str] = &["citations", "caller"];

/// Blocks that are told from the parts of a reply, or that only the user may send.
const TOLD_BY_PARTS: &[&str] = &[
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "image",
    "document",
    "search_result",
];

/// Whether a block is of a kind that only the provider has words for.
pub(super) fn is_the_providers(raw: &Value) -> bool {
    text(raw, "type").is_some_and(|kind| !TOLD_BY_PARTS.contains(&kind))
}

fn add_echo(part: &mut Object<'_>, echo: Option<&Value>, origin: &Origin) {
    for (name, value) in echo.and_then(Value::as_object).into_iter().flatten() {
        if KEPT.contains(&name.as_str()) {
            part.value(name, value, origin);
        }
    }
}

fn add_result(part: &mut Object<'_>, id: &str, text: &MarkedText, is_error: bool) {
    part.wire("type", "tool_result");
    part.string("tool_use_id", id, text.origin());
    if !text.trim().is_empty() {
        part.array("content", |content| add_text(content, text, None));
    }
    if is_error {
        part.wire("is_error", true);
    }
}

/// An image, or any other file as a document.
fn add_file(part: &mut Object<'_>, file: &FilePart, origin: &Origin) {
    let is_image = file.media_type.starts_with("image/");
    part.wire("type", if is_image { "image" } else { "document" });
    part.object("source", |source| match &file.source {
        FileSource::Url(it) => {
            source.wire("type", "url");
            source.string("url", &it.url, origin);
        }
        FileSource::Base64(it) => add_bytes(source, &file.media_type, &it.base64, origin),
        FileSource::Text(it) if !is_image => {
            source.wire("type", "text");
            source.wire("media_type", "text/plain");
            source.string("data", &it.text, origin);
        }
        FileSource::Text(it) => {
            add_bytes(source, &file.media_type, &BASE64_STANDARD.encode(&it.text), origin);
        }
    });
    if !is_image {
        part.string("title", &file.id, origin);
    }
}

fn add_bytes(source: &mut Object<'_>, media_type: &str, base64: &str, origin: &Origin) {
    source.wire("type", "base64");
    source.string("media_type", media_type, origin);
    source.string("data", base64, origin);
}
