//! Token counts.

use serde_json::Value;

use crate::domain::model::Usage;
use crate::wire::json::count;

/// The counts as they were last told: each that comes again replaces the one before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
}

impl Counts {
    /// Takes a `usage` object.
    pub(super) fn take(&mut self, usage: &Value) {
        let of_output = usage.get("output_tokens_details").unwrap_or(&Value::Null);
        let written = count(usage, "cache_creation_input_tokens").or_else(|| by_age(usage));
        self.input = count(usage, "input_tokens").or(self.input);
        self.output = count(usage, "output_tokens").or(self.output);
        self.cache_read = count(usage, "cache_read_input_tokens").or(self.cache_read);
        self.cache_write = written.or(self.cache_write);
        self.reasoning = count(of_output, "thinking_tokens").or(self.reasoning);
    }

    /// The counts together; `None` when there are none. The provider leaves what is cached out of the
    /// input.
    pub(super) fn total(self) -> Option<Usage> {
        if self.input.is_none() && self.output.is_none() {
            return None;
        }
        let cache_read = self.cache_read.unwrap_or(0);
        let cache_write = self.cache_write.unwrap_or(0);
        let cached = cache_read.saturating_add(cache_write);
        Some(Usage {
            input: self.input.unwrap_or(0).saturating_add(cached),
            output: self.output.unwrap_or(0),
            cache_read,
            cache_write,
            reasoning: self.reasoning.unwrap_or(0),
        })
    }
}

/// What was written to the cache, where only the parts of it are told.
fn by_age(usage: &Value) -> Option<u64> {
    let parts = usage.get("cache_creation")?;
    let short = count(parts, "ephemeral_5m_input_tokens");
    let long = count(parts, "ephemeral_1h_input_tokens");
    if short.is_none() && long.is_none() {
        return None;
    }
    Some(short.unwrap_or(0).saturating_add(long.unwrap_or(0)))
}
