//! Blocks of context: named texts of the operator that a conversation is told when they change.
//!
//! What stands when a conversation begins belongs to the standing instructions; what changes later is
//! told at its place, so that nothing that was sent before is touched.

mod diff;
#[cfg(test)]
mod tests;

use diff::unified_diff;

use super::framing::{FramingTag, Tags};
use super::prompt::MarkedText;
use crate::domain::ledger::{Origin, Voice};
use crate::domain::step::ContextStep;

/// What is told of a block that is gone, where the system voice has an entry of its own.
const WITHDRAWN: &str = "This context has been withdrawn.";

/// The same where the system voice is a frame on the user's channel.
const WITHDRAWN_IN_A_FRAME: &str =
    "This context has been withdrawn, and the withdrawal stays in effect until replaced again.";

/// A change of a block.
#[derive(Debug, Clone, Copy)]
pub struct ContextChange<'a> {
    /// The block.
    pub id: Option<&'a str>,
    /// What it says from now on; `None` for a withdrawal.
    pub text: Option<&'a str>,
    /// What it said before, if it was there.
    pub previous: Option<&'a str>,
}

impl ContextChange<'_> {
    /// How the change is told: the whole text, or what differs in it where that is shorter.
    pub fn told(&self, native_system: bool, tags: &Tags, origin: &Origin) -> MarkedText {
        let ours = origin.spoken(Voice::Application);
        let framed_as = |tag, body: &str, voice| {
            let body = MarkedText::of("\n", ours.clone()).with(body, &origin.spoken(voice));
            tags.frame(tag, &body.with("\n", &ours), &[("id", self.id)], origin)
        };
        let framed = |tag, body: &str| framed_as(tag, body, Voice::System);
        let Some(text) = self.text else {
            let sentence = if native_system { WITHDRAWN } else { WITHDRAWN_IN_A_FRAME };
            return framed_as(FramingTag::Context, sentence, Voice::Application);
        };
        let shorter = |diff: &String| diff.chars().count() < text.chars().count();
        match self.previous.map(|previous| unified_diff(previous, text)).filter(shorter) {
            Some(diff) => framed(FramingTag::ContextDiff, &diff),
            None => framed(FramingTag::Context, text),
        }
    }
}

/// A block as it stands.
#[derive(Debug, Clone)]
struct StandingBlock<'a> {
    id: &'a str,
    text: &'a str,
    origin: Origin,
}

/// The blocks of a conversation as it stands, in the order in which they came to be.
#[derive(Debug, Clone, Default)]
pub struct Blocks<'a> {
    current: Vec<StandingBlock<'a>>,
}

impl<'a> Blocks<'a> {
    /// No blocks.
    pub const fn new() -> Self {
        Self { current: Vec::new() }
    }

    /// Takes a change in, and answers it; `None` when a block is withdrawn that is not there.
    pub fn change(&mut self, step: &'a ContextStep, origin: &Origin) -> Option<ContextChange<'a>> {
        let (id, text) = (step.id.as_str(), step.text.as_deref());
        let known = self.current.iter_mut().find(|known| known.id == id);
        let previous = known.as_ref().map(|block| block.text);
        let origin = origin.clone();
        match (known, text) {
            (Some(block), Some(text)) => *block = StandingBlock { id, text, origin },
            (None, Some(text)) => self.current.push(StandingBlock { id, text, origin }),
            (Some(_), None) => self.current.retain(|known| known.id != id),
            (None, None) => return None,
        }
        Some(ContextChange { id: Some(id), text, previous })
    }

    /// The blocks as part of the standing instructions.
    pub fn standing(&self, tags: &Tags) -> Vec<MarkedText> {
        let whole = |StandingBlock { id, text, origin }: &StandingBlock<'_>| {
            let block = ContextChange { id: Some(id), text: Some(text), previous: None };
            block.told(true, tags, origin)
        };
        self.current.iter().map(whole).collect()
    }
}
