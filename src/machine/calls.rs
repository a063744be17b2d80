//! Calls: which may start, what an outcome leads to, and what becomes of those a lost worker left.

use super::draft::{Draft, poisoned};
use super::record::{Ending, Record};
use super::state::{Call, Phase, State};
use super::turn::{self, RECLAIMS, unrun};
use super::wait;
use crate::domain::id::CallId;
use crate::domain::limits::CALLS_AT_ONCE;
use crate::domain::message::{Reply, ReplyState, ToolCallPart};
use crate::domain::run::Stopped;
use crate::domain::tool::{CallState, EffectClass, OutcomeKind, PlannedCall, ToolOutcome};
use crate::domain::wait::{CallAnswer, WaitReason, WaitRules};

/// How often a call is sent again because whoever was asked knows nothing of it.
const PROBED_RETRIES: u32 = 3;

/// Which calls may be put on record as started in a commit that is made anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ride {
    /// Those that may be repeated. The others wait for a commit of their own.
    Repeatable,
    /// All that may start: the call before them has just ended, so they are next.
    All,
}

/// The planned calls that may start now, in call order: as many as may be under way at once, or, when any
/// call of the turn has to be alone, the first one and only while no other is under way.
pub(super) fn startable(state: &State) -> Vec<&Call> {
    let mut planned = state.open_calls().filter(|call| call.state() == CallState::Planned);
    let needs_order =
        state.calls().iter().any(|call| !call.is_settled() && !call.planned.parallel_safe);
    if !needs_order {
        let under_way = in_state(state, CallState::Started).len();
        let mut room = CALLS_AT_ONCE.saturating_sub(under_way);
        let mut has_room = || room.checked_sub(1).map(|left| room = left).is_some();
        // A call that a caller has to say something about first takes no place of others.
        planned.filter(|call| call.needs().is_some() || has_room()).collect()
    } else if state.open_calls().any(|call| call.state() != CallState::Planned) {
        Vec::new()
    } else {
        planned.next().into_iter().collect()
    }
}

/// Goes on with what callers answered, starts what may start and ride along; with no call left open,
/// goes on from the turn, and with none under way but those that wait for a caller, parks the run.
pub(super) fn advance(draft: &mut Draft<'_>, ride: Ride) {
    wait::settle(draft);
    if draft.state.open_calls().next().is_none() {
        return turn::acted(draft);
    }
    let riding =
        |call: &&Call| ride == Ride::All || may_repeat(&call.planned) || call.needs().is_some();
    let call_ids = startable(&draft.state).into_iter().filter(riding).map(id).collect();
    start(draft, call_ids);
    wait::park_if_idle(draft);
}

/// Puts those of the calls on record as started that are still planned and may start.
pub(super) fn starting(draft: &mut Draft<'_>, call_ids: &[CallId]) {
    let wanted = |call: &&Call| call_ids.contains(&call.planned.call_id);
    let call_ids = startable(&draft.state).into_iter().filter(wanted).map(id).collect();
    start(draft, call_ids);
    wait::park_if_idle(draft);
}

/// Puts calls on record as started, or as waiting for what has to come first. Without a budget for
/// them none of a turn is. What is set aside when the first of them starts is for all of them, so that
/// where one is under way there is a budget for the others.
fn start(draft: &mut Draft<'_>, mut call_ids: Vec<CallId>) {
    let runs = |call: &Call| call.state() == CallState::Started;
    let is_first = !draft.state.open_calls().any(runs);
    if draft.is_out_of_budget && is_first && !call_ids.is_empty() {
        return wait::park(draft, WaitReason::BudgetExhausted);
    }
    let needs = |call_id: &CallId| draft.state.call(call_id).and_then(Call::needs);
    let waiting: Vec<_> = call_ids.iter().filter_map(|id| Some((id.clone(), needs(id)?))).collect();
    call_ids.retain(|call_id| waiting.iter().all(|(waits, _)| waits != call_id));
    if !call_ids.is_empty() {
        draft.push(Record::CallsStarted { call_ids });
    }
    for (call_id, reason) in waiting {
        draft.push(Record::CallWaits { call_id, reason });
    }
}

/// Records an outcome and goes on from it.
pub(super) fn ended(draft: &mut Draft<'_>, outcome: ToolOutcome) {
    let call = draft.state.call(&outcome.tool_call_id).cloned();
    match call.filter(|call| wait::is_held(call, outcome.kind)) {
        Some(call) => wait::doubt(draft, &call),
        None => draft.push(Record::CallEnded { outcome }),
    }
    advance(draft, Ride::All);
}

/// Takes over what was answered to a question about a call in doubt, unless a caller has said already.
pub(super) fn probed(draft: &mut Draft<'_>, call_id: &CallId, answer: Option<CallAnswer>) {
    draft.push(Record::CallProbed { call_id: call_id.clone() });
    let call = draft.state.call(call_id).cloned();
    let call = call.filter(|call| draft.answer_to(call).is_none());
    if let (Some(call), Some(answer)) = (call, answer)
        // A call that keeps being lost on its way is for a caller to decide about.
        && (answer != CallAnswer::Retry || call.attempt <= PROBED_RETRIES)
    {
        wait::apply(draft, &call, &answer);
    }
    advance(draft, Ride::All);
}

/// Takes over the calls a lost worker left: a started one is repeated if it may be, else its outcome
/// is in doubt. Planned ones were never sent and stay due, and those that wait may have an answer.
pub(super) fn reclaim(draft: &mut Draft<'_>) {
    let started = in_state(&draft.state, CallState::Started);
    // The restarts are counted, so that a call that kills the process cannot loop for ever.
    if started.iter().any(|call| may_repeat(&call.planned) && call.attempt > RECLAIMS) {
        return stop(draft, None, OutcomeKind::Cancelled, Ending::Failed(poisoned()));
    }
    for call in started {
        if may_repeat(&call.planned) {
            let attempt = call.attempt.saturating_add(1);
            draft.push(Record::CallRestarted { call_id: call.planned.call_id, attempt });
        } else {
            wait::doubt(draft, &call);
        }
    }
    let ended_any = draft.records.iter().any(|record| matches!(record, Record::CallEnded { .. }));
    let waits = draft.state.open_calls().any(|call| call.state() == CallState::Waiting);
    if ended_any || waits || draft.state.open_calls().next().is_none() {
        advance(draft, Ride::All);
    }
}

/// Ends the run from outside: what is open is closed in the decision that ends it.
pub(super) fn stop(
    draft: &mut Draft<'_>,
    partial: Option<Reply>,
    kind: OutcomeKind,
    ending: Ending,
) {
    match draft.state.phase() {
        Phase::Blank | Phase::Ended(_) => return,
        Phase::Ready => {}
        // Of a run that waits no reply is under way.
        Phase::Thinking if draft.state.parked().is_some() => {}
        Phase::Thinking => keep_partial(draft, partial, kind),
        Phase::Acting => {
            close_open(draft, kind);
            turn::record_action(draft);
        }
    }
    draft.push(Record::Ended(ending));
}

/// What these records of a cancel stop in this state.
pub fn stopped(state: &State, records: &[Record]) -> Stopped {
    let is_thinking = *state.phase() == Phase::Thinking;
    let mut stopped = Stopped {
        turns_aborted: is_thinking.then_some(state.turn()).into_iter().collect(),
        ..Stopped::default()
    };
    for record in records {
        let Record::CallEnded { outcome } = record else { continue };
        let call_id = outcome.tool_call_id.clone();
        if outcome.kind == OutcomeKind::InDoubt {
            stopped.calls_in_doubt.push(call_id);
        } else if outcome.attempts == 0 {
            stopped.calls_not_started.push(call_id);
        }
    }
    stopped
}

fn keep_partial(draft: &mut Draft<'_>, partial: Option<Reply>, kind: OutcomeKind) {
    let Some(mut reply) = partial.filter(|reply| !reply.parts.is_empty()) else { return };
    reply.state = ReplyState::Interrupted;
    let calls = reply.tool_calls().map(|part| never_run(part, kind)).collect();
    turn::record(draft, reply, calls);
    turn::record_action(draft);
}

/// A call of a reply that was not received to its end: closed before it is read.
fn never_run(part: &ToolCallPart, kind: OutcomeKind) -> PlannedCall {
    let mut call = PlannedCall {
        call_id: part.tool_call_id.clone(),
        name: part.name.clone(),
        arguments: part.arguments.clone(),
        effect: EffectClass::Pure,
        parallel_safe: true,
        unparsable: false,
        waits: WaitRules::NONE,
        settled: None,
        brings: Vec::new(),
    };
    call.settled = Some(unrun(&call, kind));
    call
}

/// Closes every open call. What callers have said of one counts, also when it comes too late to go on.
fn close_open(draft: &mut Draft<'_>, kind: OutcomeKind) {
    let open: Vec<Call> = draft.state.open_calls().cloned().collect();
    for call in open {
        let is_delegated = call.waits == Some(WaitReason::SubRuns);
        let is_out = call.attempt > 0;
        match draft.answer_to(&call) {
            Some(CallAnswer::Retry) => close(draft, &call, kind),
            Some(answer) if answer.is_outcome() => wait::apply(draft, &call, answer),
            _ if is_delegated => abandon(draft, &call),
            _ if is_out && !may_repeat(&call.planned) => close(draft, &call, OutcomeKind::InDoubt),
            _ => close(draft, &call, kind),
        }
    }
}

/// Gives up a sub-run, which is cancelled for it: what it has done by then stays done.
fn abandon(draft: &mut Draft<'_>, call: &Call) {
    let outcome = ToolOutcome { attempts: 1, ..unrun(&call.planned, OutcomeKind::InDoubt) };
    draft.push(Record::CallEnded { outcome });
}

pub(super) fn close(draft: &mut Draft<'_>, call: &Call, kind: OutcomeKind) {
    let outcome = ToolOutcome { attempts: call.attempt, ..unrun(&call.planned, kind) };
    draft.push(Record::CallEnded { outcome });
}

pub(super) fn in_state(state: &State, wanted: CallState) -> Vec<Call> {
    state.open_calls().filter(|call| call.state() == wanted).cloned().collect()
}

pub(super) fn id(call: &Call) -> CallId {
    call.planned.call_id.clone()
}

pub(super) const fn may_repeat(call: &PlannedCall) -> bool {
    match call.effect {
        EffectClass::Pure | EffectClass::Idempotent => true,
        EffectClass::AtMostOnce => false,
    }
}
