//! Memory documents: a history in portable form, and what can be wrong with one.
//!
//! [`load`] reads versions 1 and 2 and the message lists of Pydantic AI and OpenAI chat, strictly and
//! with every finding at its JSON pointer; [`export_v2`] and [`export_v1`] write the versions, and
//! [`export_chat`] a list of chat messages. Loading never invents an id, a name or a timestamp.

mod chat_export;
mod chat_files;
mod chat_loss;
mod checks;
mod entries;
mod lists;
mod load;
mod loss;
mod read;
mod repair;
mod report;
mod v1;
mod v1_export;
mod v2;
mod v2_parts;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::agent::Metadata;
use super::step::StepContent;
use super::thread::FramingPolicy;

pub use chat_export::export_chat;
pub use chat_loss::losses as chat_losses;
pub use load::{Loaded, MemoryFormat, load, load_with};
pub use loss::{LossReport, losses as v1_losses};
pub use v1_export::export_v1;
pub use v2::export_v2;

/// The most findings a [`MemoryLoadError`] or a [`LossReport`] lists.
pub const MAX_FINDINGS: usize = 20;

/// The most steps a document may hold.
pub const MAX_STEPS: usize = 100_000;

/// The deepest nesting of a document. It stays below the depth at which `serde_json` refuses to
/// read, so that whatever loads can also be read back from where it is stored.
pub const MAX_DEPTH: usize = 120;

/// A history in portable form, as the rest of the service sees it whatever version it came in.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// The thread's labels; `None` when the document's version does not carry them.
    pub metadata: Option<Metadata>,
    /// How the history is framed; `None` when the document's version does not say.
    pub framing_policy: Option<FramingPolicy>,
    /// The steps, in order.
    pub steps: Vec<StepContent>,
}

/// A memory document that does not validate. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the memory document does not validate: {}", .findings.first().map_or("", |f| f.message.as_str()))]
pub struct MemoryLoadError {
    /// What is wrong, at most [`MAX_FINDINGS`] entries.
    pub findings: Vec<Finding>,
    /// Whether the only thing wrong is a `version` that this server does not know.
    pub unsupported_version: bool,
}

/// The most notes that [`Notes`] lists.
const MAX_NOTES: usize = 1_000;

/// What is to be said about a document that is well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// How much there is to be said.
    pub total: usize,
    /// The first 1,000 notes, in reading order.
    pub items: Vec<Finding>,
}

impl Notes {
    /// Adds a note, which is made only where there is room for it.
    fn add(&mut self, note: impl FnOnce() -> Finding) {
        self.total += 1;
        if self.items.len() < MAX_NOTES {
            self.items.push(note());
        }
    }
}

/// One thing that is wrong in a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// Where, as an RFC 6901 JSON pointer. A missing member is pointed at where it should be.
    pub pointer: String,
    /// A stable code, for example `missing_field`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
}

impl Finding {
    /// A finding.
    pub fn new(
        pointer: impl Into<String>,
        code: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { pointer: pointer.into(), code: code.into(), message: message.into() }
    }
}
