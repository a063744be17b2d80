//! What must hold for any text. Generated texts and fuzzed ones are held to the same checks: the targets
//! in `fuzz/` include this folder, so nothing here names more than the public API, as `framing`, which
//! whoever declares this module has in scope.

mod scanner;

use std::borrow::Cow;

use super::framing::{FramingTag, contains_tag, lookalike, neutralize_tags, wrap};
pub(crate) use scanner::NAMES;

/// A frame holds exactly its own opener and closer, whatever is in its body and in an attribute.
pub(crate) fn frame_holds(tag: FramingTag, body: &str, value: &str) {
    let framed = wrap(tag, body, &[("id", Some(value)), ("gone", None)]);
    let mut found = scanner::find(&framed);
    if tag == FramingTag::System {
        // Its body may hold data frames that are already built.
        found.retain(|(_, name)| *name == tag.name());
    }
    assert_eq!(found, [(false, tag.name()), (true, tag.name())], "{framed}");
}

/// The brackets of tags are escaped, and nothing else: a text without tags is not even copied.
pub(crate) fn only_brackets_change(text: &str) {
    let escaped = neutralize_tags(text);
    assert!(scanner::find(&escaped).is_empty(), "{escaped}");
    let n_tags = scanner::find(text).len();
    assert_eq!(escaped.len(), text.len() + 3 * n_tags, "{text}");
    assert_eq!(escaped.replace("&lt;", "<"), text.replace("&lt;", "<"));
    assert_eq!(contains_tag(text), n_tags > 0, "{text}");
    assert_eq!(matches!(escaped, Cow::Borrowed(same) if same == text), n_tags == 0, "{text}");
}

/// Escaping what is escaped changes nothing.
pub(crate) fn escaping_is_idempotent(text: &str) {
    let once = neutralize_tags(text).into_owned();
    assert!(matches!(neutralize_tags(&once), Cow::Borrowed(same) if same == once), "{once}");
}

/// What a text resembles holds the tags of voices in it, is the same when they are escaped, and is told
/// once each, in order.
pub(crate) fn lookalikes_hold(text: &str) {
    let resembled = lookalike::resembled(text);
    let places: Vec<usize> = resembled.iter().filter_map(|tag| place(*tag)).collect();
    assert!(places.is_sorted_by(|a, b| a < b), "{resembled:?}");
    for (_, name) in scanner::find(text) {
        let is_told = resembled.iter().any(|tag| tag.name() == name);
        assert!(is_told || !["system", "assistant_thinking"].contains(&name), "{name} in {text}");
    }
    assert_eq!(lookalike::resembled(&neutralize_tags(text)), resembled, "{text}");
}

fn place(tag: FramingTag) -> Option<usize> {
    FramingTag::ALL.iter().position(|other| *other == tag)
}

#[test]
fn the_scanner_knows_29_spaces() {
    assert_eq!(scanner::SPACES.chars().count(), 29);
}
