//! Outcomes: how a tool call ended, and what it gave back.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::file::FilePart;
use super::id::CallId;
use super::json::spelt;
use crate::labels;

labels! {
    /// How a call ended.
    OutcomeKind {
        /// It worked.
        Success = "success",
        /// The arguments do not fit the tool's schema, or are not an object.
        InvalidArguments = "invalid_arguments",
        /// The tool failed.
        Execution = "execution",
        /// The tool took longer than its bound.
        Timeout = "timeout",
        /// There is no such tool.
        UnknownTool = "unknown_tool",
        /// It was sent and may or may not have taken effect.
        InDoubt = "in_doubt",
        /// The reply was cut off before the call was complete; nothing was run.
        Truncated = "truncated",
        /// A person refused it.
        Denied = "denied",
        /// The run was cancelled first.
        Cancelled = "cancelled",
        /// The run was interrupted first.
        Interrupted = "interrupted",
    }
}

/// How a tool call ended. Nothing in it can fail a run: it is told to the model as an observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolOutcome {
    /// The call it answers.
    pub tool_call_id: CallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// Whether it is anything but a success.
    pub is_error: bool,
    /// How it ended.
    pub kind: OutcomeKind,
    /// What the tool gave back, whole; only of a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ToolOutput>,
    /// Files that the tool gave back; only of a success.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FilePart>,
    /// What went wrong; only of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolFailure>,
    /// How often it was tried; 0 when it never ran.
    pub attempts: u32,
    /// When the first try began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    /// Whether characters that cannot be stored were replaced by U+FFFD.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sanitised: bool,
}

/// What a tool gave back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "output_kind", rename_all = "snake_case")]
pub enum ToolOutput {
    /// Text.
    Text(TextOutput),
    /// JSON, with its own key order.
    Json(JsonOutput),
}

impl From<Value> for ToolOutput {
    /// A string is text, everything else JSON.
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(TextOutput { text }),
            json => Self::Json(json.into()),
        }
    }
}

/// Text output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TextOutput {
    /// The text.
    pub text: String,
}

/// JSON output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JsonOutput {
    /// The value.
    pub json: Value,
    /// The JSON as it was spelt, where its numbers or keys would change in `json`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<String>,
}

impl JsonOutput {
    /// Reads JSON text; it is kept beside the value if the value does not say all of it.
    pub fn of(text: &str) -> Result<Self, serde_json::Error> {
        let json: Value = serde_json::from_str(text)?;
        let shown = json.to_string();
        let exact = Some(spelt(text)).filter(|spelling| *spelling != shown);
        Ok(Self { json, exact })
    }

    /// The compact JSON that is shown.
    pub fn text(&self) -> String {
        self.exact.clone().unwrap_or_else(|| self.json.to_string())
    }
}

impl From<Value> for JsonOutput {
    fn from(json: Value) -> Self {
        Self { json, exact: None }
    }
}

/// What went wrong in a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolFailure {
    /// The failure's type, a single printable line, for example `HttpStatus` or `ConnectError`.
    pub r#type: String,
    /// What happened; empty when `redact_errors` withholds it.
    pub message: String,
    /// Whether the message was withheld.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub redacted: bool,
}

impl ToolOutcome {
    /// A failure that no tool was run for.
    pub fn not_run(
        call_id: CallId,
        name: &str,
        kind: OutcomeKind,
        error: Option<ToolFailure>,
    ) -> Self {
        Self {
            tool_call_id: call_id,
            name: name.to_owned(),
            is_error: true,
            kind,
            output: None,
            files: Vec::new(),
            error,
            attempts: 0,
            started_at: None,
            finished_at: None,
            sanitised: false,
        }
    }
}

/// A tool call that failed, raised and caught inside `tools`: callers of a run never see it as an
/// error, the model sees it as an observation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolCallError {
    /// The failure kind.
    pub kind: OutcomeKind,
    /// The failure's type.
    pub type_name: &'static str,
    /// What happened.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_output_is_shown_as_it_was_spelt() {
        for text in [
            "12345678901234567890123",
            "1.10",
            "9007199254740993.0",
            "-0",
            r#"{"b":[1e2],"a":{"x":1,"x":2}}"#,
        ] {
            let output = JsonOutput::of(&format!(" {text}\n")).unwrap();
            assert_eq!((output.text(), output.exact.is_some()), (text.to_owned(), true));
            let stored = serde_json::to_string(&output).unwrap();
            assert_eq!(serde_json::from_str::<JsonOutput>(&stored).unwrap(), output);
        }
        assert_eq!(JsonOutput::of(r#"{"a":{"x":1,"x":2}}"#).unwrap().json["a"]["x"], 2);
    }

    #[test]
    fn json_output_that_its_value_says_whole_is_stored_once() {
        for text in [r#"{"b": 1, "a": [0.5, 1.0, -7, null]}"#, r#""caf\u00e9 \/""#, "1e+22"] {
            let output = JsonOutput::of(text).unwrap();
            assert_eq!(output.exact, None, "{text}");
            assert_eq!(output.text(), output.json.to_string());
        }
        assert!(JsonOutput::of("{").is_err());
    }
}
