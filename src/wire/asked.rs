//! A conversation that asks for a turn of the model: where it ends with one, the model would be told to
//! go on with that one, which many refuse.

use std::borrow::Cow;

use crate::domain::ledger::Origin;
use crate::render::profile::{OwnEnd, Profile};
use crate::render::prompt::{Block, MarkedText, Prompt, PromptTurn, Role};

/// What the user is made to say.
const FILLER: &str = ".";

/// The prompt with the user between two turns of the model and behind the last one, for models that want
/// it. Whether the user stands behind a turn depends on nothing but whether another speaker does.
pub(super) fn asked<'p>(prompt: &'p Prompt, profile: &Profile) -> Cow<'p, Prompt> {
    let told = || prompt.turns.iter().filter(|turn| !turn.blocks.is_empty());
    let nexts = told().skip(1).map(Some).chain([None]);
    let is_open = |(turn, next): (&PromptTurn, Option<&PromptTurn>)| {
        is_of_model(turn) && next.is_none_or(is_of_model)
    };
    if profile.own_end == OwnEnd::IsFollowed || !told().zip(nexts.clone()).any(is_open) {
        return Cow::Borrowed(prompt);
    }
    let turns = told().zip(nexts).flat_map(|(turn, next)| {
        let filler = is_open((turn, next)).then(filler);
        [turn.clone()].into_iter().chain(filler)
    });
    Cow::Owned(Prompt { turns: turns.collect(), ..prompt.clone() })
}

fn is_of_model(turn: &PromptTurn) -> bool {
    turn.role == Role::Assistant
}

fn filler() -> PromptTurn {
    let text = MarkedText::of(FILLER, Origin::WIRE.clone());
    PromptTurn { role: Role::User, blocks: vec![Block::Text(text)] }
}
