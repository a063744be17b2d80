//! The messages of a request. What is written for a turn depends on what came before it alone, so that
//! a longer conversation begins with the bytes of the shorter one.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::reply::UNKNOWN;
use super::thinking::{Returned, origin_of};
use crate::domain::file::{FilePart, FileSource};
use crate::domain::ledger::Origin;
use crate::render::chat::{MessageOrder, ThinkingPlace};
use crate::render::profile::{EmptyContent, OwnThinking, Profile};
use crate::render::prompt::{Block, MarkedText, Prompt, PromptTurn, Role};
use crate::wire::json::text;
use crate::wire::writer::{Array, Object};

/// What the model is made to say where a user may not speak right after a tool.
const BRIDGE: &str = "OK";

/// What the user is made to say where the model may not speak twice.
const ANCHOR: &str = ".";

/// Writes the messages of a conversation.
pub(super) fn add_messages(messages: &mut Array<'_>, prompt: &Prompt, profile: &Profile) {
    if let Some(system) = &prompt.system {
        let role = if profile.chat.system { "system" } else { "user" };
        messages.object(|message| {
            message.wire("role", role);
            message.text("content", system);
        });
    }
    let alternates = profile.chat.order == MessageOrder::Alternating;
    let mut before = None;
    let mut turns = prompt.turns.as_slice();
    while let Some((first, rest)) = turns.split_first() {
        let more = if alternates { n_joined(first, rest) } else { 0 };
        let (joined, rest) = rest.split_at_checked(more).unwrap_or((rest, &[]));
        part(messages, before, first.role, profile);
        let blocks = joined.iter().flat_map(|turn| &turn.blocks);
        add_turn(messages, first, blocks, profile);
        before = Some(first.role);
        turns = rest;
    }
}

/// How many of the turns that follow one are part of its message.
fn n_joined(first: &PromptTurn, rest: &[PromptTurn]) -> usize {
    let is_user = |turn: &PromptTurn| turn.role == Role::User;
    if is_user(first) { rest.iter().take_while(|turn| is_user(turn)).count() } else { 0 }
}

/// Writes what has to stand between two turns.
fn part(messages: &mut Array<'_>, before: Option<Role>, next: Role, profile: &Profile) {
    let order = profile.chat.order;
    let mut say = |role: &str, text: &str| {
        messages.object(|message| {
            message.wire("role", role);
            message.wire("content", text);
        });
    };
    match (before, next) {
        (Some(Role::Tool), Role::User | Role::System) if order != MessageOrder::Any => {
            say("assistant", BRIDGE);
        }
        (Some(Role::Assistant), Role::Assistant) if order == MessageOrder::Alternating => {
            say("user", ANCHOR);
        }
        _ => {}
    }
}

/// The messages of a turn. Results come first: each is a message of its own, right after its call.
fn add_turn<'b>(
    messages: &mut Array<'_>,
    turn: &'b PromptTurn,
    joined: impl Iterator<Item = &'b Block>,
    profile: &Profile,
) {
    for block in &turn.blocks {
        if let Block::ToolResult { id, text, .. } = block {
            messages.object(|message| {
                message.wire("role", "tool");
                message.string("tool_call_id", id, text.origin());
                message.text("content", text);
            });
        }
    }
    let listed = profile.chat.order == MessageOrder::Alternating;
    match turn.role {
        Role::Assistant => messages.object(|message| add_reply(message, &turn.blocks, profile)),
        Role::System => add_spoken(messages, "system", turn.blocks.iter(), false),
        Role::User | Role::Tool => {
            add_spoken(messages, "user", turn.blocks.iter().chain(joined), listed);
        }
    }
}

/// One text is sent as a text, which every server understands; several blocks as a list of parts, so
/// that nothing has to be put between them. A message that later turns may join is a list from the
/// first.
fn add_spoken<'b>(
    messages: &mut Array<'_>,
    role: &str,
    blocks: impl Iterator<Item = &'b Block>,
    listed: bool,
) {
    let is_part = |block: &&Block| matches!(block, Block::Text(_) | Block::File { .. });
    let parts: Vec<&Block> = blocks.filter(is_part).collect();
    if parts.is_empty() {
        return;
    }
    messages.object(|message| {
        message.wire("role", role);
        match parts.as_slice() {
            [Block::Text(only)] if !listed => message.text("content", only),
            parts => {
                message.array("content", |list| parts.iter().for_each(|part| add_part(list, part)));
            }
        }
    });
}

fn add_part(list: &mut Array<'_>, block: &Block) {
    match block {
        Block::Text(text) => add_text(list, text),
        Block::File { file, origin } => list.object(|part| add_file(part, file, origin)),
        Block::Said { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::Opaque { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. } => {}
    }
}

fn add_text(list: &mut Array<'_>, text: &MarkedText) {
    list.object(|part| {
        part.wire("type", "text");
        part.text("text", text);
    });
}

/// An image by its address or its bytes; any other file by its bytes, which is all that the renderer
/// lets through.
fn add_file(part: &mut Object<'_>, file: &FilePart, origin: &Origin) {
    let url = match &file.source {
        FileSource::Url(source) => source.url.clone(),
        FileSource::Base64(source) => format!("data:{};base64,{}", file.media_type, source.base64),
        FileSource::Text(source) => {
            format!("data:{};base64,{}", file.media_type, BASE64_STANDARD.encode(&source.text))
        }
    };
    if file.media_type.starts_with("image/") {
        part.wire("type", "image_url");
        part.object("image_url", |image| image.string("url", &url, origin));
    } else {
        part.wire("type", "file");
        part.object("file", |it| {
            it.string("filename", &file.id, origin);
            it.string("file_data", &url, origin);
        });
    }
}

/// A reply of the model, taken apart.
struct Said<'b> {
    text: MarkedText,
    thoughts: Vec<&'b MarkedText>,
    opaque: Vec<(&'b Value, &'b Origin)>,
    calls: Vec<&'b Block>,
}

impl<'b> Said<'b> {
    fn of(blocks: &'b [Block]) -> Self {
        let (text, thoughts, opaque, calls) =
            (MarkedText::default(), Vec::new(), Vec::new(), Vec::new());
        let mut said = Self { text, thoughts, opaque, calls };
        for block in blocks {
            match block {
                Block::Said { text, .. } => said.text.append(text),
                Block::Thinking { text, .. } => said.thoughts.push(text),
                Block::Opaque { raw, origin } => said.opaque.push((raw, origin)),
                Block::ToolCall { .. } => said.calls.push(block),
                Block::Text(_)
                | Block::File { .. }
                | Block::RedactedThinking { .. }
                | Block::ToolResult { .. } => {}
            }
        }
        said
    }
}

/// Whether thinking goes back at all is decided when the history is rendered.
fn add_reply(message: &mut Object<'_>, blocks: &[Block], profile: &Profile) {
    let said = Said::of(blocks);
    let in_content = profile.chat.thinking == ThinkingPlace::Content;
    let thoughts: &[&MarkedText] = if in_content { &said.thoughts } else { &[] };
    let (parts, members): (Vec<_>, Vec<_>) =
        said.opaque.iter().copied().partition(|(raw, _)| text(raw, "type").is_some());
    let parts: Vec<(&Value, &Origin)> =
        parts.into_iter().filter(|(raw, _)| is_the_servers(raw)).collect();
    message.wire("role", "assistant");
    if !(thoughts.is_empty() && parts.is_empty()) {
        message.array("content", |list| add_content(list, thoughts, &said.text, &parts));
    } else if said.text.is_empty()
        && !said.calls.is_empty()
        && profile.empty_content == EmptyContent::Null
    {
        message.wire("content", Value::Null);
    } else {
        message.text("content", &said.text);
    }
    match profile.chat.thinking {
        ThinkingPlace::AsItCame => add_returned(message, blocks),
        ThinkingPlace::BesideCalls if !said.calls.is_empty() => {
            add_reasoning(message, &said.thoughts);
        }
        ThinkingPlace::BesideCalls | ThinkingPlace::Content => {}
    }
    add_members(message, &members);
    if !said.calls.is_empty() {
        let echoes = profile.own_thinking != OwnThinking::IsLeftOut;
        message.array("tool_calls", |list| {
            said.calls.iter().for_each(|call| add_call(list, call, echoes));
        });
    }
}

/// Whether a part of a message is of a kind that only the server has words for: texts, refusals and
/// thinking are told from the parts of a reply, and what tools do from calls and outcomes.
fn is_the_servers(raw: &Value) -> bool {
    const TOLD: &[&str] =
        &["text", "output_text", "input_text", "refusal", "thinking", "reasoning", "function"];
    text(raw, "type").is_some_and(|kind| !TOLD.contains(&kind) && !kind.contains("tool"))
}

/// What stands beside a message of what its decoder keeps: nothing else that a loaded history claims to
/// have come goes along. Lists that came in pieces are one list.
fn add_members(message: &mut Object<'_>, members: &[(&Value, &Origin)]) {
    for name in UNKNOWN {
        let mut came = members.iter().filter_map(|(raw, origin)| Some((raw.get(*name)?, *origin)));
        let Some((first, origin)) = came.next() else { continue };
        let mut whole = first.clone();
        if let Some(list) = whole.as_array_mut() {
            list.extend(came.filter_map(|(more, _)| more.as_array()).flatten().cloned());
        }
        message.value(name, &whole, origin);
    }
}

/// Members of a call that are told otherwise. What a loaded history claims to have come from a provider
/// cannot spell them a second time.
const OF_CALL: &[&str] = &["id", "type", "index", "function", "name", "arguments", "custom"];

/// The same of the function that it calls.
const OF_FUNCTION: &[&str] = &["name", "arguments"];

/// Adds a member as it came, unless it is one of those that are told otherwise.
fn add_unless(
    told: &[&str],
    object: &mut Object<'_>,
    (name, value): (&str, &Value),
    origin: &Origin,
) {
    if !told.contains(&name) {
        object.value(name, value, origin);
    }
}

fn add_content(
    list: &mut Array<'_>,
    thoughts: &[&MarkedText],
    text: &MarkedText,
    parts: &[(&Value, &Origin)],
) {
    if !thoughts.is_empty() {
        list.object(|part| {
            part.wire("type", "thinking");
            part.array("thinking", |list| thoughts.iter().for_each(|text| add_text(list, text)));
        });
    }
    if !text.is_empty() {
        add_text(list, text);
    }
    for (raw, origin) in parts {
        list.value(raw, origin);
    }
}

fn add_returned(message: &mut Object<'_>, blocks: &[Block]) {
    let returned = Returned::of(blocks);
    for (name, text) in &returned.texts {
        message.text(name, text);
    }
    if !returned.members.is_empty() {
        let origin = origin_of(blocks);
        let is_told = |name: &str| returned.texts.iter().any(|(told, _)| told == name);
        for (name, value) in returned.members.iter().filter(|(name, _)| !is_told(name)) {
            message.value(name, value, &origin);
        }
    }
}

fn add_reasoning(message: &mut Object<'_>, thoughts: &[&MarkedText]) {
    let mut all = MarkedText::default();
    for text in thoughts {
        all.append(text);
    }
    message.text("reasoning_content", &all);
}

fn add_call(list: &mut Array<'_>, block: &Block, echoes: bool) {
    let Block::ToolCall { id, name, arguments, origin, echo, .. } = block else { return };
    let echo = echo.as_ref().filter(|_| echoes);
    let members = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    list.object(|call| {
        call.string("id", id, origin);
        call.wire("type", "function");
        call.object("function", |function| {
            function.string("name", name, origin);
            function.string("arguments", arguments, origin);
            let more = members(echo.and_then(|echo| echo.get("function")));
            for (name, value) in more.unwrap_or_default() {
                add_unless(OF_FUNCTION, function, (&name, &value), origin);
            }
        });
        for (name, value) in members(echo).unwrap_or_default() {
            add_unless(OF_CALL, call, (&name, &value), origin);
        }
    });
}
