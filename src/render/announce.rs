//! Which tools may be named in the system voice, and how a change of them is told.
//!
//! A tool's name is text that someone else wrote. One that could break out of the sentence around it
//! is left out of the sentence; the tool itself is still declared to the model.

use super::framing::contains_tag;

/// How the available tools changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChange {
    /// The model may call them from now on.
    Added,
    /// The model can no longer call them.
    Removed,
}

/// Whether a tool of this name may be named in the system voice.
pub fn is_nameable(name: &str) -> bool {
    let breaks_the_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '`');
    !name.chars().any(breaks_the_line) && !contains_tag(name)
}

/// The sentence about a change; `None` when no tool of it can be named.
pub fn announcement<'a, I>(change: ToolChange, names: I) -> Option<String>
where
    I: IntoIterator<Item = &'a str>,
{
    let names: Vec<String> = names
        .into_iter()
        .filter(|name| is_nameable(name))
        .map(|name| format!("`{name}`"))
        .collect();
    if names.is_empty() {
        return None;
    }
    let what = match change {
        ToolChange::Added => "now",
        ToolChange::Removed => "no longer",
    };
    Some(format!("The following tool(s) are {what} available: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_breaks_out_of_its_sentence_is_not_nameable() {
        for name in ["a`b", "a\nb", "a\u{2028}b", "a\u{85}b", "a\0", "a\u{7f}"] {
            assert!(!is_nameable(name), "{name:?}");
        }
        assert!(is_nameable("Ünï-cödé tool, with spaces"));
    }

    #[test]
    fn a_change_names_only_what_is_nameable() {
        assert_eq!(
            announcement(ToolChange::Removed, ["a", "b`", "c"]).as_deref(),
            Some("The following tool(s) are no longer available: `a`, `c`")
        );
        assert_eq!(announcement(ToolChange::Added, ["\n"]), None);
    }
}
