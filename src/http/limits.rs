//! Bounds of requests.

use std::time::Duration;

use crate::config;
use crate::domain::memory;

/// The bounds of bodies, which the operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Bytes of an ordinary body.
    pub ordinary: usize,
    /// Bytes of a memory document, and of results of tools.
    pub large: usize,
    /// How long a body may take to arrive.
    pub total: Duration,
    /// How long it may pause.
    pub idle: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { ordinary: BODY_BYTES, large: LARGE_BODY_BYTES, total: BODY_TOTAL, idle: BODY_IDLE }
    }
}

impl From<&config::Http> for BodyLimits {
    fn from(settings: &config::Http) -> Self {
        Self {
            ordinary: settings.body_limit,
            large: settings.memory_limit,
            total: settings.body_read,
            idle: settings.body_idle,
        }
    }
}

/// Bytes of an ordinary body.
const BODY_BYTES: usize = 1024 * 1024;

/// Bytes of a memory document, and of results of tools.
const LARGE_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Elements of an array in an ordinary body.
pub const ARRAY_ELEMENTS: usize = 10_000;

/// Elements of an array in a memory document, and in results of tools.
pub const LARGE_ARRAY_ELEMENTS: usize = memory::MAX_STEPS;

/// Streams of an HTTP/2 connection.
pub const HTTP2_STREAMS: u32 = 128;

/// Streams of an HTTP/2 connection that its client may give up before they were looked at.
pub const HTTP2_EARLY_RESETS: usize = 20;

/// Streams of an HTTP/2 connection that may break the protocol before the connection ends.
pub const HTTP2_ERRORS: usize = 256;

/// Bytes of an HTTP/2 header list.
pub const HTTP2_HEADER_BYTES: u32 = 64 * 1024;

/// How long a body may pause.
const BODY_IDLE: Duration = Duration::from_secs(15);

/// How long a body may take.
const BODY_TOTAL: Duration = Duration::from_mins(1);

/// Bytes of all headers, names and values together.
pub const HEADER_BYTES: usize = 32 * 1024;

/// How many headers.
pub const HEADER_COUNT: usize = 100;

/// Bytes of the request target.
pub const URI_BYTES: usize = 8 * 1024;

/// Pairs of a caller's labels.
pub const METADATA_PAIRS: usize = 50;

/// Characters of a label's key.
pub const METADATA_KEY_CHARS: usize = 64;

/// Characters of a label's value.
pub const METADATA_VALUE_CHARS: usize = 512;

/// Characters of an agent's instructions.
pub const INSTRUCTIONS_CHARS: usize = 256 * 1024;

/// Characters of a message to a run.
pub const MESSAGE_CHARS: usize = 64 * 1024;

/// Characters of a text at which a reply stops.
pub const STOP_CHARS: usize = 256;

/// Characters of a word that is handed to a provider as it is.
pub const WORD_CHARS: usize = 64;

/// Bytes of a provider's base URL.
pub const URL_BYTES: usize = 2_048;

/// Characters of an idempotency key.
pub const IDEMPOTENCY_KEY_CHARS: usize = 255;

/// The longest wait that `Prefer: wait` and `?wait=` can ask for, in seconds.
pub const WAIT_SECS: u64 = 60;
