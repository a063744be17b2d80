//! Bodies as outputs.

use serde_json::json;

use crate::domain::file::{FileBytes, FilePart, FileSource};
use crate::domain::tool::{JsonOutput, TextOutput, ToolCallError, ToolOutput};
use crate::tools::declared::Declared;
use crate::tools::response::{Output, read};

fn read_as(media_type: &str, body: &[u8], path: Option<&str>) -> Result<Output, ToolCallError> {
    let declared = Declared { media_type: Some(media_type.to_owned()), file_name: None };
    read(body, &declared, ("probe", path))
}

fn read_json(body: &str, path: Option<&str>) -> Result<Output, ToolCallError> {
    read_as("application/json", body.as_bytes(), path)
}

fn json_output(body: &str) -> Option<(serde_json::Value, bool)> {
    let output = read_json(body, None).unwrap();
    match output.said.unwrap() {
        ToolOutput::Json(JsonOutput { json, .. }) => Some((json, output.sanitised)),
        ToolOutput::Text(_) => None,
    }
}

#[test]
fn what_is_no_text_is_a_file_that_bears_the_tools_name() {
    let file = FilePart {
        id: "probe.png".to_owned(),
        media_type: "image/png".to_owned(),
        source: FileSource::Base64(FileBytes { base64: "iVAA/w==".to_owned() }),
    };
    let expected = Output { said: None, files: vec![file], sanitised: false };
    assert_eq!(read_as("image/png", b"\x89P\0\xff", None).unwrap(), expected);
}

#[test]
fn an_empty_file_is_an_empty_text() {
    assert_eq!(read_as("image/png", b"", None).unwrap(), Output::text(""));
}

#[test]
fn a_part_is_only_taken_out_of_json() {
    assert!(read_as("image/png", b"\x89PNG", Some("")).is_err());
    assert_eq!(read_as("image/png", b"[1]", Some("/0")).unwrap(), Output::json("1").unwrap());
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
        let output = read_json(body, None).unwrap().said.unwrap();
        assert_eq!(output, ToolOutput::Text(TextOutput { text: body.to_owned() }));
    }
}

#[test]
fn json_that_is_too_deep_to_load_again_stays_text() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(json_output(&nested(48)).is_some());
    assert!(json_output(&nested(49)).is_none());
    assert!(json_output(&nested(5_000)).is_none());
    assert!(read_as("text/plain", nested(60).as_bytes(), Some("")).is_err());
}

#[test]
fn a_byte_order_mark_is_no_part_of_json() {
    assert_eq!(json_output("\u{feff}[1]"), Some((json!([1]), false)));
}

fn spelt(body: &str, path: Option<&str>) -> (String, bool) {
    let output = read_json(body, path).unwrap();
    match output.said.unwrap() {
        ToolOutput::Json(json) => (json.text(), output.sanitised),
        ToolOutput::Text(text) => panic!("no JSON: {text:?}"),
    }
}

#[test]
fn numbers_and_repeated_members_are_kept_as_the_tool_spelt_them() {
    let body =
        r#"{"b": [1.10, {"n/~": 12345678901234567890123}], "a": 9007199254740993.0, "a": -0}"#;
    let whole = r#"{"b":[1.10,{"n/~":12345678901234567890123}],"a":9007199254740993.0,"a":-0}"#;
    for (path, part) in [
        (None, whole),
        (Some(""), whole),
        (Some("/b"), r#"[1.10,{"n/~":12345678901234567890123}]"#),
        (Some("/b/0"), "1.10"),
        (Some("/b/1/n~1~0"), "12345678901234567890123"),
        (Some("/a"), "-0"),
    ] {
        assert_eq!(spelt(body, path), (part.to_owned(), false), "{path:?}");
    }
    for path in ["b", "/b/01", "/b/+1", "/b/2", "/b/0/x", "/c"] {
        assert!(read_json(body, Some(path)).is_err(), "{path}");
    }
}

#[test]
fn escapes_that_cannot_be_stored_are_replaced_beside_numbers_that_are_kept() {
    let body = r#" {"\u0000": "x\u0000\\u0000", "\ud800": 1.10}"#;
    let whole = "{\"\u{fffd}\":\"x\u{fffd}\\\\u0000\",\"\u{fffd}\":1.10}";
    assert_eq!(spelt(body, None), (whole.to_owned(), true));
    assert_eq!(spelt(body, Some("/\u{fffd}")), ("1.10".to_owned(), true));
}
