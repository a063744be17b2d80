//! How two runs differ: by what their steps say, and by what their models were sent.
//!
//! Steps and requests are paired by their place in the run: those of the same turn and kind, or of the
//! same attempt at the same turn. A step counts as the same when it says the same, whatever its ids and
//! times are; a request when its bytes are.

mod steps;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use super::redaction::redactors;
use super::replay::all_requests;
use super::{Context, Engine};
use crate::domain::id::{RequestId, RunId, StepId, TenantId};
use crate::domain::ledger::{Purpose, Span};
use crate::domain::page::PageRequest;
use crate::domain::redaction::RedactionChannel;
use crate::domain::request::BodyHash;
use crate::domain::run::Run;
use crate::domain::step::{Step, StepKind};
use crate::error::AgentlingError;
use crate::labels;
use crate::store::{runs, steps as stored_steps};

/// The most steps, and the most requests, of a run that are compared.
const MAX_COMPARED: u32 = 1_000;

labels! {
    /// What two runs have of something.
    Sameness {
        /// Both have it, and it is the same.
        Equal = "equal",
        /// Both have it, and it is not the same.
        Changed = "changed",
        /// Both have it, and it cannot be compared: its hash is not known.
        Unknown = "unknown",
        /// Only the first run has it.
        OnlyA = "only_a",
        /// Only the second run has it.
        OnlyB = "only_b",
    }
}

/// How two runs differ.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDiff {
    /// Their steps, in the order of turns.
    pub steps: Vec<StepDiff>,
    /// Their requests to models, in the order of turns and attempts.
    pub requests: Vec<RequestDiff>,
    /// Whether a run has more steps or requests than are compared.
    pub is_cut: bool,
}

/// A step of one run and the one at its place in the other.
#[derive(Debug, Clone, PartialEq)]
pub struct StepDiff {
    /// What they have of it.
    pub status: Sameness,
    /// The turn.
    pub turn: u32,
    /// What it is.
    pub kind: StepKind,
    /// That of the first run.
    pub a: Option<StepId>,
    /// That of the second run.
    pub b: Option<StepId>,
    /// Where they say something else, as far as callers may read it; only the first such places.
    pub differences: Vec<Difference>,
}

/// A place where two steps say something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The JSON pointer to it.
    pub pointer: String,
    /// What the first one says, as JSON and shortened; `None` when it says nothing there.
    pub a: Option<String>,
    /// The same of the second one.
    pub b: Option<String>,
}

/// A request of one run and the one at its place in the other.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestDiff {
    /// What they have of it.
    pub status: Sameness,
    /// The turn.
    pub turn: u32,
    /// The attempt at it.
    pub attempt: u32,
    /// What was asked for.
    pub purpose: Purpose,
    /// That of the first run.
    pub a: Option<RequestFacts>,
    /// That of the second run.
    pub b: Option<RequestFacts>,
    /// Where they part; only of the first ones that do, and only where their bytes are kept.
    pub parts: Option<WireDiff>,
}

/// What tells a request from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFacts {
    /// Its id.
    pub id: RequestId,
    /// The hash of its body.
    pub sha256: Option<BodyHash>,
    /// How long its body was.
    pub bytes: Option<u64>,
}

/// Where two requests part.
#[derive(Debug, Clone, PartialEq)]
pub struct WireDiff {
    /// How many leading bytes they share.
    pub offset: u64,
    /// Where the byte there comes from in the first one.
    pub a_span: Option<Span>,
    /// Where the byte there comes from in the second one.
    pub b_span: Option<Span>,
    /// What the first one has from there on, as far as callers may read it, shortened.
    pub a_excerpt: String,
    /// The same of the second one.
    pub b_excerpt: String,
}

/// How two runs differ. `None` when one of them is not there.
///
/// # Errors
/// When the database does not answer.
pub async fn diff_runs(
    engine: &Engine,
    tenant: &TenantId,
    (a, b): (RunId, RunId),
) -> Result<Option<RunDiff>, AgentlingError> {
    let context = &engine.context;
    let store = context.store();
    let (Some(a), Some(b)) =
        (runs::get(store, tenant, a).await?, runs::get(store, tenant, b).await?)
    else {
        return Ok(None);
    };
    let (steps_a, cut_a) = steps_of(context, tenant, &a).await?;
    let (steps_b, cut_b) = steps_of(context, tenant, &b).await?;
    let places = BTreeSet::from([(a.thread_id, Some(a.id)), (b.thread_id, Some(b.id))]);
    let shown = redactors(context, tenant, RedactionChannel::Api, places).await?;
    let requests_a = all_requests(context, tenant, a.id).await?;
    let requests_b = all_requests(context, tenant, b.id).await?;
    let most = usize::try_from(MAX_COMPARED).unwrap_or(usize::MAX);
    let is_cut = cut_a || cut_b || requests_a.len().max(requests_b.len()) > most;
    Ok(Some(RunDiff {
        steps: steps::compared(steps_a, steps_b, &shown),
        requests: wire::compared(
            context,
            tenant,
            [(&a, requests_a), (&b, requests_b)],
            (&shown, most),
        )
        .await?,
        is_cut,
    }))
}

/// The steps of a run, and whether there are more.
async fn steps_of(
    context: &Context,
    tenant: &TenantId,
    run: &Run,
) -> Result<(Vec<Step>, bool), AgentlingError> {
    let page = PageRequest { limit: MAX_COMPARED, after: None };
    let place = (run.thread_id, Some(run.id));
    let found = stored_steps::list(context.store(), tenant, place, &page).await?;
    Ok((found.items, found.next.is_some()))
}

/// Pairs what stands at the same places, in their order.
fn paired<K: Ord, T>(a: Vec<(K, T)>, b: Vec<(K, T)>) -> Vec<(K, Option<T>, Option<T>)> {
    let mut all: BTreeMap<K, (Option<T>, Option<T>)> =
        a.into_iter().map(|(key, value)| (key, (Some(value), None))).collect();
    for (key, value) in b {
        all.entry(key).or_insert((None, None)).1 = Some(value);
    }
    all.into_iter().map(|(key, (a, b))| (key, a, b)).collect()
}
