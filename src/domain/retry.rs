//! A retry in plain words, without frames: as version 1 of memory documents has it, and as whoever sums
//! up a conversation reads it.

use super::step::{ErrorDetail, RetryCause, RetryContent, RetryStep};

/// How a request to fix errors ends.
const END: &str = "\n\nFix the errors and try again.";

/// A retry as the seed framework words it (`history.md` 4).
pub fn plain_retry_text(retry: &RetryStep) -> String {
    match (&retry.content, retry.cause) {
        (RetryContent::Message(text), RetryCause::NoOutput) => text.clone(),
        (RetryContent::Message(text), RetryCause::Error) => {
            format!("Validation feedback:\n{text}{END}")
        }
        (RetryContent::Errors(errors), RetryCause::NoOutput | RetryCause::Error) => list(errors),
    }
}

fn list(errors: &[ErrorDetail]) -> String {
    let shown: Vec<ErrorDetail> = errors.iter().map(with_nested_input).collect();
    let plural = if errors.len() == 1 { "" } else { "s" };
    // A list of plain JSON values always has a text.
    let json = serde_json::to_string_pretty(&shown).unwrap_or_default();
    format!("{} validation error{plural}:\n```json\n{json}\n```{END}", errors.len())
}

/// The error without its input when that is at the top: there it is the reply itself, which the model
/// has before it.
fn with_nested_input(error: &ErrorDetail) -> ErrorDetail {
    let input = error.input.clone().filter(|_| error.loc.len() > 1);
    ErrorDetail { input, ..error.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(cause: RetryCause, content: Value) -> String {
        plain_retry_text(&RetryStep { cause, content: serde_json::from_value(content).unwrap() })
    }

    #[test]
    fn a_message_is_told_as_feedback_unless_it_asks_for_output() {
        assert_eq!(
            told(RetryCause::Error, json!("too short")),
            "Validation feedback:\ntoo short\n\nFix the errors and try again."
        );
        let sentence = "Please return text.";
        assert_eq!(told(RetryCause::NoOutput, json!(sentence)), sentence);
    }

    #[test]
    fn errors_are_counted_and_show_an_input_only_where_it_is_nested() {
        let error =
            |loc: Value| json!({"type": "missing", "loc": loc, "msg": "no", "input": {"b": 1}});
        let one = "1 validation error:\n```json\n[\n  {\n    \"type\": \"missing\",\n    \"loc\": [\n      \"a\"\n    ],\n    \"msg\": \"no\"\n  }\n]\n```\n\nFix the errors and try again.";
        assert_eq!(told(RetryCause::Error, json!([error(json!(["a"]))])), one);
        assert_eq!(told(RetryCause::NoOutput, json!([error(json!(["a"]))])), one);
        let two = told(RetryCause::Error, json!([error(json!([])), error(json!(["a", 0]))]));
        assert!(two.starts_with("2 validation errors:\n```json\n[\n"), "{two}");
        assert_eq!(two.matches("\"input\": {\n      \"b\": 1\n    }").count(), 1, "{two}");
        assert_eq!(
            told(RetryCause::Error, json!([])),
            "0 validation errors:\n```json\n[]\n```\n\nFix the errors and try again."
        );
    }
}
