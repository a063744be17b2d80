//! Token counts, under the names the vendors give them.

use serde_json::Value;

use crate::domain::model::Usage;
use crate::wire::json::count;

/// The counts of a chunk or a body. When several places have them they are repetitions, never
/// parts of a sum.
pub(super) fn of_chunk(chunk: &Value, choice: Option<&Value>) -> Option<Usage> {
    [chunk.get("usage"), chunk.pointer("/x_groq/usage"), choice.and_then(|c| c.get("usage"))]
        .into_iter()
        .flatten()
        .find_map(read)
}

fn read(usage: &Value) -> Option<Usage> {
    let input = count(usage, "prompt_tokens");
    let written = count(usage, "completion_tokens");
    if input.is_none() && written.is_none() {
        return None;
    }
    let (input, written) = (input.unwrap_or(0), written.unwrap_or(0));
    let of_input = usage.get("prompt_tokens_details").unwrap_or(&Value::Null);
    let of_output = usage.get("completion_tokens_details").unwrap_or(&Value::Null);
    let reasoning = count(of_output, "reasoning_tokens").unwrap_or(0);
    Some(Usage {
        input,
        output: with_reasoning(input, written, reasoning, count(usage, "total_tokens")),
        cache_read: count(of_input, "cached_tokens")
            .or_else(|| count(usage, "prompt_cache_hit_tokens"))
            .or_else(|| count(usage, "num_cached_tokens"))
            .or_else(|| count(usage, "cached_tokens"))
            .unwrap_or(0),
        cache_write: count(of_input, "cache_write_tokens").unwrap_or(0),
        reasoning,
    })
}

/// xAI leaves reasoning out of the completion tokens; its total gives that away.
fn with_reasoning(input: u64, written: u64, reasoning: u64, total: Option<u64>) -> u64 {
    let sum = written.saturating_add(reasoning);
    if reasoning > 0 && total == Some(input.saturating_add(sum)) { sum } else { written }
}
