//! The wire ledger: every request to a model as it was sent, and what came back.
//!
//! A body is stored as what it adds to that of an earlier request of its thread, its base, so that a
//! thread of n turns costs O(n) bytes. It is put together again along the chain of bases, and what
//! comes out is checked against the hash of what was sent.

mod body;
mod pack;
mod read;
mod rebuild;
mod write;

pub use body::{Bytes, StoredBody, base, body, response};
pub use pack::{Packed, PackedBody, PackedSegment};
pub use read::{Last, RunKey, get, last, of_run, of_step};
pub use write::record;
pub(super) use write::{Columns, insert};

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::domain::id::RequestId;
use crate::domain::ledger::{Purpose, RequestOutcome};
use crate::domain::model::{ModelErrorKind, Provider, Usage};
use crate::domain::money::Money;
use crate::domain::request::BodyHash;

const TABLE: &str = "model_request";

/// A request to record.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRequest {
    /// Its id.
    pub id: RequestId,
    /// The turn that it was sent for; 0 without a run.
    pub turn: u32,
    /// The attempt at what it was sent for.
    pub attempt: u32,
    /// What was asked for.
    pub purpose: Purpose,
    /// Who was asked.
    pub provider: Provider,
    /// The model, as its agent names it.
    pub model: String,
    /// What it took, where that is known.
    pub taken: Option<Taken>,
    /// Path and query of the address.
    pub endpoint: String,
    /// The names of its headers.
    pub header_names: Vec<String>,
    /// What the renderer knew of the model.
    pub profile: Value,
    /// The version of the renderer.
    pub renderer: u32,
    /// The hash of its body.
    pub sha256: BodyHash,
    /// How long its body is.
    pub bytes: u64,
    /// Its body.
    pub body: PackedBody,
    /// When it was sent.
    pub sent_at: DateTime<Utc>,
    /// How long it took until the answer's body began.
    pub first_byte_after: Option<Duration>,
    /// How long it took in all.
    pub took: Duration,
    /// The answer's status.
    pub status: Option<u16>,
    /// What became of it.
    pub outcome: RequestOutcome,
    /// Why it failed.
    pub error: Option<ModelErrorKind>,
    /// What came back; `None` when nothing did.
    pub response: Option<Packed>,
    /// The media type of what came back.
    pub response_type: Option<String>,
}

/// What a call of a model took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// Its tokens.
    pub usage: Usage,
    /// What they cost, where the price is known.
    pub cost: Option<Money>,
}

/// A request that goes along with a write, and `seq` of the step that came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// The request.
    pub request: Arc<NewRequest>,
    /// The step.
    pub step_seq: Option<i64>,
}
