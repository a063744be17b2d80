//! What is sealed goes back to the server that sealed it, and to no other of the same name.

use serde_json::json;

use super::support::task;
use crate::domain::model::ModelSpec;
use crate::domain::step::StepContent;
use crate::render::observation::OutputLimits;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, Role};
use crate::render::redact::Redactor;
use crate::render::{FramingRules, RenderInput, render};

/// The blocks of a signed reply of one host, as told to a model at an address.
fn told(host: Option<&str>, base_url: &str) -> Vec<(Role, Block)> {
    let action: StepContent = serde_json::from_value(json!({
        "kind": "action",
        "reply": { "provider": "anthropic", "host": host, "state": "complete", "parts": [
            { "part_kind": "thinking", "text": "hm", "signature": "s", "issuer": "anthropic" },
            { "part_kind": "unknown", "issuer": "anthropic", "raw": { "type": "server_thing" } },
            { "part_kind": "text", "text": "hi", "echo": { "citations": [] } },
        ] },
        "outcomes": [],
    }))
    .unwrap();
    let model: ModelSpec = serde_json::from_value(
        json!({ "provider": "anthropic", "name": "claude-sonnet-4-6", "base_url": base_url }),
    )
    .unwrap();
    let input = RenderInput {
        model: &model,
        instructions: None,
        skills: &[],
        steps: &[task("?"), action, task("and?")],
        first_seq: 1,
        tools: &[],
        output_schema: None,
        closing: false,
        framing: &FramingRules::default(),
        limits: &OutputLimits::default(),
        redactor: &Redactor::none(),
    };
    let prompt = render(&input, &Profile::resolve(&model));
    let blocks = |turn: &crate::render::prompt::PromptTurn| {
        let role = turn.role;
        turn.blocks.iter().map(move |block| (role, block.clone())).collect::<Vec<_>>()
    };
    prompt.turns.iter().flat_map(blocks).collect()
}

fn is_sealed(block: &Block) -> bool {
    matches!(
        block,
        Block::Thinking { .. } | Block::Opaque { .. } | Block::Said { echo: Some(_), .. }
    )
}

#[test]
fn another_server_of_the_same_name_gets_nothing_that_is_sealed() {
    let blocks = told(Some("a.example"), "https://b.example/v1");
    assert!(!blocks.iter().any(|(_, block)| is_sealed(block)), "{blocks:?}");
    let is_framed = |(role, block): &(Role, Block)| {
        *role == Role::User && matches!(block, Block::Text(text) if text.contains("\nhm\n"))
    };
    assert!(blocks.iter().any(is_framed), "{blocks:?}");
}

#[test]
fn the_server_that_sealed_it_gets_it_back() {
    for host in [Some("a.example"), None] {
        let blocks = told(host, "https://A.example/other");
        assert_eq!(blocks.iter().filter(|(_, block)| is_sealed(block)).count(), 3, "{blocks:?}");
    }
}
