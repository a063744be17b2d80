//! What a run takes of its budgets: set aside before a model is asked or tools are called, put down when
//! it is known what they took.

use std::collections::BTreeSet;

use tokio::sync::watch;

use super::inbox::patiently;
use super::journal::{Journal, counted_calls};
use super::leases::Signals;
use super::perform::{Done, Performer};
use super::{Context, Engine};
use crate::domain::budget::{BudgetScope, Price, Resource, WorstCase};
use crate::domain::event::{BudgetWarning, EventData, EventName};
use crate::domain::model::{ModelErrorKind, Usage};
use crate::domain::money::Money;
use crate::domain::run::{FailureCause, RunFacts};
use crate::domain::tool::FINAL_ANSWER;
use crate::error::AgentlingError;
use crate::machine::input::Input;
use crate::machine::record::Record;
use crate::machine::state::{Phase, State};
use crate::store::StoreError;
use crate::store::budget::{self, Draw, Shortage};
use crate::store::journal::{Batch, LoadedRun};
use crate::store::lease::Claim;

/// What the last call of a model took, as far as it is not on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Took {
    Nothing,
    Known(Usage, Option<Money>),
    /// Nobody knows: it counts as all that was set aside for it.
    Everything,
}

impl Took {
    fn tokens(self) -> Option<u64> {
        match self {
            Self::Nothing => Some(0),
            Self::Known(usage, _) => Some(usage.input.saturating_add(usage.output)),
            Self::Everything => None,
        }
    }

    fn cost(self) -> Option<u64> {
        match self {
            Self::Nothing => Some(0),
            Self::Known(_, cost) => Some(cost.unwrap_or_default().micros()),
            Self::Everything => None,
        }
    }
}

/// What a run has to do with its budgets.
#[derive(Debug)]
pub(super) struct Purse {
    is_budgeted: bool,
    took: Took,
    /// What there was no room for.
    shortages: Vec<Shortage>,
    /// What is to be told with the next append.
    warnings: Vec<BudgetWarning>,
    /// What was told.
    told: BTreeSet<(BudgetScope, Resource)>,
}

/// A decision on its way into a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decided<'a> {
    /// What was true before.
    pub(super) state: &'a State,
    /// What will be.
    pub(super) after: &'a State,
    /// The rows before.
    pub(super) journal: &'a Journal,
    /// What is written down.
    pub(super) records: &'a [Record],
}

impl Purse {
    /// The purse of a run that is taken over: what its last worker had set aside may all be spent.
    pub(super) async fn of(
        context: &Context,
        claim: &Claim,
        loaded: &LoadedRun,
    ) -> Result<Self, StoreError> {
        let is_budgeted = loaded.is_budgeted;
        let told = if is_budgeted {
            budget::warned(context.store(), &claim.tenant, claim.run).await?
        } else {
            BTreeSet::new()
        };
        let (shortages, warnings) = (Vec::new(), Vec::new());
        Ok(Self { is_budgeted, took: Took::Everything, shortages, warnings, told })
    }

    /// Whether there is no budget for what was decided last.
    pub(super) const fn is_out(&self) -> bool {
        !self.shortages.is_empty()
    }

    /// Learns that the run draws on a budget.
    pub(super) const fn open(&mut self) {
        self.is_budgeted = true;
    }

    /// Takes note of a call that is over, of a model with this price.
    pub(super) fn note(&mut self, done: &Done, price: Option<Price>) {
        let known = |usage: Usage| Took::Known(usage, price.map(|price| price.of(usage)));
        let took = |usage: Option<Usage>| usage.map_or(Took::Everything, known);
        self.took = match &done.input {
            Input::Replied { reply, .. } => took(reply.usage),
            Input::Compacted { summary, .. } if summary.text.is_some() => took(summary.usage),
            Input::Compacted { .. } => Took::Nothing,
            Input::ModelFailed { failure, .. } => match done.spent {
                Some(usage) => known(usage),
                None if may_be_charged(done, &failure.cause) => Took::Everything,
                None => Took::Nothing,
            },
            _ => return,
        };
    }

    /// Takes note of a call that was hung up on.
    pub(super) const fn hang_up(&mut self) {
        self.took = Took::Everything;
    }

    /// Writes into a batch what the decision takes. The performer says what the call of a model may take
    /// that it leads to.
    pub(super) fn behind(
        &self,
        batch: &mut Batch,
        after: &mut Journal,
        decided: Decided<'_>,
        performer: &Performer,
    ) {
        if let Took::Known(_, Some(cost)) = self.took {
            add_cost(batch, after, cost);
        }
        if !self.is_budgeted {
            return;
        }
        for warning in &self.warnings {
            let told = (EventName::BudgetWarning, EventData::Budget(*warning));
            batch.events.insert(0, told);
            after.head.next_event_seq += 1;
        }
        batch.draws.is_budgeted = true;
        let worst = || performer.worst_case(decided.after, &after.history);
        batch.draws.draws.extend(self.of_model(decided, worst));
        batch.draws.draws.extend(turns(decided.records));
        batch.draws.draws.extend(calls(decided, after, self.took == Took::Everything));
        if decided.after.parked().is_some() {
            batch.draws.waits.clone_from(&self.shortages);
        }
    }

    fn of_model(&self, decided: Decided<'_>, worst: impl FnOnce() -> WorstCase) -> Vec<Draw> {
        let is_asked =
            *decided.after.phase() == Phase::Thinking && decided.after.parked().is_none();
        let asks = decided
            .records
            .iter()
            .any(|record| matches!(record, Record::TurnStarted { .. } | Record::Compacted { .. }));
        let was_asked = *decided.state.phase() == Phase::Thinking;
        let worst = (is_asked && asks).then(worst);
        if worst.is_none() && !was_asked && self.took == Took::Nothing {
            return Vec::new();
        }
        let strict = worst.is_some();
        let target = |worst: Option<u64>| worst.or_else(|| (!is_asked).then_some(0));
        let (tokens, cost) = (worst.map(|worst| worst.tokens), worst.map(|worst| worst.cost));
        let (tokens, cost) = (target(tokens), target(cost));
        vec![
            Draw { resource: Resource::Tokens, target: tokens, spend: self.took.tokens(), strict },
            Draw { resource: Resource::Cost, target: cost, spend: self.took.cost(), strict },
        ]
    }

    /// Finds out what there is no room for. It may be there by now.
    pub(super) async fn refused(
        &mut self,
        context: &Context,
        claim: &Claim,
        (signals, draws): (&watch::Receiver<Signals>, &[Draw]),
    ) -> Result<(), StoreError> {
        let store = context.store();
        let read = || budget::shortages(store, &claim.tenant, claim.run, draws);
        self.shortages = patiently(claim, signals, read).await?;
        Ok(())
    }

    /// A batch is stored: what it said is on record.
    pub(super) async fn stored(&mut self, context: &Context, claim: &Claim, batch: &Batch) {
        self.took = Took::Nothing;
        self.shortages.clear();
        let told = self.warnings.drain(..).map(|warning| (warning.scope, warning.what));
        self.told.extend(told);
        let has_spent = batch.draws.draws.iter().any(|draw| draw.spend != Some(0));
        if !has_spent || !batch.facts.status.is_under_way() {
            return;
        }
        match budget::nearly_used(context.store(), &claim.tenant, claim.run).await {
            Ok(counters) => {
                let warnings = counters.iter().map(|counter| BudgetWarning {
                    scope: counter.owner.scope(),
                    what: counter.resource,
                    used: counter.used.saturating_add(counter.overrun),
                    limit: counter.bound,
                });
                let is_news = |one: &BudgetWarning| !self.told.contains(&(one.scope, one.what));
                self.warnings = warnings.filter(is_news).collect();
            }
            Err(error) => tracing::warn!(run = %claim.run, %error, "no budget was looked at"),
        }
    }
}

/// Lets runs go on that wait for room in a budget, now that there may be some.
///
/// # Errors
/// When the database does not answer.
pub async fn budgets_changed(engine: &Engine) -> Result<(), AgentlingError> {
    if budget::wake(engine.context.store()).await? > 0 {
        engine.context.wake.notify_one();
    }
    Ok(())
}

/// Whether a failed call may be on the bill: its provider had begun to answer, or was not waited for.
fn may_be_charged(done: &Done, cause: &FailureCause) -> bool {
    let status = done.sent.as_ref().and_then(|sent| sent.entry.status);
    let began = status.is_some_and(|status| (200..300).contains(&status));
    began || matches!(cause, FailureCause::Model { kind: ModelErrorKind::Timeout, .. })
}

/// Adds to what a run has cost, wherever its facts are told.
fn add_cost(batch: &mut Batch, journal: &mut Journal, cost: Money) {
    let add = |facts: &mut RunFacts| {
        facts.cost = Some(facts.cost.unwrap_or_default().plus(cost));
    };
    for (_, data) in &mut batch.events {
        if let EventData::Run(facts) = data {
            add(facts);
        }
    }
    add(&mut batch.facts);
    add(&mut journal.facts);
}

/// A turn counts when it begins; trying it again does not.
fn turns(records: &[Record]) -> Option<Draw> {
    let begins = |record: &&Record| matches!(record, Record::TurnStarted { attempt: 1, .. });
    let n = u64::try_from(records.iter().filter(begins).count()).ok()?;
    let (target, spend) = (Some(0), Some(n));
    (n > 0).then_some(Draw { resource: Resource::Turns, target, spend, strict: true })
}

/// The calls of a turn are set aside together, when the first of them is about to start; each counts
/// when it has ended and was sent.
fn calls(decided: Decided<'_>, after: &Journal, is_first: bool) -> Option<Draw> {
    let (before, after) = (counted_calls(decided.journal), counted_calls(after));
    let sent = |record: &&Record| {
        matches!(record, Record::CallEnded { outcome }
            if outcome.attempts > 0 && outcome.name != FINAL_ANSWER)
    };
    let n_sent = u64::try_from(decided.records.iter().filter(sent).count()).ok()?;
    let same_turn = before.action_seq == after.action_seq;
    let strict = after.held > 0 && !(same_turn && before.is_begun);
    let changes = strict || n_sent > 0 || (same_turn && before.held != after.held) || is_first;
    let (target, spend) = (Some(after.held), Some(n_sent));
    changes.then_some(Draw { resource: Resource::ToolCalls, target, spend, strict })
}
