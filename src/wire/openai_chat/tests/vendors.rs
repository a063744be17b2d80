//! How requests differ by vendor and by model.

use serde_json::{Value, json};

use super::requests::{call, prompt, result, said, text, tool, turn};
use crate::domain::model::{ModelSettings, ModelSpec, ProfileOverrides, Provider};
use crate::render::profile::Profile;
use crate::render::prompt::{Prompt, Role};
use crate::wire::Codec as _;
use crate::wire::openai_chat::OpenaiChat;

const LOCAL: Option<&str> = Some("http://127.0.0.1:8000/v1");

fn model(provider: Provider, name: &str, base_url: Option<&str>) -> ModelSpec {
    ModelSpec {
        provider,
        name: name.to_owned(),
        base_url: base_url.map(str::to_owned),
        api_key: None,
        profile: ProfileOverrides::default(),
        settings: ModelSettings::default(),
        script: Vec::new(),
        fallbacks: Vec::new(),
        price: None,
    }
}

fn body(prompt: &Prompt, model: &ModelSpec) -> Value {
    let profile = Profile::resolve(model);
    serde_json::from_slice(&OpenaiChat.encode(prompt, &profile, true).body).unwrap()
}

fn settings(value: Value) -> ModelSettings {
    serde_json::from_value(value).unwrap()
}

fn with(provider: Provider, name: &str, set: Value) -> Value {
    let mut prompt = prompt(vec![]);
    prompt.tools = vec![tool("f")];
    prompt.settings = settings(set);
    body(&prompt, &model(provider, name, None))
}

#[test]
fn a_call_is_asked_for_as_the_vendor_spells_it() {
    let required = json!({"tool_choice": "required"});
    let of = |provider, name, set: &Value| with(provider, name, set.clone())["tool_choice"].clone();
    assert_eq!(of(Provider::Openai, "m", &required), "required");
    assert_eq!(of(Provider::Mistral, "m", &required), "any");
    assert_eq!(of(Provider::Deepseek, "deepseek-reasoner", &required), Value::Null);
    assert_eq!(of(Provider::Deepseek, "deepseek-chat", &required), "required");
    let named = json!({"tool_choice": "f", "extra_body": {"thinking": {"type": "enabled"}}});
    assert_eq!(of(Provider::Deepseek, "deepseek-v4-flash", &named), Value::Null);
    let awake = json!({"tool_choice": "f", "extra_body": {"thinking": {"type": "disabled"}}});
    assert!(of(Provider::Deepseek, "deepseek-v4-flash", &awake).is_object());
    assert_eq!(
        of(Provider::Deepseek, "deepseek-reasoner", &json!({"tool_choice": "none"})),
        "none"
    );
}

#[test]
fn settings_that_a_model_refuses_are_left_out() {
    let all = json!({"temperature": 0.5, "top_p": 0.5, "stop": ["x"], "max_output_tokens": 9});
    let told = |provider, name: &str, set: &Value| {
        let body = with(provider, name, set.clone());
        let names = ["temperature", "top_p", "stop", "max_tokens", "max_completion_tokens"];
        let told = names.iter().filter(|name| body.get(**name).is_some()).copied();
        told.collect::<Vec<_>>()
    };
    let everything = ["temperature", "top_p", "stop", "max_completion_tokens"];
    assert_eq!(told(Provider::Openai, "gpt-4o", &all), everything);
    assert_eq!(told(Provider::Openai, "o3-mini", &all), ["stop", "max_completion_tokens"]);
    assert_eq!(told(Provider::Azure, "gpt-5-mini", &all), ["max_completion_tokens"]);
    assert_eq!(told(Provider::Openrouter, "openai/o4-mini", &all), ["max_tokens"]);
    assert_eq!(told(Provider::Xai, "grok-4", &all), ["temperature", "top_p", "max_tokens"]);
    let mut low = all;
    low["reasoning_effort"] = json!("low");
    assert_eq!(told(Provider::Openai, "gpt-5.2", &low), ["max_completion_tokens"]);
    low["reasoning_effort"] = json!("none");
    assert_eq!(told(Provider::Openai, "gpt-5.2", &low).first(), Some(&"temperature"));
}

#[test]
fn only_one_bound_of_a_reply_is_sent() {
    let set = json!({"max_output_tokens": 9, "extra_body": {"max_tokens": 5}});
    let body = with(Provider::Openai, "m", set);
    assert_eq!((&body["max_completion_tokens"], body.get("max_tokens")), (&json!(9), None));
    let body = with(Provider::Openai, "m", json!({"extra_body": {"max_tokens": 5}}));
    assert_eq!(body["max_tokens"], 5);
}

#[test]
fn seed_effort_and_counts_are_spelt_as_the_vendor_spells_them() {
    let set = json!({"seed": 7, "reasoning_effort": "low",
        "extra_body": {"reasoning": {"exclude": true, "effort": "high"}}});
    let body = with(Provider::Mistral, "m", set.clone());
    assert_eq!((&body["random_seed"], body.get("stream_options")), (&json!(7), None));
    let body = with(Provider::Openrouter, "m", set.clone());
    assert_eq!(body["reasoning"], json!({"exclude": true, "effort": "low"}));
    assert!(body.get("reasoning_effort").is_none());
    let body = with(Provider::Openai, "m", set);
    assert_eq!((&body["seed"], &body["reasoning_effort"]), (&json!(7), &json!("low")));
    let mut prompt = prompt(vec![]);
    prompt.settings = settings(json!({"reasoning_effort": "low",
        "extra_body": {"thinking": {"type": "enabled"}}}));
    let moonshot = model(Provider::Openai, "kimi-k2.5", Some("https://api.moonshot.ai/v1"));
    assert!(super::vendors::body(&prompt, &moonshot).get("reasoning_effort").is_none());
}

#[test]
fn an_answer_is_held_to_its_schema_as_far_as_the_vendor_can() {
    let closed = json!({"title": "Depth", "type": "object", "properties": {"m": {"type": "number"}},
        "required": ["m"], "additionalProperties": false});
    let open = json!({"type": "object"});
    let format = |provider, name: &str, schema: &Value| {
        let mut prompt = prompt(vec![]);
        prompt.output_schema = Some(schema.clone());
        prompt.settings = settings(json!({"extra_body": {"response_format": "mine"}}));
        body(&prompt, &model(provider, name, None))["response_format"].clone()
    };
    assert_eq!(
        format(Provider::Openai, "m", &closed),
        json!({"type": "json_schema",
            "json_schema": {"name": "Depth", "schema": closed, "strict": true}})
    );
    assert_eq!(
        format(Provider::Openai, "m", &open),
        json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": open}})
    );
    let any = json!({"type": "json_object"});
    assert_eq!(format(Provider::Deepseek, "m", &closed), any);
    assert_eq!(format(Provider::Groq, "llama-3.3-70b-versatile", &closed), any);
    assert_eq!(format(Provider::Groq, "openai/gpt-oss-120b", &closed)["type"], "json_schema");
}

#[test]
fn a_model_without_a_system_role_is_told_as_by_the_user() {
    let mut prompt = prompt(vec![turn(Role::User, vec![text("hi")])]);
    prompt.system = Some("s".into());
    let role = |name: &str| {
        let body = body(&prompt, &model(Provider::Openai, name, None));
        body["messages"][0]["role"].clone()
    };
    assert_eq!(
        (role("o1-mini"), role("o1"), role("gpt-5")),
        (json!("user"), json!("system"), json!("system"))
    );
    assert!(!Profile::resolve(&model(Provider::Openai, "o1-mini", None)).native_system);
}

fn roles(prompt: &Prompt, model: &ModelSpec) -> Vec<String> {
    let body = body(prompt, model);
    let messages = body["messages"].as_array().unwrap().iter();
    messages.map(|message| message["role"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_user_never_speaks_right_after_a_result_where_that_is_refused() {
    let after = |role| {
        prompt(vec![
            turn(Role::User, vec![text("a")]),
            turn(Role::Assistant, vec![call("abcdefghi")]),
            turn(Role::Tool, vec![result("abcdefghi")]),
            turn(role, vec![text("b")]),
            turn(Role::User, vec![text("c")]),
        ])
    };
    let mistral = model(Provider::Mistral, "m", None);
    for (role, named) in [(Role::User, "user"), (Role::System, "system")] {
        let expected = ["user", "assistant", "tool", "assistant", named, "user"];
        assert_eq!(roles(&after(role), &mistral), expected);
    }
    let openai = model(Provider::Openai, "m", None);
    assert_eq!(roles(&after(Role::User), &openai), ["user", "assistant", "tool", "user", "user"]);
}

#[test]
fn user_and_model_take_turns_where_they_have_to() {
    let prompt = prompt(vec![
        turn(Role::User, vec![text("a")]),
        turn(Role::User, vec![text("b")]),
        turn(Role::Assistant, vec![said("c")]),
        turn(Role::Assistant, vec![call("x")]),
        turn(Role::Tool, vec![result("x")]),
        turn(Role::User, vec![text("d")]),
    ]);
    let gemma = model(Provider::Openai, "google/gemma-3-27b-it", LOCAL);
    let expected = ["user", "assistant", "user", "assistant", "tool", "assistant", "user"];
    assert_eq!(roles(&prompt, &gemma), expected);
    let body = body(&prompt, &gemma);
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    assert_eq!(body["messages"][0]["content"], parts);
    assert_eq!(body["messages"][6]["content"], json!([{"type": "text", "text": "d"}]));
    let mut told = model(Provider::Openai, "mine", LOCAL);
    let plain = ["user", "user", "assistant", "user", "assistant", "tool", "user"];
    assert_eq!(roles(&prompt, &told), plain);
    told.profile.alternates = Some(true);
    assert_eq!(roles(&prompt, &told), expected);
}

#[test]
fn the_user_stands_behind_every_turn_of_a_model_that_would_go_on_with_it() {
    let turns = vec![
        turn(Role::User, vec![text("a")]),
        turn(Role::Assistant, vec![said("b")]),
        turn(Role::Assistant, vec![said("c")]),
    ];
    let prompt = prompt(turns);
    let filled = ["user", "assistant", "user", "assistant", "user"];
    for spec in [
        model(Provider::Mistral, "m", None),
        model(Provider::Deepseek, "m", None),
        model(Provider::Openai, "m", LOCAL),
        model(Provider::Openai, "gemma", LOCAL),
    ] {
        assert_eq!(roles(&prompt, &spec), filled, "{spec:?}");
        let content = &body(&prompt, &spec)["messages"][4]["content"];
        assert_eq!(content.as_str().or_else(|| content[0]["text"].as_str()), Some("."));
    }
    let plain = roles(&prompt, &model(Provider::Openai, "m", None));
    assert_eq!(plain, ["user", "assistant", "assistant"]);
}

#[test]
fn a_call_is_not_asked_for_where_that_would_end_the_reasoning() {
    let of = |name, set: Value| with(Provider::Openrouter, name, set)["tool_choice"].clone();
    let claude = "anthropic/claude-sonnet-4.5";
    let named = |more: Value| {
        let mut set = json!({"tool_choice": "f"});
        set.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        set
    };
    let reasoning = |more: Value| json!({"extra_body": {"reasoning": more}});
    for more in [
        json!({"reasoning_effort": "low"}),
        reasoning(json!({"max_tokens": 2_000})),
        reasoning(json!({"enabled": true})),
        reasoning(json!({"effort": "high"})),
    ] {
        assert_eq!(of(claude, named(more.clone())), Value::Null, "{more}");
    }
    for more in [
        json!({}),
        json!({"reasoning_effort": "none"}),
        reasoning(json!({"exclude": true})),
        reasoning(json!({"enabled": false})),
        reasoning(json!({"effort": "none"})),
    ] {
        assert!(of(claude, named(more.clone())).is_object(), "{more}");
    }
    let openai = of("openai/gpt-5", json!({"tool_choice": "required", "reasoning_effort": "low"}));
    assert_eq!(openai, "required");
}
