//! What requests look like.

use serde_json::{Value, json};

use crate::domain::file::{FileBytes, FilePart, FileSource, FileUrl};
use crate::domain::id::CallId;
use crate::domain::ledger::Origin;
use crate::domain::model::{ModelSettings, Provider};
use crate::domain::tool::ToolDefinition;
use crate::render::framing::Tags;
use crate::render::names::ToolNames;
use crate::render::profile::{Profile, ROWS};
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};
use crate::wire::Codec as _;
use crate::wire::ollama::Ollama;

pub(super) fn profile() -> Profile {
    *ROWS.iter().find(|row| row.family == "ollama").unwrap()
}

pub(super) fn prompt(turns: Vec<PromptTurn>) -> Prompt {
    Prompt {
        redacted: Vec::new(),
        model: "m".to_owned(),
        system: None,
        turns,
        tools: Vec::new(),
        settings: ModelSettings::default(),
        tags: Tags::default(),
        names: ToolNames::default(),
        output_schema: None,
    }
}

pub(super) fn turn(role: Role, blocks: Vec<Block>) -> PromptTurn {
    PromptTurn { role, blocks }
}

fn text(text: &str) -> Block {
    Block::Text(text.into())
}

fn written(prompt: &Prompt, stream: bool) -> String {
    String::from_utf8(Ollama.encode(prompt, &profile(), stream).body).unwrap()
}

fn body(prompt: &Prompt) -> Value {
    serde_json::from_str(&written(prompt, false)).unwrap()
}

fn tool() -> ToolDefinition {
    ToolDefinition {
        name: "f".to_owned(),
        description: "d".to_owned(),
        parameters: json!({"type": "object"}),
    }
}

#[test]
fn members_are_written_in_one_fixed_order() {
    let mut prompt = prompt(vec![turn(Role::User, vec![text("hi")])]);
    prompt.system = Some("s".into());
    prompt.tools = vec![tool()];
    prompt.output_schema = Some(json!({"type": "object"}));
    prompt.settings = serde_json::from_value(json!({
        "temperature": 0.5, "top_p": 1.0, "max_output_tokens": 9, "seed": -1, "stop": ["x"],
        "reasoning_effort": "low", "tool_choice": "required", "parallel_tool_calls": false,
        "extra_body": {"keep_alive": "5m", "options": {"top_k": 3, "seed": 7}, "format": "json",
            "think": false, "model": "other"},
    }))
    .unwrap();
    let expected = concat!(
        r#"{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"f","#,
        r#""description":"d","parameters":{"type":"object"}}}],"think":true,"#,
        r#""format":{"type":"object"},"options":{"num_predict":9,"temperature":0.5,"top_p":1.0,"#,
        r#""seed":-1,"stop":["x"],"top_k":3},"keep_alive":"5m","#,
        r#""messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}"#,
    );
    assert_eq!(written(&prompt, true), expected);
}

#[test]
fn an_unset_member_is_left_to_the_server_or_to_what_is_added() {
    let mut prompt = prompt(vec![]);
    assert_eq!(body(&prompt), json!({"model": "m", "stream": false, "messages": []}));
    prompt.tools = vec![tool()];
    prompt.settings = serde_json::from_value(json!({"tool_choice": "none",
        "extra_body": {"think": true, "format": "json", "options": {"top_k": 3}}}))
    .unwrap();
    let body = body(&prompt);
    assert_eq!((&body["think"], &body["format"]), (&json!(true), &json!("json")));
    assert_eq!((&body["options"], body.get("tools")), (&json!({"top_k": 3}), None));
}

#[test]
fn only_models_that_know_degrees_of_thinking_are_told_one() {
    let think = |name: &str, effort: &str| {
        let mut prompt = prompt(vec![]);
        name.clone_into(&mut prompt.model);
        prompt.settings.reasoning_effort = Some(effort.to_owned());
        body(&prompt)["think"].clone()
    };
    assert_eq!(think("gpt-oss:120b", "high"), "high");
    assert_eq!(think("qwen3:4b", "high"), true);
    assert_eq!(think("gpt-oss", "none"), false);
}

#[test]
fn calls_hold_objects_and_results_the_names_of_their_tools() {
    let call = Block::ToolCall {
        id: "a".to_owned(),
        call_id: CallId("c".to_owned()),
        name: "f".to_owned(),
        arguments: "{\"b\": 1.0,\"a\":2e3}".to_owned(),
        echo: None,
        origin: Origin::default(),
    };
    let thought = Block::Thinking { text: "hm".into(), signature: None, id: None, echo: None };
    let split = Block::Thinking {
        text: "of the text".into(),
        signature: None,
        id: None,
        echo: Some(json!({})),
    };
    let result = Block::ToolResult {
        id: "a".to_owned(),
        call_id: CallId("c".to_owned()),
        name: "f".to_owned(),
        text: "ok".into(),
        is_error: false,
    };
    let prompt = prompt(vec![
        turn(Role::Assistant, vec![thought, split, call]),
        turn(Role::Tool, vec![result]),
    ]);
    let expected = concat!(
        r#""messages":[{"role":"assistant","content":"","thinking":"hm","tool_calls":"#,
        r#"[{"type":"function","function":{"name":"f","arguments":{"b": 1.0,"a":2e3}}}]},"#,
        r#"{"role":"tool","tool_name":"f","content":"ok"}]}"#,
    );
    assert!(written(&prompt, false).ends_with(expected), "{}", written(&prompt, false));
}

#[test]
fn texts_of_a_turn_are_paragraphs_and_images_stand_beside_them() {
    let image = |source| Block::File {
        file: FilePart { id: "f".to_owned(), media_type: "image/png".to_owned(), source },
        origin: Origin::default(),
    };
    let bytes = image(FileSource::Base64(FileBytes { base64: "AA==".to_owned() }));
    let far = image(FileSource::Url(FileUrl { url: "https://a.example/x.png".to_owned() }));
    let prompt = prompt(vec![turn(Role::User, vec![text("a"), bytes, text("b"), far])]);
    let message = body(&prompt)["messages"][0].clone();
    assert_eq!(message["images"], json!(["AA=="]));
    let said = message["content"].as_str().unwrap();
    assert!(said.starts_with("a\n\nb\n\n[An image is left out"), "{said}");
}

#[test]
fn requests_go_to_the_native_chat() {
    let endpoint = Ollama.endpoint("m", true);
    assert_eq!(
        (endpoint.path.as_str(), Provider::Ollama.wire().label()),
        ("api/chat", "ollama_chat")
    );
}
