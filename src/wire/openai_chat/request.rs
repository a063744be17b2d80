//! The request body. The same prompt gives the same bytes: members are written in one fixed order.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::messages::add_messages;
use crate::domain::ledger::{AgentPart, Origin};
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;
use crate::render::chat::{ChatFacts, EffortPlace, ForcedChoice, SchemaSupport};
use crate::render::profile::Profile;
use crate::render::prompt::Prompt;
use crate::wire::asked::asked;
use crate::wire::json::{count, text};
use crate::wire::schema;
use crate::wire::writer::{Array, Encoded, Writer};

/// Members that `extra_body` cannot touch: the prompt itself, and what the decoder relies on, which
/// reads one choice.
const OWNED: &[&str] = &["model", "messages", "stream", "stream_options", "tools", "n"];

/// The members that bound a reply, of which only one may be sent.
const MAX_TOKENS: &[&str] = &["max_tokens", "max_completion_tokens"];

/// The request body.
pub(super) fn encode(prompt: &Prompt, profile: &Profile, stream: bool) -> Encoded {
    let setting = Origin::agent(AgentPart::Setting);
    Writer::object(|body| {
        body.string("model", &prompt.model, &Origin::agent(AgentPart::Model));
        body.wire("stream", stream);
        if stream && profile.stream_usage {
            body.wire("stream_options", json!({"include_usage": true}));
        }
        if !prompt.tools.is_empty() {
            body.array("tools", |tools| prompt.tools.iter().for_each(|tool| add_tool(tools, tool)));
        }
        let known = settings(&prompt.settings, &prompt.tools, profile);
        let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let mut written = BTreeSet::new();
        for (name, value) in known {
            body.value(name, &value, &setting);
            written.insert(name);
        }
        if let Some(schema) = &prompt.output_schema {
            let origin = Origin::agent(AgentPart::OutputSchema);
            body.value("response_format", &response_format(schema, profile.chat.schema), &origin);
            written.insert("response_format");
        }
        for (name, value) in prompt.settings.extra_body.iter().flatten() {
            // A setting of its own wins over the same member in `extra_body`.
            let is_set = written.contains(name.as_str())
                || (MAX_TOKENS.contains(&name.as_str())
                    && prompt.settings.max_output_tokens.is_some());
            if !OWNED.contains(&name.as_str()) && !is_set {
                body.value(name, value, &setting);
            }
        }
        body.conversation("messages", |messages| {
            add_messages(messages, &asked(prompt, profile), profile);
        });
    })
}

fn response_format(schema: &Value, support: SchemaSupport) -> Value {
    match support {
        SchemaSupport::AnyJson => json!({"type": "json_object"}),
        SchemaSupport::Schema => {
            let mut format = json!({"name": schema::name(schema), "schema": schema});
            // A schema that the strict mode refuses is only a hint.
            if let (true, Some(format)) = (schema::is_strict(schema), format.as_object_mut()) {
                format.insert("strict".to_owned(), Value::Bool(true));
            }
            json!({"type": "json_schema", "json_schema": format})
        }
    }
}

fn settings(
    settings: &ModelSettings,
    tools: &[ToolDefinition],
    profile: &Profile,
) -> [(&'static str, Option<Value>); 8] {
    let facts = profile.chat;
    let offered = !tools.is_empty();
    let choice = settings.tool_choice.as_deref().filter(|_| offered);
    let sampling = facts.sampling.is_accepted(settings);
    let stop = (facts.stop && !settings.stop.is_empty()).then(|| json!(settings.stop));
    let (effort_name, effort) = effort(settings, facts.effort);
    [
        ("tool_choice", choice.and_then(|choice| tool_choice(choice, tools, (settings, facts)))),
        ("parallel_tool_calls", settings.parallel_tool_calls.filter(|_| offered).map(Value::from)),
        (profile.max_tokens.member(), settings.max_output_tokens.map(Value::from)),
        ("temperature", settings.temperature.filter(|_| sampling).map(Value::from)),
        ("top_p", settings.top_p.filter(|_| sampling).map(Value::from)),
        ("stop", stop),
        (facts.seed, settings.seed.map(Value::from)),
        (effort_name, effort),
    ]
}

fn extra<'s>(settings: &'s ModelSettings, name: &str) -> Option<&'s Value> {
    settings.extra_body.as_ref()?.get(name)
}

fn effort(settings: &ModelSettings, place: EffortPlace) -> (&'static str, Option<Value>) {
    let effort = settings.reasoning_effort.clone().map(Value::from);
    match place {
        EffortPlace::Member => ("reasoning_effort", effort),
        EffortPlace::UnlessThinkingIsSet => {
            ("reasoning_effort", effort.filter(|_| extra(settings, "thinking").is_none()))
        }
        EffortPlace::InReasoning => {
            let with = |effort| {
                let more = extra(settings, "reasoning").and_then(Value::as_object).cloned();
                let mut reasoning = more.unwrap_or_default();
                reasoning.insert("effort".to_owned(), effort);
                Value::Object(reasoning)
            };
            ("reasoning", effort.map(with))
        }
    }
}

/// Whether the model is told to reason, which `reasoning` in `extra_body` may do as well.
fn is_told_to_reason(settings: &ModelSettings) -> bool {
    let more = extra(settings, "reasoning").unwrap_or(&Value::Null);
    let effort = settings.reasoning_effort.as_deref().or_else(|| text(more, "effort"));
    let is_on = more.get("enabled").is_some_and(|enabled| enabled == true);
    let has_budget = count(more, "max_tokens").is_some_and(|most| most > 0);
    effort.map_or(is_on || has_budget, |effort| effort != "none")
}

/// Whether the model thinks, which `thinking` in `extra_body` may turn off.
fn thinks(settings: &ModelSettings) -> bool {
    let kind = extra(settings, "thinking").and_then(|thinking| thinking.get("type"));
    kind.is_none_or(|kind| kind != "disabled")
}

/// A named tool can only be asked for while it is offered, and no call where the model would refuse to
/// be asked.
fn tool_choice(
    choice: &str,
    tools: &[ToolDefinition],
    (settings, facts): (&ModelSettings, ChatFacts),
) -> Option<Value> {
    let can_force = match facts.forced_choice {
        ForcedChoice::Always => true,
        ForcedChoice::UnlessThinking => !thinks(settings),
        ForcedChoice::UnlessReasoning => !is_told_to_reason(settings),
    };
    match choice {
        "auto" | "none" => Some(json!(choice)),
        "required" => can_force.then(|| json!(facts.any_tool)),
        name if tools.iter().any(|tool| tool.name == name) => {
            can_force.then(|| json!({"type": "function", "function": {"name": name}}))
        }
        _ => None,
    }
}

fn add_tool(tools: &mut Array<'_>, tool: &ToolDefinition) {
    let origin = Origin::agent(AgentPart::Tool);
    tools.object(|entry| {
        entry.wire("type", "function");
        entry.object("function", |function| {
            function.string("name", &tool.name, &origin);
            function.string("description", &tool.description, &origin);
            function.value("parameters", &tool.parameters, &origin);
        });
    });
}
