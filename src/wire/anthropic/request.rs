//! The request body. The same prompt gives the same bytes: members are written in one fixed order.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::thinking::{Thought, extra};
use super::{history, messages};
use crate::domain::ledger::{AgentPart, Origin};
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;
use crate::render::profile::Profile;
use crate::render::prompt::Prompt;
use crate::wire::claude::{LEAST_TOP_P, STUB};
use crate::wire::json::text;
use crate::wire::writer::{Array, Encoded, Object, Writer};

/// Members that `extra_body` cannot touch; `tools` of it are added to the agent's.
const OWNED: &[&str] = &["model", "messages", "stream", "system", "tools", "max_tokens"];

/// The request body.
pub(super) fn encode(prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded {
    let setting = Origin::agent(AgentPart::Setting);
    let thought = Thought::of(prompt, profile);
    Writer::object(|body| {
        body.string("model", &prompt.model, &Origin::agent(AgentPart::Model));
        body.value("max_tokens", &json!(thought.max_tokens), &setting);
        body.wire("stream", stream);
        if let Some(system) = prompt.system.as_ref().filter(|text| !text.trim().is_empty()) {
            body.text("system", system);
        }
        let mut written = BTreeSet::from(["thinking", "output_config"]);
        add_tools(body, prompt);
        add_output_config(body, prompt, &thought);
        for (name, value) in settings(prompt, &thought) {
            let Some(value) = value else { continue };
            body.value(name, &value, &setting);
            written.insert(name);
        }
        for (name, value) in prompt.settings.extra_body.iter().flatten() {
            let is_taken = OWNED.contains(&name.as_str()) || written.contains(name.as_str());
            let is_refused = thought.is_on() && is_refused_with_thinking(name, value);
            if !is_taken && !is_refused {
                body.value(name, value, &setting);
            }
        }
        body.conversation("messages", |list| {
            for message in &history::messages(&prompt.turns) {
                messages::add(list, message);
            }
        });
    })
}

/// Whether a model that thinks refuses a member.
fn is_refused_with_thinking(name: &str, value: &Value) -> bool {
    match name {
        "temperature" | "top_k" => true,
        "tool_choice" => matches!(text(value, "type"), Some("any" | "tool")),
        _ => false,
    }
}

fn settings(prompt: &Prompt, thought: &Thought) -> [(&'static str, Option<Value>); 5] {
    let settings = &prompt.settings;
    let temperature = settings.temperature.filter(|_| !thought.is_on());
    let top_p = settings.top_p.filter(|p| !thought.is_on() || *p >= LEAST_TOP_P);
    [
        ("thinking", thought.thinking.clone()),
        ("tool_choice", tool_choice(prompt, thought)),
        ("temperature", temperature.map(Value::from)),
        ("top_p", top_p.map(Value::from)),
        ("stop_sequences", (!settings.stop.is_empty()).then(|| json!(settings.stop))),
    ]
}

/// A named tool can only be asked for while it is offered, and a model that thinks cannot be made to
/// call one. Nothing may be called where a stub stands for the tools.
fn tool_choice(prompt: &Prompt, thought: &Thought) -> Option<Value> {
    if needs_stub(prompt) {
        return Some(json!({"type": "none"}));
    }
    let settings = &prompt.settings;
    let theirs = of_provider(settings).iter().filter_map(|tool| text(tool, "name"));
    let offered: Vec<&str> =
        prompt.tools.iter().map(|tool| tool.name.as_str()).chain(theirs).collect();
    let is_named = |name: &str| offered.contains(&name);
    let choice = settings.tool_choice.as_deref().filter(|_| !offered.is_empty());
    let one_at_a_time = settings.parallel_tool_calls == Some(false) && !offered.is_empty();
    let mut chosen = match choice {
        Some("none") => return Some(json!({"type": "none"})),
        Some("auto") => json!({"type": "auto"}),
        Some("required") if thought.is_on() => json!({"type": "auto"}),
        Some("required") => json!({"type": "any"}),
        Some(name) if is_named(name) && thought.is_on() => json!({"type": "auto"}),
        Some(name) if is_named(name) => json!({"type": "tool", "name": name}),
        Some(_) | None if one_at_a_time => json!({"type": "auto"}),
        Some(_) | None => return None,
    };
    if let (true, Some(members)) = (one_at_a_time, chosen.as_object_mut()) {
        members.insert("disable_parallel_tool_use".to_owned(), Value::Bool(true));
    }
    Some(chosen)
}

/// The tools that the provider runs, which `extra_body` brings.
fn of_provider(settings: &ModelSettings) -> &[Value] {
    extra(settings, "tools").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether no tool is offered though the conversation holds calls, with which tools have to be told.
fn needs_stub(prompt: &Prompt) -> bool {
    let is_offered = !prompt.tools.is_empty() || !of_provider(&prompt.settings).is_empty();
    !is_offered && history::has_tools(&prompt.turns)
}

/// The agent's tools, then those that the provider runs; a stub where there are none of either and
/// there have to be.
fn add_tools(body: &mut Object<'_>, prompt: &Prompt) {
    let of_provider = of_provider(&prompt.settings);
    if needs_stub(prompt) {
        let (name, description) = STUB;
        let schema = json!({"type": "object", "properties": {}});
        let stub = json!({"name": name, "description": description, "input_schema": schema});
        body.value("tools", &json!([stub]), Origin::WIRE);
        return;
    }
    if prompt.tools.is_empty() && of_provider.is_empty() {
        return;
    }
    body.array("tools", |tools| {
        prompt.tools.iter().for_each(|tool| add_tool(tools, tool));
        let setting = Origin::agent(AgentPart::Setting);
        for tool in of_provider {
            tools.value(tool, &setting);
        }
    });
}

fn add_tool(tools: &mut Array<'_>, tool: &ToolDefinition) {
    let origin = Origin::agent(AgentPart::Tool);
    tools.object(|entry| {
        entry.string("name", &tool.name, &origin);
        entry.string("description", &tool.description, &origin);
        entry.value("input_schema", &tool.parameters, &origin);
    });
}

/// Effort and form of the answer, and what `extra_body` says beside them.
fn add_output_config(body: &mut Object<'_>, prompt: &Prompt, thought: &Thought) {
    let more = extra(&prompt.settings, "output_config").and_then(Value::as_object);
    let (effort, schema) = (thought.effort.as_ref(), prompt.output_schema.as_ref());
    if effort.is_none() && schema.is_none() && more.is_none_or(Map::is_empty) {
        return;
    }
    let setting = Origin::agent(AgentPart::Setting);
    body.object("output_config", |config| {
        if let Some(effort) = effort {
            config.string("effort", effort, &setting);
        }
        if let Some(schema) = schema {
            config.object("format", |format| {
                format.wire("type", "json_schema");
                format.value("schema", schema, &Origin::agent(AgentPart::OutputSchema));
            });
        }
        for (name, value) in more.into_iter().flatten() {
            let is_written = match name.as_str() {
                "effort" => effort.is_some(),
                "format" => schema.is_some(),
                _ => false,
            };
            if !is_written {
                config.value(name, value, &setting);
            }
        }
    });
}
