//! Vectors, and properties held against a scanner that shares nothing with the escaper.

use proptest::prelude::*;

use super::*;
use crate::render::framing;

/// Generated cases of each property. Raise it with `PROPTEST_CASES` for a long run.
const CASES: u32 = 2_000;

mod checks;
mod corpora;
mod vectors;

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
        2 => proptest::sample::select(vec![
            "ſystem", "ass\u{131}stant_th\u{130}nKing", "&lt;", "&#60", "\u{ff1c}", "\u{455}y\u{fb06}em",
        ])
        .prop_map(str::to_owned),
        1 => proptest::sample::select(vec!["_diff", "s", "d", "_", "-", "=", "\"", "\0"])
            .prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    proptest::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
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
        checks::frame_holds(tag, &body, &value);
    }

    #[test]
    fn nothing_but_the_bracket_of_a_tag_is_changed(text in hostile_text()) {
        checks::only_brackets_change(&text);
    }

    #[test]
    fn escaping_twice_is_escaping_once(text in hostile_text()) {
        checks::escaping_is_idempotent(&text);
    }

    #[test]
    fn text_without_tags_is_borrowed_as_it_is(text in any::<String>()) {
        prop_assume!(!contains_tag(&text));
        checks::only_brackets_change(&text);
    }

    #[test]
    fn what_a_text_resembles_holds_its_tags_and_knows_no_spelling(text in hostile_text()) {
        checks::lookalikes_hold(&text);
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
    assert!(checks::NAMES.iter().all(|name| FramingTag::ALL.iter().any(|t| t.name() == *name)));
    assert_eq!(checks::NAMES.len(), FramingTag::ALL.len());
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
