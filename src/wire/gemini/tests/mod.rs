//! Tests of the codec on made-up exchanges and on the requests of recorded ones; the replies of those
//! are read in `provider`, which may open files.

mod errors;
mod followups;
mod replies;
mod requests;
mod streams;

use crate::domain::id::CallId;
use crate::domain::ledger::Origin;
use crate::domain::model::{ModelSettings, ModelSpec, ProfileOverrides, Provider};
use crate::render::profile::Profile;
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};
use serde_json::{Value, json};

use super::GeminiGenerate;
use crate::wire::Codec as _;

/// The row of a model.
fn profile(name: &str) -> Profile {
    Profile::resolve(&ModelSpec {
        provider: Provider::Gemini,
        name: name.to_owned(),
        base_url: None,
        api_key: None,
        profile: ProfileOverrides::default(),
        settings: ModelSettings::default(),
        script: Vec::new(),
        fallbacks: Vec::new(),
        price: None,
    })
}

fn body(prompt: &Prompt, model: &str) -> Value {
    let body = GeminiGenerate.encode(prompt, &profile(model), false).body;
    serde_json::from_slice(&body).unwrap()
}

fn turn(role: Role, blocks: Vec<Block>) -> PromptTurn {
    PromptTurn { role, blocks }
}

fn text(text: &str) -> Block {
    Block::Text(text.into())
}

fn said(text: &str) -> Block {
    Block::Said { text: text.into(), echo: None }
}

fn signed(signature: &str) -> Value {
    json!({"thoughtSignature": signature})
}

fn call(id: &str, name: &str, echo: Option<Value>) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        call_id: CallId(id.to_owned()),
        name: name.to_owned(),
        arguments: "{\"b\":1.0, \"a\":2}".to_owned(),
        echo,
        origin: Origin::default(),
    }
}

fn result(id: &str, name: &str, is_error: bool) -> Block {
    Block::ToolResult {
        id: id.to_owned(),
        call_id: CallId(id.to_owned()),
        name: name.to_owned(),
        text: "ok".into(),
        is_error,
    }
}
