//! The request body. The same prompt gives the same bytes: members are written in one fixed order.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::domain::file::{FilePart, FileSource};
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;
use crate::render::profile::{EmptyContent, Profile};
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};

/// Members that `extra_body` cannot touch: the prompt itself, and what the decoder relies on, which
/// reads one choice.
const OWNED: &[&str] = &["model", "messages", "stream", "stream_options", "tools", "n"];

/// The request body.
pub fn encode(prompt: &Prompt, profile: &Profile, stream: bool) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(prompt.model));
    body.insert("stream".to_owned(), json!(stream));
    if stream && profile.stream_usage {
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    if !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(tool).collect();
        body.insert("tools".to_owned(), Value::Array(tools));
    }
    let known = settings(&prompt.settings, &prompt.tools, profile);
    body.extend(known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    for (name, value) in prompt.settings.extra_body.iter().flatten() {
        // A setting of its own wins over the same member in `extra_body`.
        if !OWNED.contains(&name.as_str()) && !body.contains_key(name) {
            body.insert(name.clone(), value.clone());
        }
    }
    // Last, so that a request begins with the bytes of the one before it up to where that one's
    // conversation ends.
    body.insert("messages".to_owned(), Value::Array(messages(prompt, profile)));
    Value::Object(body).to_string().into_bytes()
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

fn tool(tool: &ToolDefinition) -> Value {
    json!({"type": "function", "function": {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
    }})
}

fn messages(prompt: &Prompt, profile: &Profile) -> Vec<Value> {
    let system = prompt.system.iter().map(|text| json!({"role": "system", "content": text}));
    let turns = prompt.turns.iter().flat_map(|turn| turn_messages(turn, profile));
    system.chain(turns).collect()
}

/// The messages of a turn. Results come first: each is a message of its own, right after its call.
fn turn_messages(turn: &PromptTurn, profile: &Profile) -> Vec<Value> {
    let mut messages: Vec<Value> = turn.blocks.iter().filter_map(result).collect();
    match turn.role {
        Role::Assistant => messages.push(assistant(&turn.blocks, profile)),
        Role::System => messages.extend(spoken("system", &turn.blocks)),
        Role::User | Role::Tool => messages.extend(spoken("user", &turn.blocks)),
    }
    messages
}

fn result(block: &Block) -> Option<Value> {
    if let Block::ToolResult { id, text, .. } = block {
        Some(json!({"role": "tool", "tool_call_id": id, "content": text}))
    } else {
        None
    }
}

/// One text is sent as a text, which every server understands; several blocks as a list of parts, so
/// that nothing has to be put between them.
fn spoken(role: &str, blocks: &[Block]) -> Option<Value> {
    let parts: Vec<Value> = blocks.iter().filter_map(part).collect();
    let content = match (blocks, parts.as_slice()) {
        (_, []) => return None,
        ([Block::Text(only)], _) => json!(only),
        (_, [only]) if only["type"] == "text" => only["text"].clone(),
        _ => Value::Array(parts),
    };
    Some(json!({"role": role, "content": content}))
}

fn part(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => Some(json!({"type": "text", "text": text})),
        Block::File(file) => Some(file_part(file)),
        Block::Thinking { .. } | Block::ToolCall { .. } | Block::ToolResult { .. } => None,
    }
}

/// An image by its address or its bytes; any other file by its bytes, which is all that the renderer
/// lets through.
fn file_part(file: &FilePart) -> Value {
    let url = match &file.source {
        FileSource::Url(source) => source.url.clone(),
        FileSource::Base64(source) => format!("data:{};base64,{}", file.media_type, source.base64),
        FileSource::Text(source) => {
            format!("data:{};base64,{}", file.media_type, BASE64_STANDARD.encode(&source.text))
        }
    };
    if file.media_type.starts_with("image/") {
        json!({"type": "image_url", "image_url": {"url": url}})
    } else {
        json!({"type": "file", "file": {"filename": file.id, "file_data": url}})
    }
}

fn assistant(blocks: &[Block], profile: &Profile) -> Value {
    let said: String = blocks.iter().filter_map(text).collect();
    let calls: Vec<Value> = blocks.iter().filter_map(call).collect();
    let content = match (said.is_empty(), profile.empty_content) {
        (true, EmptyContent::Null) if !calls.is_empty() => Value::Null,
        (_, EmptyContent::Null | EmptyContent::EmptyText) => Value::String(said),
    };
    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    message.insert("content".to_owned(), content);
    let thought: String = blocks.iter().filter_map(thinking).collect();
    // Whether thinking goes back at all is decided when the history is rendered.
    if !thought.is_empty() {
        message.insert("reasoning_content".to_owned(), Value::String(thought));
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Value::Object(message)
}

fn text(block: &Block) -> Option<&str> {
    if let Block::Text(text) = block { Some(text) } else { None }
}

fn thinking(block: &Block) -> Option<&str> {
    if let Block::Thinking { text, .. } = block { Some(text) } else { None }
}

fn call(block: &Block) -> Option<Value> {
    if let Block::ToolCall { id, name, arguments, .. } = block {
        let function = json!({"name": name, "arguments": arguments});
        Some(json!({"id": id, "type": "function", "function": function}))
    } else {
        None
    }
}
