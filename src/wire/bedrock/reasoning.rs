//! How much a model is told to reason. Converse has no word for it: every vendor's own members go along
//! as they are.

use serde_json::{Map, Value, json};

use crate::domain::model::ModelSettings;
use crate::render::converse::ConverseReasoning as Way;
use crate::render::profile::Profile;
use crate::render::prompt::Prompt;
use crate::wire::claude::{self, LEAST_BUDGET};

/// What a request says of reasoning, and what it leaves out for it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reasoning {
    /// Members of `additionalModelRequestFields`.
    pub(super) members: Map<String, Value>,
    /// Neither a way of sampling nor a forced choice of tools is taken.
    pub(super) is_claude_thinking: bool,
    /// Neither a way of sampling nor an upper bound is taken.
    pub(super) is_nova_at_most: bool,
}

impl Reasoning {
    /// Reads the settings. A setting of its own wins over the same member in `extra_body`.
    pub(super) fn of(prompt: &Prompt, profile: &Profile) -> Self {
        let settings = &prompt.settings;
        let asked = settings.reasoning_effort.as_deref().map(str::trim);
        let asked = asked.filter(|effort| !effort.is_empty());
        let mut members = asked.map_or_else(Map::new, |effort| {
            told(effort, profile.converse.reasoning, settings.max_output_tokens)
        });
        for (name, value) in extra(settings, "additionalModelRequestFields") {
            members.entry(name).or_insert_with(|| value.clone());
        }
        let kind = |members: &Map<String, Value>| {
            members.get("thinking")?.get("type")?.as_str().map(str::to_owned)
        };
        if kind(&members).as_deref() == Some("enabled") && claude::is_begun_without(&prompt.turns) {
            members.remove("thinking");
        }
        let nova = members.get("reasoningConfig").and_then(|it| it.get("maxReasoningEffort"));
        Self {
            is_claude_thinking: matches!(kind(&members).as_deref(), Some("enabled" | "adaptive")),
            is_nova_at_most: nova.is_some_and(|effort| effort == "high"),
            members,
        }
    }
}

/// The members of an object in `extra_body`.
pub(super) fn extra<'s>(
    settings: &'s ModelSettings,
    name: &str,
) -> impl Iterator<Item = (&'s String, &'s Value)> {
    let member = settings.extra_body.as_ref().and_then(|body| body.get(name));
    member.and_then(Value::as_object).into_iter().flatten()
}

/// An effort in the words of a vendor.
fn told(effort: &str, way: Way, most: Option<u32>) -> Map<String, Value> {
    let members = match (way, effort) {
        (Way::ClaudeAdaptive, "none") => json!({"thinking": {"type": "disabled"}}),
        (Way::ClaudeAdaptive, _) => {
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}})
        }
        (Way::Nova, "none") => json!({"reasoningConfig": {"type": "disabled"}}),
        (Way::Nova, _) => json!({
            "reasoningConfig": {"type": "enabled", "maxReasoningEffort": of_nova(effort)}
        }),
        (Way::Untold, _) | (Way::ClaudeBudget | Way::GptOss | Way::Qwen, "none") => json!({}),
        (Way::ClaudeBudget, _) => by_budget(effort, most),
        (Way::GptOss, _) => json!({"reasoning_effort": effort}),
        (Way::Qwen, "minimal" | "low") => json!({"reasoning_config": "low"}),
        (Way::Qwen, _) => json!({"reasoning_config": "high"}),
    };
    if let Value::Object(members) = members { members } else { Map::new() }
}

fn of_nova(effort: &str) -> &str {
    match effort {
        "minimal" => "low",
        "xhigh" | "max" => "high",
        _ => effort,
    }
}

/// An effort in tokens, or a number of tokens as it is. The budget is a part of the reply, and fits below
/// the bound that the agent sets.
fn by_budget(effort: &str, most: Option<u32>) -> Value {
    let Some(budget) = claude::budget(effort) else { return json!({}) };
    let room = most.map_or(u32::MAX, |most| most.saturating_sub(1));
    let budget = budget.min(room);
    if budget < LEAST_BUDGET {
        return json!({});
    }
    json!({"thinking": {"type": "enabled", "budget_tokens": budget}})
}
