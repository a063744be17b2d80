//! Counts, rule by rule, what is kept from the model of the steps that a run appends.

use std::sync::Arc;

use super::journal::Journal;
use crate::domain::event::EventData;
use crate::domain::redaction::RedactionChannel;
use crate::domain::step::StepContent;
use crate::render::redact::{Redactor, Tally};
use crate::store::journal::{Batch, LoadedRun};

/// A count that goes along with the journal of a run. It is made anew from the run's steps when a run
/// is claimed.
#[derive(Debug, Clone)]
pub(super) struct RunTally {
    redactor: Arc<Redactor>,
    /// The place in the history of the first step that is not counted.
    next: usize,
    tally: Tally,
}

impl RunTally {
    /// A count of which the run's steps are still to come.
    pub(super) fn of(loaded: &LoadedRun, redactor: &Arc<Redactor>) -> Self {
        let is_own = |run| run == Some(loaded.run.id);
        let next = loaded.steps.iter().position(|step| is_own(step.run_id));
        let next = next.unwrap_or(loaded.steps.len());
        Self { redactor: Arc::clone(redactor), next, tally: Tally::new() }
    }

    /// The count behind a decision, which is written into what the decision writes.
    #[must_use]
    pub(super) fn behind(&self, batch: &mut Batch, journal: &mut Journal) -> Self {
        let mut after = self.clone();
        let has_ended = journal.facts.status.is_ended();
        for step in journal.history.iter().skip(self.next) {
            if !has_ended && is_open(step) {
                break;
            }
            self.redactor.step_counted(RedactionChannel::Model, step, &mut after.tally);
            after.next += 1;
        }
        let told = batch.events.iter_mut().filter_map(|(_, data)| match data {
            EventData::Run(facts) => Some(facts),
            EventData::Turn { .. }
            | EventData::Call { .. }
            | EventData::Step { .. }
            | EventData::Budget(_) => None,
        });
        for facts in told.chain([&mut batch.facts, &mut journal.facts]) {
            facts.redactions.clone_from(&after.tally);
        }
        after
    }
}

/// Whether outcomes are still to come.
fn is_open(step: &StepContent) -> bool {
    let StepContent::Action(action) = step else { return false };
    action.outcomes.len() < action.reply.tool_calls().count()
}
