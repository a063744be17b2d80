//! The request body. The same prompt gives the same bytes: members are written in one fixed order.

use serde_json::{Map, Value, json};

use super::content::Content;
use super::files::Names;
use super::history;
use super::reasoning::{Reasoning, extra};
use crate::domain::ledger::{AgentPart, Origin};
use crate::domain::tool::ToolDefinition;
use crate::render::profile::Profile;
use crate::render::prompt::Prompt;
use crate::wire::claude::{LEAST_TOP_P, STUB};
use crate::wire::writer::{Array, Encoded, Object, Writer};

/// Members that `extra_body` cannot touch.
const OWNED: &[&str] = &["messages", "system", "toolConfig"];

/// Members that are objects, to which `extra_body` adds.
const MERGED: &[&str] = &["inferenceConfig", "additionalModelRequestFields", "outputConfig"];

/// The request body.
pub(super) fn encode(prompt: &Prompt, profile: &Profile) -> Encoded {
    let setting = Origin::agent(AgentPart::Setting);
    let reasoning = Reasoning::of(prompt, profile);
    Writer::object(|body| {
        if let Some(system) = prompt.system.as_ref().filter(|text| !text.trim().is_empty()) {
            body.array("system", |list| list.object(|part| part.text("text", system)));
        }
        add_tool_config(body, prompt, profile, &reasoning);
        let members = [
            ("inferenceConfig", inference(prompt, &reasoning)),
            ("additionalModelRequestFields", reasoning.members.clone()),
        ];
        for (name, members) in members {
            if !members.is_empty() {
                body.value(name, &Value::Object(members), &setting);
            }
        }
        add_output_config(body, prompt);
        for (name, value) in prompt.settings.extra_body.iter().flatten() {
            let is_written = OWNED.contains(&name.as_str()) || MERGED.contains(&name.as_str());
            if !is_written {
                body.value(name, value, &setting);
            }
        }
        body.conversation("messages", |list| {
            let result_status = profile.converse.result_status;
            let mut content = Content { result_status, names: Names::default() };
            for message in &history::messages(&prompt.turns, profile) {
                content.add_message(list, message);
            }
        });
    })
}

/// Size and sampling. A setting of its own wins over the same member in `extra_body`.
fn inference(prompt: &Prompt, reasoning: &Reasoning) -> Map<String, Value> {
    let settings = &prompt.settings;
    let known = [
        ("maxTokens", settings.max_output_tokens.map(Value::from)),
        ("temperature", settings.temperature.map(Value::from)),
        ("topP", settings.top_p.map(Value::from)),
        ("stopSequences", (!settings.stop.is_empty()).then(|| json!(settings.stop))),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mut members: Map<String, Value> = known.collect();
    for (name, value) in extra(settings, "inferenceConfig") {
        members.entry(name).or_insert_with(|| value.clone());
    }
    members.retain(|name, value| match name.as_str() {
        "temperature" => !reasoning.is_nova_at_most && !reasoning.is_claude_thinking,
        "topP" if reasoning.is_claude_thinking => value.as_f64().is_some_and(|p| p >= LEAST_TOP_P),
        "maxTokens" | "topP" => !reasoning.is_nova_at_most,
        _ => true,
    });
    members
}

/// The tools. Converse has no choice of none: tools that may not be called are left out, and a stub
/// stands for them where the conversation holds calls.
fn add_tool_config(
    body: &mut Object<'_>,
    prompt: &Prompt,
    profile: &Profile,
    reasoning: &Reasoning,
) {
    let choice = prompt.settings.tool_choice.as_deref();
    let tools = if choice == Some("none") { &[][..] } else { prompt.tools.as_slice() };
    if tools.is_empty() && !history::has_tools(&prompt.turns) {
        return;
    }
    let choice = choice.filter(|_| profile.converse.tool_choice);
    let choice = choice.and_then(|choice| tool_choice(choice, tools, reasoning));
    body.object("toolConfig", |config| {
        config.array("tools", |list| {
            for tool in tools {
                add_tool(list, tool);
            }
            if tools.is_empty() {
                add_stub(list);
            }
        });
        if let Some(choice) = choice {
            config.value("toolChoice", &choice, &Origin::agent(AgentPart::Setting));
        }
    });
}

/// A named tool can only be asked for while it is offered, and Claude cannot be made to call one while
/// it thinks.
fn tool_choice(choice: &str, tools: &[ToolDefinition], reasoning: &Reasoning) -> Option<Value> {
    let is_named = |name: &str| tools.iter().any(|tool| tool.name == name);
    let is_forced = choice == "required" || is_named(choice);
    match choice {
        _ if tools.is_empty() => None,
        "auto" => Some(json!({"auto": {}})),
        _ if is_forced && reasoning.is_claude_thinking => Some(json!({"auto": {}})),
        "required" => Some(json!({"any": {}})),
        name => is_forced.then(|| json!({"tool": {"name": name}})),
    }
}

fn add_tool(tools: &mut Array<'_>, tool: &ToolDefinition) {
    let origin = Origin::agent(AgentPart::Tool);
    tools.object(|entry| {
        entry.object("toolSpec", |spec| {
            spec.string("name", &tool.name, &origin);
            if !tool.description.trim().is_empty() {
                spec.string("description", &tool.description, &origin);
            }
            spec.object("inputSchema", |schema| schema.value("json", &tool.parameters, &origin));
        });
    });
}

fn add_stub(tools: &mut Array<'_>) {
    let (name, description) = STUB;
    let schema = json!({"json": {"type": "object", "properties": {}}});
    let spec = json!({"name": name, "description": description, "inputSchema": schema});
    tools.value(&json!({"toolSpec": spec}), Origin::WIRE);
}

/// The form of the answer, and what `extra_body` says beside it.
fn add_output_config(body: &mut Object<'_>, prompt: &Prompt) {
    let setting = Origin::agent(AgentPart::Setting);
    let schema = prompt.output_schema.as_ref();
    let mut more = extra(&prompt.settings, "outputConfig")
        .filter(|(name, _)| schema.is_none() || *name != "textFormat")
        .peekable();
    if schema.is_none() && more.peek().is_none() {
        return;
    }
    body.object("outputConfig", |config| {
        if let Some(schema) = schema {
            config.object("textFormat", |format| add_schema(format, schema));
        }
        more.for_each(|(name, value)| config.value(name, value, &setting));
    });
}

/// The schema goes as text.
fn add_schema(format: &mut Object<'_>, schema: &Value) {
    format.wire("type", "json_schema");
    format.object("structure", |structure| {
        structure.object("jsonSchema", |json| {
            let origin = Origin::agent(AgentPart::OutputSchema);
            json.string("schema", &schema.to_string(), &origin);
            json.wire("name", "answer");
        });
    });
}
