//! Every bound a run is held to, as the machine needs them, and those of what its tools remember.

use super::agent::AgentSpec;

/// Attempts of one model at one turn before a retryable model error becomes final.
pub const MODEL_ATTEMPTS: u32 = 4;

/// Corrective retries in a row for replies that cannot be parsed.
pub const UNPARSABLE_RETRIES: u32 = 2;

/// Calls of one run that are under way at once; those that wait for a caller are not counted.
pub const CALLS_AT_ONCE: usize = 32;

/// Runs that a tenant may have waiting.
pub const QUEUED_PER_TENANT: u32 = 1_000;

/// What the model is told before the closing turn.
pub const STEP_LIMIT: &str = "Step limit reached. Give your best final answer now.";

/// Parts of a namespace of long-term memory.
pub const NAMESPACE_PARTS: usize = 8;

/// Bytes of a part of a namespace.
pub const NAMESPACE_PART_BYTES: usize = 64;

/// Characters of the key of an item.
pub const ITEM_KEY_CHARS: usize = 128;

/// Bytes of an item's value as compact JSON.
pub const ITEM_VALUE_BYTES: usize = 64 * 1024;

/// Levels of an item's value.
pub const ITEM_VALUE_DEPTH: usize = 32;

/// Seconds that an item may be kept where its time is bounded: ten years.
pub const ITEM_TTL_SECS: u64 = 315_360_000;

/// Numbers of an item's embedding.
pub const ITEM_EMBEDDING: usize = 4_096;

/// Characters of a search for words among items.
pub const ITEM_QUERY_CHARS: usize = 1_024;

/// Members that a search among items compares.
pub const ITEM_FILTERS: usize = 16;

/// The bounds of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Model turns before the closing one.
    pub max_steps: u32,
    /// Identical turns in a row that end the run.
    pub loop_limit: u32,
    /// Retries in a row for replies that cannot be used.
    pub output_retries: u32,
    /// Attempts that each model has at one turn.
    pub model_attempts: u32,
    /// Models that may be asked after the first.
    pub fallbacks: u32,
    /// Whether calls of one turn may run concurrently.
    pub parallel_tools: bool,
}

impl Limits {
    /// The bounds of a run of this agent; the run may lower or raise `max_steps`.
    pub fn of(spec: &AgentSpec, max_steps: Option<u32>) -> Self {
        Self {
            max_steps: max_steps.unwrap_or(spec.max_steps),
            loop_limit: spec.loop_limit,
            output_retries: spec.output_retries,
            model_attempts: MODEL_ATTEMPTS,
            fallbacks: u32::try_from(spec.model.fallbacks.len()).unwrap_or(u32::MAX),
            parallel_tools: spec.parallel_tools,
        }
    }
}
