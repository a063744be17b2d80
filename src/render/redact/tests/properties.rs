//! Properties of redaction over generated values and texts.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::{redactor, values};
use crate::domain::redaction::RedactionChannel::Model;

/// Values of few characters, so that they overlap each other and the text, and of any.
pub(super) fn value() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{4,6}", "[a\\\\/\" \n+%é😀]{4,8}", "\\PC{4,12}", "sk-[A-Za-z0-9_-]{8,24}",]
}

fn percent(c: char) -> String {
    let bytes = c.to_string().into_bytes();
    bytes.iter().map(|byte| ["%".to_owned(), format!("{byte:02x}")].concat()).collect()
}

/// How a character is written.
fn spelt(c: char, how: u8) -> String {
    let escaped = |upper: bool| -> String {
        let digits =
            |unit: u16| if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
        c.encode_utf16(&mut [0; 2]).iter().map(|unit| digits(*unit)).collect()
    };
    match how {
        0 => escaped(false),
        1 => escaped(true),
        2 | 3 => {
            let quoted = serde_json::to_string(&c.to_string()).unwrap();
            quoted.strip_prefix('"').unwrap().strip_suffix('"').unwrap().to_owned()
        }
        4 => percent(c).to_ascii_uppercase(),
        5 => percent(c),
        6 if c == ' ' => "+".to_owned(),
        _ => c.to_string(),
    }
}

fn text_around() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab]{0,9}",
        "\\PC{0,9}",
        "[\\\\%u0-9\"+ ]{0,9}",
        "(\\[redacted:[a-z]{1,3}:[0-9]{8}\\]){0,2}"
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_value_survives_in_any_spelling(
        value in value(), hows in vec(0u8..9, 12), before in text_around(), after in text_around(),
    ) {
        let redactor = values(&[&value]);
        let spelling: String =
            value.chars().zip(hows.iter().cycle()).map(|(c, how)| spelt(c, *how)).collect();
        let shown = redactor.text(Model, &format!("{before}{spelling}{after}")).into_owned();
        let stand_in = redactor.text(Model, &value).into_owned();
        prop_assert!(shown.contains(&stand_in), "{} in {}", spelling, shown);
        let rest = shown.replace(&stand_in, "\u{1}");
        let is_held = before.contains(&value) || after.contains(&value);
        prop_assert!(is_held || !rest.contains(&spelling) , "{} in {}", spelling, rest);
        prop_assert!(!rest.contains(&value), "{}", rest);
    }

    #[test]
    fn no_value_survives_in_base64(value in value(), before in vec(any::<u8>(), 0..9), after in vec(any::<u8>(), 0..9)) {
        let redactor = values(&[&value]);
        prop_assume!(value.len() > 4);
        let whole = [&before, value.as_bytes(), &after].concat();
        let stand_in = redactor.text(Model, &value).into_owned();
        let encoded = STANDARD.encode(whole);
        prop_assert!(redactor.text(Model, &encoded).contains(&stand_in), "{}", encoded);
    }

    #[test]
    fn redacting_twice_is_redacting_once(
        a in value(), b in value(), texts in vec(prop_oneof![value(), text_around()], 0..6),
    ) {
        let redactor = redactor(json!([
            { "kind": "value", "name": "a", "value": a },
            { "kind": "value", "name": "b", "value": b },
            { "kind": "pattern", "name": "c", "pattern": "a+b|[0-9]{9,}" },
        ]));
        let text = format!("{}{a}{}{b}", texts.concat(), texts.join(&a));
        let once = redactor.text(Model, &text).into_owned();
        prop_assert!(matches!(redactor.text(Model, &once), Cow::Borrowed(_)), "{}", once);
        let document = json!({ "k": text, "l": [texts, { "k": 1 }], "m": 123_456_789 });
        let once = redactor.json(Model, &document).into_owned();
        prop_assert_eq!(redactor.json(Model, &once).into_owned(), once);
    }

    #[test]
    fn text_without_matches_is_not_copied(text in "[c-z \\\\%\n]{0,80}") {
        let redactor = values(&["abab", "hunter22"]);
        prop_assert!(matches!(redactor.text(Model, &text), Cow::Borrowed(_)));
        let document = json!({ "a": text }).to_string();
        prop_assert!(matches!(redactor.json_text(Model, &document), Cow::Borrowed(_)));
    }

    #[test]
    fn redacted_json_is_json_without_the_value(
        value in value(), keys in vec("[a-z]{1,3}", 1..4), around in text_around(),
    ) {
        let redactor = values(&[&value]);
        let held = format!("{around}{value}");
        let document = json!({ "list": keys, "v": { held.clone(): [held, 1.5, null] } });
        let shown = redactor.json_text(Model, &document.to_string()).into_owned();
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        let left = |text: &str| text.contains(&value);
        let inner = read["v"].as_object().map(|object| object.iter().next().unwrap());
        if let Some((name, list)) = inner {
            prop_assert!(!left(name) && !left(list[0].as_str().unwrap()), "{}", shown);
        }
    }
}
