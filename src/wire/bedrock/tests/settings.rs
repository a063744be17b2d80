//! Tools and settings: what goes ahead of the messages.

use serde_json::{Value, json};

use super::{
    BedrockConverse, CLAUDE, CLAUDE_BUDGET, LLAMA, NOVA_2, assistant, body, call, profile, prompt,
    result, results, text, tool, user,
};
use crate::domain::model::ModelSettings;
use crate::render::prompt::{Block, Prompt};
use crate::wire::Codec as _;

fn asked(settings: ModelSettings) -> Prompt {
    Prompt { settings, ..prompt(vec![user(vec![text("a")])]) }
}

fn extra(body: Value) -> ModelSettings {
    let extra_body = serde_json::from_value(body).unwrap();
    ModelSettings { extra_body: Some(extra_body), ..ModelSettings::default() }
}

fn effort(effort: &str) -> ModelSettings {
    ModelSettings { reasoning_effort: Some(effort.to_owned()), ..ModelSettings::default() }
}

fn called() -> Prompt {
    prompt(vec![
        user(vec![text("a")]),
        assistant(vec![call("1")]),
        results(vec![result("1", "b", false)]),
    ])
}

#[test]
fn settings_have_their_places_and_win_over_extra_members() {
    let settings = ModelSettings {
        temperature: Some(0.5),
        top_p: Some(0.25),
        max_output_tokens: Some(9),
        stop: vec!["x".to_owned()],
        seed: Some(1),
        ..extra(json!({
            "inferenceConfig": {"temperature": 1.0, "topK": 3},
            "additionalModelRequestFields": {"top_k": 5},
            "guardrailConfig": {"guardrailIdentifier": "g"},
            "messages": [], "system": [], "toolConfig": {},
        }))
    };
    let mut expected = json!({
        "inferenceConfig": {"maxTokens": 9, "temperature": 0.5, "topP": 0.25,
            "stopSequences": ["x"], "topK": 3},
        "additionalModelRequestFields": {"top_k": 5},
        "guardrailConfig": {"guardrailIdentifier": "g"},
        "messages": [{"role": "user", "content": [{"text": "a"}]}],
    });
    assert_eq!(body(&asked(settings), CLAUDE), expected);
    expected.as_object_mut().unwrap().retain(|name, _| name == "messages");
    assert_eq!(body(&asked(ModelSettings::default()), CLAUDE), expected);
}

#[test]
fn a_request_is_the_same_whether_a_stream_is_asked_for() {
    let (prompt, profile) = (called(), profile(CLAUDE));
    let of = |stream| BedrockConverse.encode(&prompt, &profile, stream);
    assert_eq!(of(true), of(false));
    assert!(of(true).body.ends_with(b"}]}]}"));
}

#[test]
fn tools_are_declared_and_chosen_as_far_as_the_model_lets_them() {
    let choose = |choice: Option<&str>, model: &str| {
        let tool_choice = choice.map(str::to_owned);
        let mut prompt = asked(ModelSettings { tool_choice, ..ModelSettings::default() });
        prompt.tools = vec![tool("f", "d"), tool("g", " ")];
        body(&prompt, model)["toolConfig"].clone()
    };
    let schema = json!({"json": {"type": "object"}});
    let tools = json!([
        {"toolSpec": {"name": "f", "description": "d", "inputSchema": schema}},
        {"toolSpec": {"name": "g", "inputSchema": schema}},
    ]);
    assert_eq!(choose(None, CLAUDE), json!({"tools": tools}));
    for (choice, told) in [
        ("auto", json!({"auto": {}})),
        ("required", json!({"any": {}})),
        ("g", json!({"tool": {"name": "g"}})),
        ("unknown", Value::Null),
    ] {
        assert_eq!(choose(Some(choice), CLAUDE)["toolChoice"], told, "{choice}");
        assert_eq!(choose(Some(choice), LLAMA), json!({"tools": tools}), "{choice}");
    }
    assert_eq!(choose(Some("none"), CLAUDE), Value::Null);
}

#[test]
fn a_stub_stands_for_the_tools_where_a_conversation_has_calls_and_none_is_offered() {
    let stubbed = |prompt: &Prompt| {
        let config = body(prompt, CLAUDE)["toolConfig"].clone();
        assert_eq!(config.get("toolChoice"), None);
        let tools = config["tools"].as_array().unwrap().clone();
        assert_eq!((tools.len(), &tools[0]["toolSpec"]["name"]), (1, &json!("unavailable")));
    };
    let mut prompt = called();
    stubbed(&prompt);
    prompt.tools = vec![tool("f", "d")];
    prompt.settings.tool_choice = Some("none".to_owned());
    stubbed(&prompt);
    let raw = json!({"toolUse": {"toolUseId": "x", "type": "server_tool_use"}});
    let opaque = Block::Opaque { raw, origin: crate::domain::ledger::Origin::default() };
    stubbed(&super::prompt(vec![user(vec![text("a")]), assistant(vec![opaque])]));
}

#[test]
fn reasoning_is_told_in_the_words_of_the_vendor() {
    for (model, asked_for, told) in [
        (
            CLAUDE,
            "high",
            json!({"thinking": {"type": "adaptive"},
            "output_config": {"effort": "high"}}),
        ),
        (CLAUDE, "none", json!({"thinking": {"type": "disabled"}})),
        (CLAUDE_BUDGET, "low", json!({"thinking": {"type": "enabled", "budget_tokens": 2048}})),
        (CLAUDE_BUDGET, "3000", json!({"thinking": {"type": "enabled", "budget_tokens": 3000}})),
        (CLAUDE_BUDGET, "none", Value::Null),
        (
            NOVA_2,
            "medium",
            json!({"reasoningConfig":
            {"type": "enabled", "maxReasoningEffort": "medium"}}),
        ),
        (
            NOVA_2,
            "minimal",
            json!({"reasoningConfig":
            {"type": "enabled", "maxReasoningEffort": "low"}}),
        ),
        (NOVA_2, "none", json!({"reasoningConfig": {"type": "disabled"}})),
        ("openai.gpt-oss-120b-1:0", "low", json!({"reasoning_effort": "low"})),
        ("openai.gpt-oss-120b-1:0", "none", Value::Null),
        ("qwen.qwen3-32b-v1:0", "minimal", json!({"reasoning_config": "low"})),
        ("qwen.qwen3-32b-v1:0", "medium", json!({"reasoning_config": "high"})),
        (LLAMA, "high", Value::Null),
        (CLAUDE, " ", Value::Null),
    ] {
        let sent = body(&asked(effort(asked_for)), model);
        assert_eq!(sent["additionalModelRequestFields"], told, "{model} {asked_for}");
    }
}

#[test]
fn a_budget_fits_below_the_bound_of_the_reply_or_is_left_out() {
    for (most, told) in [(5_000, json!(4_999)), (1_025, json!(1_024)), (1_024, Value::Null)] {
        let settings = ModelSettings { max_output_tokens: Some(most), ..effort("high") };
        let sent = body(&asked(settings), CLAUDE_BUDGET);
        let thinking = &sent["additionalModelRequestFields"]["thinking"];
        assert_eq!(thinking["budget_tokens"], told, "{most}");
    }
}

#[test]
fn what_cannot_go_with_reasoning_is_left_out() {
    let settings = ModelSettings {
        temperature: Some(0.5),
        top_p: Some(0.5),
        max_output_tokens: Some(9_000),
        tool_choice: Some("required".to_owned()),
        ..effort("high")
    };
    let mut prompt = asked(settings);
    prompt.tools = vec![tool("f", "d")];
    let claude = body(&prompt, CLAUDE);
    assert_eq!(claude["inferenceConfig"], json!({"maxTokens": 9_000}));
    assert_eq!(claude["toolConfig"]["toolChoice"], json!({"auto": {}}));
    let nova = body(&prompt, NOVA_2);
    assert_eq!(nova.get("inferenceConfig"), None);
    assert_eq!(nova["toolConfig"]["toolChoice"], json!({"any": {}}));
    prompt.settings.top_p = Some(0.95);
    assert_eq!(body(&prompt, CLAUDE)["inferenceConfig"]["topP"], 0.95);
}

#[test]
fn thinking_that_extra_members_ask_for_counts_like_a_setting() {
    let thinking = json!({"type": "enabled", "budget_tokens": 2_000});
    let fields = json!({"additionalModelRequestFields": {"thinking": thinking}});
    let mut settings = extra(fields);
    settings.tool_choice = Some("f".to_owned());
    let mut prompt = asked(settings.clone());
    prompt.tools = vec![tool("f", "d")];
    let sent = body(&prompt, CLAUDE_BUDGET);
    assert_eq!(sent["additionalModelRequestFields"], json!({"thinking": thinking}));
    assert_eq!(sent["toolConfig"]["toolChoice"], json!({"auto": {}}));
    // In the middle of calling tools, thinking cannot begin.
    let mut midway = Prompt { settings, ..called() };
    assert_eq!(body(&midway, CLAUDE_BUDGET).get("additionalModelRequestFields"), None);
    midway.turns.push(user(vec![text("more")]));
    assert_eq!(body(&midway, CLAUDE_BUDGET).get("additionalModelRequestFields"), None);
}

#[test]
fn a_schema_of_the_answer_goes_as_text() {
    let mut prompt = asked(extra(json!({"outputConfig": {"textFormat": 1, "x": 2}})));
    prompt.output_schema = Some(json!({"type": "object"}));
    let structure = json!({"jsonSchema": {"schema": "{\"type\":\"object\"}", "name": "answer"}});
    let format = json!({"type": "json_schema", "structure": structure});
    assert_eq!(body(&prompt, CLAUDE)["outputConfig"], json!({"textFormat": format, "x": 2}));
    prompt.output_schema = None;
    assert_eq!(body(&prompt, CLAUDE)["outputConfig"], json!({"textFormat": 1, "x": 2}));
}
