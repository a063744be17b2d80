//! Finds framing tags in what a provider received: a reading of the rule that shares no code with the
//! product.

/// The built-in tags.
const NAMES: [&str; 8] = [
    "system",
    "tool_result",
    "assistant_thinking",
    "context",
    "context_diff",
    "validation_errors",
    "retry_feedback",
    "conversation_summary",
];

/// A tag that was found: whether it closes, and its name.
pub(crate) type FoundTag = (bool, String);

/// Every framing tag of a text, in order.
pub(crate) fn tags_in(text: &str) -> Vec<FoundTag> {
    // Whatever comes after one bracket and before the next is looked at once.
    text.split('<').skip(1).filter_map(tag_after_bracket).collect()
}

fn tag_after_bracket(rest: &str) -> Option<FoundTag> {
    let rest = rest.trim_start_matches(is_space);
    let (closes, rest) = match rest.strip_prefix('/') {
        Some(rest) => (true, rest.trim_start_matches(is_space)),
        None => (false, rest),
    };
    let is_end = |c: char| is_space(c) || c == '/' || c == '>';
    let word: String = rest.split(is_end).next()?.chars().take(32).map(letter).collect();
    NAMES.contains(&word.as_str()).then_some((closes, word))
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// A letter as a lenient reader takes it.
fn letter(c: char) -> char {
    match c {
        'ſ' => 's',
        '\u{212a}' => 'k',
        'İ' | 'ı' => 'i',
        _ => c.to_ascii_lowercase(),
    }
}

#[test]
fn tags_are_found_in_every_spelling_and_nothing_else_is() {
    let found = |text: &str| tags_in(text);
    assert_eq!(
        found("a < / ſYSTEM\n>b<context/>"),
        [(true, "system".to_owned()), (false, "context".to_owned()),]
    );
    assert_eq!(
        found("<context_diff <\u{1c}tool_result"),
        [(false, "context_diff".to_owned()), (false, "tool_result".to_owned()),]
    );
    assert_eq!(found("<systemd> <system-x> <//system> &lt;system> <system\" ＜system>"), []);
}
