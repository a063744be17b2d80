//! The worker pool: claims what waits, as far as there is room, and keeps the leases alive.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use uuid::Uuid;

use super::driver::Driver;
use super::relay::relay_loop;
use super::{Context, steer, sub_runs};
use crate::domain::fault::Fault;
use crate::store::backlog::{self, Backlog};
use crate::store::lease::{self, Claim, Terms};
use crate::store::vacuum::{self, OpenTransaction};
use crate::store::{StoreError, answers, budget, deltas, idempotency, scope};

/// How many runs one statement claims.
const CLAIM_AT_ONCE: usize = 16;

/// By how much sooner than usual the heart beats again after a beat that did not go through.
const SOONER: u32 = 8;

pub(super) fn start(context: &Arc<Context>) {
    if context.parts.settings.role.works() {
        context.tasks.spawn(claim_loop(Arc::clone(context)));
        context.tasks.spawn(heartbeat_loop(Arc::clone(context)));
    }
    context.tasks.spawn(sweep_loop(Arc::clone(context)));
    context.tasks.spawn(relay_loop(Arc::clone(context)));
}

async fn claim_loop(context: Arc<Context>) {
    while !context.tasks.is_stopping() {
        if claim(&context).await.unwrap_or_else(not_claimed) {
            continue;
        }
        // Replicas that were started together drift apart.
        let poll = context.parts.settings.poll.mul_f64(0.7 + 0.6 * context.jitter());
        tokio::select! {
            () = context.tasks.stopping() => {}
            () = context.wake.notified() => {}
            () = tokio::time::sleep(poll) => {}
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `unwrap_or_else` hands on")]
fn not_claimed(error: StoreError) -> bool {
    tracing::warn!(%error, source = ?error, "runs could not be claimed");
    false
}

/// Claims as many runs as there is room for; whether there may be more.
async fn claim(context: &Arc<Context>) -> Result<bool, StoreError> {
    let room = context.parts.settings.concurrency.saturating_sub(context.leases.len());
    let tokens: Vec<Uuid> =
        (0..room.min(CLAIM_AT_ONCE)).map(|_| context.parts.ids.random()).collect();
    if tokens.is_empty() {
        return Ok(false);
    }
    let claimed_at = context.parts.clock.monotonic();
    let settings = &context.parts.settings;
    let terms = Terms { ttl: settings.lease, per_tenant: settings.per_tenant };
    let claims = lease::claim(context.store(), &tokens, terms, context.now()).await?;
    let has_more = claims.len() == tokens.len();
    for claim in claims {
        context.parts.instruments.metrics.claimed(claim.waited);
        drive(context, claim, claimed_at);
    }
    Ok(has_more)
}

fn drive(context: &Arc<Context>, claim: Claim, claimed_at: Duration) {
    let with = (&context.parts.clock, context.parts.settings.lease);
    let (hold, grip) = context.leases.hold(&claim, claimed_at, with);
    let shared = Arc::clone(context);
    let tenant = claim.tenant.clone();
    let work = async move {
        let driving = Box::pin(Driver::drive(Arc::clone(&shared), claim.clone(), grip));
        // A panic is a bug; it must cost one run its claim, not the process its life. A run that keeps
        // doing this is given up as poisoned.
        let fault = match AssertUnwindSafe(driving).catch_unwind().await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => {
                tracing::error!(run = %claim.run, error = %error, source = ?error, "a run is given up here");
                Some(Fault::StoreFailed)
            }
            Err(_) => {
                tracing::error!(run = %claim.run, "driving a run panicked");
                Some(Fault::Panicked)
            }
        };
        if let Some(fault) = fault {
            abandon(&shared, &claim, fault).await;
        }
        drop(hold);
        // There is room for one more.
        shared.wake.notify_one();
    };
    context.tasks.spawn(async move { scope::within(&tenant, work).await });
}

/// Gives a run back that went wrong here. Nothing of it is under way any more.
async fn abandon(context: &Context, claim: &Claim, fault: Fault) {
    let Claim { tenant, run, token, .. } = claim;
    if let Err(error) = lease::abandon(context.store(), tenant, (*run, *token), fault).await {
        tracing::warn!(%run, %error, "a run is left to its lease");
    }
}

async fn heartbeat_loop(context: Arc<Context>) {
    let interval = context.parts.settings.heartbeat;
    let mut pause = interval;
    // The heart beats until the last run is given up, also through a drain.
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = context.beat.notified() => {}
            () = drained(&context) => return,
        }
        let now = context.parts.clock.monotonic();
        let went_through =
            context.leases.beat(context.store(), context.parts.settings.lease, now).await;
        // One that failed is not missed for a whole interval.
        pause = if went_through { interval } else { interval / SOONER };
    }
}

/// Resolves when the server is stopping and holds no run any more.
pub(super) async fn drained(context: &Context) {
    context.tasks.stopping().await;
    context.leases.emptied().await;
}

/// Looks for what nobody else sees to. What one part of it fails at holds none of the others up, and runs
/// whose worker was lost come first: how soon they go on is promised.
async fn sweep(context: &Context) {
    let store = context.store();
    let n_claimable = swept("leases", lease::sweep(store).await)
        + swept("waits", answers::wake_overdue(store).await)
        + swept("ends of sub-runs", sub_runs::tell(context).await)
        + swept("budgets", budget::wake(store).await);
    if n_claimable > 0 {
        context.claimable();
    }
    swept("threads", steer::sweep(context).await);
    swept("sub-runs", sub_runs::sweep(context).await);
    swept("orphans", sub_runs::erase_orphans(context).await);
    swept("idempotency keys", idempotency::forget_old(store).await);
    swept("deltas", deltas::forget_old(store).await);
}

fn swept<T: Default>(what: &str, done: Result<T, StoreError>) -> T {
    done.unwrap_or_else(|error| {
        tracing::warn!(what, %error, source = ?error, "a part of the sweep did not go through");
        T::default()
    })
}

/// Notes what operators are to see of the database. Whoever asks for metrics asks the database nothing.
async fn measure(context: &Context, oldest: Option<&OpenTransaction>) {
    let metrics = &context.parts.instruments.metrics;
    metrics.oldest_transaction(oldest.map_or(Duration::ZERO, |oldest| oldest.age));
    let Backlog { n_runs, longest } = swept("backlog", backlog::now(context.store()).await);
    metrics.runs_waiting(n_runs, longest);
}

/// Says it once of a transaction that keeps the database from clearing away what is dead: claims become
/// slow by that, long before anything fails. Answers what was said of.
fn warn_of_old(
    context: &Context,
    oldest: Option<OpenTransaction>,
    known: Option<i32>,
) -> Option<i32> {
    let oldest = oldest?;
    let is_old = oldest.age > context.parts.settings.old_transaction;
    if is_old && known != Some(oldest.pid) {
        let (pid, application, seconds) = (oldest.pid, oldest.application, oldest.age.as_secs());
        tracing::warn!(
            pid,
            application,
            seconds,
            "an old transaction keeps dead rows in the database"
        );
    }
    is_old.then_some(oldest.pid)
}

async fn sweep_loop(context: Arc<Context>) {
    let mut old = None;
    while !context.tasks.is_stopping() {
        sweep(&context).await;
        let oldest = swept("open transactions", vacuum::oldest_transaction(context.store()).await);
        measure(&context, oldest.as_ref()).await;
        old = warn_of_old(&context, oldest, old);
        let pause = context.parts.settings.sweep.mul_f64(0.8 + 0.4 * context.jitter());
        tokio::select! {
            () = context.tasks.stopping() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
