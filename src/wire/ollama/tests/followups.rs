//! Recorded requests, read back into the prompts that they tell, and written again. What is compared is
//! the same but for an empty `options`, which says nothing, and the order of members.

use serde_json::{Value, json};

use super::requests::{profile, prompt, turn};
use crate::domain::ledger::Origin;
use crate::domain::message::ReplyPart;
use crate::domain::model::{ModelSettings, Provider};
use crate::domain::provider::Wire;
use crate::domain::tool::ToolDefinition;
use crate::render::prompt::{Block, MarkedText, Prompt, PromptTurn, Role};
use crate::wire::Codec as _;
use crate::wire::ollama::Ollama;
use crate::wire::tests::recordings::recordings;

fn told(body: &Value) -> Prompt {
    let mut turns = Vec::<PromptTurn>::new();
    let mut system = None;
    for message in body["messages"].as_array().unwrap() {
        let text = || message["content"].as_str().unwrap();
        let (role, blocks) = match message["role"].as_str().unwrap() {
            "system" => {
                system = Some(MarkedText::from(text()));
                continue;
            }
            "assistant" => (Role::Assistant, said(message)),
            "tool" => (Role::Tool, vec![result(message)]),
            _ => (Role::User, vec![Block::Text(text().into())]),
        };
        match turns.last_mut() {
            Some(last) if last.role == Role::Tool && role == Role::Tool => {
                last.blocks.extend(blocks);
            }
            _ => turns.push(turn(role, blocks)),
        }
    }
    let mut extra = body.as_object().unwrap().clone();
    for known in ["model", "messages", "stream", "tools"] {
        extra.shift_remove(known);
    }
    Prompt {
        model: body["model"].as_str().unwrap().to_owned(),
        system,
        tools: body["tools"].as_array().into_iter().flatten().map(tool).collect(),
        settings: ModelSettings { extra_body: Some(extra), ..ModelSettings::default() },
        ..prompt(turns)
    }
}

fn tool(tool: &Value) -> ToolDefinition {
    let function = &tool["function"];
    ToolDefinition {
        name: function["name"].as_str().unwrap().to_owned(),
        description: function["description"].as_str().unwrap().to_owned(),
        parameters: function["parameters"].clone(),
    }
}

fn result(message: &Value) -> Block {
    Block::ToolResult {
        id: "c".to_owned(),
        call_id: crate::domain::id::CallId("c".to_owned()),
        name: message["tool_name"].as_str().unwrap().to_owned(),
        text: message["content"].as_str().unwrap().into(),
        is_error: false,
    }
}

/// What the model said, read as a reply that has come.
fn said(message: &Value) -> Vec<Block> {
    let body = json!({"message": message, "done": true}).to_string();
    let reply = Ollama.decode(Provider::Ollama, body.as_bytes()).unwrap();
    let block = |part| match part {
        ReplyPart::Text(part) => Block::Said { text: part.text.into(), echo: None },
        ReplyPart::Thinking(part) => {
            Block::Thinking { text: part.text.into(), signature: None, id: None, echo: part.echo }
        }
        ReplyPart::ToolCall(call) => Block::ToolCall {
            id: call.tool_call_id.as_str().to_owned(),
            call_id: call.tool_call_id,
            name: call.name,
            arguments: call.arguments,
            echo: call.echo,
            origin: Origin::default(),
        },
        ReplyPart::RedactedThinking(_) | ReplyPart::Refusal(_) | ReplyPart::Unknown(_) => {
            panic!("{part:?}")
        }
    };
    reply.parts.into_iter().map(block).collect()
}

#[test]
fn recorded_providers_requests_are_written_as_they_were_sent() {
    for recording in recordings(Wire::OllamaChat) {
        let stream = recording.body["stream"] == true;
        assert!(recording.path.ends_with(&Ollama.endpoint("m", stream).path));
        let written = Ollama.encode(&told(&recording.body), &profile(), stream).body;
        let written: Value = serde_json::from_slice(&written).unwrap();
        let mut sent = recording.body.clone();
        if sent["options"] == json!({}) {
            sent.as_object_mut().unwrap().shift_remove("options");
        }
        assert_eq!(written, sent, "{}", recording.id);
    }
}
