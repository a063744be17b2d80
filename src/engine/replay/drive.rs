//! The driver of a run that is driven again.

use std::sync::Arc;
use std::time::Duration;

use super::course::{Came, Course, Mark, rewind};
use super::{Divergence, Missing, Parting, Replayed};
use crate::domain::event::EventName;
use crate::domain::ledger::{Encoded, LedgerEntry, Purpose};
use crate::domain::limits::Limits;
use crate::domain::message::ReplyState;
use crate::domain::run::Failure;
use crate::domain::tool::{PlannedCall, ToolOutcome};
use crate::domain::wait::WaitRules;
use crate::engine::Context;
use crate::engine::compaction::{Compactor, Shortening};
use crate::engine::journal::{Journal, Stamp, records_of};
use crate::engine::perform::Done;
use crate::engine::prompt::{Asked, Equipped, Prompter, Told, body_hash};
use crate::machine::effect::Effect;
use crate::machine::input::Input;
use crate::machine::record::{Ending, Record};
use crate::machine::state::{Phase, State};
use crate::machine::{Surroundings, decide, due, evolve, fold};
use crate::provider::ModelCall;
use crate::render;
use crate::render::redact::Redactor;
use crate::store::journal::LoadedRun;

/// What came of driving a run again, and the request that parts from its record.
#[derive(Debug)]
pub(super) struct Driven {
    pub(super) replayed: Replayed,
    pub(super) made: Option<Encoded>,
}

/// Drives a run as far as its record goes.
pub(super) fn drive(
    context: &Arc<Context>,
    mut loaded: LoadedRun,
    redactor: &Arc<Redactor>,
    course: Course,
) -> Driven {
    let requests = u64::try_from(course.n_requests()).unwrap_or(u64::MAX);
    let mut replayed = Replayed { requests, ..Replayed::default() };
    // Nothing came of a run that ended before any worker had it; it may not even have had its turn on its
    // thread.
    if loaded.run.facts.started_at.is_none() {
        return Driven { replayed, made: None };
    }
    if !rewind(&mut loaded) {
        replayed.missing.push(Missing::Steps);
        return Driven { replayed, made: None };
    }
    let toolbox = &context.parts.toolbox;
    let mut driver = Driver {
        context,
        limits: Limits::of(&loaded.agent, loaded.max_steps),
        prompter: Prompter::new(toolbox, Equipped::of(&loaded), &loaded.framing, redactor),
        compactor: Compactor::of(&loaded, redactor),
        journal: Journal::of(&loaded),
        state: fold(records_of(&loaded)),
        redactor,
        loaded: &loaded,
        course,
        driven: Driven { replayed, made: None },
    };
    driver.go();
    driver.driven
}

/// Why a run is driven no further.
enum Stop {
    /// Its record goes no further.
    End,
    /// It goes another way than its record.
    Parted,
    /// What it is to be told is not there.
    Missing(Missing),
}

struct Driver<'a> {
    context: &'a Arc<Context>,
    loaded: &'a LoadedRun,
    redactor: &'a Arc<Redactor>,
    limits: Limits,
    prompter: Prompter,
    compactor: Compactor,
    journal: Journal,
    state: State,
    course: Course,
    driven: Driven,
}

impl Driver<'_> {
    fn go(&mut self) {
        let stop = loop {
            match self.input().and_then(|input| self.take(input)) {
                Ok(()) => {}
                Err(stop) => break stop,
            }
        };
        match stop {
            Stop::Parted => self.part(Parting::Course, None),
            Stop::Missing(missing) => self.miss(missing),
            Stop::End => {
                if let Some(entry) = self.course.left().cloned() {
                    self.part(Parting::NotMade, Some(&entry));
                }
            }
        }
    }

    fn miss(&mut self, missing: Missing) {
        let known = &mut self.driven.replayed.missing;
        if !known.contains(&missing) {
            known.push(missing);
        }
    }

    /// What happens next, as the record tells it.
    fn input(&mut self) -> Result<Input, Stop> {
        let is_interrupted = self.state.ending() == Some(&Ending::Interrupted);
        while !is_interrupted && self.course.next() == Some(&Mark::Resumed) {
            self.course.pass();
        }
        match self.state.phase() {
            Phase::Ready => match self.course.next() {
                Some(Mark::Turn { .. }) => Ok(Input::Claimed),
                _ => self.stopped(),
            },
            Phase::Thinking => self.asked(),
            Phase::Acting => self.acted(),
            Phase::Ended(Ending::Interrupted) => self.resumed(),
            Phase::Ended(_) if self.course.next().is_some() => Err(Stop::Parted),
            Phase::Blank | Phase::Ended(_) => Err(Stop::End),
        }
    }

    /// A run that was asked to go on does so once a worker has it; it may be stopped before that.
    fn resumed(&mut self) -> Result<Input, Stop> {
        match (self.course.next(), self.course.next_but_one()) {
            (None, _) | (Some(Mark::Resumed), None) => Err(Stop::End),
            (Some(Mark::Resumed), Some(Mark::Turn { .. })) => {
                self.course.pass();
                // Whoever goes on with it starts afresh.
                self.compactor = Compactor::of(self.loaded, self.redactor);
                Ok(Input::Resumed)
            }
            (Some(Mark::Resumed), Some(Mark::Ends(..))) => {
                self.course.pass();
                self.course.pass();
                self.input()
            }
            _ => Err(Stop::Parted),
        }
    }

    /// The end that comes next, from outside.
    fn stopped(&self) -> Result<Input, Stop> {
        let Some(next) = self.course.next() else { return Err(Stop::End) };
        let Mark::Ends(name, facts) = next else { return Err(Stop::Parted) };
        let attempt = (self.state.turn(), self.state.attempt());
        match (name, &facts.failure) {
            (EventName::RunCancelled, _) => Ok(Input::Cancelled),
            (EventName::RunInterrupted, _) => {
                let partial = self.course.reply(attempt, ReplyState::Interrupted);
                Ok(Input::Interrupted { partial })
            }
            (EventName::RunFailed, Some(failure)) => {
                let (cause, detail) = (failure.cause.clone(), failure.detail.clone());
                Ok(Input::Aborted { failure: Failure { cause, detail } })
            }
            _ => Err(Stop::Missing(Missing::Steps)),
        }
    }

    /// Makes the request that is due, or what comes before it; answers what came of it.
    fn asked(&mut self) -> Result<Input, Stop> {
        let Some(effect @ Effect::CallModel { turn, attempt, closing }) = due(&self.state).pop()
        else {
            return Err(Stop::Parted);
        };
        let first_seq = self.loaded.memory_from;
        let told = Told { steps: &self.journal.history, first_seq, closing };
        let call = self.prompter.call(told, Asked::of(&self.state), Duration::ZERO);
        let shortening = self.compactor.shortening(&call, &self.state, &self.journal.history);
        match shortening {
            None => {
                let entry = self.compare(&call, (turn, attempt), Purpose::Reply);
                let reply = self.course.reply((turn, attempt), ReplyState::Complete);
                let Some(reply) = reply else { return self.failed(effect, entry.as_ref()) };
                if entry.is_none() {
                    self.miss(Missing::Requests);
                }
                let tools = self.prompter.tools(&self.journal.history);
                let verdict = reply.text().and_then(|text| tools.verdict(&text));
                // What became of a call is on record, whoever it had to wait for.
                let unwaited = |call| PlannedCall { waits: WaitRules::NONE, ..call };
                let calls = tools.plan(&reply).into_iter().map(unwaited).collect();
                Ok(Input::Replied { turn, attempt, reply, calls, verdict })
            }
            Some(Shortening::Drop(summary)) => Ok(Input::Compacted { turn, attempt, summary }),
            Some(Shortening::Summarise(_, asked)) => {
                let entry = self.compare(&asked, (turn, attempt), Purpose::Summary);
                let is_written = entry.as_ref().is_some_and(|entry| entry.step_seq.is_some());
                match self.course.summary(turn).filter(|_| is_written) {
                    Some(summary) => Ok(Input::Compacted { turn, attempt, summary }),
                    None => self.failed(effect, entry.as_ref()),
                }
            }
            Some(Shortening::Impossible) => self.failed(effect, None),
        }
    }

    /// What came of an attempt that led to no step.
    fn failed(&mut self, effect: Effect, entry: Option<&LedgerEntry>) -> Result<Input, Stop> {
        let (turn, attempt) = (self.state.turn(), self.state.attempt());
        let next = match self.course.next() {
            Some(Mark::Turn { turn: next, attempt: again, fallback })
                if (*next, *again) == (turn, attempt.saturating_add(1)) =>
            {
                *fallback
            }
            Some(Mark::Turn { .. } | Mark::Resumed) => return Err(Stop::Missing(Missing::Steps)),
            Some(Mark::Ends(..)) | None => return self.stopped(),
        };
        let came = entry.and_then(Came::of);
        let elsewhere = next != self.state.fallback();
        if came.is_none() && !elsewhere {
            // Its worker was lost, and the next one knows nothing of what this one had found out.
            self.compactor = Compactor::of(self.loaded, self.redactor);
            return Ok(Input::Claimed);
        }
        let failure = came.unwrap_or(Came::UNKNOWN).failure();
        let retryable = !elsewhere;
        let input = Input::ModelFailed { turn, attempt, retryable, elsewhere, failure };
        let mut done = Done::of(effect, input);
        self.compactor.reconsider(&mut done, &self.state, &self.journal.history);
        Ok(done.input)
    }

    /// What becomes of the calls of a reply.
    fn acted(&mut self) -> Result<Input, Stop> {
        let effects = due(&self.state);
        if let Some(Effect::StartCalls { call_ids }) = effects.first() {
            return Ok(Input::CallsStarting { call_ids: call_ids.clone() });
        }
        let stops = self.course.stops();
        let ended = effects.iter().find_map(|effect| {
            let Effect::CallTool { call_id, attempt } = effect else { return None };
            let outcome =
                if stops { self.course.own_outcome(call_id) } else { self.course.outcome(call_id) };
            Some((outcome?.clone(), *attempt))
        });
        match ended {
            Some((outcome, attempt)) => Ok(Input::CallEnded { outcome, attempt }),
            None if stops || self.course.next().is_none() => self.stopped(),
            None => Err(Stop::Missing(Missing::Steps)),
        }
    }

    /// Decides and folds one input, and goes along the record with it.
    fn take(&mut self, input: Input) -> Result<(), Stop> {
        let messages = self.course.messages(self.state.turn());
        let around = Surroundings {
            limits: &self.limits,
            messages: &messages,
            answers: &[],
            overdue: &[],
            is_out_of_budget: false,
            is_to_stop: false,
        };
        let mut records = decide(&self.state, input, around);
        if records.is_empty() {
            return Err(Stop::Parted);
        }
        for record in &mut records {
            self.as_recorded(record);
            self.pass(record)?;
        }
        let parts = &self.context.parts;
        let ids = parts.ids.as_ref();
        let stamp = Stamp { now: parts.clock.now(), ids, heard: None, sent: &[] };
        let (_, journal) = self.journal.plan(&records, &stamp);
        self.journal = journal;
        let state = std::mem::take(&mut self.state);
        self.state = records.iter().fold(state, evolve);
        Ok(())
    }

    /// A call ended as it is on record, also where that is decided here.
    fn as_recorded(&self, record: &mut Record) {
        let recorded = |outcome: &mut ToolOutcome| {
            if let Some(known) = self.course.outcome(&outcome.tool_call_id) {
                outcome.clone_from(known);
            }
        };
        match record {
            Record::CallEnded { outcome } => recorded(outcome),
            Record::Replied { calls, .. } => {
                calls.iter_mut().filter_map(|call| call.settled.as_mut()).for_each(recorded);
            }
            _ => {}
        }
    }

    /// Passes the mark that a record leaves, which has to be the next one.
    fn pass(&mut self, record: &Record) -> Result<(), Stop> {
        let is_next = match (record, self.course.next()) {
            (Record::TurnStarted { turn, attempt, .. }, next) => matches!(next,
                Some(Mark::Turn { turn: t, attempt: a, .. }) if (t, a) == (turn, attempt)),
            (Record::Ended(ending), next) => {
                matches!(next, Some(Mark::Ends(name, _)) if *name == name_of(ending))
            }
            _ => return Ok(()),
        };
        if !is_next {
            // A run that is under way has decided nothing else yet.
            return Err(if self.course.next().is_none() { Stop::End } else { Stop::Parted });
        }
        self.course.pass();
        Ok(())
    }

    /// Compares a request with the ledger; answers its entry.
    fn compare(
        &mut self,
        call: &ModelCall,
        (turn, attempt): (u32, u32),
        purpose: Purpose,
    ) -> Option<LedgerEntry> {
        let entry = self.course.take_entry(turn, attempt, purpose);
        let replayed = &mut self.driven.replayed;
        let Some(known) = &entry else {
            replayed.unrecorded += 1;
            return None;
        };
        if known.renderer.is_some_and(|version| version != render::VERSION) {
            replayed.other_renderer += 1;
        } else if let Some(sha256) = known.sha256 {
            let made = call.encoded();
            let bytes = u64::try_from(made.body.len()).unwrap_or(u64::MAX);
            if known.bytes.is_none_or(|n| n == bytes) && body_hash(&made.body) == sha256 {
                replayed.matches += 1;
            } else if replayed.first_divergence.is_none() {
                self.part(Parting::Bytes, Some(known));
                self.driven.made = Some(made);
            }
        } else {
            replayed.unknown += 1;
        }
        entry
    }

    /// Notes where the run parts from its record, if it does so for the first time.
    fn part(&mut self, how: Parting, entry: Option<&LedgerEntry>) {
        let at = entry.map_or_else(
            || (self.state.turn(), self.state.attempt(), Purpose::Reply),
            |entry| (entry.turn, entry.attempt, entry.purpose),
        );
        let (turn, attempt, purpose) = at;
        let request = entry.map(|entry| entry.id);
        let parting = Divergence { how, request, turn, attempt, purpose, bytes: None };
        self.driven.replayed.first_divergence.get_or_insert(parting);
    }
}

const fn name_of(ending: &Ending) -> EventName {
    match ending {
        Ending::Completed { .. } => EventName::RunCompleted,
        Ending::Failed(_) => EventName::RunFailed,
        Ending::Cancelled => EventName::RunCancelled,
        Ending::Interrupted => EventName::RunInterrupted,
    }
}
