//! The conversation as input items.
//!
//! Every turn is items of its own, so a longer conversation only appends. The items of a reply go back
//! in the order in which they came.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use super::items::kind_of;
use crate::domain::file::{FilePart, FileSource};
use crate::domain::ledger::Origin;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, PromptTurn, Role};
use crate::wire::json;
use crate::wire::writer::{Array, Object};

/// Members of an echo that are not members of the item.
const OF_PARTS: &[&str] = &[
    "id",
    "type",
    "role",
    "status",
    "content",
    "annotations",
    "summary",
    "encrypted_content",
    "call_id",
    "name",
    "arguments",
    "output",
];

/// Writes the turns of a conversation.
pub(super) fn add_turns(items: &mut Array<'_>, turns: &[PromptTurn], profile: &Profile) {
    for turn in turns {
        turn.blocks.iter().for_each(|block| add_result(items, block));
        match turn.role {
            Role::Assistant => add_reply(items, &turn.blocks, profile),
            Role::System => add_spoken(items, "system", &turn.blocks),
            Role::User | Role::Tool => add_spoken(items, "user", &turn.blocks),
        }
    }
}

fn add_result(items: &mut Array<'_>, block: &Block) {
    if let Block::ToolResult { id, text, .. } = block {
        items.object(|item| {
            item.wire("type", "function_call_output");
            item.string("call_id", id, text.origin());
            item.text("output", text);
        });
    }
}

/// One text is sent as a text, which every host understands; several blocks as a list of parts, so that
/// nothing has to be put between them.
fn add_spoken(items: &mut Array<'_>, role: &str, blocks: &[Block]) {
    let is_part = |block: &&Block| matches!(block, Block::Text(_) | Block::File { .. });
    let parts: Vec<&Block> = blocks.iter().filter(is_part).collect();
    if parts.is_empty() {
        return;
    }
    items.object(|message| {
        message.wire("type", "message");
        message.wire("role", role);
        if let [Block::Text(only)] = parts.as_slice() {
            message.text("content", only);
        } else {
            message.array("content", |list| parts.iter().for_each(|part| add_part(list, part)));
        }
    });
}

fn add_part(list: &mut Array<'_>, block: &Block) {
    if let Block::Text(text) = block {
        list.object(|part| {
            part.wire("type", "input_text");
            part.text("text", text);
        });
    } else if let Block::File { file, origin } = block {
        list.object(|part| add_file(part, file, origin));
    }
}

fn add_file(part: &mut Object<'_>, file: &FilePart, origin: &Origin) {
    let of_bytes = |base64: &str| format!("data:{};base64,{base64}", file.media_type);
    let (url, is_far) = match &file.source {
        FileSource::Url(source) => (source.url.clone(), true),
        FileSource::Base64(source) => (of_bytes(&source.base64), false),
        FileSource::Text(source) => (of_bytes(&BASE64_STANDARD.encode(&source.text)), false),
    };
    if file.media_type.starts_with("image/") {
        part.wire("type", "input_image");
        part.string("image_url", &url, origin);
        // Some hosts want it said.
        part.wire("detail", "auto");
        return;
    }
    part.wire("type", "input_file");
    if is_far {
        part.string("file_url", &url, origin);
    } else {
        part.string("filename", &file.id, origin);
        part.string("file_data", &url, origin);
    }
}

/// A reply's items, in order. Neighbouring blocks that came as the parts of one item go back as one.
fn add_reply(items: &mut Array<'_>, blocks: &[Block], profile: &Profile) {
    let mut rest = blocks;
    while let Some((first, tail)) = rest.split_first() {
        let n_more = tail.iter().take_while(|block| is_same_item(first, block)).count();
        let (more, after) = tail.split_at_checked(n_more).unwrap_or((tail, &[]));
        match first {
            Block::Said { .. } => add_message(items, (first, more), profile),
            Block::Thinking { .. } | Block::RedactedThinking { .. }
                if is_taken(first, after, profile) =>
            {
                add_reasoning(items, (first, more), profile);
            }
            Block::ToolCall { .. } => add_call(items, first, profile),
            Block::Opaque { raw, origin } => add_opaque(items, (raw, origin), profile),
            Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::Text(_)
            | Block::File { .. }
            | Block::ToolResult { .. } => {}
        }
        rest = after;
    }
}

/// Whether a block goes on with the item that began with another.
fn is_same_item(first: &Block, next: &Block) -> bool {
    match (first, next) {
        (Block::Said { echo: first, .. }, Block::Said { echo: next, .. }) => {
            id_in(first.as_ref()).is_some() && id_in(first.as_ref()) == id_in(next.as_ref())
        }
        (Block::Thinking { id: first, .. }, Block::Thinking { id, signature: None, .. }) => {
            first.is_some() && first == id
        }
        _ => false,
    }
}

fn id_in(echo: Option<&Value>) -> Option<&str> {
    json::text(echo?, "id")
}

/// Whether the host takes a piece of reasoning back. Where reasoning is sealed, what is not says
/// nothing to the host, and what led to nothing is refused.
fn is_taken(reasoning: &Block, after: &[Block], profile: &Profile) -> bool {
    let is_reasoning =
        |block: &Block| matches!(block, Block::Thinking { .. } | Block::RedactedThinking { .. });
    let is_sealed = !matches!(reasoning, Block::Thinking { signature: None, .. });
    let is_outcome = |block: &Block| !is_reasoning(block);
    !profile.responses.sealed_reasoning || (is_sealed && after.iter().any(is_outcome))
}

/// The members of an echo that belong to the item.
fn add_echo(item: &mut Object<'_>, echo: Option<&Value>, origin: &Origin) {
    for (name, value) in echo.and_then(Value::as_object).into_iter().flatten() {
        if !OF_PARTS.contains(&name.as_str()) {
            item.value(name, value, origin);
        }
    }
}

/// What the model said: as it came where ids go back, else as a message of anyone's.
fn add_message(items: &mut Array<'_>, (first, more): (&Block, &[Block]), profile: &Profile) {
    let Block::Said { text, echo } = first else { return };
    let id = id_in(echo.as_ref()).filter(|_| profile.responses.item_ids);
    items.object(|message| {
        message.wire("type", "message");
        if let Some(id) = id {
            message.string("id", id, text.origin());
            message.wire("status", "completed");
        }
        message.wire("role", "assistant");
        add_echo(message, echo.as_ref(), text.origin());
        if id.is_none() && more.is_empty() {
            message.text("content", text);
            return;
        }
        message.array("content", |list| {
            for block in std::iter::once(first).chain(more) {
                list.object(|part| add_output_text(part, block, id.is_some()));
            }
        });
    });
}

fn add_output_text(part: &mut Object<'_>, block: &Block, as_it_came: bool) {
    let Block::Said { text, echo } = block else { return };
    part.wire("type", "output_text");
    part.text("text", text);
    if as_it_came {
        let annotations = echo.as_ref().and_then(|echo| echo.get("annotations"));
        let none = Value::Array(Vec::new());
        part.value("annotations", annotations.unwrap_or(&none), text.origin());
    }
}

fn add_reasoning(items: &mut Array<'_>, (first, more): (&Block, &[Block]), profile: &Profile) {
    if let Block::RedactedThinking { data, origin } = first {
        items.object(|item| {
            item.wire("type", "reasoning");
            item.wire("summary", Vec::<Value>::new());
            item.string("encrypted_content", data, origin);
        });
        return;
    }
    let Block::Thinking { text, signature, id, echo } = first else { return };
    let origin = text.origin();
    let parts = || std::iter::once(first).chain(more);
    items.object(|item| {
        item.wire("type", "reasoning");
        if let Some(id) = id.as_deref().filter(|_| profile.responses.item_ids) {
            item.string("id", id, origin);
        }
        add_echo(item, echo.as_ref(), origin);
        add_thoughts(item, ("summary", "summary_text"), parts().filter(|it| !is_raw(it)));
        let beside = echo.as_ref().and_then(|echo| echo.get("content")).filter(|it| it.is_array());
        if let Some(content) = beside {
            item.value("content", content, origin);
        } else if parts().any(is_raw) {
            add_thoughts(item, ("content", "reasoning_text"), parts().filter(|it| is_raw(it)));
        }
        if let Some(sealed) = signature {
            item.string("encrypted_content", sealed, origin);
        }
    });
}

/// Whether a thought is the reasoning itself, and no summary of it.
fn is_raw(block: &Block) -> bool {
    let Block::Thinking { echo: Some(echo), .. } = block else { return false };
    echo.get("content") == Some(&Value::Bool(true))
}

fn add_thoughts<'b>(
    item: &mut Object<'_>,
    (name, kind): (&str, &str),
    blocks: impl Iterator<Item = &'b Block>,
) {
    item.array(name, |list| blocks.for_each(|block| add_thought(list, kind, block)));
}

fn add_thought(list: &mut Array<'_>, kind: &str, block: &Block) {
    if let Block::Thinking { text, .. } = block
        && !text.is_empty()
    {
        list.object(|part| {
            part.wire("type", kind);
            part.text("text", text);
        });
    }
}

fn add_call(items: &mut Array<'_>, block: &Block, profile: &Profile) {
    let Block::ToolCall { id, name, arguments, echo, origin, .. } = block else { return };
    items.object(|item| {
        item.wire("type", "function_call");
        if let Some(id) = id_in(echo.as_ref()).filter(|_| profile.responses.item_ids) {
            item.string("id", id, origin);
        }
        add_echo(item, echo.as_ref(), origin);
        item.string("call_id", id, origin);
        item.string("name", name, origin);
        item.string("arguments", arguments, origin);
    });
}

/// Items that are told from the parts of a reply and never from what a host is said to have sent: a
/// loaded history could otherwise speak as anyone.
const TOLD_BY_PARTS: &[&str] =
    &["message", "reasoning", "function_call", "function_call_output", "item_reference"];

/// Whether an item is one that only the host has words for. What calls and requests for approval led to
/// is only told from outcomes.
fn is_the_hosts(raw: &Value) -> bool {
    let kind = kind_of(raw);
    let is_told =
        TOLD_BY_PARTS.contains(&kind) || kind.ends_with("_output") || kind.ends_with("_response");
    !(kind.is_empty() || is_told || raw.get("role").is_some())
}

/// A part of what the model said that only the host has words for. The decoder keeps it as a message of
/// its own; it is written anew, so that it speaks as nobody but the model.
fn unknown_part(raw: &Value) -> Option<&Value> {
    const TOLD: &[&str] = &["output_text", "text", "refusal"];
    let part = json::items(raw, "content").first().filter(|_| kind_of(raw) == "message")?;
    let is_known = |kind: &str| TOLD.contains(&kind) || kind.starts_with("input_");
    json::text(part, "type").is_some_and(|kind| !is_known(kind)).then_some(part)
}

/// An item that only the host has words for, as it came but for an id where none go back.
fn add_opaque(items: &mut Array<'_>, (raw, origin): (&Value, &Origin), profile: &Profile) {
    if let Some(part) = unknown_part(raw) {
        return items.object(|message| {
            message.wire("type", "message");
            message.wire("role", "assistant");
            message.array("content", |list| list.value(part, origin));
        });
    }
    if !is_the_hosts(raw) {
        return;
    }
    match raw.as_object() {
        Some(members) if !profile.responses.item_ids && members.contains_key("id") => {
            let others: Map<String, Value> = members
                .iter()
                .filter(|(name, _)| *name != "id")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            items.value(&Value::Object(others), origin);
        }
        _ => items.value(raw, origin),
    }
}
