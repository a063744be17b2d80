//! An independent reading of the rule: finds every framing tag, as (is it a closer, name).
//!
//! It works on characters by position, spells out every accepted form of every letter, and matches
//! the longest name first, so that a mistake of the escaper is not repeated here.

/// The 29 characters that count as white space.
pub(super) const SPACES: &str = "\t\n\u{b}\u{c}\r\u{1c}\u{1d}\u{1e}\u{1f} \u{85}\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";

/// The names, longest first.
pub(crate) const NAMES: &[&str] = &[
    "conversation_summary",
    "assistant_thinking",
    "validation_errors",
    "retry_feedback",
    "context_diff",
    "tool_result",
    "context",
    "system",
];

fn forms(letter: char) -> String {
    match letter {
        's' => "sS\u{17f}".to_owned(),
        'k' => "kK\u{212a}".to_owned(),
        'i' => "iI\u{130}\u{131}".to_owned(),
        other => [other, other.to_ascii_uppercase()].iter().collect(),
    }
}

pub(super) fn find(text: &str) -> Vec<(bool, &'static str)> {
    let chars: Vec<char> = text.chars().collect();
    (0..chars.len()).filter_map(|at| tag_at(&chars, at)).collect()
}

fn tag_at(chars: &[char], at: usize) -> Option<(bool, &'static str)> {
    if chars[at] != '<' {
        return None;
    }
    let mut at = at + 1;
    let mut is_closer = false;
    while at < chars.len() && (SPACES.contains(chars[at]) || (chars[at] == '/' && !is_closer)) {
        is_closer |= chars[at] == '/';
        at += 1;
    }
    let name = NAMES.iter().find(|name| {
        let end = at + name.len();
        end <= chars.len()
            && name.chars().zip(&chars[at..end]).all(|(n, c)| forms(n).contains(*c))
            && (end == chars.len() || "/>".contains(chars[end]) || SPACES.contains(chars[end]))
    })?;
    Some((is_closer, name))
}
