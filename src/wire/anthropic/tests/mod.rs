//! Tests of the codec on made-up exchanges, and on the requests of recorded ones; recorded replies are
//! read in `provider`.

mod errors;
mod followups;
mod messages;
mod recorded;
mod replies;
mod settings;
mod streams;

use serde_json::{Value, json};

use crate::domain::id::CallId;
use crate::domain::ledger::Origin;
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;
use crate::render::framing::Tags;
use crate::render::names::ToolNames;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};
use crate::wire::Codec as _;
use crate::wire::anthropic::AnthropicMessages;

fn profile(family: &str) -> Profile {
    Profile::named(family).unwrap()
}

fn prompt(turns: Vec<PromptTurn>) -> Prompt {
    Prompt {
        model: "m".to_owned(),
        system: None,
        turns,
        tools: Vec::new(),
        settings: ModelSettings::default(),
        redacted: Vec::new(),
        tags: Tags::default(),
        names: ToolNames::default(),
        output_schema: None,
    }
}

fn turn(role: Role, blocks: Vec<Block>) -> PromptTurn {
    PromptTurn { role, blocks }
}

fn user(said: &str) -> PromptTurn {
    turn(Role::User, vec![text(said)])
}

fn assistant(blocks: Vec<Block>) -> PromptTurn {
    turn(Role::Assistant, blocks)
}

fn system(said: &str) -> PromptTurn {
    turn(Role::System, vec![text(said)])
}

fn tools(blocks: Vec<Block>) -> PromptTurn {
    turn(Role::Tool, blocks)
}

fn text(text: &str) -> Block {
    Block::Text(text.into())
}

fn said(text: &str) -> Block {
    Block::Said { text: text.into(), echo: None }
}

fn thinking(text: &str, signature: &str) -> Block {
    let signature = Some(signature.to_owned());
    Block::Thinking { text: text.into(), signature, id: None, echo: None }
}

fn opaque(raw: Value) -> Block {
    Block::Opaque { raw, origin: Origin::default() }
}

fn call(id: &str) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        call_id: CallId("c".to_owned()),
        name: "f".to_owned(),
        arguments: "{\"b\":1.0, \"a\":2}".to_owned(),
        echo: None,
        origin: Origin::default(),
    }
}

fn result(id: &str, text: &str, is_error: bool) -> Block {
    Block::ToolResult {
        id: id.to_owned(),
        call_id: CallId("c".to_owned()),
        name: "f".to_owned(),
        text: text.into(),
        is_error,
    }
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: json!({"z": 1, "a": {"y": 2, "b": 3}}),
    }
}

fn body(prompt: &Prompt, profile: &Profile) -> Value {
    serde_json::from_slice(&AnthropicMessages.encode(prompt, profile, false).body).unwrap()
}

/// The messages that turns become.
fn messages(turns: Vec<PromptTurn>) -> Value {
    body(&prompt(turns), &profile("anthropic_native_system"))["messages"].clone()
}

/// A text as a block.
fn block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// A message of one text.
fn message(role: &str, text: &str) -> Value {
    json!({"role": role, "content": [block(text)]})
}
