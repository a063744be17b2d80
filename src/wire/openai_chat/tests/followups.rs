//! Recorded requests, read back into the prompts that they tell, and written again.
//!
//! Both sides are compared after a normalisation of what is a client's choice, and no more:
//! * members that are null, and defaults that are spelt out (`n`, `stream`, `prefix`), say nothing;
//! * a list of one text is that text, and a call's message without content may say so in any way;
//! * `developer` is OpenAI's newer name for `system`, and the two bounds of a reply are one;
//! * a call's `index`, a `cache_control`, a schema's name and its strictness, an empty description and
//!   the wish for counts are additions that every client makes as it likes, and so are the `type` of a
//!   function, which has no other, and the spelling of a whole number as a float;
//! * one client sends the same thinking under both its names.

use serde_json::{Map, Value, json};

use super::super::OpenaiChat;
use crate::domain::file::{FileBytes, FilePart, FileSource, FileUrl};
use crate::domain::id::CallId;
use crate::domain::ledger::Origin;
use crate::domain::message::ReplyPart;
use crate::domain::model::{ModelSettings, ModelSpec, ProfileOverrides, Provider};
use crate::domain::provider::Wire;
use crate::domain::tool::ToolDefinition;
use crate::render::framing::Tags;
use crate::render::names::ToolNames;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, MarkedText, Prompt, PromptTurn, Role};
use crate::wire::Codec as _;
use crate::wire::tests::recordings::{Recording, recordings};

/// Requests that are told otherwise on purpose. The list may only shrink.
const OTHERWISE: &[(&str, &str)] = &[
    (
        "openrouter-chat-020-plain",
        "a beginning of the reply, which the newest models refuse: the user stands behind it",
    ),
    (
        "groq-chat-007-stream-tool-error-followup-tool-followup-tool-call",
        "thinking between tags in the text, which templates drop from a history, does not go back",
    ),
    (
        "mistral-chat-003-thinking-thinking-echo",
        "the thinking of another provider in three pieces, which are one text here",
    ),
    (
        "mistral-chat-028-stream-tool-followup-finish-length",
        "a user right after a result, which Mistral's larger models refuse",
    ),
];

/// Hosts of recordings whose provider is none of ours.
const HOSTS: &[(&str, &str)] = &[
    ("google", "https://generativelanguage.googleapis.com/v1beta/openai"),
    ("zai", "https://api.z.ai/api/paas/v4"),
    ("moonshotai", "https://api.moonshot.ai/v1"),
];

fn model(recording: &Recording) -> ModelSpec {
    let vendor = recording.id.split("-chat").next().unwrap();
    let host = HOSTS.iter().find(|(name, _)| *name == vendor).map(|(_, url)| *url);
    let provider = vendor.parse().ok().filter(|it: &Provider| it.wire() == Wire::OpenaiChat);
    let base_url = match (provider, host) {
        (Some(_), _) => None,
        (None, host) => Some(host.unwrap_or("http://127.0.0.1:8000/v1").to_owned()),
    };
    ModelSpec {
        provider: provider.unwrap_or(Provider::Openai),
        name: recording.body["model"].as_str().unwrap().to_owned(),
        base_url,
        api_key: None,
        profile: ProfileOverrides::default(),
        settings: settings(&recording.body),
        script: Vec::new(),
        fallbacks: Vec::new(),
        price: None,
    }
}

/// The settings of ours that a body holds; everything else is additional.
fn settings(body: &Value) -> ModelSettings {
    let mut extra = body.as_object().unwrap().clone();
    for known in ["model", "messages", "stream", "stream_options", "tools", "n"] {
        extra.shift_remove(known);
    }
    if body["response_format"]["type"] == "json_schema" {
        extra.shift_remove("response_format");
    }
    let mut take = |name: &str| extra.shift_remove(name);
    let count = |value: Value| u32::try_from(value.as_u64().unwrap()).unwrap();
    ModelSettings {
        temperature: take("temperature").and_then(|value| value.as_f64()),
        top_p: take("top_p").and_then(|value| value.as_f64()),
        max_output_tokens: take("max_tokens").or_else(|| take("max_completion_tokens")).map(count),
        seed: take("seed").and_then(|value| value.as_i64()),
        stop: take("stop").map(|value| stops(&value)).unwrap_or_default(),
        reasoning_effort: take("reasoning_effort").map(|value| text_of(&value)),
        tool_choice: take("tool_choice").map(|value| choice(&value)),
        parallel_tool_calls: take("parallel_tool_calls").and_then(|value| value.as_bool()),
        structured_output: None,
        stream: None,
        extra_body: Some(extra),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn stops(value: &Value) -> Vec<String> {
    if value.is_string() {
        vec![text_of(value)]
    } else {
        serde_json::from_value(value.clone()).unwrap()
    }
}

fn choice(value: &Value) -> String {
    match value.as_str() {
        Some("any") => "required".to_owned(),
        Some(choice) => choice.to_owned(),
        None => text_of(&value["function"]["name"]),
    }
}

fn prompt(recording: &Recording, model: &ModelSpec) -> Prompt {
    let body = &recording.body;
    let (mut system, mut turns) = (None, Vec::<PromptTurn>::new());
    for message in body["messages"].as_array().unwrap() {
        let role = message["role"].as_str().unwrap();
        if matches!(role, "system" | "developer") && turns.is_empty() && system.is_none() {
            system = Some(MarkedText::from(joined(&message["content"])));
            continue;
        }
        let (role, blocks) = match role {
            "assistant" => (Role::Assistant, said(message, model.provider)),
            "tool" => (Role::Tool, vec![result(message)]),
            "system" | "developer" => (Role::System, asked(&message["content"])),
            _ => (Role::User, asked(&message["content"])),
        };
        match turns.last_mut() {
            Some(last) if last.role == Role::Tool && role == Role::Tool => {
                last.blocks.extend(blocks);
            }
            _ => turns.push(PromptTurn { role, blocks }),
        }
    }
    let schema = &body["response_format"]["json_schema"]["schema"];
    Prompt {
        redacted: Vec::new(),
        model: model.name.clone(),
        system,
        turns,
        tools: body["tools"].as_array().into_iter().flatten().map(tool).collect(),
        output_schema: Some(schema.clone()).filter(|schema| !schema.is_null()),
        settings: model.settings.clone(),
        tags: Tags::default(),
        names: ToolNames::default(),
    }
}

fn tool(tool: &Value) -> ToolDefinition {
    let function = &tool["function"];
    ToolDefinition {
        name: text_of(&function["name"]),
        description: function["description"].as_str().unwrap_or_default().to_owned(),
        parameters: function["parameters"].clone(),
    }
}

fn joined(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    let of_parts: String = parts.filter_map(|part| part["text"].as_str()).collect();
    content.as_str().map_or(of_parts, str::to_owned)
}

fn asked(content: &Value) -> Vec<Block> {
    if let Some(text) = content.as_str() {
        return vec![Block::Text(text.into())];
    }
    let part = |part: &Value| match part["image_url"]["url"].as_str() {
        None => Block::Text(part["text"].as_str().unwrap().into()),
        Some(url) => Block::File { file: image(url), origin: Origin::default() },
    };
    content.as_array().unwrap().iter().map(part).collect()
}

fn image(url: &str) -> FilePart {
    let data = url.strip_prefix("data:").and_then(|data| data.split_once(";base64,"));
    let (media_type, source) = match data {
        Some((kind, data)) => (kind, FileSource::Base64(FileBytes { base64: data.to_owned() })),
        None => ("image/png", FileSource::Url(FileUrl { url: url.to_owned() })),
    };
    FilePart { id: "f".to_owned(), media_type: media_type.to_owned(), source }
}

fn result(message: &Value) -> Block {
    Block::ToolResult {
        id: text_of(&message["tool_call_id"]),
        call_id: CallId("c".to_owned()),
        name: String::new(),
        text: joined(&message["content"]).into(),
        is_error: false,
    }
}

/// What the model said, read as a reply that has come.
pub(super) fn said(message: &Value, provider: Provider) -> Vec<Block> {
    let body = json!({"choices": [{"message": message}]});
    let reply = OpenaiChat.decode(provider, body.to_string().as_bytes()).unwrap();
    reply.parts.into_iter().map(block).collect()
}

pub(super) fn block(part: ReplyPart) -> Block {
    let origin = Origin::default();
    match part {
        ReplyPart::Text(part) => Block::Said { text: part.text.into(), echo: part.echo },
        ReplyPart::Refusal(part) => Block::Said { text: part.text.into(), echo: None },
        ReplyPart::Thinking(part) => Block::Thinking {
            text: part.text.into(),
            signature: part.signature,
            id: part.id,
            echo: part.echo,
        },
        ReplyPart::RedactedThinking(part) => Block::RedactedThinking { data: part.data, origin },
        ReplyPart::Unknown(part) => Block::Opaque { raw: part.raw, origin },
        ReplyPart::ToolCall(call) => Block::ToolCall {
            id: call.provider_call_id.unwrap(),
            call_id: call.tool_call_id,
            name: call.name,
            arguments: call.arguments,
            echo: call.echo,
            origin,
        },
    }
}

const SILENT: &[&str] = &["index", "cache_control", "prefix", "stream_options", "n", "strict"];

fn normalised(value: &Value) -> Value {
    if let Some(whole) = value.as_f64().filter(|number| number.fract() == 0.0) {
        return json!(whole);
    }
    let Some(members) = value.as_object() else {
        let list = value.as_array().map(|list| list.iter().map(normalised).collect());
        return list.unwrap_or_else(|| value.clone());
    };
    let mut members: Map<String, Value> = members
        .iter()
        .filter(|(name, value)| {
            let is_default = (name.as_str() == "stream" && **value == false)
                || (name.as_str() == "type" && **value == "function");
            !(value.is_null() || SILENT.contains(&name.as_str()) || is_default)
        })
        .map(|(name, value)| {
            let name = if name == "max_completion_tokens" { "max_tokens" } else { name };
            (name.to_owned(), normalised(value))
        })
        .collect();
    if members.get("role") == Some(&json!("developer")) {
        members.insert("role".to_owned(), json!("system"));
    }
    let one = members.get("content").and_then(Value::as_array).and_then(|list| match &list[..] {
        [only] if only["type"] == "text" => Some(only["text"].clone()),
        _ => None,
    });
    if let Some(text) = one {
        members.insert("content".to_owned(), text);
    }
    let is_blank = |value: &Value| *value == json!("") || *value == json!([]);
    for name in ["content", "tool_calls", "description"] {
        if members.get(name).is_some_and(is_blank) {
            members.shift_remove(name);
        }
    }
    if members.contains_key("schema") {
        members.shift_remove("name");
    }
    if members.contains_key("reasoning")
        && members.get("reasoning") == members.get("reasoning_content")
    {
        members.shift_remove("reasoning");
    }
    Value::Object(members)
}

/// Whether a request tells the model something that the wire alone does not decide on.
fn is_telling(recording: &Recording) -> bool {
    let messages = recording.body["messages"].as_array().unwrap();
    let speaks = |message: &Value| message["role"] == "assistant" || message["role"] == "tool";
    messages.iter().any(speaks) || recording.body.get("response_format").is_some()
}

#[test]
fn recorded_providers_requests_are_written_as_they_were_sent() {
    let mut otherwise = Vec::new();
    for recording in recordings(Wire::OpenaiChat).iter().filter(|it| is_telling(it)) {
        let model = model(recording);
        let stream = recording.body["stream"] == true;
        assert!(recording.path.ends_with(&OpenaiChat.endpoint("m", stream).path));
        let prompt = prompt(recording, &model);
        let written = OpenaiChat.encode(&prompt, &Profile::resolve(&model), stream).body;
        let written = normalised(&serde_json::from_slice(&written).unwrap());
        let sent = normalised(&recording.body);
        let is_listed = OTHERWISE.iter().any(|(id, _)| *id == recording.id);
        if (written != sent) != is_listed {
            otherwise.push(format!("{}\nsent    {sent}\nwritten {written}", recording.id));
        }
    }
    assert!(otherwise.is_empty(), "{}: {}", otherwise.len(), otherwise.join("\n\n"));
}
