//! The request body. The same prompt gives the same bytes: members are written in one fixed order.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::domain::file::{FilePart, FileSource};
use crate::domain::ledger::{AgentPart, Origin};
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;
use crate::render::profile::{EmptyContent, Profile};
use crate::render::prompt::{Block, MarkedText, Prompt, PromptTurn, Role};
use crate::wire::writer::{Array, Encoded, Object, Writer};

/// Members that `extra_body` cannot touch: the prompt itself, and what the decoder relies on, which
/// reads one choice.
const OWNED: &[&str] = &["model", "messages", "stream", "stream_options", "tools", "n"];

/// The request body.
pub(super) fn encode(prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded {
    let setting = Origin::agent(AgentPart::Setting);
    Writer::object(|body| {
        body.string("model", &prompt.model, &Origin::agent(AgentPart::Model));
        body.wire("stream", stream);
        if stream && profile.stream_usage {
            body.wire("stream_options", json!({"include_usage": true}));
        }
        if !prompt.tools.is_empty() {
            body.array("tools", |tools| prompt.tools.iter().for_each(|tool| add_tool(tools, tool)));
        }
        let known = settings(&prompt.settings, &prompt.tools, profile);
        let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let mut written = BTreeSet::new();
        for (name, value) in known {
            body.value(name, &value, &setting);
            written.insert(name);
        }
        for (name, value) in prompt.settings.extra_body.iter().flatten() {
            // A setting of its own wins over the same member in `extra_body`.
            if !OWNED.contains(&name.as_str()) && !written.contains(name.as_str()) {
                body.value(name, value, &setting);
            }
        }
        body.conversation("messages", |messages| add_messages(messages, prompt, profile));
    })
}

fn settings(
    settings: &ModelSettings,
    tools: &[ToolDefinition],
    profile: &Profile,
) -> [(&'static str, Option<Value>); 8] {
    let offered = !tools.is_empty();
    let choice = settings.tool_choice.as_deref().filter(|_| offered);
    [
        ("tool_choice", choice.and_then(|choice| tool_choice(choice, tools))),
        ("parallel_tool_calls", settings.parallel_tool_calls.filter(|_| offered).map(Value::from)),
        (profile.max_tokens.member(), settings.max_output_tokens.map(Value::from)),
        ("temperature", settings.temperature.map(Value::from)),
        ("top_p", settings.top_p.map(Value::from)),
        ("stop", (!settings.stop.is_empty()).then(|| json!(settings.stop))),
        ("seed", settings.seed.map(Value::from)),
        ("reasoning_effort", settings.reasoning_effort.clone().map(Value::from)),
    ]
}

/// A named tool can only be asked for while it is offered.
fn tool_choice(choice: &str, tools: &[ToolDefinition]) -> Option<Value> {
    match choice {
        "auto" | "none" | "required" => Some(json!(choice)),
        name if tools.iter().any(|tool| tool.name == name) => {
            Some(json!({"type": "function", "function": {"name": name}}))
        }
        _ => None,
    }
}

fn add_tool(tools: &mut Array<'_>, tool: &ToolDefinition) {
    let origin = Origin::agent(AgentPart::Tool);
    tools.object(|entry| {
        entry.wire("type", "function");
        entry.object("function", |function| {
            function.string("name", &tool.name, &origin);
            function.string("description", &tool.description, &origin);
            function.value("parameters", &tool.parameters, &origin);
        });
    });
}

fn add_messages(messages: &mut Array<'_>, prompt: &Prompt, profile: &Profile) {
    if let Some(system) = &prompt.system {
        messages.object(|message| {
            message.wire("role", "system");
            message.text("content", system);
        });
    }
    prompt.turns.iter().for_each(|turn| add_turn(messages, turn, profile));
}

/// The messages of a turn. Results come first: each is a message of its own, right after its call.
fn add_turn(messages: &mut Array<'_>, turn: &PromptTurn, profile: &Profile) {
    for block in &turn.blocks {
        if let Block::ToolResult { id, text, .. } = block {
            messages.object(|message| {
                message.wire("role", "tool");
                message.wire("tool_call_id", id.as_str());
                message.text("content", text);
            });
        }
    }
    match turn.role {
        Role::Assistant => messages.object(|message| add_reply(message, &turn.blocks, profile)),
        Role::System => add_spoken(messages, "system", &turn.blocks),
        Role::User | Role::Tool => add_spoken(messages, "user", &turn.blocks),
    }
}

/// One text is sent as a text, which every server understands; several blocks as a list of parts, so
/// that nothing has to be put between them.
fn add_spoken(messages: &mut Array<'_>, role: &str, blocks: &[Block]) {
    let is_part = |block: &&Block| matches!(block, Block::Text(_) | Block::File { .. });
    let parts: Vec<&Block> = blocks.iter().filter(is_part).collect();
    if parts.is_empty() {
        return;
    }
    messages.object(|message| {
        message.wire("role", role);
        if let [Block::Text(only)] = parts.as_slice() {
            message.text("content", only);
        } else {
            message.array("content", |list| parts.iter().for_each(|part| add_part(list, part)));
        }
    });
}

fn add_part(list: &mut Array<'_>, block: &Block) {
    match block {
        Block::Text(text) => list.object(|part| {
            part.wire("type", "text");
            part.text("text", text);
        }),
        Block::File { file, origin } => list.object(|part| add_file(part, file, origin)),
        Block::Said { .. }
        | Block::Thinking { .. }
        | Block::RedactedThinking { .. }
        | Block::Opaque { .. }
        | Block::ToolCall { .. }
        | Block::ToolResult { .. } => {}
    }
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

fn add_reply(message: &mut Object<'_>, blocks: &[Block], profile: &Profile) {
    let mut said = MarkedText::default();
    let mut thought = MarkedText::default();
    for block in blocks {
        match block {
            Block::Said { text, .. } => said.append(text),
            Block::Thinking { text, .. } => thought.append(text),
            Block::Text(_)
            | Block::File { .. }
            | Block::RedactedThinking { .. }
            | Block::Opaque { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. } => {}
        }
    }
    let calls = || blocks.iter().filter(|block| matches!(block, Block::ToolCall { .. }));
    let has_calls = calls().next().is_some();
    message.wire("role", "assistant");
    if said.is_empty() && has_calls && profile.empty_content == EmptyContent::Null {
        message.wire("content", Value::Null);
    } else {
        message.text("content", &said);
    }
    // Whether thinking goes back at all is decided when the history is rendered.
    if !thought.is_empty() {
        message.text("reasoning_content", &thought);
    }
    if has_calls {
        message.array("tool_calls", |list| calls().for_each(|call| add_call(list, call)));
    }
}

fn add_call(list: &mut Array<'_>, block: &Block) {
    let Block::ToolCall { id, name, arguments, origin, .. } = block else { return };
    list.object(|call| {
        call.wire("id", id.as_str());
        call.wire("type", "function");
        call.object("function", |function| {
            function.string("name", name, origin);
            function.string("arguments", arguments, origin);
        });
    });
}
