//! Durable events together with what they are about, so that readers need nothing more from the store.

use std::collections::BTreeSet;

use super::replies::Attempt;
use super::{Context, redaction};
use crate::domain::event::{EventData, EventName, RunEvent};
use crate::domain::id::TenantId;
use crate::domain::page::PageRequest;
use crate::domain::redaction::RedactionChannel;
use crate::domain::run::Run;
use crate::domain::step::{InputPart, Step};
use crate::error::AgentlingError;
use crate::store::{events, runs, steps};

use redaction::Redactors;

/// How many bytes of steps are told at once; a single step may have more.
pub(super) const BYTES: usize = 64 * 1024;

/// Events of a run and what they are about.
#[derive(Debug)]
pub struct Told {
    /// The run; of its facts those of the events count.
    pub run: Run,
    /// The events, in order.
    pub events: Vec<RunEvent>,
    /// The steps that they are about, as they are stored.
    pub steps: Vec<Step>,
    /// What was asked, where no step says it: the run waits for its thread, or never had its turn.
    pub asked: Option<Vec<InputPart>>,
    /// What is kept from callers.
    pub redactors: Redactors,
    /// The bytes of the steps, where it was asked for.
    pub(super) bytes: usize,
}

impl Told {
    /// The place of the event after another one, where that is known to be among them.
    pub(super) fn after(&self, seq: i64) -> Option<usize> {
        let index = self.events.iter().position(|event| event.seq > seq)?;
        let follows = self.events.get(index).is_some_and(|event| event.seq == seq + 1);
        (index > 0 || follows).then_some(index)
    }
}

/// The last attempt whose deltas are over once this event is seen.
pub(super) const fn closes(event: &RunEvent) -> Attempt {
    match &event.data {
        EventData::Turn { turn, attempt, .. } => (*turn, attempt.saturating_sub(1)),
        EventData::Call { turn, .. } | EventData::Step { turn, .. } => (*turn, u32::MAX),
        EventData::Run(facts) if event.name.is_last() => (facts.turn, facts.attempt),
        EventData::Run(_) | EventData::Budget(_) => (0, 0),
    }
}

/// The attempt that an event announces.
pub(super) const fn announces(event: &RunEvent) -> Option<Attempt> {
    match (&event.data, event.name) {
        (
            EventData::Turn { turn, attempt, .. },
            EventName::TurnStarted | EventName::TurnRestarted,
        ) => Some((*turn, *attempt)),
        _ => None,
    }
}

const fn about(event: &RunEvent) -> Option<i64> {
    match event.data {
        EventData::Call { step_seq, .. } | EventData::Step { step_seq, .. } => Some(step_seq),
        EventData::Run(_) | EventData::Turn { .. } | EventData::Budget(_) => None,
    }
}

/// The first and the last step that events are about.
fn span(events: &[RunEvent]) -> Option<(i64, i64)> {
    let seqs = || events.iter().filter_map(about);
    Some((seqs().min()?, seqs().max()?))
}

/// All of some events with what they are about.
pub(super) async fn tell(
    context: &Context,
    (tenant, channel): (&TenantId, RedactionChannel),
    run: &Run,
    events: Vec<RunEvent>,
) -> Result<Told, AgentlingError> {
    let steps = match span(&events) {
        Some((first, last)) => {
            // A run appends a contiguous range, so the span holds no more than its steps.
            let limit = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
            let page = PageRequest { limit, after: Some(first - 1) };
            let which = (run.thread_id, Some(run.id));
            steps::list(context.store(), tenant, which, &page).await?.items
        }
        None => Vec::new(),
    };
    let places = BTreeSet::from([(run.thread_id, Some(run.id))]);
    let redactors = redaction::redactors(context, tenant, channel, places).await?;
    let has_no_step = steps.is_empty() && events.iter().any(|it| it.name == EventName::RunCreated);
    let asked =
        if has_no_step { runs::input(context.store(), tenant, run.id).await? } else { None };
    Ok(Told { run: run.clone(), events, steps, asked, redactors, bytes: 0 })
}

/// As many of some events, from the first one on, as are told in so many bytes.
pub(super) async fn tell_some(
    context: &Context,
    tenant: &TenantId,
    run: &Run,
    mut events: Vec<RunEvent>,
) -> Result<Told, AgentlingError> {
    let mut bytes = 0;
    if let Some(span) = span(&events) {
        let (store, at_most) = (context.store(), i64::try_from(BYTES).unwrap_or(i64::MAX));
        let which = (run.thread_id, run.id);
        let fitting = events::fitting(store, tenant, which, span, at_most).await?;
        let (last, total) = fitting.unwrap_or_default();
        let fits = |event: &&RunEvent| about(event).is_none_or(|seq| seq <= last);
        let n_fit = events.iter().take_while(fits).count();
        // What is about a step that is not there is left out by whoever shows it.
        events.truncate(n_fit.max(1));
        bytes = usize::try_from(total).unwrap_or_default();
    }
    let told = tell(context, (tenant, RedactionChannel::Api), run, events).await?;
    Ok(Told { bytes, ..told })
}
