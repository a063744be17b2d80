//! Steering runs: cancel, interrupt, resume, and letting the next run on when a thread is free.

use super::Context;
use crate::domain::id::{ErrorId, RunId, TenantId, ThreadId};
use crate::domain::run::{Run, RunFailure, RunStatus};
use crate::error::AgentlingError;
use crate::store::steer::{self, Steered};
use crate::store::thread_queue;
use crate::store::{Conflict, StoreError, scope};

pub(super) async fn cancel(
    context: &Context,
    tenant: &TenantId,
    run: RunId,
) -> Result<Run, AgentlingError> {
    match steer::cancel(context.store(), tenant, run, context.now()).await? {
        Steered::NoSuchRun => Err(AgentlingError::NotFound { kind: "run" }),
        // Cancelling twice is no mistake.
        Steered::Refused(run) if run.facts.status == RunStatus::Cancelled => Ok(run),
        Steered::Refused(run) => {
            Err(AgentlingError::RunAlreadyTerminal { status: run.facts.status })
        }
        Steered::Done(run) => Ok(changed(context, tenant, run)),
        Steered::Requested(run) => {
            pass_wish_on(context, run.id);
            Ok(run)
        }
    }
}

pub(super) async fn interrupt(
    context: &Context,
    tenant: &TenantId,
    run: RunId,
) -> Result<Run, AgentlingError> {
    match steer::interrupt(context.store(), tenant, run, context.now()).await? {
        Steered::NoSuchRun => Err(AgentlingError::NotFound { kind: "run" }),
        Steered::Refused(run) => Err(AgentlingError::RunNotActive { status: run.facts.status }),
        Steered::Done(run) => Ok(changed(context, tenant, run)),
        Steered::Requested(run) => {
            pass_wish_on(context, run.id);
            Ok(run)
        }
    }
}

pub(super) async fn resume(
    context: &Context,
    tenant: &TenantId,
    run: RunId,
) -> Result<Run, AgentlingError> {
    if context.tasks.is_stopping() {
        return Err(AgentlingError::Draining);
    }
    match steer::resume(context.store(), tenant, run, context.now()).await {
        Ok(Steered::NoSuchRun) => Err(AgentlingError::NotFound { kind: "run" }),
        Ok(Steered::Refused(run) | Steered::Requested(run)) => {
            Err(AgentlingError::RunNotWaiting { status: run.facts.status })
        }
        Ok(Steered::Done(run)) => Ok(changed(context, tenant, run)),
        Err(StoreError::Conflict(Conflict::Stale)) => Err(AgentlingError::ThreadWentOn),
        Err(error) => Err(error.into()),
    }
}

/// Tells watchers that a run was changed by a caller, and workers that a run may wait for them: this one,
/// or the next on its thread.
fn changed(context: &Context, tenant: &TenantId, run: Run) -> Run {
    context.feed.publisher(tenant, run.id).committed();
    context.steered(run.id);
    run
}

/// Passes on that something is wished of a run that may be at work in this process: the heart beats at once,
/// and reads what. Told by name, a wish might reach the worker after next, of which it is not wished.
/// Elsewhere a hint or the next beat does the same.
pub(super) fn pass_wish_on(context: &Context, wished: RunId) {
    if context.leases.holds(wished) {
        context.beat.notify_one();
    }
    context.steered(wished);
}

/// Lets the next run on that waits for a thread. What fails here, the sweep does.
pub(super) async fn let_next_on(context: &Context, tenant: &TenantId, thread: ThreadId) {
    match thread_queue::admit_next(context.store(), tenant, thread, context.now()).await {
        Ok(None) => {}
        Ok(Some(run)) => {
            context.feed.publisher(tenant, run).committed();
            context.steered(run);
        }
        Err(error) => tracing::warn!(%thread, %error, "the next run has to wait for the sweep"),
    }
}

/// Ends runs whose time was over before it was their turn, and lets those on that a crash left waiting.
pub(super) async fn sweep(context: &Context) -> Result<(), StoreError> {
    for (tenant, run) in thread_queue::overdue(context.store()).await? {
        let failure = super::takeover::timed_out();
        let failure = RunFailure {
            cause: failure.cause,
            detail: failure.detail,
            error_id: ErrorId::from(context.parts.ids.sortable()),
        };
        let now = context.now();
        let ended = steer::time_out(context.store(), &tenant, run, failure, now);
        match scope::within(&tenant, ended).await {
            Ok(Steered::Done(run)) => drop(changed(context, &tenant, run)),
            Ok(_) => {}
            // Somebody has its thread; the others are not to wait for that.
            Err(error) => tracing::warn!(%run, %error, "a run whose time is over was not ended"),
        }
    }
    for (tenant, thread) in thread_queue::stranded(context.store()).await? {
        scope::within(&tenant, let_next_on(context, &tenant, thread)).await;
    }
    Ok(())
}
