//! Recorded requests, read back into the prompts that they tell, and written again.
//!
//! Both sides are compared after a normalisation of what is a client's choice, and no more:
//! * members that are null, an empty `generationConfig` and `thought: false` say nothing;
//! * names with underscores mean the same as those with humps;
//! * the role of the system's instruction is not read, and a mode may be in any case;
//! * an id of a call is there where its client made one;
//! * a declaration's schema may be under either name, and what is in it is the same;
//! * what a tool gave back is told under a name of the client's, as a text.

use serde_json::{Map, Value, json};

use super::{body, turn};
use crate::domain::file::{FileBytes, FilePart, FileSource, FileUrl};
use crate::domain::id::CallId;
use crate::domain::ledger::Origin;
use crate::domain::model::ModelSettings;
use crate::domain::provider::Wire;
use crate::domain::tool::ToolDefinition;
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};
use crate::wire::tests::recordings::{Recording, recordings};

const NO_PARAMETERS: &str =
    "a model that may be an older one is told nothing of parameters that a tool does not have";

/// Requests that are told otherwise on purpose. The list may only shrink.
const OTHERWISE: &[(&str, &str)] = &[
    (
        "google-generate-035-stream-tool-followup-thinking-echo-media-input",
        "a file of a tool follows in the user's next content, which every model reads",
    ),
    ("quirk-gemini-calls-without-id-and-signature", NO_PARAMETERS),
    ("quirk-gemini-malformed-function-call", NO_PARAMETERS),
];

/// Members whose names may be spelt with underscores.
const HUMPS: &[(&str, &str)] = &[
    ("function_call", "functionCall"),
    ("function_response", "functionResponse"),
    ("function_declarations", "functionDeclarations"),
    ("thought_signature", "thoughtSignature"),
    ("file_data", "fileData"),
    ("file_uri", "fileUri"),
    ("mime_type", "mimeType"),
    ("parameters_json_schema", "parametersJsonSchema"),
    ("parameters", "parametersJsonSchema"),
];

/// Members whose insides are not the wire's.
const FOREIGN: &[&str] =
    &["args", "response", "parameters", "parametersJsonSchema", "parameters_json_schema"];

fn normalised(value: &Value) -> Value {
    match value {
        Value::Array(list) => list.iter().map(normalised).collect(),
        Value::Object(members) => Value::Object(members.iter().filter_map(member).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn member((name, value): (&String, &Value)) -> Option<(String, Value)> {
    let is_silent = value.is_null()
        || (name == "generationConfig" && *value == json!({}))
        || (name == "thought" && *value == false);
    if is_silent {
        return None;
    }
    let humps = HUMPS.iter().find(|(spelt, _)| spelt == name);
    let told = humps.map_or(name.as_str(), |(_, told)| told).to_owned();
    let value = match told.as_str() {
        "response" => answer(value),
        "mode" => json!(value.as_str()?.to_uppercase()),
        "systemInstruction" => json!({"parts": normalised(&value["parts"])}),
        // One recording declares its tools without the list around them.
        "tools" if value.is_object() => json!([normalised(value)]),
        _ if FOREIGN.contains(&name.as_str()) => value.clone(),
        _ => normalised(value),
    };
    Some((told, value))
}

/// What a tool gave back, as one text under one name.
fn answer(response: &Value) -> Value {
    let members = response.as_object().unwrap();
    let only = if members.len() == 1 { members.values().next().unwrap() } else { response };
    let text = only.as_str().map_or_else(|| only.to_string(), str::to_owned);
    if members.contains_key("error") { json!({"error": text}) } else { json!({"output": text}) }
}

/// The ids of calls go where the other side has none.
fn without_ids(body: &mut Value) {
    let contents = body["contents"].as_array_mut().unwrap().iter_mut();
    for part in contents.flat_map(|content| content["parts"].as_array_mut().unwrap()) {
        let calls = part.as_object_mut().unwrap().values_mut().filter_map(Value::as_object_mut);
        calls.for_each(|call| drop(call.remove("id")));
    }
}

fn has_ids(body: &Value) -> bool {
    let contents = body["contents"].as_array().unwrap().iter();
    let mut parts = contents.flat_map(|content| content["parts"].as_array().unwrap());
    parts.any(|part| part["functionCall"]["id"].is_string())
}

/// The prompt that a normalised request tells.
fn prompt(body: &Value) -> Prompt {
    let declared = |tool: &Value| ToolDefinition {
        name: tool["name"].as_str().unwrap().to_owned(),
        description: tool["description"].as_str().unwrap_or_default().to_owned(),
        parameters: tool["parametersJsonSchema"].clone(),
    };
    let lists = body["tools"].as_array().into_iter().flatten();
    let tools = lists.filter_map(|list| list["functionDeclarations"].as_array()).flatten();
    let config = body["generationConfig"].as_object().cloned().unwrap_or_default();
    Prompt {
        system: body["systemInstruction"]["parts"][0]["text"].as_str().map(Into::into),
        turns: body["contents"].as_array().unwrap().iter().map(told).collect(),
        tools: tools.map(declared).collect(),
        output_schema: config.get("responseJsonSchema").cloned(),
        settings: settings(body, config),
        ..Prompt::default()
    }
}

fn settings(body: &Value, mut config: Map<String, Value>) -> ModelSettings {
    for own in ["responseMimeType", "responseJsonSchema"] {
        config.remove(own);
    }
    let mode = body["toolConfig"]["functionCallingConfig"]["mode"].as_str();
    let names = body["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"].as_array();
    let names = names.map_or(&[][..], Vec::as_slice);
    let tool_choice = match (mode, names) {
        (Some("ANY"), []) => Some("required".to_owned()),
        (Some("ANY"), [only]) => only.as_str().map(str::to_owned),
        (Some("NONE"), _) => Some("none".to_owned()),
        _ => None,
    };
    let mut extra = body.as_object().unwrap().clone();
    for own in ["contents", "systemInstruction", "generationConfig", "tools"] {
        extra.remove(own);
    }
    let lists = body["tools"].as_array().into_iter().flatten();
    let hosted = lists.filter(|list| list.get("functionDeclarations").is_none());
    extra.insert("tools".to_owned(), hosted.cloned().collect());
    let stop = config.remove("stopSequences").unwrap_or_else(|| json!([]));
    let settings = ModelSettings {
        temperature: config.remove("temperature").and_then(|value| value.as_f64()),
        max_output_tokens: config
            .remove("maxOutputTokens")
            .and_then(|value| u32::try_from(value.as_u64()?).ok()),
        stop: serde_json::from_value(stop).unwrap(),
        tool_choice,
        ..ModelSettings::default()
    };
    extra.insert("generationConfig".to_owned(), Value::Object(config));
    ModelSettings { extra_body: Some(extra), ..settings }
}

fn told(content: &Value) -> PromptTurn {
    let parts = content["parts"].as_array().unwrap();
    let is_of_tools = parts.iter().any(|part| part.get("functionResponse").is_some());
    let role = match content["role"].as_str() {
        Some("model") => Role::Assistant,
        _ if is_of_tools => Role::Tool,
        _ => Role::User,
    };
    turn(role, parts.iter().map(|part| block(part, role)).collect())
}

fn block(part: &Value, role: Role) -> Block {
    let beside = part.get("thoughtSignature");
    let echo = beside.map(|signature| json!({"thoughtSignature": signature}));
    let origin = Origin::default();
    let id = |call: &Value| call["id"].as_str().unwrap_or("call_1").to_owned();
    let name = |call: &Value| call["name"].as_str().unwrap().to_owned();
    if let Some(call) = part.get("functionCall") {
        let (id, name, arguments) = (id(call), name(call), call["args"].to_string());
        let call_id = CallId(id.clone());
        return Block::ToolCall { id, call_id, name, arguments, echo, origin };
    }
    if let Some(result) = part.get("functionResponse") {
        let (id, name, response) = (id(result), name(result), &result["response"]);
        let (is_error, text) = match response["error"].as_str() {
            Some(text) => (true, text),
            None => (false, response["output"].as_str().unwrap()),
        };
        return Block::ToolResult {
            call_id: CallId(id.clone()),
            id,
            name,
            text: text.into(),
            is_error,
        };
    }
    if let Some(file) = file(part) {
        return Block::File { file, origin };
    }
    let text = part["text"].as_str().unwrap().into();
    match role {
        Role::Assistant => Block::Said { text, echo },
        Role::System | Role::User | Role::Tool => Block::Text(text),
    }
}

fn file(part: &Value) -> Option<FilePart> {
    let told = |of: &Value, name: &str| of[name].as_str().map(str::to_owned);
    let (of, source) = match (part.get("fileData"), part.get("inlineData")) {
        (Some(file), _) => (file, FileSource::Url(FileUrl { url: told(file, "fileUri")? })),
        (None, Some(file)) => (file, FileSource::Base64(FileBytes { base64: told(file, "data")? })),
        (None, None) => return None,
    };
    Some(FilePart { id: "f".to_owned(), media_type: told(of, "mimeType")?, source })
}

/// The name of the model in a path.
fn model(recording: &Recording) -> &str {
    let (_, name) = recording.path.rsplit_once('/').unwrap();
    name.split_once(':').unwrap().0
}

fn is_told_alike(recording: &Recording) -> Result<(), String> {
    let mut recorded = normalised(&recording.body);
    let mut ours = normalised(&body(&prompt(&recorded), model(recording)));
    if !has_ids(&recorded) {
        without_ids(&mut recorded);
        without_ids(&mut ours);
    }
    if recorded == ours { Ok(()) } else { Err(format!("recorded {recorded}\nours {ours}")) }
}

#[test]
fn recorded_requests_are_told_as_their_clients_told_them() {
    let all = recordings(Wire::GeminiGenerate);
    for recording in &all {
        let is_listed = OTHERWISE.iter().any(|(id, _)| *id == recording.id);
        match is_told_alike(recording) {
            Ok(()) => assert!(!is_listed, "take {} off the list", recording.id),
            Err(how) => assert!(is_listed, "{}: {how}", recording.id),
        }
    }
    assert!(all.is_empty() || OTHERWISE.iter().all(|(id, _)| all.iter().any(|one| one.id == *id)));
}
