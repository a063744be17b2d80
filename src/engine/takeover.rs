//! What a claim means for the machine, and what is told of the worker that had the run before.

use std::time::Duration;

use super::Context;
use crate::domain::fault::Fault;
use crate::domain::run::{Failure, FailureCause, RunFacts};
use crate::domain::tool::{OutcomeKind, ToolFailure, ToolOutcome};
use crate::machine::input::Input;
use crate::machine::record::Record;
use crate::machine::state::State;
use crate::machine::{poisoned, stopped};
use crate::store::journal::LoadedRun;
use crate::store::lease::Claim;

/// What a claim means for the machine; nothing when the claim itself put the first turn on record.
pub(super) fn first_input(claim: &Claim, loaded: &LoadedRun) -> Option<Input> {
    if claim.is_poisoned {
        return Some(Input::Aborted { failure: given_up(claim.last_fault) });
    }
    // A run that waits would wait again, although its time is over.
    if loaded.time_left.is_some_and(|left| left.is_zero()) {
        return Some(Input::Aborted { failure: timed_out() });
    }
    match (claim.begins, loaded.resumed) {
        (true, _) => None,
        (false, true) => Some(Input::Resumed),
        (false, false) => Some(Input::Claimed),
    }
}

/// The run's deadline on the monotonic clock.
pub(super) fn time_left(context: &Context, loaded: &LoadedRun) -> Option<Duration> {
    Some(context.parts.clock.monotonic() + loaded.time_left?)
}

/// The failure of a run that took too long.
pub(super) fn timed_out() -> Failure {
    let detail = "the run took longer than its `run_timeout_ms`".to_owned();
    Failure { cause: FailureCause::RunTimeout, detail }
}

/// The failure of a run that is given up, with what went wrong last.
fn given_up(last: Option<Fault>) -> Failure {
    let failure = poisoned();
    let Some(fault) = last else { return failure };
    let detail = format!("{}: {} ({fault})", failure.detail, fault.told());
    Failure { detail, ..failure }
}

/// Says beside what is decided what nobody decides: why calls are in doubt, and what a cancel stopped.
pub(super) fn remark(
    input: &Input,
    records: &mut [Record],
    (claim, state): (&Claim, &State),
    facts: &mut RunFacts,
) {
    match input {
        Input::Claimed => explain(records, claim),
        Input::Cancelled => facts.stopped = Some(stopped(state, records)),
        _ => {}
    }
}

/// Says of calls whose outcome is in doubt that it is so because of a shutdown.
fn explain(records: &mut [Record], claim: &Claim) {
    if claim.last_fault != Some(Fault::Drained) {
        return;
    }
    for record in records {
        if let Record::CallEnded { outcome } = record
            && outcome.kind == OutcomeKind::InDoubt
        {
            outcome.error = Some(drained(outcome));
        }
    }
}

fn drained(outcome: &ToolOutcome) -> ToolFailure {
    ToolFailure {
        r#type: "drain".to_owned(),
        message: format!(
            "the server was shut down before '{}' answered, and the call may or may not have taken effect",
            outcome.name
        ),
        redacted: false,
    }
}
