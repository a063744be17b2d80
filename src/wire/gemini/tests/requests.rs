//! What requests look like.

use serde_json::{Value, json};

use super::{body, call, profile, result, said, signed, text, turn};
use crate::domain::file::{FileBytes, FilePart, FileSource, FileText, FileUrl};
use crate::domain::ledger::Origin;
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};
use crate::wire::Codec as _;
use crate::wire::gemini::GeminiGenerate;

const OLD: &str = "gemini-2.0-flash";
const MIDDLE: &str = "gemini-2.5-flash";
const NEW: &str = "gemini-3-flash";

fn contents(turns: Vec<PromptTurn>, model: &str) -> Value {
    body(&Prompt { turns, ..Prompt::default() }, model)["contents"].take()
}

fn asked() -> Vec<PromptTurn> {
    vec![turn(Role::User, vec![text("hi")])]
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "d".to_owned(),
        parameters: json!({
            "type": "object", "additionalProperties": false, "properties": {"a": {"const": "x"}},
        }),
    }
}

fn with_settings(settings: ModelSettings, model: &str) -> Value {
    body(&Prompt { turns: asked(), tools: vec![tool("f")], settings, ..Prompt::default() }, model)
}

fn extra(members: &Value) -> ModelSettings {
    ModelSettings { extra_body: members.as_object().cloned(), ..ModelSettings::default() }
}

#[test]
fn the_model_is_named_in_the_path() {
    for (model, stream, path) in [
        ("gemini-3-flash", false, "models/gemini-3-flash:generateContent"),
        ("models/gemini-3-flash", true, "models/gemini-3-flash:streamGenerateContent"),
        ("tunedModels/mine", false, "tunedModels/mine:generateContent"),
        ("a/../b?c:d é", false, "models/a%2F..%2Fb%3Fc%3Ad%20%C3%A9:generateContent"),
    ] {
        let endpoint = GeminiGenerate.endpoint(model, stream);
        assert_eq!(endpoint.path, path);
        assert_eq!(endpoint.query.contains(&("alt", "sse")), stream, "{model}");
    }
}

#[test]
fn members_are_written_in_one_fixed_order_and_the_conversation_comes_last() {
    let prompt = Prompt {
        system: Some("s".into()),
        turns: asked(),
        tools: vec![tool("f")],
        output_schema: Some(json!({"type": "object"})),
        settings: ModelSettings {
            temperature: Some(0.5),
            top_p: Some(1.0),
            max_output_tokens: Some(9),
            seed: Some(-1),
            stop: vec!["x".to_owned()],
            reasoning_effort: Some("low".to_owned()),
            tool_choice: Some("f".to_owned()),
            parallel_tool_calls: Some(false),
            ..extra(&json!({"safetySettings": []}))
        },
        ..Prompt::default()
    };
    let encoded = GeminiGenerate.encode(&prompt, &profile(NEW), true);
    assert_eq!(
        String::from_utf8(encoded.body).unwrap(),
        concat!(
            r#"{"systemInstruction":{"parts":[{"text":"s"}]},"#,
            r#""tools":[{"functionDeclarations":[{"name":"f","description":"d","#,
            r#""parametersJsonSchema":{"type":"object","additionalProperties":false,"#,
            r#""properties":{"a":{"const":"x"}}}}]}],"#,
            r#""toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}},"#,
            r#""generationConfig":{"temperature":0.5,"topP":1.0,"maxOutputTokens":9,"#,
            r#""stopSequences":["x"],"seed":-1,"#,
            r#""thinkingConfig":{"includeThoughts":true,"thinkingLevel":"low"},"#,
            r#""responseMimeType":"application/json","responseJsonSchema":{"type":"object"}},"#,
            r#""safetySettings":[],"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
        )
    );
}

#[test]
fn results_stand_alone_right_after_their_calls() {
    let turns = vec![
        turn(Role::User, vec![text("a")]),
        turn(Role::User, vec![text("b")]),
        turn(Role::Assistant, vec![said("c"), call("1", "f", None), call("2", "g", None)]),
        turn(Role::Tool, vec![result("1", "f", false), result("2", "g", true)]),
        turn(Role::User, vec![text("d")]),
        turn(Role::System, vec![text("e")]),
    ];
    let args = json!({"b": 1.0, "a": 2});
    assert_eq!(
        contents(turns, MIDDLE),
        json!([
            {"role": "user", "parts": [{"text": "a"}, {"text": "b"}]},
            {"role": "model", "parts": [
                {"text": "c"},
                {"functionCall": {"id": "1", "name": "f", "args": args}},
                {"functionCall": {"id": "2", "name": "g", "args": args}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "1", "name": "f", "response": {"output": "ok"}}},
                {"functionResponse": {"id": "2", "name": "g", "response": {"error": "ok"}}},
            ]},
            {"role": "user", "parts": [{"text": "d"}, {"text": "e"}]},
        ])
    );
}

#[test]
fn signatures_go_back_on_their_parts_as_they_came() {
    let turns = vec![
        turn(Role::User, vec![text("a")]),
        turn(
            Role::Assistant,
            vec![
                Block::Thinking {
                    text: "hm".into(),
                    signature: Some("s1+/=".to_owned()),
                    id: None,
                    echo: None,
                },
                Block::Said { text: "b".into(), echo: Some(signed("s2")) },
                call("1", "f", Some(signed("s3"))),
                call("2", "f", None),
                Block::Opaque {
                    raw: json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
                    origin: Origin::default(),
                },
                Block::Opaque { raw: json!("no part"), origin: Origin::default() },
                Block::RedactedThinking { data: "x".to_owned(), origin: Origin::default() },
                Block::Said { text: "".into(), echo: Some(signed("s4")) },
            ],
        ),
    ];
    let parts = &contents(turns, NEW)[1]["parts"];
    let args = json!({"b": 1.0, "a": 2});
    assert_eq!(
        parts,
        &json!([
            {"text": "hm", "thought": true, "thoughtSignature": "s1+/="},
            {"text": "b", "thoughtSignature": "s2"},
            {"functionCall": {"id": "1", "name": "f", "args": args}, "thoughtSignature": "s3"},
            {"functionCall": {"id": "2", "name": "f", "args": args}},
            {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
            {"text": "", "thoughtSignature": "s4"},
        ])
    );
}

#[test]
fn an_echo_cannot_change_what_a_part_is() {
    let echo =
        Some(json!({"functionCall": {"name": "evil"}, "thought": true, "text": "x", "k": 1}));
    let turns = vec![
        turn(Role::User, vec![text("a")]),
        turn(Role::Assistant, vec![Block::Said { text: "b".into(), echo }]),
    ];
    assert_eq!(contents(turns, NEW)[1]["parts"], json!([{"text": "b", "k": 1}]));
}

#[test]
fn the_first_call_of_a_turn_is_signed_where_the_model_insists() {
    let turns = || {
        vec![
            turn(Role::User, vec![text("a")]),
            turn(Role::Assistant, vec![said("b"), call("1", "f", None), call("2", "f", None)]),
            turn(Role::Tool, vec![result("1", "f", false), result("2", "f", false)]),
            turn(Role::Assistant, vec![call("3", "f", Some(signed("")))]),
        ]
    };
    let signatures = |model: &str| -> Vec<Value> {
        let contents = contents(turns(), model);
        let contents = contents.as_array().unwrap().iter();
        let parts = contents.flat_map(|content| content["parts"].as_array().unwrap());
        let calls = parts.filter(|part| part.get("functionCall").is_some());
        calls.map(|part| part["thoughtSignature"].clone()).collect()
    };
    let stand_in = json!("skip_thought_signature_validator");
    assert_eq!(signatures(NEW)[..2], [stand_in, Value::Null]);
    assert_eq!(signatures(MIDDLE)[..2], [Value::Null, Value::Null]);
    assert_ne!(signatures(NEW)[2], Value::Null);
}

#[test]
fn the_user_comes_first() {
    let empty = json!({"role": "user", "parts": [{"text": ""}]});
    assert_eq!(contents(Vec::new(), NEW), json!([empty]));
    let model = contents(vec![turn(Role::Assistant, vec![said("a")])], NEW);
    let filler = json!({"role": "user", "parts": [{"text": "."}]});
    assert_eq!(model, json!([empty, {"role": "model", "parts": [{"text": "a"}]}, filler]));
}

#[test]
fn files_are_sent_inline_or_by_their_address() {
    let file = |source| Block::File {
        file: FilePart { id: "f".to_owned(), media_type: "image/png".to_owned(), source },
        origin: Origin::default(),
    };
    let blocks = vec![
        file(FileSource::Base64(FileBytes { base64: "AA==".to_owned() })),
        file(FileSource::Url(FileUrl { url: "https://x.example/a".to_owned() })),
        file(FileSource::Text(FileText { text: "hi".to_owned() })),
    ];
    assert_eq!(
        contents(vec![turn(Role::User, blocks)], OLD)[0]["parts"],
        json!([
            {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
            {"fileData": {"mimeType": "image/png", "fileUri": "https://x.example/a"}},
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
        ])
    );
}

#[test]
fn older_models_are_told_schemas_in_the_older_words() {
    let mut none = tool("g");
    none.parameters = json!({"type": "object", "properties": {}});
    let prompt =
        Prompt { turns: asked(), tools: vec![tool("f"), none.clone()], ..Prompt::default() };
    assert_eq!(
        body(&prompt, OLD)["tools"][0]["functionDeclarations"],
        json!([
            {"name": "f", "description": "d", "parameters": {
                "type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}},
            }},
            {"name": "g", "description": "d"},
        ])
    );
    let newer = &body(&prompt, MIDDLE)["tools"][0]["functionDeclarations"];
    assert_eq!(newer[0]["parametersJsonSchema"], tool("f").parameters);
    assert_eq!(newer[1]["parametersJsonSchema"], none.parameters);
}

#[test]
fn an_answer_is_bound_to_its_schema_where_tools_do_not_stand_in_the_way() {
    let schema = json!({"type": "object", "properties": {"a": {"const": "x"}}});
    let config = |model: &str, tools: Vec<ToolDefinition>| {
        let output_schema = Some(schema.clone());
        let prompt = Prompt { turns: asked(), tools, output_schema, ..Prompt::default() };
        body(&prompt, model)["generationConfig"].take()
    };
    let json = json!({"responseMimeType": "application/json", "responseJsonSchema": schema});
    assert_eq!(config(NEW, vec![tool("f")]), json);
    assert_eq!(config(MIDDLE, Vec::new()), json);
    assert_eq!(config(MIDDLE, vec![tool("f")]), Value::Null);
    let subset = json!({"type": "object", "properties": {"a": {"type": "string", "enum": ["x"]}}});
    let older = json!({"responseMimeType": "application/json", "responseSchema": subset});
    assert_eq!(config(OLD, Vec::new()), older);
}

#[test]
fn a_choice_of_tool_is_a_mode() {
    let choice = |choice: &str| {
        let tool_choice = Some(choice.to_owned());
        with_settings(ModelSettings { tool_choice, ..ModelSettings::default() }, NEW)["toolConfig"]
            .take()
    };
    for (word, mode) in [("auto", "AUTO"), ("none", "NONE"), ("required", "ANY")] {
        assert_eq!(choice(word), json!({"functionCallingConfig": {"mode": mode}}), "{word}");
    }
    let named = json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}});
    assert_eq!(choice("f"), named);
    assert_eq!(choice("unknown"), Value::Null);
}

#[test]
fn an_effort_is_a_level_or_a_number_of_tokens() {
    let thinking = |effort: &str, model: &str| {
        let reasoning_effort = Some(effort.to_owned());
        let settings = ModelSettings { reasoning_effort, ..ModelSettings::default() };
        with_settings(settings, model)["generationConfig"]["thinkingConfig"].take()
    };
    let budget = |n: i64| json!({"includeThoughts": true, "thinkingBudget": n});
    assert_eq!(thinking("high", NEW), json!({"includeThoughts": true, "thinkingLevel": "high"}));
    assert_eq!(thinking("high", MIDDLE), budget(24_576));
    assert_eq!(thinking("512", MIDDLE), budget(512));
    assert_eq!(thinking("-1", NEW), budget(-1));
    for model in [MIDDLE, NEW] {
        assert_eq!(thinking("none", model), json!({"thinkingBudget": 0}));
    }
}

#[test]
fn extra_members_are_merged_and_the_codecs_own_win() {
    let settings = ModelSettings {
        temperature: Some(0.5),
        tool_choice: Some("auto".to_owned()),
        ..extra(&json!({
            "contents": [], "model": "x", "system_instruction": {"parts": []},
            "generation_config": {"temperature": 1, "top_k": 3, "candidateCount": 2},
            "toolConfig": {"functionCallingConfig": {"mode": "NONE"}, "retrievalConfig": {}},
            "tools": [{"googleSearch": {}}],
            "labels": {"a": "b"},
        }))
    };
    let told = with_settings(settings, NEW);
    assert_eq!(told["generationConfig"], json!({"temperature": 0.5, "top_k": 3}));
    let modes = json!({"functionCallingConfig": {"mode": "AUTO"}, "retrievalConfig": {}});
    assert_eq!(told["toolConfig"], modes);
    assert_eq!(told["tools"].as_array().unwrap().len(), 2);
    assert_eq!(told["tools"][1], json!({"googleSearch": {}}));
    assert_eq!(told["labels"], json!({"a": "b"}));
    assert_eq!(told["contents"][0]["parts"][0]["text"], "hi");
    for absent in ["model", "system_instruction", "systemInstruction", "generation_config"] {
        assert_eq!(told.get(absent), None, "{absent}");
    }
    let alone = extra(&json!({"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}}));
    let told = with_settings(alone, NEW);
    assert_eq!(told["toolConfig"]["functionCallingConfig"]["mode"], "VALIDATED");
}

#[test]
fn what_is_cached_is_not_told_again() {
    let settings = extra(&json!({"cachedContent": "cachedContents/x", "toolConfig": {"a": 1}}));
    let prompt = Prompt { system: Some("s".into()), turns: asked(), settings, ..Prompt::default() };
    let told = body(&Prompt { tools: vec![tool("f")], ..prompt }, NEW);
    assert_eq!(told["cachedContent"], "cachedContents/x");
    for absent in ["systemInstruction", "tools", "toolConfig", "generationConfig"] {
        assert_eq!(told.get(absent), None, "{absent}");
    }
}

#[test]
fn the_user_stands_behind_every_turn_of_the_model() {
    let of_model = |said_text| turn(Role::Assistant, vec![said(said_text)]);
    let turns = [asked(), vec![of_model("b"), of_model("c")]].concat();
    let expected = ["hi", "b", ".", "c", "."];
    for model in [OLD, NEW] {
        let sent = contents(turns.clone(), model);
        let texts = sent.as_array().unwrap().iter().map(|content| &content["parts"][0]["text"]);
        assert_eq!(texts.collect::<Vec<_>>(), expected);
        assert_eq!(sent[4]["role"], "user");
    }
}
