//! The request body. The same prompt gives the same bytes: members are written in one fixed order.

use serde_json::{Map, Value, json};

use super::{format, input};
use crate::domain::ledger::{AgentPart, Origin};
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;
use crate::render::profile::Profile;
use crate::render::prompt::Prompt;
use crate::wire::writer::{Array, Encoded, Object, Writer};

/// Members that `extra_body` cannot touch: the prompt itself, and what would make the host keep the
/// conversation or answer later.
const OWNED: &[&str] = &[
    "model",
    "input",
    "instructions",
    "tools",
    "stream",
    "store",
    "previous_response_id",
    "conversation",
    "background",
];

/// Members that have a setting or a fact of their own to be merged with.
const MERGED: &[&str] = &["reasoning", "text", "include"];

/// What asks for reasoning in the form in which it can go back.
const SEALED: &str = "reasoning.encrypted_content";

/// The fewest tokens that a reply may be bounded to; hosts refuse less.
const MIN_OUTPUT_TOKENS: u32 = 16;

/// The request body. This wire has no place for `seed` and `stop`.
pub(super) fn encode(prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded {
    Writer::object(|body| {
        body.string("model", &prompt.model, &Origin::agent(AgentPart::Model));
        body.wire("stream", stream);
        body.wire("store", false);
        if let Some(system) = &prompt.system {
            body.text("instructions", system);
        } else if profile.responses.needs_instructions {
            body.wire("instructions", "");
        }
        if !prompt.tools.is_empty() {
            body.array("tools", |tools| prompt.tools.iter().for_each(|tool| add_tool(tools, tool)));
        }
        add_settings(body, prompt, profile);
        body.conversation("input", |items| input::add_turns(items, &prompt.turns, profile));
    })
}

/// An absent `strict` means true here, which few schemas satisfy.
fn add_tool(tools: &mut Array<'_>, tool: &ToolDefinition) {
    let origin = Origin::agent(AgentPart::Tool);
    tools.object(|entry| {
        entry.wire("type", "function");
        entry.string("name", &tool.name, &origin);
        if !tool.description.is_empty() {
            entry.string("description", &tool.description, &origin);
        }
        entry.value("parameters", &tool.parameters, &origin);
        entry.wire("strict", false);
    });
}

fn add_settings(body: &mut Object<'_>, prompt: &Prompt, profile: &Profile) {
    let setting = Origin::agent(AgentPart::Setting);
    let extra = prompt.settings.extra_body.as_ref();
    let known = settings(&prompt.settings, &prompt.tools, profile);
    for (name, value) in &known {
        if let Some(value) = value {
            body.value(name, value, &setting);
        }
    }
    add_reasoning(body, &prompt.settings, &setting);
    add_format(body, prompt, &setting);
    add_include(body, extra, profile, &setting);
    for (name, value) in extra.into_iter().flatten() {
        // A setting of its own wins over the same member in `extra_body`.
        let is_known = known.iter().any(|(known, value)| known == name && value.is_some());
        if !is_known && !OWNED.contains(&name.as_str()) && !MERGED.contains(&name.as_str()) {
            body.value(name, value, &setting);
        }
    }
}

fn settings(
    settings: &ModelSettings,
    tools: &[ToolDefinition],
    profile: &Profile,
) -> [(&'static str, Option<Value>); 5] {
    let sampling = profile.chat.sampling.is_accepted(settings);
    let offered = !tools.is_empty();
    let choice = settings.tool_choice.as_deref().filter(|_| offered);
    let most = settings.max_output_tokens.map(|most| most.max(MIN_OUTPUT_TOKENS));
    [
        ("tool_choice", choice.and_then(|choice| tool_choice(choice, tools))),
        ("parallel_tool_calls", settings.parallel_tool_calls.filter(|_| offered).map(Value::from)),
        ("max_output_tokens", most.map(Value::from)),
        ("temperature", settings.temperature.filter(|_| sampling).map(Value::from)),
        ("top_p", settings.top_p.filter(|_| sampling).map(Value::from)),
    ]
}

/// A named tool can only be asked for while it is offered.
fn tool_choice(choice: &str, tools: &[ToolDefinition]) -> Option<Value> {
    match choice {
        "auto" | "none" | "required" => Some(json!(choice)),
        name if tools.iter().any(|tool| tool.name == name) => {
            Some(json!({"type": "function", "name": name}))
        }
        _ => None,
    }
}

/// A member of `extra_body` that is merged; anything but an object has nothing to merge.
fn members<'a>(settings: &'a ModelSettings, name: &str) -> Option<&'a Map<String, Value>> {
    settings.extra_body.as_ref()?.get(name)?.as_object()
}

fn add_reasoning(body: &mut Object<'_>, settings: &ModelSettings, origin: &Origin) {
    let effort = settings.reasoning_effort.as_deref();
    let extra = members(settings, "reasoning");
    if effort.is_none() && extra.is_none() {
        return;
    }
    body.object("reasoning", |reasoning| {
        if let Some(effort) = effort {
            reasoning.string("effort", effort, origin);
        }
        let others = extra.into_iter().flatten();
        for (name, value) in others.filter(|(name, _)| *name != "effort" || effort.is_none()) {
            reasoning.value(name, value, origin);
        }
    });
}

fn add_format(body: &mut Object<'_>, prompt: &Prompt, origin: &Origin) {
    let schema = prompt.output_schema.as_ref();
    let extra = members(&prompt.settings, "text");
    if schema.is_none() && extra.is_none() {
        return;
    }
    body.object("text", |text| {
        if let Some(schema) = schema {
            text.object("format", |it| format::add(it, schema));
        }
        let others = extra.into_iter().flatten();
        for (name, value) in others.filter(|(name, _)| *name != "format" || schema.is_none()) {
            text.value(name, value, origin);
        }
    });
}

fn add_include(
    body: &mut Object<'_>,
    extra: Option<&Map<String, Value>>,
    profile: &Profile,
    origin: &Origin,
) {
    let asked = extra.and_then(|extra| extra.get("include")?.as_array());
    if !profile.responses.sealed_reasoning && asked.is_none() {
        return;
    }
    body.array("include", |include| {
        if profile.responses.sealed_reasoning {
            include.value(&json!(SEALED), Origin::WIRE);
        }
        for name in asked.into_iter().flatten() {
            if !(profile.responses.sealed_reasoning && name == SEALED) {
                include.value(name, origin);
            }
        }
    });
}
