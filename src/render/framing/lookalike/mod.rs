//! Tells which framing tags a text resembles. It only looks: no text is changed for what it finds.
//!
//! A reader that is a model takes `&lt;`, `＜`, a Cyrillic letter or one split by an invisible character
//! for what they look like. The text is therefore judged on a folded copy, by the rule that holds for
//! tags themselves.
//!
//! Not every tag counts. What is gained by a forged one is a voice: `system` is that of the operator,
//! `assistant_thinking` that of the model itself. The other tags mark data, which is what the text is
//! taken for anyway, and their names are ordinary words of prompts and documents (`context`, say), so
//! that a note about each would be noise. Written with a namespace in front, though, such a name is not
//! an ordinary word but claims to be the work of some framework, and every built-in tag counts.

mod fold;

use super::FramingTag;
use super::scan::{after_brackets, is_name};

/// Tags whose bare name claims a voice.
const VOICES: [FramingTag; 2] = [FramingTag::System, FramingTag::AssistantThinking];

/// The built-in tags that a text resembles, each once, in the order of [`FramingTag::ALL`].
pub fn resembled(text: &str) -> Vec<FramingTag> {
    if !fold::may_hold_bracket(text) {
        return Vec::new();
    }
    let folded = fold::folded(text);
    let mut found = Vec::new();
    for (_, name) in after_brackets(&folded) {
        found.extend(tag_like(name).filter(|tag| !found.contains(tag)));
    }
    FramingTag::ALL.iter().copied().filter(|tag| found.contains(tag)).collect()
}

/// The tag that a folded text begins with.
fn tag_like(text: &str) -> Option<FramingTag> {
    let named = |text: &str, tags: &[FramingTag]| {
        tags.iter().copied().find(|tag| is_name(text, tag.name()))
    };
    named(text, &VOICES).or_else(|| named(after_namespace(text)?, FramingTag::ALL))
}

/// What follows a namespace and its colon, if the text begins with them.
fn after_namespace(text: &str) -> Option<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let after = text.trim_start_matches(is_word);
    after.strip_prefix(':').filter(|_| after.len() < text.len())
}

#[cfg(test)]
mod tests;
