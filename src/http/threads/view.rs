//! A thread as callers see it.

use serde::Serialize;
use utoipa::ToSchema;

use super::memory::NotesView;
use crate::domain::agent::Metadata;
use crate::domain::id::ThreadId;
use crate::domain::memory::Notes;
use crate::domain::redaction::RedactionChannel;
use crate::domain::thread::{Announce, ForkPoint, FramingPolicy, Thread};
use crate::http::AppState;
use crate::http::time::Time;

/// A conversation that runs append to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Thread)]
pub(super) struct ThreadView {
    /// Its id.
    id: ThreadId,
    /// How its history is framed for a model.
    framing_policy: FramingPolicy,
    /// Whether its system blocks are explained to models that have no entry of their own for them.
    announce: Announce,
    /// The data tags beside the built-in ones that no text of others can open or close in it.
    framing_tags: Vec<String>,
    /// The caller's own labels.
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
    /// `seq` of the first step that a model sees: a reset or a loaded memory moves it forward.
    #[schema(examples(1))]
    memory_from: i64,
    /// `seq` of the last step; 0 when there is none.
    #[schema(examples(0))]
    head_seq: i64,
    /// The thread that it was forked from; null for a thread that began by itself.
    forked_from: Option<ForkPointView>,
    /// When it was created.
    created_at: Time,
    /// When its labels or its memory were last set.
    updated_at: Time,
    /// What was mended in the memory document; only where it was loaded with `repair=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    repairs: Option<NotesView>,
}

/// Where a thread was forked from another one, which may be gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ForkPoint)]
pub(super) struct ForkPointView {
    /// The other thread.
    thread_id: ThreadId,
    /// `seq` of the last step that it shares.
    #[schema(examples(3))]
    at_seq: i64,
}

impl ThreadView {
    /// A thread as callers may read it: its labels hold no secret of the server.
    pub(super) fn of(app: &AppState, thread: Thread) -> Self {
        let redactor = app.engine.redaction().of_server();
        Self {
            id: thread.id,
            framing_policy: thread.framing.policy,
            announce: thread.framing.announce,
            framing_tags: thread.framing.tags,
            metadata: redactor.labels(RedactionChannel::Api, &thread.metadata),
            memory_from: thread.memory_from,
            head_seq: thread.head_seq,
            forked_from: thread
                .forked_from
                .map(|ForkPoint { thread_id, at_seq }| ForkPointView { thread_id, at_seq }),
            created_at: thread.created_at.into(),
            updated_at: thread.updated_at.into(),
            repairs: None,
        }
    }

    /// The same with what was mended in the memory that was loaded.
    pub(super) fn mended(self, repairs: Option<Notes>) -> Self {
        Self { repairs: repairs.map(NotesView::from), ..self }
    }
}

/// The `ETag` of a thread and of its memory.
pub(super) fn etag(thread: &Thread) -> String {
    format!("\"{}-{}\"", thread.revision, thread.head_seq)
}
