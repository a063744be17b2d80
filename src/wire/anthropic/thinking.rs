//! Whether and how a model is told to think.

use serde_json::{Map, Value, json};

use crate::domain::model::ModelSettings;
use crate::render::profile::{Profile, Thinking};
use crate::render::prompt::Prompt;
use crate::wire::claude::{self, LEAST_BUDGET};
use crate::wire::json::count;

/// How a request is told to think.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Thought {
    /// `thinking`.
    pub(super) thinking: Option<Value>,
    /// `output_config.effort`.
    pub(super) effort: Option<String>,
    /// The upper bound of the reply, thinking included.
    pub(super) max_tokens: u32,
}

impl Thought {
    /// Reads the settings. A setting of its own wins over the same member in `extra_body`.
    pub(super) fn of(prompt: &Prompt, profile: &Profile) -> Self {
        let settings = &prompt.settings;
        let max_tokens = settings.max_output_tokens.unwrap_or(profile.default_max_tokens);
        let plain = Self { max_tokens, ..Self::default() };
        let asked = settings.reasoning_effort.as_deref().map(str::trim);
        let thought = match (asked.filter(|effort| !effort.is_empty()), profile.thinking) {
            (None, _) => as_told(settings, plain),
            (Some("none"), Thinking::Budget) => return plain,
            (Some("none"), Thinking::Adaptive) => {
                Self { thinking: Some(json!({"type": "disabled"})), ..plain }
            }
            (Some(effort), Thinking::Adaptive) => Self {
                thinking: Some(json!({"type": "adaptive"})),
                effort: Some(effort.to_owned()),
                ..plain
            },
            (Some(effort), Thinking::Budget) => by_budget(effort, settings, max_tokens),
        };
        if thought.has_budget() && claude::is_begun_without(&prompt.turns) {
            return Self { thinking: None, ..thought };
        }
        thought
    }

    fn kind(&self) -> Option<&str> {
        self.thinking.as_ref()?.get("type")?.as_str()
    }

    fn has_budget(&self) -> bool {
        self.kind() == Some("enabled")
    }

    /// Whether the model thinks, and takes neither a forced choice of tools nor a way of sampling.
    pub(super) fn is_on(&self) -> bool {
        matches!(self.kind(), Some("enabled" | "adaptive"))
    }
}

/// A member of `extra_body`.
pub(super) fn extra<'s>(settings: &'s ModelSettings, name: &str) -> Option<&'s Value> {
    settings.extra_body.as_ref().and_then(|body: &Map<String, Value>| body.get(name))
}

/// `thinking` as `extra_body` spells it. Its budget is added to a bound that the agent leaves open.
fn as_told(settings: &ModelSettings, plain: Thought) -> Thought {
    let thinking = extra(settings, "thinking").cloned();
    let budget = thinking.as_ref().and_then(|thinking| count(thinking, "budget_tokens"));
    let budget = budget.filter(|_| settings.max_output_tokens.is_none()).unwrap_or(0);
    let budget = u32::try_from(budget).unwrap_or(u32::MAX);
    Thought { thinking, max_tokens: plain.max_tokens.saturating_add(budget), ..plain }
}

/// An effort in tokens, or a number of tokens as it is. The budget is a part of the reply: it is added to
/// the bound that the agent leaves open, and fits below the one that it sets.
fn by_budget(effort: &str, settings: &ModelSettings, max_tokens: u32) -> Thought {
    let plain = Thought { max_tokens, ..Thought::default() };
    let Some(budget) = claude::budget(effort) else {
        // An effort that is not known here may be known there.
        return Thought { effort: Some(effort.to_owned()), ..plain };
    };
    let (budget, max_tokens) = match settings.max_output_tokens {
        Some(most) => (budget.min(most.saturating_sub(1)), most),
        None => (budget, max_tokens.saturating_add(budget)),
    };
    if budget < LEAST_BUDGET {
        return plain;
    }
    let thinking = Some(json!({"type": "enabled", "budget_tokens": budget}));
    Thought { thinking, max_tokens, ..plain }
}
