//! Loop detection: what a turn asked for, in a form in which two equal wishes are equal.

use serde_json::Value;

use crate::domain::tool::{JsonOutput, PlannedCall};

/// The answer of a run that is stopped for repeating itself without a word.
pub(super) const NO_WORDS: &str =
    "The run was stopped because the model kept repeating the same tool calls.";

/// What a turn asked for: the name and the canonical arguments of each call, in order.
pub(super) type Signature = Vec<(String, String)>;

/// The signature of a turn; `None` when it asked for nothing.
pub(super) fn signature(calls: &[PlannedCall]) -> Option<Signature> {
    let wishes: Signature =
        calls.iter().map(|call| (call.name.clone(), canonical(&call.arguments))).collect();
    if wishes.is_empty() { None } else { Some(wishes) }
}

/// Whether this many identical turns in a row end the run. One turn alone is never a repetition.
pub(super) fn is_loop(n_repeats: u32, loop_limit: u32) -> bool {
    n_repeats >= loop_limit.max(2)
}

/// The arguments without what does not matter: key order and white space. Text that is not JSON
/// stands for itself, and so does what a value cannot hold exactly, such as a very long number.
fn canonical(arguments: &str) -> String {
    match JsonOutput::of(arguments) {
        Ok(JsonOutput { exact: Some(spelling), .. }) => spelling,
        Ok(JsonOutput { json, exact: None }) => sorted(json).to_string(),
        Err(_) => arguments.to_owned(),
    }
}

/// Object keys in order, at every depth. The parser bounds the depth.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> = members.into_iter().collect();
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(members.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_order_and_white_space_do_not_matter_at_any_depth() {
        let a = canonical(r#"{"b": [{"y":1, "x":2}], "a": null}"#);
        assert_eq!(a, canonical(r#"{"a":null,"b":[{"x":2,"y":1}]}"#));
        assert_eq!(a, r#"{"a":null,"b":[{"x":2,"y":1}]}"#);
    }

    #[test]
    fn list_order_and_number_spelling_matter() {
        assert_ne!(canonical(r#"{"a":[1,2]}"#), canonical(r#"{"a":[2,1]}"#));
        assert_ne!(canonical(r#"{"a":1}"#), canonical(r#"{"a":1.0}"#));
        let long = |last: char| canonical(&format!("{{\"a\": 1234567890123456789012{last}}}"));
        assert_ne!(long('3'), long('4'));
        assert_eq!(long('3'), r#"{"a":12345678901234567890123}"#);
    }

    #[test]
    fn text_that_is_not_json_stands_for_itself() {
        assert_eq!(canonical(r#"{"a": "#), r#"{"a": "#);
        let deep = "[".repeat(100_000);
        assert_eq!(canonical(&deep), deep);
    }
}
