//! What requests look like, byte for byte.

use serde_json::{Value, json};

use crate::domain::file::{FileBytes, FilePart, FileSource, FileUrl};
use crate::domain::id::CallId;
use crate::domain::ledger::Origin;
use crate::domain::model::{ModelSettings, Provider};
use crate::domain::tool::ToolDefinition;
use crate::render::framing::Tags;
use crate::render::names::ToolNames;
use crate::render::profile::Profile;
use crate::render::prompt::{Block, MarkedText, Prompt, PromptTurn, Role};
use crate::wire;

pub(super) fn openai() -> Profile {
    Profile::named("openai_responses").unwrap()
}

pub(super) fn compatible() -> Profile {
    Profile::named("openai_responses_compatible").unwrap()
}

pub(super) fn prompt(turns: Vec<PromptTurn>) -> Prompt {
    Prompt {
        redacted: Vec::new(),
        model: "m".to_owned(),
        system: None,
        turns,
        tools: Vec::new(),
        output_schema: None,
        settings: ModelSettings::default(),
        tags: Tags::default(),
        names: ToolNames::default(),
    }
}

pub(super) fn turn(role: Role, blocks: Vec<Block>) -> PromptTurn {
    PromptTurn { role, blocks }
}

fn text(text: &str) -> Block {
    Block::Text(MarkedText::from(text))
}

pub(super) fn said(text: &str, echo: Option<Value>) -> Block {
    Block::Said { text: MarkedText::from(text), echo }
}

pub(super) fn thought(text: &str, signature: Option<&str>, echo: Option<Value>) -> Block {
    let signature = signature.map(str::to_owned);
    Block::Thinking { text: MarkedText::from(text), signature, id: Some("rs".to_owned()), echo }
}

pub(super) fn call(id: &str, echo: Option<Value>) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        call_id: CallId("c".to_owned()),
        name: "f".to_owned(),
        arguments: "{\"b\":1.0, \"a\":2}".to_owned(),
        echo,
        origin: Origin::default(),
    }
}

fn result(id: &str) -> Block {
    Block::ToolResult {
        id: id.to_owned(),
        call_id: CallId("c".to_owned()),
        name: "f".to_owned(),
        text: MarkedText::from("ok"),
        is_error: false,
    }
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: json!({"z": 1, "a": {"y": 2}}),
    }
}

fn written(prompt: &Prompt, profile: &Profile, stream: bool) -> String {
    let encoded = wire::encode(Provider::OpenaiResponses, prompt, profile, stream);
    String::from_utf8(encoded.body).unwrap()
}

pub(super) fn body(prompt: &Prompt, profile: &Profile) -> Value {
    serde_json::from_str(&written(prompt, profile, false)).unwrap()
}

#[test]
fn members_are_written_in_one_fixed_order() {
    let mut prompt = prompt(vec![turn(Role::User, vec![text("hi")])]);
    prompt.system = Some(MarkedText::from("s"));
    prompt.tools = vec![tool("f")];
    prompt.output_schema = Some(json!({"type": "object"}));
    prompt.settings = ModelSettings {
        temperature: Some(0.5),
        top_p: Some(1.0),
        max_output_tokens: Some(9),
        seed: Some(-1),
        stop: vec!["x".to_owned()],
        reasoning_effort: Some("low".to_owned()),
        tool_choice: Some("f".to_owned()),
        parallel_tool_calls: Some(false),
        extra_body: json!({
            "truncation": "auto", "model": "other", "store": true, "top_p": 0.1,
            "reasoning": {"summary": "auto", "effort": "high"},
            "text": {"verbosity": "low", "format": {"type": "text"}},
            "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        })
        .as_object()
        .cloned(),
        ..ModelSettings::default()
    };
    assert_eq!(
        written(&prompt, &openai(), true),
        concat!(
            r#"{"model":"m","stream":true,"store":false,"instructions":"s","#,
            r#""tools":[{"type":"function","name":"f","description":"d","#,
            r#""parameters":{"z":1,"a":{"y":2}},"strict":false}],"#,
            r#""tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false,"#,
            r#""max_output_tokens":16,"temperature":0.5,"top_p":1.0,"#,
            r#""reasoning":{"effort":"low","summary":"auto"},"#,
            r#""text":{"format":{"type":"json_schema","name":"answer","#,
            r#""schema":{"type":"object"},"strict":false},"verbosity":"low"},"#,
            r#""include":["reasoning.encrypted_content","message.output_text.logprobs"],"#,
            r#""truncation":"auto","#,
            r#""input":[{"type":"message","role":"user","content":"hi"}]}"#,
        )
    );
}

#[test]
fn what_is_not_set_is_not_sent_and_members_without_a_setting_go_out_as_they_are() {
    let mut prompt = prompt(vec![]);
    prompt.settings.tool_choice = Some("required".to_owned());
    prompt.settings.parallel_tool_calls = Some(true);
    let bare = json!({"model": "m", "stream": false, "store": false, "input": []});
    assert_eq!(body(&prompt, &compatible()), bare);
    prompt.tools = vec![tool("f")];
    prompt.settings.tool_choice = Some("gone".to_owned());
    prompt.settings.extra_body =
        json!({"reasoning": {"effort": "high"}, "text": {"format": {"type": "text"}},
            "include": ["x"], "max_output_tokens": 3})
        .as_object()
        .cloned();
    let sent = body(&prompt, &compatible());
    assert!(sent.get("tool_choice").is_none());
    assert_eq!(sent["reasoning"], json!({"effort": "high"}));
    assert_eq!(sent["text"], json!({"format": {"type": "text"}}));
    assert_eq!((&sent["include"], &sent["max_output_tokens"]), (&json!(["x"]), &json!(3)));
}

#[test]
fn a_host_that_wants_instructions_gets_some() {
    let codex = Profile::named("openai_responses_codex").unwrap();
    assert_eq!(body(&prompt(vec![]), &codex)["instructions"], "");
    assert!(body(&prompt(vec![]), &openai()).get("instructions").is_none());
}

#[test]
fn a_schema_is_strict_only_where_hosts_can_hold_to_it() {
    let strict = |schema: Value| {
        let prompt = Prompt { output_schema: Some(schema), ..prompt(vec![]) };
        body(&prompt, &openai())["text"]["format"]["strict"] == true
    };
    let closed = |properties: Value, required: Value| {
        json!({"type": "object", "properties": properties, "required": required,
            "additionalProperties": false})
    };
    let text = json!({"type": "string"});
    assert!(strict(closed(json!({"a": text}), json!(["a"]))));
    assert!(strict(closed(json!({}), json!([]))));
    let inner = closed(json!({"b": {"type": ["string", "null"]}}), json!(["b"]));
    let list = json!({"type": "array", "items": {"anyOf": [inner, {"$ref": "#/$defs/d"}]}});
    assert!(strict(closed(json!({"a": list}), json!(["a"]))));
    for loose in [
        json!({"type": "object"}),
        json!({"type": "object", "properties": {"a": text}, "required": ["a"]}),
        closed(json!({"a": text, "b": text}), json!(["a"])),
        closed(json!({"a": {"type": "object"}}), json!(["a"])),
        closed(json!({"a": {"type": "string", "not": {}}}), json!(["a"])),
        closed(json!({"a": {}}), json!(["a"])),
        closed(json!({"a": true}), json!(["a"])),
        text,
        json!(true),
    ] {
        assert!(!strict(loose.clone()), "{loose}");
    }
}

#[test]
fn every_speaker_has_items_of_its_own() {
    let prompt = prompt(vec![
        turn(Role::User, vec![text("a"), text("b")]),
        turn(Role::User, vec![text("c")]),
        turn(Role::System, vec![text("d")]),
        turn(Role::Assistant, vec![said("e", None), call("x", None), call("y", None)]),
        turn(Role::Tool, vec![result("x"), result("y")]),
        turn(Role::Assistant, vec![said("f", None)]),
    ]);
    let message =
        |role: &str, content: Value| json!({"type": "message", "role": role, "content": content});
    let part = |text: &str| json!({"type": "input_text", "text": text});
    let call = |id: &str| {
        json!({"type": "function_call", "call_id": id, "name": "f",
            "arguments": "{\"b\":1.0, \"a\":2}"})
    };
    let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "ok"});
    assert_eq!(
        body(&prompt, &openai())["input"],
        json!([
            message("user", json!([part("a"), part("b")])),
            message("user", json!("c")),
            message("system", json!("d")),
            message("assistant", json!("e")),
            call("x"),
            call("y"),
            result("x"),
            result("y"),
            message("assistant", json!("f")),
        ])
    );
}

#[test]
fn files_go_out_by_their_bytes_or_their_address() {
    let file = |media_type: &str, source| {
        let (id, media_type) = ("n".to_owned(), media_type.to_owned());
        Block::File { file: FilePart { id, media_type, source }, origin: Origin::default() }
    };
    let bytes = || FileSource::Base64(FileBytes { base64: "AA==".to_owned() });
    let far = || FileSource::Url(FileUrl { url: "https://a.example/b".to_owned() });
    let blocks = vec![
        file("image/png", bytes()),
        file("image/png", far()),
        file("application/pdf", bytes()),
        file("application/pdf", far()),
    ];
    let sent = body(&prompt(vec![turn(Role::User, blocks)]), &openai());
    assert_eq!(
        sent["input"][0]["content"],
        json!([
            {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
            {"type": "input_image", "image_url": "https://a.example/b", "detail": "auto"},
            {"type": "input_file", "filename": "n",
                "file_data": "data:application/pdf;base64,AA=="},
            {"type": "input_file", "file_url": "https://a.example/b"},
        ])
    );
}

#[test]
fn a_request_says_where_its_conversation_begins_and_of_every_byte_where_it_comes_from() {
    let echo = json!({"id": "msg", "phase": "commentary"});
    let turns = vec![
        turn(Role::User, vec![text("a")]),
        turn(Role::Assistant, vec![thought("t", Some("s"), None), said("b", Some(echo))]),
    ];
    let profile = compatible();
    let encoded = wire::encode(Provider::OpenaiResponses, &prompt(turns), &profile, false);
    let (head, _) = encoded.body.split_at(encoded.conversation_at);
    assert!(head.ends_with(b"\"input\":["));
    let mut end = 0;
    for span in &encoded.spans {
        assert!(span.start == end && span.end > span.start);
        end = span.end;
    }
    assert_eq!(usize::try_from(end).unwrap(), encoded.body.len());
}
