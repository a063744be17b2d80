//! What an agent must be beyond what its published schema says.
//!
//! Bounds of numbers, lists and vocabularies stand in the schema of [`AgentSpec`], and every body is
//! checked against it before it gets here. What a schema cannot say is checked here, and what takes
//! knowledge of tools and addresses by the engine.

use url::Url;

use super::name::is_name;
use crate::domain::agent::AgentSpec;
use crate::domain::memory::Finding;
use crate::domain::model::{ModelSettings, ModelSpec, Provider};
use crate::domain::provider::Wire;
use crate::domain::script::ScriptCall;
use crate::domain::skill::LOAD_SKILL;
use crate::domain::tool::{FINAL_ANSWER, ToolSpec};
use crate::http::extract::Checks;
use crate::http::limits;

/// Notes what is wrong with the values of an agent. `at` is the pointer to it in the caller's document:
/// empty when it is the whole body.
pub(crate) fn check(spec: &AgentSpec, at: &str, checks: &mut Checks) {
    let message = "must match ^[a-z0-9][a-z0-9_-]{0,63}$ and not look like an id";
    checks.require(is_name(&spec.name), &format!("{at}/name"), "invalid_value", message);
    if let Some(text) = &spec.instructions {
        checks.length(&format!("{at}/instructions"), text, 0..=limits::INSTRUCTIONS_CHARS);
    }
    checks.metadata(&format!("{at}/metadata"), &spec.metadata);
    let at = format!("{at}/model");
    model_of(spec, &spec.model, &at, checks);
    for (index, fallback) in spec.model.fallbacks.iter().enumerate() {
        let at = format!("{at}/fallbacks/{index}");
        model_of(spec, fallback, &at, checks);
        let message = "a fallback has no fallbacks of its own";
        let is_flat = fallback.fallbacks.is_empty();
        checks.require(is_flat, &format!("{at}/fallbacks"), "not_applicable", message);
    }
}

fn model_of(spec: &AgentSpec, of: &ModelSpec, at: &str, checks: &mut Checks) {
    model(of, at, checks);
    tool_choice(spec, &of.settings, &format!("{at}/settings/tool_choice"), checks);
}

fn model(model: &ModelSpec, at: &str, checks: &mut Checks) {
    if let Some(base_url) = &model.base_url {
        let message = "must be an http or https URL with a host, without user info, fragment, and query but for \
             `api-version`";
        checks.require(is_base_url(base_url), &format!("{at}/base_url"), "invalid_url", message);
    }
    let has_address = model.base_url.is_some() || !is_reached_by_url(model.provider);
    let message = "this provider has no address of its own: say where its models are reached";
    checks.require(has_address, &format!("{at}/base_url"), "required", message);
    let scripted = model.provider == Provider::Scripted || model.script.is_empty();
    let message = "only the provider `scripted` takes a script";
    checks.require(scripted, &format!("{at}/script"), "not_applicable", message);
    let keyed = model.provider != Provider::Scripted || model.api_key.is_none();
    let message = "the provider `scripted` takes no key";
    checks.require(keyed, &format!("{at}/api_key"), "not_applicable", message);
    settings(&model.settings, model.provider.wire(), &format!("{at}/settings"), checks);
    for (index, turn) in model.script.iter().enumerate() {
        for (nth, call) in turn.tool_calls.iter().enumerate() {
            script_call(call, &format!("{at}/script/{index}/tool_calls/{nth}"), checks);
        }
    }
}

/// Whether a provider gives every customer an address of their own. Bedrock's follows from the region
/// that the server is set to.
fn is_reached_by_url(provider: Provider) -> bool {
    let knows = matches!(provider, Provider::Scripted | Provider::Bedrock);
    !knows && provider.transport().base_url.is_none()
}

fn settings(settings: &ModelSettings, wire: Wire, at: &str, checks: &mut Checks) {
    for (index, stop) in settings.stop.iter().enumerate() {
        checks.length(&format!("{at}/stop/{index}"), stop, 1..=limits::STOP_CHARS);
    }
    extra_body(settings, wire.reserved(), at, checks);
    if let Some(effort) = &settings.reasoning_effort {
        checks.length(&format!("{at}/reasoning_effort"), effort, 1..=limits::WORD_CHARS);
    }
}

fn extra_body(settings: &ModelSettings, reserved: &[&str], at: &str, checks: &mut Checks) {
    for name in settings.extra_body.iter().flat_map(|body| body.keys()) {
        let message = "this member of the request is agentling's own";
        let pointer = format!("{at}/extra_body/{name}");
        checks.require(!reserved.contains(&name.as_str()), &pointer, "reserved", message);
    }
}

fn script_call(call: &ScriptCall, at: &str, checks: &mut Checks) {
    let one = call.arguments.is_some() != call.raw_arguments.is_some();
    let message = "exactly one of `arguments` and `raw_arguments` must be given";
    checks.require(one, at, "exclusive_fields", message);
}

/// A choice that names no tool would be refused by every provider, turn after turn.
fn tool_choice(spec: &AgentSpec, settings: &ModelSettings, at: &str, checks: &mut Checks) {
    let Some(choice) = settings.tool_choice.as_deref() else { return };
    let known = ["auto", "none", "required", FINAL_ANSWER].contains(&choice)
        || (choice == LOAD_SKILL && !spec.skills.is_empty())
        || spec.tools.iter().any(|tool| tool.tool_name() == Some(choice))
        // What an MCP server names its tools is known only when a run begins.
        || spec.tools.iter().any(|tool| matches!(tool, ToolSpec::Mcp(_)));
    if !known {
        let message = "must be `auto`, `none`, `required` or the name of a tool of the agent";
        checks.add(Finding::new(at, "unknown_value", message));
    }
}

/// Only the form counts here; where it may lead is for the engine to say.
fn is_base_url(text: &str) -> bool {
    text.len() <= limits::URL_BYTES
        && Url::parse(text).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.host_str().is_some_and(|host| !host.is_empty())
                && url.username().is_empty()
                && url.password().is_none()
                && url.query().is_none_or(is_version)
                && url.fragment().is_none()
        })
}

/// Whether a query says nothing but the version of Azure's API, which older ones ask for.
fn is_version(query: &str) -> bool {
    let version = query.strip_prefix("api-version=");
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    version.is_some_and(|version| !version.is_empty() && version.bytes().all(fits))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::error::AgentlingError;

    fn places(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut spec = json!({
            "name": "a", "model": { "provider": "scripted", "name": "s" },
        });
        change(&mut spec);
        let spec: AgentSpec = serde_json::from_value(spec).unwrap();
        let mut checks = Checks::new();
        check(&spec, "/agent", &mut checks);
        match checks.finish() {
            Err(AgentlingError::Invalid(found)) => {
                found.into_iter().map(|finding| finding.pointer).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn everything_that_is_wrong_is_found_at_once() {
        let found = places(|spec| {
            spec["name"] = json!("A b");
            spec["instructions"] = json!("x".repeat(limits::INSTRUCTIONS_CHARS + 1));
            spec["metadata"] = json!({ "a/b": "x".repeat(513) });
            spec["model"]["base_url"] = json!("ftp://example.com");
            spec["model"]["settings"] =
                json!({ "stop": ["", "x"], "reasoning_effort": "", "tool_choice": "nothing" });
            spec["model"]["script"] = json!([
                { "tool_calls": [{ "name": "t", "arguments": {} }] },
                { "tool_calls": [
                    { "name": "t" },
                    { "name": "t", "arguments": {}, "raw_arguments": "{" },
                ] },
            ]);
        });
        let expected = [
            "/agent/name",
            "/agent/instructions",
            "/agent/metadata/a~1b",
            "/agent/model/base_url",
            "/agent/model/settings/stop/0",
            "/agent/model/settings/reasoning_effort",
            "/agent/model/script/1/tool_calls/0",
            "/agent/model/script/1/tool_calls/1",
            "/agent/model/settings/tool_choice",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_script_belongs_to_the_scripted_provider() {
        let found = places(|spec| {
            spec["model"] =
                json!({ "provider": "openai", "name": "m", "script": [{ "text": "x" }] });
        });
        assert_eq!(found, ["/agent/model/script"]);
    }

    #[test]
    fn a_script_needs_no_key() {
        let found = places(|spec| spec["model"]["api_key"] = json!({ "secret": "key" }));
        assert_eq!(found, ["/agent/model/api_key"]);
    }

    #[test]
    fn a_provider_without_an_address_of_its_own_needs_one() {
        for (provider, wants) in
            [("azure", true), ("vertex", true), ("bedrock", false), ("anthropic", false)]
        {
            let found = places(|spec| spec["model"] = json!({ "provider": provider, "name": "m" }));
            assert_eq!(found == ["/agent/model/base_url"], wants, "{provider}: {found:?}");
            let found = places(|spec| {
                let base_url = "https://r.example/v1";
                spec["model"] = json!({ "provider": provider, "name": "m", "base_url": base_url });
            });
            assert_eq!(found, Vec::<String>::new());
        }
    }

    #[test]
    fn a_fallback_is_held_to_what_a_model_is_and_has_none_itself() {
        let found = places(|spec| {
            spec["model"]["fallbacks"] = json!([
                { "provider": "openai", "name": "m" },
                { "provider": "openai", "name": "m", "base_url": "ftp://h",
                  "script": [{ "text": "x" }], "settings": { "tool_choice": "nothing" },
                  "fallbacks": [{ "provider": "openai", "name": "m" }] },
            ]);
        });
        let of = |place: &str| format!("/agent/model/fallbacks/1/{place}");
        let expected = ["base_url", "script", "settings/tool_choice", "fallbacks"].map(of).to_vec();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_base_url_may_lead_anywhere_the_operator_says_but_must_be_plain() {
        for url in [
            "http://127.0.0.1:8000/v1",
            "https://api.example.com",
            "http://model/v1",
            "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21",
        ] {
            assert!(is_base_url(url), "{url}");
        }
        for url in [
            "",
            "v1",
            "//host/v1",
            "ftp://h",
            "file:///etc",
            "http://",
            "http://u@h",
            "http://u:p@h",
            "http://h/?a=b",
            "http://h/?api-version=",
            "http://h/?api-version=1&a=b",
            "http://h/#a",
            "javascript:alert(1)",
        ] {
            assert!(!is_base_url(url), "{url}");
        }
    }

    #[test]
    fn a_tool_can_be_chosen_by_its_name() {
        let found = places(|spec| {
            spec["tools"] = json!([{ "kind": "http", "name": "look", "url": "https://h",
                                     "parameters": { "type": "object" } }]);
            spec["model"]["settings"] = json!({ "tool_choice": "look" });
        });
        assert_eq!(found, Vec::<String>::new());
    }
}
