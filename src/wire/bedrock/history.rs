//! Turns as the messages of Converse: who speaks when, and what stands in between.
//!
//! What is decided about a turn depends on the turns before it alone, so that a longer conversation
//! begins like the shorter one: a turn is added to the last message or begins a new one, and nothing is
//! ever put into a message that is over.

use serde_json::Value;

use crate::domain::file::FilePart;
use crate::render::converse::BesideResults;
use crate::render::profile::{OwnEnd, Profile};
use crate::render::prompt::{Block, PromptTurn, Role};
use crate::wire::json::text;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    User,
    Assistant,
}

impl Speaker {
    /// Its name in a request.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    const fn of(role: Role) -> Self {
        match role {
            Role::Assistant => Self::Assistant,
            Role::User | Role::Tool | Role::System => Self::User,
        }
    }
}

/// A piece of a message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece<'p> {
    /// A block of the prompt.
    Block(&'p Block),
    /// What stands where something has to be said and nothing is.
    Filler,
}

/// A message.
#[derive(Debug)]
pub(super) struct Message<'p> {
    pub(super) speaker: Speaker,
    pub(super) pieces: Vec<Piece<'p>>,
}

impl<'p> Message<'p> {
    fn filler(speaker: Speaker) -> Self {
        Self { speaker, pieces: vec![Piece::Filler] }
    }

    fn has(&self, is_meant: impl Fn(&Block) -> bool) -> bool {
        let mut pieces = self.pieces.iter();
        pieces.any(|piece| matches!(piece, Piece::Block(block) if is_meant(block)))
    }

    /// A document is only taken beside a text.
    fn add(&mut self, blocks: &[&'p Block]) {
        let has_filler = self.pieces.iter().any(|piece| matches!(piece, Piece::Filler));
        let has_text = has_filler || self.has(is_text) || blocks.iter().any(|it| is_text(it));
        if !has_text && blocks.iter().any(|block| is_document(block)) {
            self.pieces.push(Piece::Filler);
        }
        self.pieces.extend(blocks.iter().copied().map(Piece::Block));
    }
}

/// The messages of a conversation. Neighbouring turns of one speaker become one message, except that the
/// user stands behind every turn of a model that would take the last one for one to go on with.
pub(super) fn messages<'p>(turns: &'p [PromptTurn], profile: &Profile) -> Vec<Message<'p>> {
    let facts = profile.converse;
    let is_open = |last: &Message<'_>| {
        last.speaker == Speaker::Assistant && profile.own_end == OwnEnd::IsContinued
    };
    let mut messages: Vec<Message<'p>> = Vec::new();
    for turn in turns {
        let blocks: Vec<&Block> = turn.blocks.iter().filter(|block| is_told(block)).collect();
        if blocks.is_empty() {
            continue;
        }
        let speaker = Speaker::of(turn.role);
        if messages.is_empty() && speaker == Speaker::Assistant && !facts.begins_with_reply {
            messages.push(Message::filler(Speaker::User));
        }
        if speaker == Speaker::Assistant && messages.last().is_some_and(is_open) {
            messages.push(Message::filler(Speaker::User));
        }
        let last = messages.last_mut().filter(|message| message.speaker == speaker);
        match last {
            Some(message) if !has_to_part(message, &blocks, facts.beside_results) => {
                message.add(&blocks);
                continue;
            }
            Some(_) => messages.push(Message::filler(Speaker::Assistant)),
            None => {}
        }
        let mut message = Message { speaker, pieces: Vec::new() };
        message.add(&blocks);
        messages.push(message);
    }
    if messages.last().is_some_and(is_open) {
        messages.push(Message::filler(Speaker::User));
    }
    messages
}

/// Whether a turn cannot follow in a message because of the results of tools in it. Two messages of the
/// user in a row would be taken for one, so that the model has to say something in between.
fn has_to_part(message: &Message<'_>, blocks: &[&Block], rule: BesideResults) -> bool {
    let is_apart = |block: &&&Block| match rule {
        BesideResults::Anything => false,
        BesideResults::TextsAndImages => is_document(block),
        BesideResults::Nothing => !is_result(block),
    };
    message.has(is_result) && blocks.iter().any(|block| is_apart(&block))
}

fn is_result(block: &Block) -> bool {
    matches!(block, Block::ToolResult { .. })
}

fn is_text(block: &Block) -> bool {
    matches!(block, Block::Text(_) | Block::Said { .. })
}

fn is_document(block: &Block) -> bool {
    matches!(block, Block::File { file, .. } if !is_image(file))
}

pub(super) fn is_image(file: &FilePart) -> bool {
    file.media_type.starts_with("image/")
}

/// Whether a block is one that only the provider has words for: text is told from the parts of a reply,
/// and so are calls but for those that the provider says it runs itself. A loaded history can claim
/// anything to have come.
fn is_the_providers(raw: &Value) -> bool {
    const USERS: &[&str] = &["text", "image", "document", "guardContent", "cachePoint"];
    let Some(members) = raw.as_object().filter(|members| !members.is_empty()) else { return false };
    let is_own_call = |call: &Value| text(call, "type").is_some_and(|kind| kind != "tool_use");
    members.get("toolUse").is_none_or(is_own_call)
        && !members.keys().any(|name| USERS.contains(&name.as_str()))
}

/// Blank text is refused everywhere.
fn is_told(block: &Block) -> bool {
    match block {
        Block::Text(text) | Block::Said { text, .. } => !text.trim().is_empty(),
        Block::Thinking { text, signature, .. } => !text.trim().is_empty() || signature.is_some(),
        Block::Opaque { raw, .. } => is_the_providers(raw),
        Block::File { .. }
        | Block::RedactedThinking { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. } => true,
    }
}

/// Whether a conversation holds calls or results, for which Converse wants to know of tools.
pub(super) fn has_tools(turns: &[PromptTurn]) -> bool {
    let of_tool = |raw: &Value| raw.get("toolUse").or_else(|| raw.get("toolResult")).is_some();
    turns.iter().flat_map(|turn| &turn.blocks).any(|block| match block {
        Block::ToolCall { .. } | Block::ToolResult { .. } => true,
        Block::Opaque { raw, .. } => of_tool(raw),
        Block::Text(_)
        | Block::Said { .. }
        | Block::File { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. } => false,
    })
}
