//! Drives one run: input → decide → commit → fold → start what is due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::watch;

use super::append::append;
use super::budget::{Decided, Purse};
use super::feed::Publisher;
use super::inbox::Inbox;
use super::journal::{Journal, Stamp, records_of};
use super::leases::{Freshness, Grip, Signals};
use super::perform::{Done, Performer};
use super::sent::Sent;
use super::sub_runs::Family;
use super::takeover::{first_input, remark, time_left, timed_out};
use super::tally::RunTally;
use super::{CommitPoint, Context, equip, sent, steer, sub_runs, traced};
use crate::domain::fault::Fault;
use crate::domain::limits::Limits;
use crate::domain::redaction::RedactionChannel;
use crate::machine::effect::Effect;
use crate::machine::input::Input;
use crate::machine::state::State;
use crate::machine::{Surroundings, decide, due, evolve, fold};
use crate::render::redact::Redactor;
use crate::store::StoreError;
use crate::store::journal::{Appended, Batch, Guard};
use crate::store::lease::{self, Claim};
use crate::store::ledger::NewRequest;

/// One run in the hands of this process.
pub(super) struct Driver {
    context: Arc<Context>,
    claim: Claim,
    signals: watch::Receiver<Signals>,
    freshness: Freshness,
    publisher: Arc<Publisher>,
    redactor: Arc<Redactor>,
    tally: RunTally,
    limits: Limits,
    performer: Performer,
    family: Family,
    deadline: Option<Duration>,
    journal: Journal,
    state: State,
    inbox: Inbox,
    purse: Purse,
    /// Requests to models that are not recorded yet; they go with the next append. Until then a crash
    /// loses them, as it loses what came back.
    sent: Vec<Arc<NewRequest>>,
    running: BTreeSet<Effect>,
    effects: FuturesUnordered<BoxFuture<'static, Done>>,
}

/// What the driver wakes up for.
enum Wake {
    Done(Box<Done>),
    Cancel,
    Interrupt,
    Deadline,
    GiveBack,
    Lost,
    Fresh,
}

/// Whether the run is still this driver's.
#[derive(PartialEq, Eq)]
enum Hold {
    Kept,
    Gone,
}

impl Driver {
    /// Drives a claimed run until it ends, is given back or is lost.
    ///
    /// # Errors
    /// When the store fails in a way that waiting does not mend; the lease then runs out.
    pub(super) async fn drive(
        context: Arc<Context>,
        claim: Claim,
        grip: Grip,
    ) -> Result<(), StoreError> {
        let began = context.now();
        let loaded = Box::pin(equip::load(&context, &claim, &grip.signals)).await?;
        let Some(loaded) = loaded else { return Ok(()) };
        let (thread, rules) = (loaded.run.thread_id, &loaded.agent.redaction);
        let redactor = Arc::new(context.parts.redaction.of_thread(thread, rules));
        let span = traced::run(&context, (&claim, began), &loaded, &redactor);
        let publisher = context.feed.publisher(&claim.tenant, claim.run);
        let is_json = loaded.agent.output_schema.is_some();
        let publisher = Arc::new(publisher.redacting(Arc::clone(&redactor), is_json));
        // The claim itself may have committed the first turn.
        publisher.committed();
        let first = first_input(&claim, &loaded);
        let mut driver = Self {
            limits: Limits::of(&loaded.agent, loaded.max_steps),
            deadline: time_left(&context, &loaded),
            journal: Journal::of(&loaded),
            state: fold(records_of(&loaded)),
            inbox: Inbox::of(&context, &claim, &loaded).await,
            purse: Purse::of(&context, &claim, &loaded).await?,
            performer: Performer::new(&context, &loaded, &redactor, (&claim, &grip.freshness)),
            family: Family::of(&claim.tenant, &loaded),
            sent: Vec::new(),
            running: BTreeSet::new(),
            effects: FuturesUnordered::new(),
            context,
            claim,
            signals: grip.signals,
            freshness: grip.freshness,
            publisher,
            tally: RunTally::of(&loaded, &redactor),
            redactor,
        };
        span.within(Box::pin(driver.go(first))).await?;
        let stands = (driver.state.is_ended(), &driver.journal.facts);
        traced::left(&driver.context, &span, stands);
        if driver.state.is_ended() {
            let Claim { tenant, run, .. } = &driver.claim;
            steer::let_next_on(&driver.context, tenant, thread).await;
            sub_runs::let_go(&driver.context, (tenant, *run), &driver.state).await;
        }
        Ok(())
    }

    async fn go(&mut self, first: Option<Input>) -> Result<(), StoreError> {
        if let Some(input) = first
            && self.take(input, None).await? == Hold::Gone
        {
            return Ok(());
        }
        while !self.state.is_ended() && self.state.parked().is_none() {
            if self.start_due().await? == Hold::Gone {
                return Ok(());
            }
            let hold = match self.wake().await {
                Wake::Done(done) => self.finish(*done).await?,
                Wake::Cancel => self.stop(Input::Cancelled).await?,
                Wake::Interrupt => {
                    let partial = self.performer.partial(&self.publisher, &self.state);
                    self.stop(Input::Interrupted { partial }).await?
                }
                Wake::Deadline => self.stop(Input::Aborted { failure: timed_out() }).await?,
                Wake::GiveBack => return self.give_back().await,
                Wake::Lost => Hold::Gone,
                Wake::Fresh => Hold::Kept,
            };
            if hold == Hold::Gone {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Starts what is due and not already under way; nothing new once the server is stopping or the
    /// run is to, or while the lease is so old that another worker may have the run.
    async fn start_due(&mut self) -> Result<Hold, StoreError> {
        let is_told_to_stop = *self.signals.borrow() != Signals::default();
        if self.context.tasks.is_stopping() || is_told_to_stop || !self.freshness.is_fresh() {
            return Ok(Hold::Kept);
        }
        let mut effects = due(&self.state);
        while let Some(Effect::StartCalls { call_ids }) = effects.first().cloned() {
            // On record first: after a crash a call that may have been sent must be known.
            if self.take(Input::CallsStarting { call_ids }, None).await? == Hold::Gone {
                return Ok(Hold::Gone);
            }
            effects = due(&self.state);
        }
        for effect in effects {
            if self.running.insert(effect.clone()) {
                let history = &self.journal.history;
                let task = self.performer.perform(effect, &self.state, history, &self.publisher);
                self.effects.push(task);
            }
        }
        Ok(Hold::Kept)
    }

    async fn wake(&mut self) -> Wake {
        let signals = *self.signals.borrow_and_update();
        if signals.lost {
            self.context.parts.instruments.metrics.lease_lost();
            return Wake::Lost;
        }
        if signals.cancel {
            return Wake::Cancel;
        }
        if signals.interrupt {
            return Wake::Interrupt;
        }
        let tasks = self.context.tasks.clone();
        if tasks.is_stopping() && self.effects.is_empty() {
            return Wake::GiveBack;
        }
        let clock = &self.context.parts.clock;
        let left = self.deadline.map(|deadline| deadline.saturating_sub(clock.monotonic()));
        let is_stale = !self.freshness.is_fresh();
        tokio::select! {
            () = self.freshness.clone().fresh(), if is_stale => Wake::Fresh,
            Some(done) = self.effects.next() => Wake::Done(Box::new(done)),
            _ = self.signals.changed() => Box::pin(self.wake()).await,
            () = super::tasks::sleep_or_forever(left) => Wake::Deadline,
            () = tasks.aborting() => Wake::GiveBack,
            () = tasks.stopping(), if !tasks.is_stopping() && self.effects.is_empty() => Wake::GiveBack,
        }
    }

    /// Ends the run, whatever is under way.
    async fn stop(&mut self, input: Input) -> Result<Hold, StoreError> {
        let abandoned = self.performer.abandoned().await;
        if abandoned.is_some() {
            self.purse.hang_up();
        }
        self.sent.extend(abandoned.map(|sent| sent.entry));
        self.take(input, None).await
    }

    async fn finish(&mut self, mut done: Done) -> Result<Hold, StoreError> {
        self.running.remove(&done.effect);
        if matches!(done.effect, Effect::CallModel { .. }) {
            self.performer.sent(done.sent.as_ref());
            self.purse.note(&done, self.performer.price(&self.state));
            self.sent.extend(done.sent.iter().map(|sent| Arc::clone(&sent.entry)));
        }
        self.performer.reconsider(&mut done, &self.state, &self.journal.history);
        self.journal.count(done.spent.unwrap_or_default());
        let heard = done.sent.filter(|_| matches!(done.input, Input::Replied { .. }));
        let asked = self.state.fallback();
        let hold = self.take(done.input, heard).await?;
        // Another model has no reason to wait for what the one before it asked for.
        let pause = done.pause.filter(|_| self.state.fallback() == asked);
        self.performer.pause(pause.unwrap_or_default());
        if let Some(detail) = done.operator_detail {
            let run = self.claim.run;
            let error_id = self.journal.facts.failure.as_ref().map(|f| f.error_id.to_string());
            let detail = self.redactor.text(RedactionChannel::Log, &detail);
            tracing::warn!(%run, error_id, detail = &*detail, "a model call failed");
        }
        Ok(hold)
    }

    /// Decides, commits and folds one input.
    async fn take(&mut self, input: Input, heard: Option<Sent>) -> Result<Hold, StoreError> {
        self.journal.heard_answers(self.inbox.n_answers());
        let is_out_of_budget = self.purse.is_out();
        let around = Surroundings { is_out_of_budget, ..self.inbox.around(&self.limits) };
        let mut records = decide(&self.state, input.clone(), around);
        if records.is_empty() {
            return Ok(Hold::Kept);
        }
        remark(&input, &mut records, (&self.claim, &self.state), &mut self.journal.facts);
        let context = Arc::clone(&self.context);
        let parts = &context.parts;
        let figures = heard.as_ref().map(|sent| sent.figures.clone());
        let (now, ids) = (parts.clock.now(), parts.ids.as_ref());
        let stamp = Stamp { now, ids, heard: figures, sent: &self.sent };
        let (mut batch, mut journal) = self.journal.plan(&records, &stamp);
        let tally = self.tally.behind(&mut batch, &mut journal);
        let state = records.iter().fold(self.state.clone(), evolve);
        let (before, rows, records) = (&self.state, &self.journal, &*records);
        let decided = Decided { state: before, after: &state, journal: rows, records };
        self.purse.behind(&mut batch, &mut journal, decided, &self.performer);
        batch.despite_cancel = input == Input::Cancelled;
        let (here, held) = ((&context, self.performer.tools()), (&self.claim, &self.signals));
        batch.sub_runs = self.family.started(here, held, (records, &state)).await?;
        batch.given_up = sub_runs::given_up(records, &self.state);
        batch.parent.clone_from(&self.family.parent);
        match append(&context, &self.signals, (&self.guard(), &batch)).await? {
            Appended::Stored => {
                (self.journal, self.tally) = (journal, tally);
                self.state = state;
                self.inbox.taken(self.state.n_messages());
                self.sent.clear();
                if let Some(heard) = heard {
                    self.performer.replied(heard.kept);
                }
                self.publisher.committed();
                self.context.hints.changed(self.claim.run);
                self.log_failure();
                self.purse.stored(&context, &self.claim, &batch).await;
                sub_runs::pass_end_on(&context, &batch.given_up);
                if batch.concerns_others() {
                    context.claimable();
                }
                Ok(Hold::Kept)
            }
            refused => Box::pin(self.reconsider(refused, (input, heard), &batch)).await,
        }
    }

    /// Decides again, on what the decision that was refused did not know of.
    async fn reconsider(
        &mut self,
        refused: Appended,
        (input, heard): (Input, Option<Sent>),
        batch: &Batch,
    ) -> Result<Hold, StoreError> {
        let (context, claim, signals) = (&self.context, &self.claim, &self.signals);
        match refused {
            Appended::MessagesWait => {
                let known = (self.state.n_messages(), signals);
                self.inbox.read_messages(context, claim, known).await?;
            }
            Appended::AnswersWait => {
                let known = (self.state.turn(), signals);
                self.inbox.read_answers(context, claim, known).await?;
            }
            Appended::BudgetSet => self.purse.open(),
            Appended::BudgetExhausted => {
                self.purse.refused(context, claim, (signals, &batch.draws.draws)).await?;
            }
            Appended::InterruptRequested => self.inbox.hear_stop(),
            Appended::CancelRequested => return self.take(Input::Cancelled, None).await,
            Appended::Stored | Appended::Fenced => {
                context.parts.observer.on_commit(CommitPoint::Refused, claim.run);
                context.fenced(claim).await;
                return Ok(Hold::Gone);
            }
        }
        self.take(input, heard).await
    }

    /// Says in the log what callers read in `run.error`, under the same id.
    fn log_failure(&self) {
        if let Some(failure) = &self.journal.facts.failure {
            let (run, error_id) = (self.claim.run, failure.error_id);
            let detail = self.redactor.text(RedactionChannel::Log, &failure.detail);
            tracing::warn!(%run, %error_id, detail = &*detail, "a run failed");
        }
    }

    /// Gives the run back to the queue at a boundary; calls in flight are dropped, and the next claim
    /// decides about them by their effect class. A model that is hung up on was asked all the same.
    async fn give_back(&mut self) -> Result<(), StoreError> {
        self.effects.clear();
        let abandoned = self.performer.abandoned().await;
        self.sent.extend(abandoned.map(|sent| sent.entry));
        sent::record_last(&self.context, &self.journal, &self.guard(), &self.sent).await;
        let (store, Claim { tenant, run, token, .. }) = (self.context.store(), &self.claim);
        let is_call = |effect: &Effect| matches!(effect, Effect::CallTool { .. });
        if self.running.iter().any(is_call) {
            lease::abandon(store, tenant, (*run, *token), Fault::Drained).await?;
        } else {
            lease::release(store, tenant, *run, *token).await?;
        }
        self.context.claimable();
        Ok(())
    }

    fn guard(&self) -> Guard {
        Guard {
            tenant: self.claim.tenant.clone(),
            run: self.claim.run,
            token: self.claim.token,
            epoch: self.claim.epoch,
            head: self.journal.head,
        }
    }
}
