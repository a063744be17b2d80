//! The scanner against the escaper.

use proptest::prelude::*;

use super::reader::tags_in;
use crate::render::framing::{Tags, contains_tag};

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
        prop_assert_eq!(seen > 0, contains_tag(&text), "{:?}", text);
    }
}
