//! Drives a run again from what is on record of it: through the machine and the renderer that drove it,
//! without a network and without writing, and compares each request that it makes with the ledger.
//!
//! What came from outside is taken from the record: replies and outcomes from the steps, failures from
//! the ledger, and from the events when a turn was tried again, when a caller stopped the run and when
//! it went on. Everything else is decided anew. A request is the same when its length and its SHA-256
//! are; the bytes of the first one that is not are looked up, to say where it parts.

mod compare;
mod course;
mod drive;

use std::sync::Arc;

use super::{Context, Engine};
use crate::domain::event::RunEvent;
use crate::domain::id::{RequestId, RunId, TenantId};
use crate::domain::ledger::{LedgerEntry, Purpose, Span};
use crate::domain::page::{MAX_LIMIT, PageRequest};
use crate::error::AgentlingError;
use crate::labels;
use crate::store::{StoreError, events, journal, ledger};

pub(super) use compare::{excerpt, excerpts, span_at};

use course::Course;
use drive::{Driven, drive};

/// What came of driving a run again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replayed {
    /// How many requests of the run are in the ledger.
    pub requests: u64,
    /// How many of them were made again, byte for byte.
    pub matches: u64,
    /// How many of them another version of the renderer made: they are not compared.
    pub other_renderer: u64,
    /// How many of them cannot be compared, because not even their hash is known.
    pub unknown: u64,
    /// How many requests were made that are not in the ledger: the run stopped, or its process died,
    /// before they were on record.
    pub unrecorded: u64,
    /// What there is not that it takes to drive the run to its end.
    pub missing: Vec<Missing>,
    /// Where the run first parts from its record.
    pub first_divergence: Option<Divergence>,
}

labels! {
    /// What it takes to drive a run again and is not on record.
    Missing {
        /// The steps that it began with, or its own.
        Steps = "steps",
        /// A request whose reply is.
        Requests = "requests",
    }
}

labels! {
    /// How a run that is driven again parts from its record.
    Parting {
        /// A request has other bytes.
        Bytes = "bytes",
        /// A request of the ledger is not made.
        NotMade = "not_made",
        /// Something else is decided than the events tell.
        Course = "course",
    }
}

labels! {
    /// The two parts of a request.
    Segment {
        /// What stands before the conversation: the model, the instructions, the tools.
        Head = "head",
        /// The conversation.
        Conversation = "conversation",
    }
}

/// Where a run that is driven again parts from its record.
#[derive(Debug, Clone, PartialEq)]
pub struct Divergence {
    /// How.
    pub how: Parting,
    /// The request of the ledger.
    pub request: Option<RequestId>,
    /// The turn.
    pub turn: u32,
    /// The attempt at it.
    pub attempt: u32,
    /// What was asked for.
    pub purpose: Purpose,
    /// Where the bytes part; `None` when none were compared, or those of the ledger are not kept.
    pub bytes: Option<Parted>,
}

/// Where two requests part.
#[derive(Debug, Clone, PartialEq)]
pub struct Parted {
    /// How many leading bytes they share.
    pub offset: u64,
    /// In which part of the request that was made before.
    pub segment: Segment,
    /// Where the byte comes from that stands there in the request that was made before.
    pub expected_span: Option<Span>,
    /// The same of the request that is made now.
    pub actual_span: Option<Span>,
    /// What stands there in the request that was made before, as far as callers may read it.
    pub expected: String,
    /// The same of the request that is made now.
    pub actual: String,
}

/// Drives a run again from what is on record of it, and compares its requests with the ledger. `None`
/// when there is no such run. Nothing is written.
///
/// # Errors
/// When the database does not answer.
pub async fn replay_run(
    engine: &Engine,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<Replayed>, AgentlingError> {
    let context = &engine.context;
    let store = context.store();
    // What is read later may only be more: a run that is under way is driven as far as its events go.
    let Some(events) = all_events(context, tenant, id).await? else { return Ok(None) };
    let entries = all_requests(context, tenant, id).await?;
    let Some(loaded) = journal::load_as_begun(store, tenant, id).await? else { return Ok(None) };
    let redaction = &context.parts.redaction;
    let redactor = Arc::new(redaction.of_thread(loaded.run.thread_id, &loaded.agent.redaction));
    let course = Course::of(&loaded, &events, entries);
    let (driving, reader) = (Arc::clone(context), Arc::clone(&redactor));
    let driven = context.tasks.compute(move || drive(&driving, loaded, &reader, course)).await;
    let broke = || AgentlingError::internal("driving a run again broke off");
    let Driven { mut replayed, made } = driven.ok_or_else(broke)?;
    if let (Some(divergence), Some(made)) = (&mut replayed.first_divergence, made) {
        divergence.bytes = compare::parted(context, tenant, (divergence, &made), &redactor).await?;
    }
    Ok(Some(replayed))
}

/// The events of a run; `None` when there is none, and so no such run.
async fn all_events(
    context: &Context,
    tenant: &TenantId,
    id: RunId,
) -> Result<Option<Vec<RunEvent>>, StoreError> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = PageRequest { limit: MAX_LIMIT, after };
        let found = events::list(context.store(), tenant, id, &page).await?;
        all.extend(found.items);
        after = found.next;
        if after.is_none() {
            return Ok(Some(all).filter(|all| !all.is_empty()));
        }
    }
}

/// What the ledger knows of the requests of a run, in the order in which they were sent.
pub(super) async fn all_requests(
    context: &Context,
    tenant: &TenantId,
    id: RunId,
) -> Result<Vec<LedgerEntry>, StoreError> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = PageRequest { limit: MAX_LIMIT, after };
        let found = ledger::of_run(context.store(), tenant, id, &page).await?;
        all.extend(found.items);
        after = found.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}
