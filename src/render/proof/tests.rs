//! The scanner against the escaper.

use proptest::prelude::*;

use super::reader::tags_in;
use crate::render::framing::{Tags, neutralize_tags};

proptest! {
    /// The scanner and the escaper are written apart; they must see the same tags.
    #[test]
    fn what_is_read_as_a_tag_is_what_the_escaper_escapes(
        pieces in proptest::collection::vec(prop_oneof![
            Just("<".to_owned()), Just("/".to_owned()), Just(">".to_owned()), Just(" ".to_owned()),
            Just("system".to_owned()), Just("CONTEXT_diff".to_owned()), Just("tool_reſult".to_owned()),
            Just("\u{1F}".to_owned()), Just("\"\\".to_owned()), any::<String>(),
        ], 0..12)
    ) {
        let text = pieces.concat();
        let document = serde_json::json!({ "x": [text] }).to_string();
        let names = Tags::BUILT_IN.names();
        let seen = tags_in(document.as_bytes(), &names).count();
        let escaped = neutralize_tags(&text);
        prop_assert_eq!(seen, (escaped.len() - text.len()) / ESCAPING, "{:?}", text);
        let document = serde_json::json!({ "x": [escaped] }).to_string();
        prop_assert_eq!(tags_in(document.as_bytes(), &names).count(), 0);
    }
}

/// How many bytes an escaped bracket has more than one.
const ESCAPING: usize = "&lt;".len() - "<".len();

#[test]
fn a_bracket_that_is_escaped_by_its_number_is_a_bracket() {
    let names = Tags::BUILT_IN.names();
    let seen = |body: &'static str| {
        let tags: Vec<_> = tags_in(body.as_bytes(), &names).collect();
        tags.iter().map(|tag| (tag.name.to_owned(), tag.closes, tag.start)).collect::<Vec<_>>()
    };
    let system = |closes, start| vec![("system".to_owned(), closes, start)];
    assert_eq!(seen(r#"["\u003c/system>"]"#), system(true, 2));
    assert_eq!(seen(r#"["\\\u003Csystem>"]"#), system(false, 4));
    assert_eq!(seen(r#"["\\u003csystem>", "u003csystem>"]"#), []);
    assert_eq!(seen(r#"["\u003c\u002f\u0073ystem\u003e"]"#), system(true, 2));
}
