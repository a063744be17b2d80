//! Names of framing tags, as far as more than the renderer has to know them.

use std::fmt;
use std::str::FromStr;

/// The tags that are there without being registered. They are spelt by the renderer alone; these are
/// their names.
pub const BUILT_IN: &[&str] = &[
    "system",
    "tool_result",
    "assistant_thinking",
    "context",
    "context_diff",
    "validation_errors",
    "retry_feedback",
    "conversation_summary",
];

/// The name of a data tag that an operator registers.
///
/// It is made of lower-case words of letters and digits joined by single underscores, starts with a
/// letter, is not built in and does not end in `_diff`, which is kept for differences of other blocks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TagName(String);

/// A text that is no name of a data tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a name that a data tag can have")]
pub struct InvalidTagName;

impl FromStr for TagName {
    type Err = InvalidTagName;

    fn from_str(name: &str) -> Result<Self, InvalidTagName> {
        let is_word = |word: &str| {
            !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        let fits = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.split('_').all(is_word)
            && !name.ends_with("_diff")
            && !BUILT_IN.contains(&name);
        if fits { Ok(Self(name.to_owned())) } else { Err(InvalidTagName) }
    }
}

impl fmt::Display for TagName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_tag_has_a_plain_name_of_its_own() {
        for name in ["a", "note", "case_file", "v2", "a1_b2"] {
            assert!(name.parse::<TagName>().is_ok(), "{name}");
        }
        for name in
            ["", "A", "1a", "_a", "a_", "a__b", "a-b", "a b", "ä", "system", "context", "note_diff"]
        {
            assert_eq!(name.parse::<TagName>(), Err(InvalidTagName), "{name}");
        }
    }
}
