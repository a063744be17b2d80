//! How much of a request is what the request before it began with: what a provider's cache of
//! prompts can make use of.
//!
//! A worker keeps the last request of the run that it drives. The one before a claim is rendered
//! again from what it told, and counts only when its bytes are those that were sent.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OnceCell;

use super::Context;
use super::prompt::{Prompter, Told, body_hash};
use crate::domain::id::{TenantId, ThreadId};
use crate::domain::request::{RequestFigures, shared_prefix};
use crate::domain::thread::Framing;
use crate::store::StoreError;
use crate::store::journal::LoadedRun;
use crate::store::requests::{self, StoredRequest};

/// The last request of a thread that got a reply.
#[derive(Debug, Clone)]
pub(super) struct Predecessor {
    tenant: TenantId,
    thread: ThreadId,
    framing: Arc<Framing>,
    known: Arc<OnceCell<Known>>,
}

/// What is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Known {
    /// There was none.
    None,
    /// Its body.
    Body(Bytes),
    /// It cannot be told any more.
    Lost,
}

impl Predecessor {
    /// That of a run's thread, to be looked up unless the whole thread is at hand and has none.
    pub(super) fn of(tenant: &TenantId, loaded: &LoadedRun) -> Self {
        let is_whole = loaded.memory_from == 1;
        let has_one = loaded.steps.iter().any(|step| step.request.is_some());
        let known = (is_whole && !has_one).then_some(Known::None);
        Self {
            tenant: tenant.clone(),
            thread: loaded.run.thread_id,
            framing: Arc::new(loaded.framing.clone()),
            known: Arc::new(OnceCell::new_with(known)),
        }
    }

    /// The next request is compared with this one.
    pub(super) fn replace(&mut self, body: Bytes) {
        self.known = Arc::new(OnceCell::new_with(Some(Known::Body(body))));
    }

    /// What is known of it, looked up where that was not done before.
    pub(super) async fn known(&self, context: &Context) -> Known {
        let found = self.known.get_or_try_init(async || {
            let stored = requests::last(context.store(), &self.tenant, self.thread).await?;
            Ok(stored.map_or(Known::None, |stored| self.rendered_again(context, &stored)))
        });
        found.await.cloned().unwrap_or_else(|error: StoreError| {
            // A figure is no reason to keep a reply waiting.
            tracing::warn!(thread = %self.thread, error = %error, "a request was not looked up");
            Known::Lost
        })
    }

    fn rendered_again(&self, context: &Context, stored: &StoredRequest) -> Known {
        let parts = &context.parts;
        let redactor = parts.redaction.of_thread(self.thread, &stored.agent.redaction);
        let redactor = Arc::new(redactor);
        let prompter = Prompter::new(&parts.toolbox, &stored.agent, &self.framing, &redactor);
        let (steps, first_seq) = (stored.steps.as_slice(), stored.first_seq);
        // Whether it was asked for the closing turn is not kept: its bytes tell.
        let bodies = [false, true].into_iter().map(|closing| {
            let told = Told { steps, first_seq, closing };
            prompter.dry_call(told).request()
        });
        let mut sent = bodies.filter(|body| body_hash(body) == stored.sha256);
        sent.next().map_or(Known::Lost, Known::Body)
    }
}

impl Known {
    /// A request in figures, compared with this one.
    pub(super) fn compare(&self, body: &[u8]) -> RequestFigures {
        let shared = match self {
            Self::None => Some(0),
            Self::Body(before) => Some(shared_prefix(before, body)),
            Self::Lost => None,
        };
        RequestFigures {
            bytes: count(body.len()),
            shared_bytes: shared.map(count),
            sha256: body_hash(body),
        }
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
