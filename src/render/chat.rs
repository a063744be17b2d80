//! What differs between the servers that speak OpenAI Chat Completions, and between their models.

use serde::Serialize;

use crate::domain::model::ModelSettings;

/// How a model behind its transport wants Chat Completions to be spelt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ChatFacts {
    /// Where thinking goes back, where it does.
    pub thinking: ThinkingPlace,
    /// Whether text may begin with thinking between `<think>` and `</think>`.
    pub think_tags: bool,
    /// Whether it knows the role `system` at all.
    pub system: bool,
    /// Which orders of messages it accepts.
    pub order: MessageOrder,
    /// What asks for a call of any tool.
    pub any_tool: &'static str,
    /// When a call can be asked for.
    pub forced_choice: ForcedChoice,
    /// How far it holds an answer to a schema.
    pub schema: SchemaSupport,
    /// The member that holds the seed.
    pub seed: &'static str,
    /// How reasoning effort is spelt.
    pub effort: EffortPlace,
    /// When temperature and nucleus sampling are accepted.
    pub sampling: Sampling,
    /// Whether texts at which the reply stops are accepted.
    pub stop: bool,
}

/// Where thinking goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingPlace {
    /// Under the member under which it came.
    AsItCame,
    /// `reasoning_content`, beside calls, which have to have it even when it is empty.
    BesideCalls,
    /// A part of the content.
    Content,
}

/// Which orders of messages are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageOrder {
    /// Any.
    Any,
    /// A user may not speak right after a result.
    NoUserAfterResult,
    /// That, and user and model have to take turns.
    Alternating,
}

/// When a call can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForcedChoice {
    /// Always.
    Always,
    /// While it does not think, which it does unless it is told not to.
    UnlessThinking,
    /// While it is not told to reason, for which it would rather be left to choose.
    UnlessReasoning,
}

/// How far a model is held to a schema by the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaSupport {
    /// To the schema.
    Schema,
    /// To JSON of any form.
    AnyJson,
}

/// How reasoning effort is spelt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffortPlace {
    /// `reasoning_effort`.
    Member,
    /// `effort` in `reasoning`.
    InReasoning,
    /// `reasoning_effort`, which is refused beside `thinking`.
    UnlessThinkingIsSet,
}

/// When temperature and nucleus sampling are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// Always.
    Always,
    /// While it does not reason, which it does when an effort is asked for.
    UnlessReasoning,
    /// Never.
    Never,
}

impl Sampling {
    /// Whether temperature and nucleus sampling are accepted beside these settings.
    pub fn is_accepted(self, settings: &ModelSettings) -> bool {
        let reasons =
            || settings.reasoning_effort.as_deref().is_some_and(|effort| effort != "none");
        match self {
            Self::Always => true,
            Self::UnlessReasoning => !reasons(),
            Self::Never => false,
        }
    }
}

impl ChatFacts {
    /// OpenAI's own spelling.
    pub(super) const OPENAI: Self = Self {
        thinking: ThinkingPlace::AsItCame,
        think_tags: false,
        system: true,
        order: MessageOrder::Any,
        any_tool: "required",
        forced_choice: ForcedChoice::Always,
        schema: SchemaSupport::Schema,
        seed: "seed",
        effort: EffortPlace::Member,
        sampling: Sampling::Always,
        stop: true,
    };

    /// The same where an agent says whether user and model have to take turns.
    pub(super) const fn alternating(self, alternates: Option<bool>) -> Self {
        let order = match (alternates, self.order) {
            (Some(true), _) => MessageOrder::Alternating,
            (Some(false), MessageOrder::Alternating) => MessageOrder::Any,
            (Some(false) | None, order) => order,
        };
        Self { order, ..self }
    }

    /// What is known of a model by its name, whoever serves it; a router's prefix does not count.
    pub(super) fn of_model(self, name: &str) -> Self {
        let name = bare(name);
        if is_first_o1(name) {
            return Self { system: false, sampling: Sampling::Never, stop: false, ..self };
        }
        match gpt_5(name) {
            _ if is_o_series(name) => Self { sampling: Sampling::Never, stop: stops(name), ..self },
            Some(Sampling::Always) => self,
            Some(sampling) => Self { sampling, stop: false, ..self },
            None if is_reasoning_grok(name) => Self { stop: false, ..self },
            None => self,
        }
    }
}

/// A model's name without what a router puts before it.
pub(super) fn bare(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The first of the o-series, which know neither system messages nor tools.
pub(super) fn is_first_o1(name: &str) -> bool {
    let name = bare(name);
    name.starts_with("o1-mini") || name.starts_with("o1-preview")
}

fn is_o_series(name: &str) -> bool {
    ["o1", "o3", "o4"].iter().any(|series| {
        name.strip_prefix(series).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// The older ones of the o-series still take texts to stop at.
fn stops(name: &str) -> bool {
    !(name == "o3" || name.starts_with("o3-pro") || name.starts_with("o4"))
}

/// When a model of the GPT-5 family accepts sampling settings; `None`: it is none of that family.
fn gpt_5(name: &str) -> Option<Sampling> {
    let rest = name.strip_prefix("gpt-5")?;
    Some(match rest.chars().next() {
        _ if rest.contains("-chat") => Sampling::Always,
        Some('.') => Sampling::UnlessReasoning,
        _ => Sampling::Never,
    })
}

fn is_reasoning_grok(name: &str) -> bool {
    let reasons = ["grok-3-mini", "grok-4", "grok-code"];
    reasons.iter().any(|model| name.starts_with(model)) && !name.contains("non-reasoning")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> (Sampling, bool, bool) {
        let facts = ChatFacts::OPENAI.of_model(name);
        (facts.sampling, facts.stop, facts.system)
    }

    #[test]
    fn reasoning_models_are_known_by_their_names() {
        use Sampling::{Always, Never, UnlessReasoning};
        for (name, expected) in [
            ("gpt-4o", (Always, true, true)),
            ("o1", (Never, true, true)),
            ("o1-mini-2024-09-12", (Never, false, false)),
            ("o3-mini", (Never, true, true)),
            ("openai/o3", (Never, false, true)),
            ("o4-mini", (Never, false, true)),
            ("o200k-tuned", (Always, true, true)),
            ("gpt-5-mini", (Never, false, true)),
            ("gpt-5-chat-latest", (Always, true, true)),
            ("gpt-5.2", (UnlessReasoning, false, true)),
            ("x-ai/grok-4", (Always, false, true)),
            ("grok-4-1-fast-non-reasoning", (Always, true, true)),
            ("grok-3", (Always, true, true)),
        ] {
            assert_eq!(of(name), expected, "{name}");
        }
    }
}
