//! Tools of the server itself.

use serde_json::{Value, json};

use super::response::Output;
use crate::domain::tool::{FINAL_ANSWER, ToolDefinition};

const DESCRIPTION: &str =
    "Ends the task with your final answer. Call it once you have everything that was asked for.";

/// The tool that ends a run: its argument is the answer, or what the output schema says.
pub(super) fn final_answer(output_schema: Option<&Value>) -> ToolDefinition {
    let plain = || {
        json!({
            "type": "object",
            "properties": {"answer": {"type": "string", "description": "The final answer."}},
            "required": ["answer"],
            "additionalProperties": false,
        })
    };
    ToolDefinition {
        name: FINAL_ANSWER.to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters: output_schema.cloned().unwrap_or_else(plain),
    }
}

/// The answer in arguments that fit the tool's parameters; `spelling` is their text.
pub(super) fn answer(arguments: &Value, spelling: &str, has_schema: bool) -> Output {
    match arguments.get("answer") {
        Some(Value::String(text)) if !has_schema => Output::text(text),
        _ => Output::json(spelling).unwrap_or_else(|| Output::text(spelling)),
    }
}
