//! The request body. The same prompt gives the same bytes: members are written in one fixed order.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::domain::file::{FilePart, FileSource};
use crate::domain::ledger::{AgentPart, Origin, Voice};
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;
use crate::render::prompt::{Block, MarkedText, Prompt, PromptTurn, Role};
use crate::wire::writer::{Array, Encoded, Object, Writer};

/// Members that `extra_body` cannot touch, and those that it adds to.
const OWNED: &[&str] = &["model", "messages", "stream", "tools"];

/// What stands for an image of which only the address is known: Ollama fetches nothing.
const LEFT_OUT: &str = "[An image is left out: this model only reads images that are sent to it.]";

/// The request body.
pub(super) fn encode(prompt: &Prompt, stream: bool) -> Encoded {
    let setting = Origin::agent(AgentPart::Setting);
    let settings = &prompt.settings;
    Writer::object(|body| {
        body.string("model", &prompt.model, &Origin::agent(AgentPart::Model));
        // Said either way: without it, the answer is a stream.
        body.wire("stream", stream);
        // There is no choice of tools here; none is none offered.
        if !prompt.tools.is_empty() && settings.tool_choice.as_deref() != Some("none") {
            body.array("tools", |tools| prompt.tools.iter().for_each(|tool| add_tool(tools, tool)));
        }
        let think = think(settings, &prompt.model);
        if let Some(think) = &think {
            body.value("think", think, &setting);
        }
        if let Some(schema) = &prompt.output_schema {
            body.value("format", schema, &Origin::agent(AgentPart::OutputSchema));
        }
        let options = options(settings);
        if !options.is_empty() {
            body.value("options", &Value::Object(options), &setting);
        }
        for (name, value) in settings.extra_body.iter().flatten() {
            let is_written = match name.as_str() {
                "think" => think.is_some(),
                "format" => prompt.output_schema.is_some(),
                "options" => true,
                name => OWNED.contains(&name),
            };
            if !is_written {
                body.value(name, value, &setting);
            }
        }
        body.conversation("messages", |messages| add_messages(messages, prompt));
    })
}

/// Whether the model thinks. Only the models of one family know degrees of it.
fn think(settings: &ModelSettings, model: &str) -> Option<Value> {
    let effort = settings.reasoning_effort.as_deref()?;
    let name = model.rsplit('/').next().unwrap_or(model);
    Some(match effort {
        "none" | "off" | "false" => Value::Bool(false),
        level if name.starts_with("gpt-oss") => level.into(),
        _ => Value::Bool(true),
    })
}

/// The settings that Ollama keeps in `options`; those of `extra_body` come beside them.
fn options(settings: &ModelSettings) -> Map<String, Value> {
    let stop = (!settings.stop.is_empty()).then(|| json!(settings.stop));
    let known = [
        ("num_predict", settings.max_output_tokens.map(Value::from)),
        ("temperature", settings.temperature.map(Value::from)),
        ("top_p", settings.top_p.map(Value::from)),
        ("seed", settings.seed.map(Value::from)),
        ("stop", stop),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mut options: Map<String, Value> = known.collect();
    let more = settings.extra_body.as_ref().and_then(|extra| extra.get("options"));
    for (name, value) in more.and_then(Value::as_object).into_iter().flatten() {
        options.entry(name).or_insert_with(|| value.clone());
    }
    options
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

fn add_messages(messages: &mut Array<'_>, prompt: &Prompt) {
    if let Some(system) = &prompt.system {
        messages.object(|message| {
            message.wire("role", "system");
            message.text("content", system);
        });
    }
    prompt.turns.iter().for_each(|turn| add_turn(messages, turn));
}

/// The messages of a turn. Results come first: each is a message of its own, right after its call. They
/// are paired by name and order, so the names have to be said.
fn add_turn(messages: &mut Array<'_>, turn: &PromptTurn) {
    for block in &turn.blocks {
        if let Block::ToolResult { name, text, .. } = block {
            messages.object(|message| {
                message.wire("role", "tool");
                message.string("tool_name", name, text.origin());
                message.text("content", text);
            });
        }
    }
    match turn.role {
        Role::Assistant => messages.object(|message| add_reply(message, &turn.blocks)),
        Role::System => add_spoken(messages, "system", &turn.blocks),
        Role::User | Role::Tool => add_spoken(messages, "user", &turn.blocks),
    }
}

/// A message has one text, in which several blocks become paragraphs, and its images beside it.
fn add_spoken(messages: &mut Array<'_>, role: &str, blocks: &[Block]) {
    let mut said = MarkedText::default();
    let mut images: Vec<(&FilePart, &Origin)> = Vec::new();
    for block in blocks {
        match block {
            Block::Text(text) => add_paragraph(&mut said, text),
            Block::File { file, origin } if matches!(file.source, FileSource::Url(_)) => {
                let origin = origin.spoken(Voice::Application);
                add_paragraph(&mut said, &MarkedText::of(LEFT_OUT, origin));
            }
            Block::File { file, origin } => images.push((file, origin)),
            Block::Said { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::Opaque { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. } => {}
        }
    }
    if said.is_empty() && images.is_empty() {
        return;
    }
    messages.object(|message| {
        message.wire("role", role);
        message.text("content", &said);
        if !images.is_empty() {
            message.array("images", |list| add_images(list, &images));
        }
    });
}

fn add_paragraph(said: &mut MarkedText, text: &MarkedText) {
    if !said.is_empty() {
        said.push("\n\n", Origin::WIRE);
    }
    said.append(text);
}

/// The bytes alone, without their type.
fn add_images(list: &mut Array<'_>, images: &[(&FilePart, &Origin)]) {
    for (file, origin) in images {
        let bytes = match &file.source {
            FileSource::Base64(source) => source.base64.clone(),
            FileSource::Text(source) => BASE64_STANDARD.encode(&source.text),
            FileSource::Url(_) => continue,
        };
        list.value(&Value::from(bytes), origin);
    }
}

fn add_reply(message: &mut Object<'_>, blocks: &[Block]) {
    let (mut said, mut thought) = (MarkedText::default(), MarkedText::default());
    for block in blocks {
        match block {
            Block::Said { text, .. } => said.append(text),
            // What has an echo stood in the text.
            Block::Thinking { text, echo: None, .. } => thought.append(text),
            Block::Thinking { .. }
            | Block::Text(_)
            | Block::File { .. }
            | Block::RedactedThinking { .. }
            | Block::Opaque { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. } => {}
        }
    }
    message.wire("role", "assistant");
    message.text("content", &said);
    if !thought.is_empty() {
        message.text("thinking", &thought);
    }
    add_own_images(message, blocks);
    let calls = || blocks.iter().filter(|block| matches!(block, Block::ToolCall { .. }));
    if calls().next().is_some() {
        message.array("tool_calls", |list| calls().for_each(|call| add_call(list, call)));
    }
}

/// The images that the model sent, in one list however many pieces they came in.
fn add_own_images(message: &mut Object<'_>, blocks: &[Block]) {
    let came = blocks.iter().filter_map(|block| {
        let Block::Opaque { raw, origin } = block else { return None };
        Some((raw.get("images")?.as_array()?, origin))
    });
    let came: Vec<_> = came.collect();
    if let Some((_, origin)) = came.first() {
        let images: Vec<Value> = came.iter().flat_map(|(list, _)| *list).cloned().collect();
        message.value("images", &Value::from(images), origin);
    }
}

/// The arguments are an object, spelt as the model spelt it.
fn add_call(list: &mut Array<'_>, block: &Block) {
    let Block::ToolCall { name, arguments, origin, .. } = block else { return };
    list.object(|call| {
        call.wire("type", "function");
        call.object("function", |function| {
            function.string("name", name, origin);
            function.json("arguments", arguments, origin);
        });
    });
}
