//! Vectors, and properties held against a scanner that shares nothing with the escaper.

use proptest::prelude::*;

use super::*;

/// Generated cases of each property. Raise it with `PROPTEST_CASES` for a long run.
const CASES: u32 = 2_000;

mod vectors;

/// An independent reading of the rule: finds every framing tag, as (is it a closer, name).
///
/// It works on characters by position, spells out every accepted form of every letter, and matches
/// the longest name first, so that a mistake of the escaper is not repeated here.
mod scanner {
    const SPACES: &str = "\t\n\u{b}\u{c}\r\u{1c}\u{1d}\u{1e}\u{1f} \u{85}\u{a0}\u{1680}\u{2000}\u{2001}\u{2002}\u{2003}\u{2004}\u{2005}\u{2006}\u{2007}\u{2008}\u{2009}\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";

    /// The names, longest first.
    pub(super) const NAMES: &[&str] = &[
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

    #[test]
    fn knows_29_spaces() {
        assert_eq!(SPACES.chars().count(), 29);
    }
}

fn any_tag() -> impl Strategy<Value = FramingTag> {
    proptest::sample::select(FramingTag::ALL)
}

/// Text that is mostly made of pieces of tags.
fn hostile_text() -> impl Strategy<Value = String> {
    let names: Vec<String> = FramingTag::ALL.iter().map(|tag| tag.name().to_owned()).collect();
    let piece = prop_oneof![
        4 => Just("<".to_owned()),
        2 => Just("/".to_owned()),
        2 => Just(">".to_owned()),
        2 => proptest::sample::select(vec![" ", "\n", "\u{1c}", "\u{85}", "\u{3000}", "\u{200b}"])
            .prop_map(str::to_owned),
        6 => proptest::sample::select(names.clone()),
        2 => proptest::sample::select(names).prop_map(|name| name.to_uppercase()),
        2 => proptest::sample::select(vec!["ſystem", "ass\u{131}stant_th\u{130}nKing", "&lt;"])
            .prop_map(str::to_owned),
        1 => proptest::sample::select(vec!["_diff", "s", "d", "_", "-", "=", "\"", "\0"])
            .prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

fn frames_of(tag: FramingTag) -> Vec<(bool, &'static str)> {
    vec![(false, tag.name()), (true, tag.name())]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(CASES),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_framed_text_holds_exactly_its_own_opener_and_closer(
        tag in any_tag(), body in hostile_text(), value in hostile_text(),
    ) {
        let framed = wrap(tag, &body, &[("id", Some(&value)), ("gone", None)]);
        let mut found = scanner::find(&framed);
        if tag == FramingTag::System {
            // Its body may hold data frames that are already built.
            found.retain(|(_, name)| *name == tag.name());
        }
        prop_assert_eq!(found, frames_of(tag));
    }

    #[test]
    fn nothing_but_the_bracket_of_a_tag_is_changed(text in hostile_text()) {
        let escaped = neutralize_tags(&text);
        prop_assert!(scanner::find(&escaped).is_empty());
        let grown = escaped.len() - text.len();
        prop_assert_eq!(grown, 3 * scanner::find(&text).len());
        prop_assert_eq!(escaped.replace("&lt;", "<"), text.replace("&lt;", "<"));
        prop_assert_eq!(contains_tag(&text), grown > 0);
    }

    #[test]
    fn escaping_twice_is_escaping_once(text in hostile_text()) {
        let once = neutralize_tags(&text).into_owned();
        prop_assert!(matches!(neutralize_tags(&once), Cow::Borrowed(same) if same == once));
    }

    #[test]
    fn text_without_tags_is_borrowed_as_it_is(text in any::<String>()) {
        prop_assume!(scanner::find(&text).is_empty());
        prop_assert!(matches!(neutralize_tags(&text), Cow::Borrowed(same) if same == text));
    }
}

#[test]
fn tag_names_are_lower_case_words() {
    for tag in FramingTag::ALL {
        let words: Vec<&str> = tag.name().split('_').collect();
        let is_word =
            |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase());
        assert!(words.iter().all(is_word), "{tag:?}");
    }
    assert!(scanner::NAMES.iter().all(|name| FramingTag::ALL.iter().any(|t| t.name() == *name)));
    assert_eq!(scanner::NAMES.len(), FramingTag::ALL.len());
}

#[test]
fn the_table_of_what_is_escaped_holds() {
    for text in [
        "<SYSTEM>",
        "< / system",
        "<system\n a=b>",
        "<system/>",
        "<system/system>",
        "x <system",
        "<context_diff>",
    ] {
        assert!(contains_tag(text), "{text}");
    }
    for text in [
        "<systemd>",
        "<system_x>",
        "<system-x>",
        "<system:x>",
        "<system\"",
        "<//system>",
        "<!system>",
        "<\\system>",
        "&lt;system>",
        "＜system>",
    ] {
        assert!(!contains_tag(text), "{text}");
    }
    assert_eq!(neutralize_tags("<system<system>"), "<system&lt;system>");
}

#[test]
fn a_registered_tag_is_escaped_in_data_and_can_frame() {
    let tags = Tags::with(["ticket2".to_owned()]).unwrap();
    let ticket = tags.find("ticket2").unwrap();
    assert_eq!(
        tags.wrap(ticket, "a </TICKET2> <system>", &[]),
        "<ticket2>a &lt;/TICKET2> &lt;system></ticket2>"
    );
    assert_eq!(tags.wrap(FramingTag::System, "<ticket2>", &[]), "<system><ticket2></system>");
    assert!(!contains_tag("<ticket2>"));
    assert_eq!(tags.find("system"), None);
}

#[test]
fn a_registered_name_cannot_shadow_or_confuse() {
    for name in ["system", "a_diff", "", "A", "1a", "a__b", "_a", "a_", "a-b", "ä", "a b"] {
        assert_eq!(Tags::with([name.to_owned()]), Err(InvalidTagName), "{name}");
    }
    let sorted = Tags::with(["b".to_owned(), "a1_2".to_owned(), "b".to_owned()]).unwrap();
    assert_eq!(sorted.registered(), ["a1_2", "b"]);
}

#[test]
fn a_mebibyte_of_traps_is_scanned_once() {
    // Each of these would not end in reasonable time with a scan that starts over at every bracket.
    const SIZE: usize = 1 << 20;
    for text in ["<".to_owned() + &" ".repeat(SIZE), "<".repeat(SIZE), "< /".repeat(SIZE)] {
        assert!(!contains_tag(&text));
        assert!(matches!(neutralize_tags(&text), Cow::Borrowed(_)));
        assert!(neutralize_tags(&(text + "<system")).ends_with("&lt;system"));
    }
}
