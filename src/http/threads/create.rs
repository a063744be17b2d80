//! `POST /v1/threads`.

use axum::extract::State;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::memory::{self, LoadableMemory, to_append};
use super::{ThreadView, created, find};
use crate::domain::agent::Metadata;
use crate::domain::caller::Caller;
use crate::domain::id::ThreadId;
use crate::domain::memory::Memory;
use crate::domain::thread::{Announce, FramingPolicy, Thread};
use crate::http::AppState;
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::{Checks, Keyed, LargeBody};
use crate::http::problem::Problem;
use crate::http::repeats::led_to;
use crate::http::reply::Reply;
use crate::store::threads;

/// A thread to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewThread {
    /// The caller's own labels: at most 50 pairs, keys of 64 and values of 512 characters. By default
    /// those of the memory document.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Metadata>,
    /// A memory document to start from, in any form that can be loaded.
    #[serde(default)]
    #[schema(value_type = Option<LoadableMemory>)]
    memory: Option<Box<RawValue>>,
    /// How its history is framed for a model. It never changes.
    #[serde(default)]
    framing_policy: Option<FramingPolicy>,
    /// Whether its system blocks are explained to models that have no entry of their own for them. It
    /// never changes.
    #[serde(default)]
    announce: Announce,
}

/// Create a thread
#[utoipa::path(post, path = "/v1/threads", tag = "threads", operation_id = "threads_create",
    request_body = NewThread,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request one; 1–255 visible ASCII characters, remembered for 24 hours")),
    responses((status = 201, description = "The thread", body = ThreadView)),
    extensions(("x-problems" = json!(["memory-load-error", "memory-version-unsupported"]))))]
pub(super) async fn create(
    State(app): State<AppState>,
    caller: Scoped<MemoryWrite>,
    Keyed(LargeBody(new), key): Keyed<LargeBody<NewThread>>,
) -> Result<Reply<ThreadView>, Problem> {
    if let Some(id) = led_to(&app, &caller, key.as_ref()).await? {
        return Ok(created(&app, find(&app, &caller, id).await?).replayed(true));
    }
    let memory = new.check(&caller)?;
    let thread = new.thread(&app, memory.as_ref());
    let steps = memory.map(|memory| to_append(&app, memory.steps));
    let with = (steps.as_ref(), key.as_ref());
    threads::create(&app.store, &caller.tenant, &thread, with).await?;
    Ok(created(&app, thread))
}

impl NewThread {
    /// The memory to start from, when all is well.
    fn check(&self, caller: &Caller) -> Result<Option<Memory>, Problem> {
        let mut checks = Checks::new();
        if let Some(metadata) = &self.metadata {
            checks.metadata("/metadata", metadata);
        }
        checks.finish()?;
        let document = self.memory.as_ref();
        document.map(|document| memory::load(caller, document.get(), "/memory")).transpose()
    }

    fn thread(&self, app: &AppState, memory: Option<&Memory>) -> Thread {
        let now = app.clock.now();
        let n_steps = memory.map_or(0, |memory| memory.steps.len());
        let labels = self.metadata.clone().or_else(|| memory?.metadata.clone());
        let policy = self.framing_policy.or_else(|| memory?.framing_policy);
        Thread {
            id: ThreadId::from(app.ids.sortable()),
            framing: app.engine.framing(policy.unwrap_or_default(), self.announce),
            metadata: labels.unwrap_or_default(),
            memory_from: 1,
            head_seq: i64::try_from(n_steps).unwrap_or(i64::MAX),
            forked_from: None,
            revision: 1,
            created_at: now,
            updated_at: now,
        }
    }
}
