//! Requests that go on with a conversation, against recorded ones.
//!
//! A recorded request is read as the history that it was made from and sent again. Compared as values,
//! after what says nothing is taken out of the recorded one: empty lists and objects of optional
//! members.

use serde_json::{Map, Value};

use super::{BedrockConverse, profile, prompt};
use crate::domain::id::CallId;
use crate::domain::ledger::Origin;
use crate::domain::provider::Wire;
use crate::domain::tool::ToolDefinition;
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};
use crate::wire::Codec as _;
use crate::wire::tests::recordings::{Recording, recordings};

/// Requests that differ on purpose. The list may only shrink.
const DIFFER: &[(&str, &str)] = &[
    ("bedrock-converse-002-400-tool-followup-media-input", OBJECTS),
    ("bedrock-converse-008-plain", BEGUN),
    ("bedrock-converse-036-400-tool-followup-media-input", OBJECTS),
    ("bedrock-converse-045-400-tool-followup-media-input", OBJECTS),
    ("bedrock-converse-052-400-tool-followup-media-input", OBJECTS),
];

/// Why one does.
const BEGUN: &str =
    "a beginning of the reply, which newer models refuse: the user stands behind it";

/// Why the others do.
const OBJECTS: &str =
    "files are told by their bytes on the user's channel, never by an object of S3";

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A block of the recorded request as the renderer would hand it over, where it has one.
fn block(value: &Value, role: Role) -> Option<Block> {
    let (name, it) = value.as_object().unwrap().iter().next().unwrap();
    let call_id = CallId("c".to_owned());
    Some(match (name.as_str(), role) {
        ("text", Role::Assistant) => Block::Said { text: string(it).as_str().into(), echo: None },
        ("text", _) => Block::Text(string(it).as_str().into()),
        ("toolUse", _) => Block::ToolCall {
            id: string(&it["toolUseId"]),
            call_id,
            name: string(&it["name"]),
            arguments: it["input"].to_string(),
            echo: None,
            origin: Origin::default(),
        },
        ("toolResult", _) => Block::ToolResult {
            id: string(&it["toolUseId"]),
            call_id,
            name: String::new(),
            text: string(&it["content"][0]["text"]).as_str().into(),
            is_error: it["status"] == "error",
        },
        ("reasoningContent", _) if it["redactedContent"].is_string() => Block::RedactedThinking {
            data: string(&it["redactedContent"]),
            origin: Origin::default(),
        },
        ("reasoningContent", _) => Block::Thinking {
            text: string(&it["reasoningText"]["text"]).as_str().into(),
            signature: it["reasoningText"]["signature"].as_str().map(str::to_owned),
            id: None,
            echo: None,
        },
        _ => return None,
    })
}

/// The turns of a message: results are a turn of their own.
fn turns(message: &Value) -> Vec<PromptTurn> {
    let role = if message["role"] == "assistant" { Role::Assistant } else { Role::User };
    let mut turns: Vec<PromptTurn> = Vec::new();
    for block in message["content"].as_array().unwrap().iter().filter_map(|it| block(it, role)) {
        let is_result = matches!(block, Block::ToolResult { .. });
        let role = if is_result { Role::Tool } else { role };
        match turns.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => turn.blocks.push(block),
            None => turns.push(PromptTurn { role, blocks: vec![block] }),
        }
    }
    turns
}

fn tools(body: &Value) -> Vec<ToolDefinition> {
    let tools = body["toolConfig"]["tools"].as_array().into_iter().flatten();
    let of_spec = |spec: &Value| ToolDefinition {
        name: string(&spec["name"]),
        description: string(&spec["description"]),
        parameters: spec["inputSchema"]["json"].clone(),
    };
    tools.filter_map(|tool| tool.get("toolSpec")).map(of_spec).collect()
}

fn tool_choice(body: &Value) -> Option<String> {
    let choice = body["toolConfig"]["toolChoice"].as_object()?.iter().next()?;
    match choice.0.as_str() {
        "any" => Some("required".to_owned()),
        "tool" => Some(string(&choice.1["name"])),
        other => Some(other.to_owned()),
    }
}

/// The prompt that a request was made from. Settings come back as extra members.
fn rebuilt(body: &Value) -> Prompt {
    let mut prompt = prompt(body["messages"].as_array().unwrap().iter().flat_map(turns).collect());
    prompt.system = body["system"][0]["text"].as_str().map(Into::into);
    prompt.tools = tools(body);
    prompt.settings.tool_choice = tool_choice(body);
    let structure = body.pointer("/outputConfig/textFormat/structure/jsonSchema/schema");
    prompt.output_schema =
        structure.and_then(Value::as_str).map(|schema| serde_json::from_str(schema).unwrap());
    prompt.settings.extra_body = body.as_object().cloned();
    prompt
}

fn said(members: &Map<String, Value>) -> Value {
    let says = |value: &Value| {
        !(value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(Map::is_empty))
    };
    let told = members.iter().filter(|(_, value)| says(value));
    Value::Object(told.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn model(recording: &Recording) -> String {
    let path = recording.path.trim_start_matches("/model/");
    path.split('/').next().unwrap().replace("%3A", ":")
}

fn goes_on(body: &Value) -> bool {
    let mut messages = body["messages"].as_array().unwrap().iter();
    messages.any(|message| message["role"] == "assistant") || body.get("outputConfig").is_some()
}

#[test]
fn conversations_go_on_as_they_were_recorded_to() {
    for recording in recordings(Wire::BedrockConverse) {
        if !goes_on(&recording.body) {
            continue;
        }
        let profile = profile(&model(&recording));
        let sent = BedrockConverse.encode(&rebuilt(&recording.body), &profile, false).body;
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        let is_same = sent == said(recording.body.as_object().unwrap());
        let listed = DIFFER.iter().find(|(id, _)| *id == recording.id).map(|(_, why)| why);
        let id = &recording.id;
        assert_eq!(is_same, listed.is_none(), "{id}: {listed:?}\n{sent}\n{}", recording.body);
    }
}
