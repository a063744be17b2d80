//! Every bound a run is held to, as the machine needs them.

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
