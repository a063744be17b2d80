//! What Claude wants alike on its own wire and behind Converse.

use crate::render::prompt::{Block, PromptTurn, Role};

/// The smallest budget of thinking that is accepted, in tokens.
pub(super) const LEAST_BUDGET: u32 = 1_024;

/// The lowest nucleus that is taken while it thinks.
pub(super) const LEAST_TOP_P: f64 = 0.95;

/// The name and the description of the tool that stands for all when none is offered: a conversation
/// with calls in it is refused without tools. It depends on nothing, so that every such request begins
/// alike.
pub(super) const STUB: (&str, &str) =
    ("unavailable", "No tool is available now. Do not call this.");

/// What an effort is in tokens.
const BUDGETS: &[(&str, u32)] = &[
    ("minimal", LEAST_BUDGET),
    ("low", 2_048),
    ("medium", 8_192),
    ("high", 16_384),
    ("xhigh", 24_576),
    ("max", 24_576),
];

/// An effort in tokens, or a number of tokens as it is; `None`: an effort that is not known.
pub(super) fn budget(effort: &str) -> Option<u32> {
    let known = BUDGETS.iter().find(|(name, _)| *name == effort).map(|(_, budget)| *budget);
    let budget = known.or_else(|| effort.parse().ok())?;
    Some(budget.max(LEAST_BUDGET))
}

/// Whether the model is in the middle of calling tools and did not begin to by thinking, as when another
/// model began: with a budget of tokens this is refused. What the user and the system say behind results
/// is told together with them, and ends nothing.
pub(super) fn is_begun_without(turns: &[PromptTurn]) -> bool {
    let mut first = None;
    let mut has_results = false;
    for turn in turns {
        match turn.role {
            Role::Tool => has_results = true,
            Role::Assistant => {
                first.get_or_insert(turn);
                has_results = false;
            }
            Role::User | Role::System if has_results => {}
            Role::User | Role::System => first = None,
        }
    }
    has_results && first.is_some_and(|turn| !thinks(turn))
}

fn thinks(turn: &PromptTurn) -> bool {
    let first = turn.blocks.first();
    matches!(first, Some(Block::Thinking { .. } | Block::RedactedThinking { .. }))
}
