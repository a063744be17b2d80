//! Forgets what is old, a portion at a time, one replica at a time.

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use crate::domain::id::{TenantId, ThreadId};
use crate::store::chores::{self, Chore, Mark};
use crate::store::{StoreError, memory_items, retention, scope};

/// How long a replica has for a portion before another one goes on from where it began.
const PORTION: Duration = Duration::from_mins(5);

/// The time between two ways through everything.
const REST: Duration = Duration::from_hours(1);

pub(super) fn start(context: &Arc<Context>) {
    context.tasks.spawn(keep_loop(Arc::clone(context)));
}

async fn keep_loop(context: Arc<Context>) {
    while !context.tasks.is_stopping() {
        for chore in Chore::ALL {
            do_all(&context, *chore).await.unwrap_or_else(|error| not_done(*chore, &error));
        }
        let pause = context.parts.settings.sweep.mul_f64(0.8 + 0.4 * context.jitter());
        tokio::select! {
            () = context.tasks.stopping() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn not_done(chore: Chore, error: &StoreError) {
    tracing::warn!(%chore, %error, source = ?error, "a chore did not go through");
}

/// Does a chore that is due, to its end, unless somebody else has it.
async fn do_all(context: &Context, chore: Chore) -> Result<(), StoreError> {
    let kept = context.parts.retention;
    let age = match chore {
        Chore::Threads => kept.threads,
        Chore::Ledger => kept.ledger,
        Chore::Deliveries => Some(kept.deliveries),
        // They are as old as they need to be.
        Chore::ExpiredItems => Some(Duration::ZERO),
        Chore::ItemVersions => kept.item_versions,
    };
    let Some(age) = age else { return Ok(()) };
    while !context.tasks.is_stopping() {
        let Some(mark) = chores::take(context.store(), chore, PORTION).await? else { break };
        let next = do_portion(context, chore, &mark, age).await?;
        let pause = if next.is_some() { Duration::ZERO } else { REST };
        chores::put_back(context.store(), chore, &next.unwrap_or_default(), pause).await?;
    }
    Ok(())
}

/// Does a portion; where the next one begins, if there is one.
async fn do_portion(
    context: &Context,
    chore: Chore,
    mark: &Mark,
    age: Duration,
) -> Result<Option<Mark>, StoreError> {
    let store = context.store();
    let n = match chore {
        Chore::Threads => return do_threads(context, Forgets::Threads, mark, age).await,
        Chore::Ledger => return do_threads(context, Forgets::Bodies, mark, age).await,
        Chore::Deliveries => retention::forget_deliveries(store, age).await?,
        Chore::ExpiredItems => memory_items::forget_expired(store).await?,
        Chore::ItemVersions => memory_items::forget_versions(store, age).await?,
    };
    Ok((n > 0).then(|| mark.clone()))
}

/// What is forgotten of old threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgets {
    /// All of it.
    Threads,
    /// The bodies of requests.
    Bodies,
}

/// Looks at the next portion of threads.
async fn do_threads(
    context: &Context,
    what: Forgets,
    mark: &Mark,
    age: Duration,
) -> Result<Option<Mark>, StoreError> {
    let store = context.store();
    let portion = retention::look(store, mark, age, what == Forgets::Bodies).await?;
    for (tenant, thread) in &portion.old {
        if context.tasks.is_stopping() {
            // The portion is begun again elsewhere.
            return Ok(Some(mark.clone()));
        }
        scope::within(tenant, forget(context, what, (tenant, *thread), age)).await;
    }
    Ok(portion.next)
}

/// Forgets one thread or its bodies. One that cannot be forgotten does not keep the others.
async fn forget(
    context: &Context,
    what: Forgets,
    (tenant, thread): (&TenantId, ThreadId),
    age: Duration,
) {
    let store = context.store();
    let done = match what {
        Forgets::Bodies => retention::forget_bodies(store, tenant, thread, age).await,
        Forgets::Threads => retention::forget_thread(store, tenant, thread, age).await,
    };
    if let Err(error) = done {
        tracing::warn!(%thread, %error, source = ?error, "an old thread could not be forgotten");
    }
}
