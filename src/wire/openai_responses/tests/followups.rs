//! Recorded requests, rebuilt from the neutral history that they tell.
//!
//! The items of a recorded request are read as the decoder reads those of a reply, and written again.
//! What is written has to be what was recorded, but for what [`normal`] names.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::requests::{prompt, turn};
use crate::domain::file::{FilePart, FileSource, FileUrl};
use crate::domain::ledger::Origin;
use crate::domain::message::ReplyPart;
use crate::domain::model::{ModelSettings, Provider};
use crate::domain::tool::ToolDefinition;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, MarkedText, Prompt, PromptTurn, Role};
use crate::render::responses::ResponsesFacts;
use crate::wire;
use crate::wire::json::{items, text};
use crate::wire::openai_responses::items::Parts;

/// Exchanges whose request is told otherwise on purpose, with the reason. The list may only shrink.
const OTHERWISE: &[(&str, &str)] = &[
    ("openai-responses-007-tool-followup-tool-call-mid-system", CLIENT_TOOLS),
    ("openai-responses-036-tool-call-mid-system", CLIENT_TOOLS),
    ("openai-responses-010-400-tool-followup-thinking-echo", RESULT_FILES),
    ("openai-responses-012-cache-write-plain", CACHE_MARKS),
    ("openrouter-responses-002-cache-write-plain", CACHE_MARKS),
    ("openai-responses-023-stream-tool-call-server-tool", HOST_TOOLS),
    ("openai-responses-054-plain", HOST_TOOLS),
    ("openai-responses-059-stream-server-tool", HOST_TOOLS),
    ("deepseek-responses-005-thinking-server-tool-cache-read", HOST_TOOLS),
];

const CLIENT_TOOLS: &str = "Tools that a client adds in mid-conversation: no host sends such an item, and a loaded history \
     that claims so could speak as the developer.";

const RESULT_FILES: &str = "A result is text; its files follow in the user's turn.";

const CACHE_MARKS: &str =
    "No marks for the cache are set: a longer request begins with the shorter.";

const HOST_TOOLS: &str = "Agents declare no tools that the host itself runs or finds.";

/// Members that are the client's own choice and change nothing of what is asked: how long the answer
/// is kept, and marks for caches and statistics. The replay server ignores them in strict mode too.
const IGNORED: &[&str] = &["store", "user", "metadata", "safety_identifier", "prompt_cache_key"];

/// A request without what may be spelt in several ways that mean the same.
fn normal(body: &Value) -> Value {
    let mut body = body.clone();
    let members = body.as_object_mut().unwrap();
    members.retain(|name, _| !IGNORED.contains(&name.as_str()));
    // Their absence means the same.
    members.retain(|name, value| match name.as_str() {
        "stream" => *value != json!(false),
        "include" => *value != json!([]),
        "tool_choice" => *value != json!("auto"),
        _ => !value.is_null(),
    });
    // A text alone is a message of the user.
    if let Some(text) = members["input"].as_str() {
        members["input"] = json!([{"role": "user", "content": text}]);
    }
    for item in members["input"].as_array_mut().unwrap() {
        normalise_item(item.as_object_mut().unwrap());
    }
    // Whether arguments are held to the schema is the client's choice, and so is an answer's name.
    for tool in members.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        tool.as_object_mut().unwrap().retain(|name, value| name != "strict" && !value.is_null());
    }
    let format = members.get_mut("text").and_then(|text| text.get_mut("format"));
    if let Some(format) = format.and_then(Value::as_object_mut) {
        format.remove("name");
    }
    body
}

fn normalise_item(item: &mut Map<String, Value>) {
    // The type of a message may be left out, and so may what is null.
    if !item.contains_key("type") {
        item.insert("type".to_owned(), json!("message"));
    }
    item.retain(|_, value| !value.is_null());
    // That a past item has ended goes without saying.
    item.remove("status");
    if item["type"] != "message" {
        return;
    }
    for part in item["content"].as_array_mut().into_iter().flatten() {
        // A list without entries is the same as none.
        part.as_object_mut()
            .unwrap()
            .retain(|name, value| name != "annotations" || *value != json!([]));
    }
    // One text may be told as a text or as a list of one.
    if let [part] = items(&Value::Object(item.clone()), "content")
        && part.as_object().is_some_and(|part| part.len() == 2)
        && let Some(text) = text(part, "text")
    {
        item.insert("content".to_owned(), json!(text));
    }
}

/// A recorded request.
struct Recorded {
    id: String,
    body: Value,
}

#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where it is")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
fn recorded() -> Vec<Recorded> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let root = std::env::var("AGENTLING_SHARED").unwrap_or_else(|_| beside.to_owned());
    let folder = PathBuf::from(root).join("data/providers");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: {} is absent", folder.display());
        return Vec::new();
    };
    let files = entries.map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ext| ext == "json"));
    let exchange = |path: PathBuf| {
        let value: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        (value["api"] == "openai_responses").then(|| Recorded {
            id: value["id"].as_str().unwrap().to_owned(),
            body: value["request"]["body"].clone(),
        })
    };
    files.filter_map(exchange).collect()
}

/// A host like the one that was asked: the facts that a request shows.
fn profile(body: &Value) -> Profile {
    let has_ids = items(body, "input").iter().any(|item| item.get("id").is_some());
    let is_sealed = items(body, "include").contains(&json!("reasoning.encrypted_content"));
    let facts = ResponsesFacts {
        sealed_reasoning: is_sealed,
        item_ids: has_ids,
        needs_instructions: body["instructions"] == "",
    };
    Profile { responses: facts, ..super::requests::compatible() }
}

/// The neutral prompt that a request tells.
fn told(body: &Value) -> Prompt {
    let of = |name: &str| body.get(name).filter(|value| !value.is_null()).cloned();
    let choice = &body["tool_choice"];
    // What has no setting is handed through.
    let choice = choice.as_str().or_else(|| text(choice, "name"));
    let mut extra = body.as_object().unwrap().clone();
    extra.retain(|name, _| name != "tool_choice" || choice.is_none());
    Prompt {
        model: body["model"].as_str().unwrap().to_owned(),
        system: text(body, "instructions").map(MarkedText::from),
        tools: items(body, "tools").iter().map(tool).collect(),
        output_schema: body.pointer("/text/format/schema").cloned(),
        settings: ModelSettings {
            temperature: of("temperature").and_then(|it| it.as_f64()),
            max_output_tokens: of("max_output_tokens").and_then(|it| it.as_u64()?.try_into().ok()),
            reasoning_effort: body
                .pointer("/reasoning/effort")
                .map(|it| it.as_str().unwrap().into()),
            tool_choice: choice.map(str::to_owned),
            parallel_tool_calls: of("parallel_tool_calls").and_then(|it| it.as_bool()),
            extra_body: Some(extra),
            ..ModelSettings::default()
        },
        ..prompt(turns(body))
    }
}

fn tool(tool: &Value) -> ToolDefinition {
    ToolDefinition {
        name: text(tool, "name").unwrap_or_default().to_owned(),
        description: text(tool, "description").unwrap_or_default().to_owned(),
        parameters: tool["parameters"].clone(),
    }
}

fn turns(body: &Value) -> Vec<PromptTurn> {
    if let Some(text) = text(body, "input") {
        return vec![turn(Role::User, vec![Block::Text(MarkedText::from(text))])];
    }
    let mut turns: Vec<PromptTurn> = Vec::new();
    for item in items(body, "input") {
        let (role, blocks) = spoken(item);
        match turns.last_mut() {
            // What the model says in one turn is one reply, and so are the results of its calls.
            Some(last) if last.role == role && matches!(role, Role::Assistant | Role::Tool) => {
                last.blocks.extend(blocks);
            }
            _ => turns.push(turn(role, blocks)),
        }
    }
    turns
}

fn spoken(item: &Value) -> (Role, Vec<Block>) {
    if item["type"] == "function_call_output" {
        let result = Block::ToolResult {
            id: item["call_id"].as_str().unwrap().to_owned(),
            call_id: crate::domain::id::CallId("c".to_owned()),
            name: String::new(),
            text: MarkedText::from(text(item, "output").unwrap_or_default()),
            is_error: false,
        };
        return (Role::Tool, vec![result]);
    }
    match (item["role"].as_str(), item.get("content")) {
        (Some("user"), Some(content)) => (Role::User, parts(content)),
        (Some("system"), Some(content)) => (Role::System, parts(content)),
        _ => (Role::Assistant, replied(item)),
    }
}

fn parts(content: &Value) -> Vec<Block> {
    let said = |text: &str| Block::Text(MarkedText::from(text));
    let part = |part: &Value| match text(part, "file_url") {
        Some(url) => Block::File {
            file: FilePart {
                id: "f".to_owned(),
                media_type: "audio/mpeg".to_owned(),
                source: FileSource::Url(FileUrl { url: url.to_owned() }),
            },
            origin: Origin::default(),
        },
        None => said(text(part, "text").unwrap()),
    };
    content.as_str().map_or_else(
        || content.as_array().unwrap().iter().map(part).collect(),
        |text| vec![said(text)],
    )
}

/// The blocks that an item of a reply becomes, as rendering makes them of its parts.
fn replied(item: &Value) -> Vec<Block> {
    let mut parts = Parts::new(Provider::OpenaiResponses);
    parts.add(item, true);
    let origin = Origin::default();
    let block = |part: ReplyPart| match part {
        ReplyPart::Text(part) => {
            Block::Said { text: MarkedText::from(part.text.as_str()), echo: part.echo }
        }
        ReplyPart::Thinking(part) => Block::Thinking {
            text: MarkedText::from(part.text.as_str()),
            signature: part.signature,
            id: part.id,
            echo: part.echo,
        },
        ReplyPart::ToolCall(call) => Block::ToolCall {
            id: call.provider_call_id.unwrap(),
            call_id: call.tool_call_id,
            name: call.name,
            arguments: call.arguments,
            echo: call.echo,
            origin: origin.clone(),
        },
        ReplyPart::Unknown(part) => Block::Opaque { raw: part.raw, origin: origin.clone() },
        ReplyPart::Refusal(_) | ReplyPart::RedactedThinking(_) => panic!("{item}"),
    };
    parts.list.into_iter().map(block).collect()
}

/// The request as it is written from the history that it tells.
fn rebuilt(body: &Value) -> Value {
    let is_stream = body["stream"] == true;
    let encoded = wire::encode(Provider::OpenaiResponses, &told(body), &profile(body), is_stream);
    serde_json::from_slice(&encoded.body).unwrap()
}

#[test]
fn recorded_requests_are_rebuilt_from_the_history_that_they_tell() {
    for Recorded { id, body } in recorded() {
        let (ours, theirs) = (normal(&rebuilt(&body)), normal(&body));
        if let Some((_, reason)) = OTHERWISE.iter().find(|(listed, _)| *listed == id) {
            assert_ne!(ours, theirs, "{id} does not differ any more: take it off ({reason})");
        } else {
            assert_eq!(ours, theirs, "{id}");
        }
    }
}
