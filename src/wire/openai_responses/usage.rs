//! Token counts.

use serde_json::Value;

use crate::domain::model::Usage;
use crate::wire::json::count;

/// The counts of a response, where it has them. `input_tokens` includes what was cached, and
/// `output_tokens` the reasoning.
pub(super) fn read(response: &Value) -> Option<Usage> {
    let usage = response.get("usage")?;
    let input = count(usage, "input_tokens").or_else(|| count(usage, "prompt_tokens"));
    let output = count(usage, "output_tokens").or_else(|| count(usage, "completion_tokens"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let of_input = usage.get("input_tokens_details").unwrap_or(&Value::Null);
    let of_output = usage.get("output_tokens_details").unwrap_or(&Value::Null);
    Some(Usage {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        cache_read: count(of_input, "cached_tokens").unwrap_or(0),
        cache_write: count(of_input, "cache_write_tokens").unwrap_or(0),
        reasoning: count(of_output, "reasoning_tokens").unwrap_or(0),
    })
}
