//! Threads: the conversations that runs append to.

use chrono::{DateTime, Utc};

use super::agent::Metadata;
use super::id::ThreadId;
use crate::labels;

labels! {
    /// How the thread's history is framed for a model. Stored at creation, never changed under a thread.
    FramingPolicy {
        /// Frames around quoted and framework text, nothing else.
        Frames = "frames",
    }
}

/// A thread as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub id: ThreadId,
    /// How its history is framed.
    pub framing_policy: FramingPolicy,
    /// The caller's own labels.
    pub metadata: Metadata,
    /// `seq` of the first step that a model sees: a reset or a loaded memory moves it forward, the
    /// steps before it stay stored.
    pub memory_from: i64,
    /// `seq` of the last step; 0 when there is none.
    pub head_seq: i64,
    /// Counts every change of the thread and its history; the base of its `ETag`.
    pub revision: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When its labels or its memory were last set by a caller.
    pub updated_at: DateTime<Utc>,
}
