//! Tells endpoints of events: takes deliveries from the outbox, makes them, and writes down what came
//! of it.
//!
//! A delivery is made at least once: whoever dies between the request and the note is followed by
//! somebody who makes it again, under the same id. Nothing here can hold a run up, which only ever
//! writes to the outbox.

mod sign;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use super::{Context, Engine};
use crate::domain::id::TenantId;
use crate::domain::memory::Finding;
use crate::domain::webhook::{Attempted, DeliveryError, Webhook, pause_after};
use crate::error::AgentlingError;
use crate::store::outbox::{self, DueDelivery};
use crate::store::{StoreError, scope, webhooks};
use crate::tools::Post;

/// How many deliveries a process has under way.
const UNDER_WAY: usize = 16;

/// Words events as callers see them. What they see belongs to a higher layer, which hands this down.
pub trait Wording: Send + Sync + std::fmt::Debug {
    /// The body of a delivery; `None` when what it is about is gone.
    fn body<'a>(
        &'a self,
        delivery: &'a DueDelivery,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, AgentlingError>>;
}

/// The secret that deliveries to an endpoint are signed with, as its owner is shown it.
pub fn secret(engine: &Engine, tenant: &TenantId, webhook: &Webhook) -> String {
    let shared = &engine.context.parts.webhook_secret;
    sign::shown(&sign::secret(shared, tenant, webhook.id, webhook.secret_version))
}

/// Whether a URL that a caller named may be called. `at` is the pointer to it in their document.
///
/// # Errors
/// [`AgentlingError::EgressDenied`] when it may not.
pub fn check_url(engine: &Engine, url: &str, at: &str) -> Result<(), AgentlingError> {
    engine.context.parts.toolbox.check_url(url).map_err(|refusal| {
        AgentlingError::EgressDenied(Finding::new(at, "egress_denied", refusal.to_string()))
    })
}

/// Starts telling endpoints of events, in these words.
pub fn start(engine: &Engine, wording: Arc<dyn Wording>) {
    let context = &engine.context;
    context.tasks.spawn(deliver_loop(Arc::clone(context), wording));
}

async fn deliver_loop(context: Arc<Context>, wording: Arc<dyn Wording>) {
    let slots = Arc::new(Semaphore::new(UNDER_WAY));
    while !context.tasks.is_stopping() {
        if deliver_due(&context, &wording, &slots).await.unwrap_or_else(not_claimed) {
            continue;
        }
        let poll = context.parts.settings.poll.mul_f64(0.7 + 0.6 * context.jitter());
        tokio::select! {
            () = context.tasks.stopping() => {}
            () = tokio::time::sleep(poll) => {}
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `unwrap_or_else` hands on")]
fn not_claimed(error: StoreError) -> bool {
    tracing::warn!(%error, source = ?error, "deliveries could not be claimed");
    false
}

/// Starts as many deliveries as there is room for; whether any was due.
async fn deliver_due(
    context: &Arc<Context>,
    wording: &Arc<dyn Wording>,
    slots: &Arc<Semaphore>,
) -> Result<bool, StoreError> {
    let tokens: Vec<_> =
        (0..slots.available_permits()).map(|_| context.parts.ids.random()).collect();
    if tokens.is_empty() {
        return Ok(false);
    }
    let claimed = outbox::claim(context.store(), &tokens, patience(context)).await?;
    let any = !claimed.is_empty();
    for delivery in claimed {
        let Ok(slot) = Arc::clone(slots).try_acquire_owned() else { break };
        let (shared, wording) = (Arc::clone(context), Arc::clone(wording));
        context.tasks.spawn(async move {
            let delivered = scope::within(&delivery.tenant, deliver(&shared, &*wording, &delivery));
            tokio::select! {
                () = delivered => {}
                () = shared.tasks.aborting() => {}
            }
            drop(slot);
        });
    }
    Ok(any)
}

/// How long somebody who has claimed a delivery is not taken for dead: the attempt, and as much again
/// for what is done before and after it.
fn patience(context: &Context) -> Duration {
    context.parts.webhooks.timeout.saturating_mul(2) + Duration::from_secs(1)
}

/// Makes a delivery, or tries to, and writes down what came of it.
async fn deliver(context: &Context, wording: &dyn Wording, delivery: &DueDelivery) {
    let attempted = attempt(context, wording, delivery).await;
    context.parts.instruments.metrics.delivered(attempted.error.is_none());
    if let Err(error) = settle(context, delivery, attempted).await {
        let id = delivery.id;
        tracing::warn!(delivery = %id, %error, source = ?error, "a delivery was not written down");
    }
}

async fn attempt(context: &Context, wording: &dyn Wording, delivery: &DueDelivery) -> Attempted {
    let unreadable = Attempted::failed(DeliveryError::Unreadable);
    match wording.body(delivery).await {
        Ok(Some(body)) => context.parts.toolbox.post(post(context, delivery, body)).await,
        Ok(None) => unreadable,
        Err(error) => {
            let id = delivery.id;
            tracing::warn!(delivery = %id, %error, source = ?error, "an event could not be worded");
            unreadable
        }
    }
}

fn post(context: &Context, delivery: &DueDelivery, body: Vec<u8>) -> Post {
    let timestamp = context.now().timestamp();
    let secret = |version: &i32| {
        sign::secret(&context.parts.webhook_secret, &delivery.tenant, delivery.webhook, *version)
    };
    let secrets: Vec<_> = delivery.secret_versions.iter().map(secret).collect();
    Post {
        url: delivery.url.clone(),
        headers: vec![
            ("webhook-id", delivery.id.to_string()),
            ("webhook-timestamp", timestamp.to_string()),
            ("webhook-signature", sign::signature(&secrets, delivery.id, timestamp, &body)),
        ],
        body,
        timeout: context.parts.webhooks.timeout,
    }
}

async fn settle(
    context: &Context,
    delivery: &DueDelivery,
    attempted: Attempted,
) -> Result<(), StoreError> {
    let retry = context.parts.webhooks.retry;
    let pause = pause_after(delivery.n_attempts, retry, context.jitter());
    outbox::settle(context.store(), delivery, attempted, pause).await?;
    if attempted.is_gone() {
        // An endpoint that says that it is no more is not asked again.
        webhooks::disable(context.store(), &delivery.tenant, delivery.webhook).await?;
    }
    Ok(())
}
