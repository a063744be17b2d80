//! `POST /v1/memory/validate`.

use serde::Serialize;
use utoipa::ToSchema;

use super::document::ReadQuery;
use super::{LoadableMemory, NotesView, document};
use crate::domain::memory::{Finding, Loaded, MemoryFormat, chat_losses, v1_losses};
use crate::http::auth::{MemoryWrite, Scoped};
use crate::http::extract::{LargeText, Query};
use crate::http::problem::Problem;
use crate::http::reply::Reply;

/// What a memory document would become.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryValidation)]
pub(super) struct ValidationView {
    /// What the document is written in.
    format: MemoryFormat,
    /// How many steps it would become.
    #[schema(examples(3))]
    steps: usize,
    /// What would be mended; nothing unless `repair=true`.
    repairs: NotesView,
    /// What the document says that a history has no place for.
    losses: NotesView,
    /// What its history says that an export in version 1 would lose, up to 20 entries, with pointers
    /// into the version 2 document of that history.
    version_1_losses: Vec<Finding>,
    /// The same of an export as OpenAI chat messages.
    openai_losses: Vec<Finding>,
}

/// Validate a memory document
///
/// Answers what loading it would make of it, and changes nothing, nor does a repeated request. What cannot be loaded is refused as it
/// is there: `memory-load-error` lists what is wrong.
#[utoipa::path(post, path = "/v1/memory/validate", tag = "threads",
    operation_id = "memory_validate", params(ReadQuery), request_body = LoadableMemory,
    responses((status = 200, description = "What it would become", body = ValidationView)),
    extensions(("x-problems" = json!(["memory-load-error", "memory-version-unsupported"]))))]
pub(super) async fn validate(
    caller: Scoped<MemoryWrite>,
    Query(query): Query<ReadQuery>,
    LargeText(text): LargeText,
) -> Result<Reply<ValidationView>, Problem> {
    document::read(&caller, (&text, ""), query.repair).map(|loaded| Reply::ok(loaded.into()))
}

impl From<Loaded> for ValidationView {
    fn from(Loaded { memory, format, repairs, losses }: Loaded) -> Self {
        Self {
            format,
            steps: memory.steps.len(),
            repairs: repairs.into(),
            losses: losses.into(),
            version_1_losses: v1_losses(&memory.steps),
            openai_losses: chat_losses(&memory.steps),
        }
    }
}
