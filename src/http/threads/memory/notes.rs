//! What is said about a memory document that loads.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::memory::{Finding, Notes};

/// Things to be said about a memory document.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MemoryNotes)]
pub(in crate::http::threads) struct NotesView {
    /// How many there are.
    #[schema(examples(0))]
    total: usize,
    /// The first 1,000 of them, in the order of the document, with pointers into it.
    items: Vec<Finding>,
}

impl From<Notes> for NotesView {
    fn from(Notes { total, items }: Notes) -> Self {
        Self { total, items }
    }
}
