//! The request body. The same prompt gives the same bytes: members are written in one fixed order.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::contents;
use super::schema;
use crate::domain::ledger::{AgentPart, Origin};
use crate::domain::model::ModelSettings;
use crate::domain::tool::ToolDefinition;
use crate::render::google::GeminiGeneration;
use crate::render::profile::Profile;
use crate::render::prompt::Prompt;
use crate::wire::asked::asked;
use crate::wire::writer::{Array, Encoded, Object, Writer};

/// Members that `extra_body` cannot add as they are: the prompt itself, and what is merged with members
/// of the codec. The name of the model is no member here.
const OWNED: &[&str] = &[
    "model",
    "contents",
    "systemInstruction",
    "tools",
    "toolConfig",
    "generationConfig",
    "cachedContent",
];

/// The decoder reads one candidate.
const OWNED_CONFIG: &[&str] = &["candidateCount"];

/// The two spellings of the schema of an answer, of which one may be there.
const ANSWER_SCHEMAS: [&str; 2] = ["responseJsonSchema", "responseSchema"];

/// The request body.
pub(super) fn encode(prompt: &Prompt, profile: &Profile) -> Encoded {
    let setting = Origin::agent(AgentPart::Setting);
    let extra = Extra { members: prompt.settings.extra_body.as_ref() };
    Writer::object(|body| {
        // What is cached holds the instructions and the tools, which may not be told again.
        if let Some(cached) = extra.get("cachedContent").filter(|cached| cached.is_string()) {
            body.value("cachedContent", cached, &setting);
        } else {
            add_preamble(body, prompt, profile, extra);
        }
        add_config(body, prompt, profile, extra);
        for (name, value) in extra.members.into_iter().flatten() {
            if !OWNED.contains(&camel(name).as_str()) {
                body.value(name, value, &setting);
            }
        }
        body.conversation("contents", |list| {
            contents::add(list, &asked(prompt, profile).turns, profile);
        });
    })
}

/// The body's members that the agent adds; each may be spelt with humps or with underscores.
#[derive(Clone, Copy)]
struct Extra<'p> {
    members: Option<&'p Map<String, Value>>,
}

impl<'p> Extra<'p> {
    fn get(self, name: &str) -> Option<&'p Value> {
        let mut members = self.members.into_iter().flatten();
        members.find_map(|(member, value)| (camel(member) == name).then_some(value))
    }

    /// The members of a member that is an object.
    fn within(self, name: &str) -> impl Iterator<Item = (&'p String, &'p Value)> {
        self.get(name).and_then(Value::as_object).into_iter().flatten()
    }
}

/// `top_k` as `topK`.
fn camel(name: &str) -> String {
    let mut is_hump = false;
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '_' => is_hump = true,
            _ if std::mem::take(&mut is_hump) => out.push(c.to_ascii_uppercase()),
            _ => out.push(c),
        }
    }
    out
}

fn add_preamble(body: &mut Object<'_>, prompt: &Prompt, profile: &Profile, extra: Extra<'_>) {
    if let Some(system) = &prompt.system {
        body.object("systemInstruction", |it| {
            it.array("parts", |parts| parts.object(|part| part.text("text", system)));
        });
    }
    // Tools that the provider runs itself stand beside the declared ones.
    let hosted = extra.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !prompt.tools.is_empty() || !hosted.is_empty() {
        body.array("tools", |tools| add_tools(tools, (&prompt.tools, hosted), profile.gemini));
    }
    add_tool_config(body, prompt, extra);
}

fn add_tools(
    tools: &mut Array<'_>,
    (declared, hosted): (&[ToolDefinition], &[Value]),
    generation: GeminiGeneration,
) {
    if !declared.is_empty() {
        let add_all = |list: &mut Array<'_>| {
            for tool in declared {
                add_tool(list, tool, generation);
            }
        };
        tools.object(|it| it.array("functionDeclarations", add_all));
    }
    let setting = Origin::agent(AgentPart::Setting);
    for tool in hosted {
        tools.value(tool, &setting);
    }
}

fn add_tool_config(body: &mut Object<'_>, prompt: &Prompt, extra: Extra<'_>) {
    const OWN: &str = "functionCallingConfig";
    let choice = prompt.settings.tool_choice.as_deref();
    let choice = choice.and_then(|choice| tool_choice(choice, &prompt.tools));
    let is_free = |name: &str| choice.is_none() || camel(name) != OWN;
    let others: Vec<_> = extra.within("toolConfig").filter(|(name, _)| is_free(name)).collect();
    if choice.is_none() && others.is_empty() {
        return;
    }
    let setting = Origin::agent(AgentPart::Setting);
    body.object("toolConfig", |it| {
        if let Some(choice) = &choice {
            it.value(OWN, choice, &setting);
        }
        for (name, value) in &others {
            it.value(name, value, &setting);
        }
    });
}

/// A named tool can only be asked for while it is offered.
fn tool_choice(choice: &str, tools: &[ToolDefinition]) -> Option<Value> {
    match choice {
        _ if tools.is_empty() => None,
        "auto" => Some(json!({"mode": "AUTO"})),
        "none" => Some(json!({"mode": "NONE"})),
        "required" => Some(json!({"mode": "ANY"})),
        name if tools.iter().any(|tool| tool.name == name) => {
            Some(json!({"mode": "ANY", "allowedFunctionNames": [name]}))
        }
        _ => None,
    }
}

fn add_tool(list: &mut Array<'_>, tool: &ToolDefinition, generation: GeminiGeneration) {
    let origin = Origin::agent(AgentPart::Tool);
    list.object(|it| {
        it.string("name", &tool.name, &origin);
        it.string("description", &tool.description, &origin);
        if generation.reads_json_schema() {
            it.value("parametersJsonSchema", &tool.parameters, &origin);
        } else if let Some(parameters) = schema::parameters(&tool.parameters) {
            it.value("parameters", &parameters, &origin);
        }
    });
}

fn add_config(body: &mut Object<'_>, prompt: &Prompt, profile: &Profile, extra: Extra<'_>) {
    let setting = Origin::agent(AgentPart::Setting);
    let known = settings(&prompt.settings, profile.gemini);
    let known = known.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let mut members: Vec<(&str, Value, &Origin)> =
        known.map(|(name, value)| (name, value, &setting)).collect();
    let mut taken: BTreeSet<&str> = members.iter().map(|(name, ..)| *name).collect();
    taken.extend(OWNED_CONFIG);
    let schema = Origin::agent(AgentPart::OutputSchema);
    if let Some((name, value)) = answer_schema(prompt, profile.gemini) {
        members.push(("responseMimeType", json!("application/json"), Origin::WIRE));
        members.push((name, value, &schema));
        taken.extend(["responseMimeType"].iter().chain(&ANSWER_SCHEMAS));
    }
    let others = extra.within("generationConfig");
    let others: Vec<_> = others.filter(|(name, _)| !taken.contains(camel(name).as_str())).collect();
    if members.is_empty() && others.is_empty() {
        return;
    }
    body.object("generationConfig", |config| {
        for (name, value, origin) in &members {
            config.value(name, value, origin);
        }
        for (name, value) in &others {
            config.value(name, value, &setting);
        }
    });
}

/// The schema of the answer. Where a model cannot be bound to one while it has tools, the tools come
/// first: the answer is judged in any case.
fn answer_schema(prompt: &Prompt, generation: GeminiGeneration) -> Option<(&'static str, Value)> {
    let [json, subset] = ANSWER_SCHEMAS;
    let is_bound = prompt.tools.is_empty() || generation.binds_answers_beside_tools();
    let wanted = prompt.output_schema.as_ref().filter(|_| is_bound)?;
    Some(if generation.reads_json_schema() {
        (json, wanted.clone())
    } else {
        (subset, schema::subset(wanted))
    })
}

fn settings(
    settings: &ModelSettings,
    generation: GeminiGeneration,
) -> [(&'static str, Option<Value>); 6] {
    let effort = settings.reasoning_effort.as_deref();
    [
        ("temperature", settings.temperature.map(Value::from)),
        ("topP", settings.top_p.map(Value::from)),
        ("maxOutputTokens", settings.max_output_tokens.map(Value::from)),
        ("stopSequences", (!settings.stop.is_empty()).then(|| json!(settings.stop))),
        ("seed", settings.seed.map(Value::from)),
        ("thinkingConfig", effort.map(|effort| thinking(effort, generation))),
    ]
}

/// An effort is a level, or a number of tokens. The models that only know numbers are given those that
/// Google's own endpoint for OpenAI's protocol takes for the levels.
fn thinking(effort: &str, generation: GeminiGeneration) -> Value {
    let told = effort.parse::<i64>().ok();
    let budget = told.or_else(|| match effort {
        "none" => Some(0),
        _ if generation.has_thinking_levels() => None,
        "minimal" | "low" => Some(1_024),
        "medium" => Some(8_192),
        "high" => Some(24_576),
        _ => None,
    });
    match budget {
        Some(0) => json!({"thinkingBudget": 0}),
        Some(tokens) => json!({"includeThoughts": true, "thinkingBudget": tokens}),
        None => json!({"includeThoughts": true, "thinkingLevel": effort}),
    }
}
