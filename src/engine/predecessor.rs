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
use crate::domain::step::StepContent;
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
    /// What the run was loaded with, as far as the request may have told it.
    at_hand: Arc<AtHand>,
    known: Arc<OnceCell<Known>>,
}

/// Steps of the thread up to the last one that is the reply to a request.
#[derive(Debug, Default)]
struct AtHand {
    first_seq: i64,
    reply_seq: i64,
    steps: Arc<[StepContent]>,
}

impl AtHand {
    fn of(loaded: &LoadedRun) -> Self {
        let last = loaded.steps.iter().rposition(|step| step.request.is_some());
        let Some(told) = last.and_then(|last| loaded.steps.get(..=last)) else {
            return Self::default();
        };
        let Some((reply, told)) = told.split_last() else { return Self::default() };
        Self {
            first_seq: loaded.memory_from,
            reply_seq: reply.seq,
            steps: told.iter().map(|step| step.content.clone()).collect(),
        }
    }

    /// The steps that a request told, where they are here.
    fn told(&self, request: &StoredRequest) -> Option<Arc<[StepContent]>> {
        let is_here = (self.first_seq, self.reply_seq) == (request.first_seq, request.reply_seq);
        is_here.then(|| Arc::clone(&self.steps))
    }
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
            at_hand: Arc::new(AtHand::of(loaded)),
            known: Arc::new(OnceCell::new_with(known)),
        }
    }

    /// The next request is compared with this one.
    pub(super) fn replace(&mut self, body: Bytes) {
        self.at_hand = Arc::default();
        self.known = Arc::new(OnceCell::new_with(Some(Known::Body(body))));
    }

    /// What is known of it, looked up where that was not done before.
    pub(super) async fn known(&self, context: &Arc<Context>) -> Known {
        let found = self.known.get_or_try_init(async || {
            let (store, tenant, thread) = (context.store(), &self.tenant, self.thread);
            let Some(stored) = requests::last(store, tenant, thread).await? else {
                return Ok(Known::None);
            };
            let steps = match self.at_hand.told(&stored) {
                Some(steps) => steps,
                None => requests::told(store, tenant, thread, &stored).await?.into(),
            };
            let (it, context) = (self.clone(), Arc::clone(context));
            let tasks = context.tasks.clone();
            // The model's reply comes in meanwhile, and a long history takes its time.
            let rendered =
                tasks.compute(move || it.rendered_again(&context, &stored, &steps)).await;
            Ok(rendered.unwrap_or(Known::Lost))
        });
        found.await.cloned().unwrap_or_else(|error: StoreError| {
            // A figure is no reason to keep a reply waiting.
            tracing::warn!(thread = %self.thread, error = %error, "a request was not looked up");
            Known::Lost
        })
    }

    fn rendered_again(
        &self,
        context: &Context,
        stored: &StoredRequest,
        steps: &[StepContent],
    ) -> Known {
        let parts = &context.parts;
        let redactor = parts.redaction.of_thread(self.thread, &stored.agent.redaction);
        let redactor = Arc::new(redactor);
        let prompter = Prompter::new(&parts.toolbox, &stored.agent, &self.framing, &redactor);
        let first_seq = stored.first_seq;
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
