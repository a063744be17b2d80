//! What callers put into a run while it is under way: messages, and answers to calls that wait.

use std::future::Future;
use std::time::Duration;

use super::Context;
use super::leases::Signals;
use super::masks::Masks;
use crate::domain::id::CallId;
use crate::domain::limits::Limits;
use crate::domain::run_message::RunMessage;
use crate::domain::wait::{CallAnswer, GivenAnswer, WaitReason};
use crate::machine::Surroundings;
use crate::store::journal::LoadedRun;
use crate::store::lease::Claim;
use crate::store::{StoreError, answers, messages};

/// How long a read waits before it is tried again while the database is away.
const READ_PAUSE: Duration = Duration::from_millis(250);

/// The inbox of a run, as far as its worker knows it.
#[derive(Debug)]
pub(super) struct Inbox {
    /// The messages that have not entered the run yet, in order.
    messages: Vec<RunMessage>,
    /// The answers to calls that wait.
    answers: Vec<GivenAnswer>,
    /// All answers there ever were.
    n_answers: u32,
    /// The calls that had waited for as long as they may when the run was loaded.
    overdue: Vec<CallId>,
    /// Whether a caller wants the run to stop, as far as a write was refused for that.
    is_to_stop: bool,
    /// Whether the agent withholds why a tool failed.
    redacts_errors: bool,
    /// What takes the secrets of the run out of answers.
    masks: Masks,
}

impl Inbox {
    pub(super) async fn of(context: &Context, claim: &Claim, loaded: &LoadedRun) -> Self {
        let overdue = loaded.calls.iter().filter(|call| call.is_overdue);
        let redacts_errors = loaded.agent.redact_errors;
        let masks = Masks::of(&claim.tenant, loaded);
        let mut answers = loaded.answers.clone();
        masks.answers(context, &mut answers).await;
        Self {
            messages: loaded.waiting.clone(),
            answers: heard(answers, redacts_errors),
            n_answers: loaded.n_answers,
            overdue: overdue.map(|call| call.planned.call_id.clone()).collect(),
            is_to_stop: false,
            redacts_errors,
            masks,
        }
    }

    /// What a decision depends on.
    pub(super) fn around<'a>(&'a self, limits: &'a Limits) -> Surroundings<'a> {
        Surroundings {
            limits,
            messages: &self.messages,
            answers: &self.answers,
            overdue: &self.overdue,
            // The purse knows better.
            is_out_of_budget: false,
            is_to_stop: self.is_to_stop,
        }
    }

    /// All answers there ever were, as far as is known.
    pub(super) const fn n_answers(&self) -> u32 {
        self.n_answers
    }

    /// Forgets what a decision that is on record has settled: the messages that have entered the run,
    /// and the waits that were over, since a call may begin to wait once more.
    pub(super) fn taken(&mut self, n_messages: u32) {
        self.messages.retain(|message| message.number > n_messages);
        self.overdue.clear();
    }

    /// Notes that a caller wants the run to stop.
    pub(super) const fn hear_stop(&mut self) {
        self.is_to_stop = true;
    }

    /// Reads the messages that were added since they were last read.
    pub(super) async fn read_messages(
        &mut self,
        context: &Context,
        claim: &Claim,
        (after, signals): (u32, &tokio::sync::watch::Receiver<Signals>),
    ) -> Result<(), StoreError> {
        let store = context.store();
        let read = || messages::waiting(store, &claim.tenant, claim.run, after);
        let messages = patiently(claim, signals, read).await?;
        if messages.len() == self.messages.len() {
            return Err(unmoved(claim, "n_messages"));
        }
        self.messages = messages;
        Ok(())
    }

    /// Reads the answers that were given since they were last read.
    pub(super) async fn read_answers(
        &mut self,
        context: &Context,
        claim: &Claim,
        (turn, signals): (u32, &tokio::sync::watch::Receiver<Signals>),
    ) -> Result<(), StoreError> {
        let store = context.store();
        let read = || answers::waiting(store, &claim.tenant, claim.run);
        let (n_answers, mut answers) = patiently(claim, signals, read).await?;
        if n_answers == self.n_answers {
            return Err(unmoved(claim, "n_answers"));
        }
        self.masks.at(turn).answers(context, &mut answers).await;
        (self.n_answers, self.answers) = (n_answers, heard(answers, self.redacts_errors));
        Ok(())
    }
}

/// Answers as a run hears them: an agent that withholds why its tools fail withholds why its sub-runs do.
/// Their own records say it.
fn heard(mut answers: Vec<GivenAnswer>, redacts_errors: bool) -> Vec<GivenAnswer> {
    for given in &mut answers {
        if let (true, WaitReason::SubRuns, CallAnswer::Failed { error }) =
            (redacts_errors, given.reason, &mut given.answer)
        {
            error.message.clear();
            error.redacted = true;
        }
    }
    answers
}

/// Reads while the lease may be ours: a reply may hang on it, which is not to be lost.
pub(super) async fn patiently<T, F>(
    claim: &Claim,
    signals: &tokio::sync::watch::Receiver<Signals>,
    read: impl Fn() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        match read().await {
            Err(error) if error.is_passing() && !signals.borrow().lost => {
                tracing::warn!(run = %claim.run, error = %error, "a read waits for the database");
                tokio::time::sleep(READ_PAUSE).await;
            }
            other => return other,
        }
    }
}

/// A write was refused for what is not there: the same would be decided and refused for ever.
fn unmoved(claim: &Claim, column: &'static str) -> StoreError {
    StoreError::Inconsistent { table: "run", column, id: claim.run.to_string() }
}
