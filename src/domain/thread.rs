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
        /// The same, and a note of the system beside what resembles a frame without being one.
        FramesAndNotes = "frames_and_notes",
    }
}

#[expect(clippy::derivable_impls, reason = "the `labels!` macro writes the enum")]
impl Default for FramingPolicy {
    fn default() -> Self {
        Self::Frames
    }
}

labels! {
    /// Whether a model that has no system entry of its own in mid-conversation is told, in its standing
    /// instructions, where system blocks on the user's channel come from.
    Announce {
        /// It is not told.
        Never = "never",
        /// Under `frames_and_notes`, it is told from the first request that holds such a block; under
        /// `frames` it is not told.
        WhenNeeded = "when_needed",
        /// It is told in every request.
        Always = "always",
    }
}

#[expect(clippy::derivable_impls, reason = "the `labels!` macro writes the enum")]
impl Default for Announce {
    fn default() -> Self {
        Self::WhenNeeded
    }
}

/// How a thread's history is framed. It is stored when the thread is created and never changes under
/// it, so that rendering an old thread again gives the same bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Framing {
    /// What is framed.
    pub policy: FramingPolicy,
    /// Whether the frames are explained.
    pub announce: Announce,
    /// The data tags that the operator had registered, sorted.
    pub tags: Vec<String>,
}

/// Where a thread was forked from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkPoint {
    /// The other thread.
    pub thread_id: ThreadId,
    /// `seq` of the last step that it shares.
    pub at_seq: i64,
}

/// A thread as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its id.
    pub id: ThreadId,
    /// How its history is framed.
    pub framing: Framing,
    /// The caller's own labels.
    pub metadata: Metadata,
    /// `seq` of the first step that a model sees: a reset or a loaded memory moves it forward, the
    /// steps before it stay stored.
    pub memory_from: i64,
    /// `seq` of the last step; 0 when there is none.
    pub head_seq: i64,
    /// What it was forked from; `None` for a thread that began by itself.
    pub forked_from: Option<ForkPoint>,
    /// Counts every change of the thread and its history; the base of its `ETag`.
    pub revision: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// When its labels or its memory were last set by a caller.
    pub updated_at: DateTime<Utc>,
}
