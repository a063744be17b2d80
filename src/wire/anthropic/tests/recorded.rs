//! Recorded exchanges, and their requests read back into prompts.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{call, prompt, result, text, turn};
use crate::domain::file::{FileBytes, FilePart, FileSource, FileUrl};
use crate::domain::ledger::Origin;
use crate::domain::model::{ModelSettings, ModelSpec, ProfileOverrides, Provider};
use crate::domain::tool::ToolDefinition;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};

/// The recorded exchanges of this wire, by name; none, said plainly, when they are absent.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where they are")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
pub(super) fn exchanges() -> Vec<(String, Value)> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let root = std::env::var("AGENTLING_SHARED").unwrap_or_else(|_| beside.to_owned());
    let folder = PathBuf::from(root).join("data/providers");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: {} is absent", folder.display());
        return Vec::new();
    };
    let files = entries.map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let value: Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        let name = value["id"].as_str()?.to_owned();
        (value["api"] == "anthropic_messages").then_some((name, value))
    };
    let mut exchanges: Vec<_> = files.filter_map(read).collect();
    exchanges.sort_by(|one, other| one.0.cmp(&other.0));
    exchanges
}

/// The model that a request names, at Anthropic itself.
pub(super) fn model(body: &Value) -> ModelSpec {
    ModelSpec {
        provider: Provider::Anthropic,
        name: body["model"].as_str().unwrap().to_owned(),
        base_url: None,
        api_key: None,
        profile: ProfileOverrides::default(),
        settings: ModelSettings::default(),
        script: Vec::new(),
        fallbacks: Vec::new(),
        price: None,
    }
}

/// What a request was made from, as far as there are words for it.
pub(super) fn read(body: &Value) -> (Prompt, Profile) {
    let model = model(body);
    let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
    let (ours, theirs): (Vec<_>, Vec<_>) = list("tools").into_iter().partition(is_ours);
    let mut settings = settings(body);
    if !theirs.is_empty() {
        let extra = settings.extra_body.get_or_insert_default();
        extra.insert("tools".to_owned(), Value::Array(theirs));
    }
    let read = Prompt {
        model: model.name.clone(),
        system: joined(&body["system"]).map(|text| text.as_str().into()),
        tools: ours.iter().map(tool).collect(),
        settings,
        output_schema: body.pointer("/output_config/format/schema").cloned(),
        ..prompt(list("messages").iter().flat_map(turns).collect())
    };
    (read, Profile::resolve(&model))
}

/// A text that may be spelt as a list of parts.
pub(super) fn joined(text: &Value) -> Option<String> {
    let parts = text.as_array().map(|parts| {
        parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n\n")
    });
    text.as_str().map(str::to_owned).or(parts)
}

fn is_ours(tool: &Value) -> bool {
    tool.get("type").is_none() && tool.get("input_schema").is_some()
}

fn tool(tool: &Value) -> ToolDefinition {
    ToolDefinition {
        name: tool["name"].as_str().unwrap().to_owned(),
        description: tool["description"].as_str().unwrap().to_owned(),
        parameters: tool["input_schema"].clone(),
    }
}

fn settings(body: &Value) -> ModelSettings {
    let choice = &body["tool_choice"];
    let extra = ["thinking", "container", "cache_control", "top_k"];
    let extra = extra.iter().filter_map(|name| Some((*name, body.get(*name)?.clone())));
    let extra: Map<String, Value> = extra.map(|(name, value)| (name.to_owned(), value)).collect();
    let stop = body["stop_sequences"].as_array().into_iter().flatten();
    ModelSettings {
        temperature: body["temperature"].as_f64(),
        top_p: body["top_p"].as_f64(),
        max_output_tokens: body["max_tokens"].as_u64().map(|most| u32::try_from(most).unwrap()),
        stop: stop.map(|text| text.as_str().unwrap().to_owned()).collect(),
        tool_choice: match choice["type"].as_str() {
            Some("any") => Some("required".to_owned()),
            Some("tool") => choice["name"].as_str().map(str::to_owned),
            other => other.map(str::to_owned),
        },
        parallel_tool_calls: choice["disable_parallel_tool_use"].as_bool().map(|off| !off),
        extra_body: Some(extra).filter(|extra| !extra.is_empty()),
        ..ModelSettings::default()
    }
}

/// The turns that a message was made from: results are a turn of their own.
fn turns(message: &Value) -> Vec<PromptTurn> {
    let content = message["content"].as_array().unwrap();
    let role = match message["role"].as_str().unwrap() {
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::User,
    };
    let blocks = content.iter().map(|part| block(part, role));
    let (results, rest): (Vec<_>, Vec<_>) =
        blocks.partition(|block| matches!(block, Block::ToolResult { .. }));
    let turns = [turn(Role::Tool, results), turn(role, rest)];
    turns.into_iter().filter(|turn| !turn.blocks.is_empty()).collect()
}

fn block(part: &Value, role: Role) -> Block {
    let member = |name: &str| part[name].as_str().unwrap_or_default().to_owned();
    let origin = Origin::default();
    match (part["type"].as_str().unwrap(), role) {
        ("text", Role::Assistant) => {
            let citations = part.get("citations").filter(|list| !list.is_null());
            let echo = citations.map(|citations| json!({"citations": citations}));
            Block::Said { text: member("text").as_str().into(), echo }
        }
        ("text", _) => text(&member("text")),
        ("thinking", _) => super::thinking(&member("thinking"), &member("signature")),
        ("redacted_thinking", _) => Block::RedactedThinking { data: member("data"), origin },
        ("tool_use", _) => {
            let mut read = call(&member("id"));
            if let Block::ToolCall { name, arguments, .. } = &mut read {
                *name = member("name");
                *arguments = part["input"].to_string();
            }
            read
        }
        ("tool_result", _) => {
            let said = joined(&part["content"]).unwrap_or_default();
            result(&member("tool_use_id"), &said, part["is_error"] == true)
        }
        ("image" | "document", _) => file(&part["source"]),
        _ => super::opaque(part.clone()),
    }
}

fn file(source: &Value) -> Block {
    let member = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
    let content = match source["type"].as_str() {
        Some("url") => FileSource::Url(FileUrl { url: member("url") }),
        _ => FileSource::Base64(FileBytes { base64: member("data") }),
    };
    let media_type = Some(member("media_type")).filter(|it| !it.is_empty());
    let media_type = media_type.unwrap_or_else(|| "image/png".to_owned());
    let file = FilePart { id: "f".to_owned(), media_type, source: content };
    Block::File { file, origin: Origin::default() }
}
