//! Token counts. A count that is zero is absent.

use serde_json::Value;

use crate::domain::model::Usage;
use crate::wire::json::count;

/// The counts of a chunk or a body; those of a later chunk include those of an earlier one.
pub(super) fn of_chunk(chunk: &Value) -> Option<Usage> {
    let told = chunk.get("usageMetadata")?;
    let read = |name| count(told, name);
    let (asked, written) = (read("promptTokenCount"), read("candidatesTokenCount"));
    let thought = read("thoughtsTokenCount");
    asked.or(written).or(thought)?;
    let sum =
        |one: Option<u64>, other: Option<u64>| one.unwrap_or(0).saturating_add(other.unwrap_or(0));
    Some(Usage {
        input: sum(asked, read("toolUsePromptTokenCount")),
        output: sum(written, thought),
        cache_read: read("cachedContentTokenCount").unwrap_or(0),
        cache_write: 0,
        reasoning: thought.unwrap_or(0),
    })
}
