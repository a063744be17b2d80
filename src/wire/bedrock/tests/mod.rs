//! Tests of the codec on made-up exchanges, and of what it sends against recorded requests.

mod endpoints;
mod followups;
mod messages;
mod replies;
mod settings;
mod streams;

use serde_json::Value;

use super::BedrockConverse;
use crate::domain::id::CallId;
use crate::domain::ledger::Origin;
use crate::domain::model::{ModelSettings, ModelSpec, ProfileOverrides, Provider};
use crate::domain::tool::ToolDefinition;
use crate::render::framing::Tags;
use crate::render::names::ToolNames;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};
use crate::wire::Codec as _;

const CLAUDE: &str = "us.anthropic.claude-sonnet-4-6";
const CLAUDE_BUDGET: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const NOVA_2: &str = "us.amazon.nova-2-lite-v1:0";
const LLAMA: &str = "us.meta.llama3-3-70b-instruct-v1:0";

fn profile(model: &str) -> Profile {
    Profile::resolve(&ModelSpec {
        provider: Provider::Bedrock,
        name: model.to_owned(),
        base_url: None,
        api_key: None,
        profile: ProfileOverrides::default(),
        settings: ModelSettings::default(),
        script: Vec::new(),
        fallbacks: Vec::new(),
        price: None,
    })
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

fn user(blocks: Vec<Block>) -> PromptTurn {
    PromptTurn { role: Role::User, blocks }
}

fn assistant(blocks: Vec<Block>) -> PromptTurn {
    PromptTurn { role: Role::Assistant, blocks }
}

fn results(blocks: Vec<Block>) -> PromptTurn {
    PromptTurn { role: Role::Tool, blocks }
}

fn text(text: &str) -> Block {
    Block::Text(text.into())
}

fn said(text: &str) -> Block {
    Block::Said { text: text.into(), echo: None }
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

fn tool(name: &str, description: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: serde_json::json!({"type": "object"}),
    }
}

fn body(prompt: &Prompt, model: &str) -> Value {
    serde_json::from_slice(&BedrockConverse.encode(prompt, &profile(model), true).body).unwrap()
}

fn messages(turns: Vec<PromptTurn>, model: &str) -> Value {
    body(&prompt(turns), model)["messages"].clone()
}
