//! Bodies as outputs.

use serde_json::json;

use crate::domain::tool::{JsonOutput, TextOutput, ToolOutput};
use crate::tools::response::read;

fn json_output(body: &str) -> Option<(serde_json::Value, bool)> {
    let output = read(body.as_bytes(), true, None).unwrap();
    match output.output {
        ToolOutput::Json(JsonOutput { json }) => Some((json, output.sanitised)),
        ToolOutput::Text(_) => None,
    }
}

#[test]
fn lone_surrogate_escapes_become_replacement_characters() {
    for (body, value) in [
        (r#""\ud83d\ude00""#, "😀"),
        (r#""\ud83d\\ude00""#, "\u{fffd}\\ude00"),
        (r#""\\ud800""#, "\\ud800"),
        (r#""\ude00\ud83d\ude00""#, "\u{fffd}😀"),
        (r#""\uD800x""#, "\u{fffd}x"),
        (r#""\ud800\ud83d\ude00""#, "\u{fffd}😀"),
    ] {
        let sanitised = value.contains('\u{fffd}');
        assert_eq!(json_output(body), Some((json!(value), sanitised)), "{body}");
    }
}

#[test]
fn what_is_declared_json_and_is_not_stays_text() {
    for body in ["", "<html>", "{", "\"\\ud800", "\"\\", "\\"] {
        let output = read(body.as_bytes(), true, None).unwrap().output;
        assert_eq!(output, ToolOutput::Text(TextOutput { text: body.to_owned() }));
    }
}

#[test]
fn json_that_is_too_deep_to_load_again_stays_text() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(json_output(&nested(48)).is_some());
    assert!(json_output(&nested(49)).is_none());
    assert!(json_output(&nested(5_000)).is_none());
    assert!(read(nested(60).as_bytes(), false, Some("")).is_err());
}

#[test]
fn a_byte_order_mark_is_no_part_of_json() {
    assert_eq!(json_output("\u{feff}[1]"), Some((json!([1]), false)));
}
