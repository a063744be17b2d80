//! Starts runs when their schedules are due, each due time once, however many replicas see it: the run
//! and the step to the next due time are one commit. Due times that passed while no server was up count
//! once.

mod cadence;

use std::sync::Arc;

use super::Context;
use super::accept::{self, StartRun, ThreadChoice, WhichAgent};
use crate::domain::budget::Budget;
use crate::domain::run::{OnBusy, OnDisconnect};
use crate::domain::schedule::{Firing, OnOverlap, Schedule, SkipReason};
use crate::error::AgentlingError;
use crate::store::agents::AgentRef;
use crate::store::schedules::{self, DueSchedule};
use crate::store::{Conflict, StoreError, scope};

pub use cadence::{BadCadence, Cadence};

pub(super) fn start(context: &Arc<Context>) {
    context.tasks.spawn(schedule_loop(Arc::clone(context)));
}

async fn schedule_loop(context: Arc<Context>) {
    while !context.tasks.is_stopping() {
        if let Err(error) = fire_due(&context).await {
            tracing::warn!(%error, source = ?error, "schedules could not be looked at");
        }
        let poll = context.parts.settings.poll.mul_f64(0.7 + 0.6 * context.jitter());
        tokio::select! {
            () = context.tasks.stopping() => {}
            () = tokio::time::sleep(poll) => {}
        }
    }
}

async fn fire_due(context: &Arc<Context>) -> Result<(), StoreError> {
    for due in schedules::due(context.store()).await? {
        let fired = Box::pin(fire_if_there(context, &due));
        if let Err(error) = scope::within(&due.tenant, fired).await {
            tracing::warn!(schedule = %due.id, %error, source = ?error, "a schedule stays due");
        }
    }
    Ok(())
}

async fn fire_if_there(context: &Arc<Context>, due: &DueSchedule) -> Result<(), AgentlingError> {
    match schedules::get(context.store(), &due.tenant, due.id).await? {
        Some(schedule) => fire(context, &schedule, due).await,
        None => Ok(()),
    }
}

/// Starts the run of a due time, or lets it pass.
async fn fire(
    context: &Arc<Context>,
    schedule: &Schedule,
    due: &DueSchedule,
) -> Result<(), AgentlingError> {
    // What cannot be read any more, because a time zone was abolished say, is never due again.
    let cadence = Cadence::parse(&schedule.cron, &schedule.timezone).ok();
    let next_at = cadence.and_then(|cadence| cadence.next_after(due.now.max(due.due_at)));
    let firing = Firing { schedule: due.id, due_at: due.due_at, next_at };
    let pass =
        async |reason| Ok(schedules::pass(context.store(), &due.tenant, &firing, reason).await?);
    if due.is_busy {
        return pass(SkipReason::Overlap).await;
    }
    match accept::start(context, &due.tenant, request(schedule, firing)).await {
        // Another replica was first, or a caller changed the schedule.
        Ok(_) | Err(AgentlingError::VersionConflict) => Ok(()),
        Err(AgentlingError::Store(StoreError::Conflict(Conflict::ThreadBusy { .. }))) => {
            match schedule.on_overlap {
                OnOverlap::Skip => pass(SkipReason::Overlap).await,
                OnOverlap::Enqueue => Ok(()),
            }
        }
        Err(error) if is_passing(&error) => Err(error),
        Err(error) => {
            tracing::warn!(schedule = %due.id, %error, "the run of a schedule was refused");
            pass(SkipReason::Refused).await
        }
    }
}

/// Whether the same may work later without anyone's doing.
fn is_passing(error: &AgentlingError) -> bool {
    match error {
        AgentlingError::Store(error) => error.is_passing(),
        AgentlingError::TenantQueueFull { .. }
        | AgentlingError::Draining
        | AgentlingError::Overloaded => true,
        _ => false,
    }
}

fn request(schedule: &Schedule, firing: Firing) -> StartRun {
    let thread = schedule.thread_id;
    StartRun {
        id: None,
        agent: WhichAgent::Stored(AgentRef::Id(schedule.agent_id), schedule.agent_version),
        thread: thread.map_or(ThreadChoice::New, |id| ThreadChoice::Existing { id, reset: false }),
        input: schedule.input.clone(),
        max_steps: None,
        run_timeout: None,
        on_busy: OnBusy::default(),
        on_disconnect: OnDisconnect::default(),
        metadata: schedule.metadata.clone(),
        idempotency: None,
        budget: Budget::default(),
        key: None,
        webhook: None,
        firing: Some(firing),
    }
}
