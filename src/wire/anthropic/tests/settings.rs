//! What the settings of a model become.

use serde_json::{Value, json};

use super::{
    assistant, body, call, profile, prompt, result, said, system, thinking, tool, tools, user,
};
use crate::domain::model::ModelSettings;
use crate::render::prompt::{Prompt, PromptTurn};
use crate::wire::Codec as _;
use crate::wire::anthropic::AnthropicMessages;

fn asked(settings: ModelSettings) -> Prompt {
    Prompt { settings, tools: vec![tool("f")], ..prompt(vec![user("hi")]) }
}

/// The request of these settings, without what does not depend on them.
fn told(settings: ModelSettings, family: &str) -> Value {
    let mut body = body(&asked(settings), &profile(family));
    for name in ["model", "stream", "tools", "messages"] {
        body.as_object_mut().unwrap().remove(name);
    }
    body
}

fn extra(members: &Value) -> Option<serde_json::Map<String, Value>> {
    members.as_object().cloned()
}

#[test]
fn members_are_written_in_one_fixed_order() {
    let settings = ModelSettings {
        temperature: Some(0.5),
        top_p: Some(1.0),
        max_output_tokens: Some(9),
        seed: Some(-1),
        stop: vec!["x".to_owned()],
        tool_choice: Some("f".to_owned()),
        parallel_tool_calls: Some(false),
        extra_body: extra(&json!({
            "top_k": 3,
            "model": "other",
            "system": "other",
            "messages": [],
            "stream": true,
            "max_tokens": 1,
            "temperature": 1,
            "cache_control": {"type": "ephemeral"},
            "tools": [{"type": "web_search_20260209", "name": "web_search"}],
        })),
        ..ModelSettings::default()
    };
    let prompt = Prompt { system: Some("s".into()), ..asked(settings) };
    let sent = AnthropicMessages.encode(&prompt, &profile("anthropic"), true).body;
    let expected = concat!(
        r#"{"model":"m","max_tokens":9,"stream":true,"system":"s","tools":["#,
        r#"{"name":"f","description":"d","input_schema":{"z":1,"a":{"y":2,"b":3}}},"#,
        r#"{"type":"web_search_20260209","name":"web_search"}],"#,
        r#""tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"#,
        r#""temperature":0.5,"top_p":1.0,"stop_sequences":["x"],"#,
        r#""top_k":3,"cache_control":{"type":"ephemeral"},"#,
        r#""messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#,
    );
    assert_eq!(String::from_utf8(sent).unwrap(), expected);
}

#[test]
fn an_upper_bound_is_always_sent() {
    for (family, bound) in [
        ("anthropic", 4_096),
        ("anthropic_by_budget", 8_192),
        ("anthropic_adaptive", 16_384),
        ("anthropic_native_system", 16_384),
    ] {
        assert_eq!(told(ModelSettings::default(), family), json!({"max_tokens": bound}));
        let set = ModelSettings { max_output_tokens: Some(7), ..ModelSettings::default() };
        assert_eq!(told(set, family), json!({"max_tokens": 7}));
    }
}

#[test]
fn a_choice_of_tools_has_words_of_its_own() {
    let choice = |choice: Option<&str>, parallel: Option<bool>| {
        let settings = ModelSettings {
            tool_choice: choice.map(str::to_owned),
            parallel_tool_calls: parallel,
            ..ModelSettings::default()
        };
        told(settings, "anthropic")["tool_choice"].clone()
    };
    assert_eq!(choice(None, None), Value::Null);
    assert_eq!(choice(None, Some(true)), Value::Null);
    assert_eq!(choice(Some("gone"), None), Value::Null);
    assert_eq!(choice(Some("auto"), Some(true)), json!({"type": "auto"}));
    assert_eq!(choice(Some("required"), None), json!({"type": "any"}));
    assert_eq!(choice(Some("f"), None), json!({"type": "tool", "name": "f"}));
    assert_eq!(choice(Some("none"), Some(false)), json!({"type": "none"}));
    let alone = json!({"type": "auto", "disable_parallel_tool_use": true});
    assert_eq!(choice(None, Some(false)), alone);
    assert_eq!(choice(Some("auto"), Some(false)), alone);
    let settings = ModelSettings {
        tool_choice: Some("required".to_owned()),
        parallel_tool_calls: Some(false),
        ..ModelSettings::default()
    };
    let without_tools = Prompt { tools: Vec::new(), ..asked(settings) };
    let sent = body(&without_tools, &profile("anthropic"));
    assert!(sent.get("tool_choice").is_none() && sent.get("tools").is_none());
}

fn effort(effort: &str, max_output_tokens: Option<u32>) -> ModelSettings {
    let reasoning_effort = Some(effort.to_owned());
    ModelSettings { max_output_tokens, reasoning_effort, ..ModelSettings::default() }
}

#[test]
fn an_effort_is_a_budget_of_tokens_for_older_models() {
    for (settings, bound, budget) in [
        (effort("low", None), 10_240, Some(2_048)),
        (effort("high", None), 24_576, Some(16_384)),
        (effort("high", Some(2_000)), 2_000, Some(1_999)),
        (effort("low", Some(9_000)), 9_000, Some(2_048)),
        (effort("5000", Some(9_000)), 9_000, Some(5_000)),
        (effort("3", None), 9_216, Some(1_024)),
        (effort("high", Some(1_024)), 1_024, None),
        (effort("none", None), 8_192, None),
        (effort(" ", None), 8_192, None),
    ] {
        let told = told(settings.clone(), "anthropic_by_budget");
        let thinking = budget
            .map_or(Value::Null, |budget| json!({"type": "enabled", "budget_tokens": budget}));
        assert_eq!((&told["max_tokens"], &told["thinking"]), (&json!(bound), &thinking));
        assert!(told.get("output_config").is_none(), "{settings:?}");
    }
    let unknown = told(effort("deep", None), "anthropic_by_budget");
    assert_eq!(unknown["output_config"], json!({"effort": "deep"}));
}

#[test]
fn an_effort_is_told_as_it_is_to_models_that_decide_by_themselves() {
    let told = |it: &str| told(effort(it, None), "anthropic_adaptive");
    let expected = json!({
        "max_tokens": 16_384,
        "output_config": {"effort": "xhigh"},
        "thinking": {"type": "adaptive"},
    });
    assert_eq!(told("xhigh"), expected);
    assert_eq!(told("none"), json!({"max_tokens": 16_384, "thinking": {"type": "disabled"}}));
}

#[test]
fn a_model_that_thinks_is_neither_forced_nor_sampled() {
    let settings = ModelSettings {
        temperature: Some(0.0),
        top_p: Some(0.5),
        tool_choice: Some("required".to_owned()),
        parallel_tool_calls: Some(false),
        extra_body: extra(&json!({"top_k": 3, "metadata": {"a": 1}})),
        ..effort("high", None)
    };
    let expected = json!({
        "max_tokens": 16_384,
        "output_config": {"effort": "high"},
        "thinking": {"type": "adaptive"},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
        "metadata": {"a": 1},
    });
    assert_eq!(told(settings, "anthropic_adaptive"), expected);
    let by_name = ModelSettings {
        tool_choice: Some("f".to_owned()),
        top_p: Some(0.95),
        extra_body: extra(&json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}})),
        ..ModelSettings::default()
    };
    let expected = json!({
        "max_tokens": 6_096,
        "thinking": {"type": "enabled", "budget_tokens": 2_000},
        "tool_choice": {"type": "auto"},
        "top_p": 0.95,
    });
    assert_eq!(told(by_name, "anthropic"), expected);
    let extra_choice = |choice: &str| {
        let members = json!({"thinking": {"type": "adaptive"}, "tool_choice": {"type": choice}});
        let settings = ModelSettings { extra_body: extra(&members), ..ModelSettings::default() };
        told(settings, "anthropic")["tool_choice"].clone()
    };
    assert_eq!(extra_choice("any"), Value::Null);
    assert_eq!(extra_choice("none"), json!({"type": "none"}));
}

#[test]
fn a_model_with_a_budget_does_not_think_on_where_another_began_to_call() {
    let sent = |turns: Vec<PromptTurn>, family: &str| {
        let prompt = Prompt { turns, ..asked(effort("low", None)) };
        body(&prompt, &profile(family))["thinking"]["type"].clone()
    };
    let loop_of = |first: PromptTurn| {
        vec![
            user("a"),
            first,
            tools(vec![result("1", "ok", false)]),
            assistant(vec![call("2")]),
            tools(vec![result("2", "ok", false)]),
        ]
    };
    let unthinking = loop_of(assistant(vec![said("b"), call("1")]));
    assert_eq!(sent(unthinking.clone(), "anthropic_by_budget"), Value::Null);
    assert_eq!(sent(unthinking.clone(), "anthropic_adaptive"), json!("adaptive"));
    let thought = loop_of(assistant(vec![thinking("h", "s"), call("1")]));
    assert_eq!(sent(thought, "anthropic_by_budget"), json!("enabled"));
    let over = [unthinking, vec![assistant(vec![said("b")]), user("c")]].concat();
    assert_eq!(sent(over, "anthropic_by_budget"), json!("enabled"));
}

#[test]
fn the_form_of_an_answer_stands_beside_what_else_is_said_of_it() {
    let schema = json!({"type": "object", "properties": {}});
    let settings = ModelSettings {
        extra_body: extra(&json!({"output_config": {"effort": "low", "format": 1, "more": 2}})),
        ..effort("high", None)
    };
    let prompt = Prompt { output_schema: Some(schema.clone()), ..asked(settings) };
    let format = json!({"type": "json_schema", "schema": schema});
    let sent = body(&prompt, &profile("anthropic_adaptive"));
    assert_eq!(sent["output_config"], json!({"effort": "high", "format": format, "more": 2}));
    let sent = body(&prompt, &profile("anthropic_by_budget"));
    assert_eq!(sent["output_config"], json!({"format": format, "effort": "low", "more": 2}));
}

#[test]
fn a_request_names_the_version_and_the_path_and_takes_events() {
    let endpoint = AnthropicMessages.endpoint("m/é", true);
    assert_eq!(endpoint.path, "messages");
    assert_eq!(endpoint.headers, [("anthropic-version", "2023-06-01")]);
    assert_eq!(endpoint.query, []);
    assert_eq!(endpoint.framing.media_type(), "text/event-stream");
}

#[test]
fn a_stub_that_may_not_be_called_stands_for_the_tools_where_a_conversation_has_calls() {
    let called =
        || vec![user("a"), assistant(vec![call("1")]), tools(vec![result("1", "b", false)])];
    let settings =
        ModelSettings { tool_choice: Some("required".to_owned()), ..effort("low", None) };
    let sent = body(&Prompt { settings, ..prompt(called()) }, &profile("anthropic"));
    assert_eq!(sent["tools"][0]["name"], json!("unavailable"));
    assert_eq!(sent["tools"][0]["input_schema"]["type"], json!("object"));
    assert_eq!(sent["tools"].as_array().unwrap().len(), 1);
    assert_eq!(sent["tool_choice"], json!({"type": "none"}));
    let sent = body(&Prompt { tools: vec![tool("f")], ..prompt(called()) }, &profile("anthropic"));
    assert_eq!((&sent["tools"][0]["name"], sent.get("tool_choice")), (&json!("f"), None));
    let sent = body(&prompt(vec![user("a")]), &profile("anthropic"));
    assert_eq!((sent.get("tools"), sent.get("tool_choice")), (None, None));
}

#[test]
fn what_is_said_behind_results_does_not_end_a_loop_that_began_without_thinking() {
    let sent = |turns: Vec<PromptTurn>| {
        let prompt = Prompt { turns, ..asked(effort("low", None)) };
        body(&prompt, &profile("anthropic_by_budget"))["thinking"]["type"].clone()
    };
    let loop_of = |blocks| {
        vec![
            user("a"),
            assistant(blocks),
            tools(vec![result("1", "ok", false)]),
            user("b"),
            system("c"),
        ]
    };
    let unthinking = loop_of(vec![call("1")]);
    assert_eq!(sent(unthinking.clone()), Value::Null);
    assert_eq!(sent(loop_of(vec![thinking("h", "s"), call("1")])), json!("enabled"));
    let again = vec![assistant(vec![call("2")]), tools(vec![result("2", "ok", false)])];
    assert_eq!(sent([unthinking.clone(), again].concat()), Value::Null);
    let over = vec![assistant(vec![said("d")]), user("e")];
    assert_eq!(sent([unthinking, over].concat()), json!("enabled"));
}
