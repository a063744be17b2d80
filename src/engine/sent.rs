//! From an attempt at a model call to its entry in the ledger.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use serde_json::Value;

use super::Context;
use super::compaction::Shortening;
use super::journal::{Journal, Stamp};
use super::predecessor::{Before, Kept};
use crate::domain::id::RequestId;
use crate::domain::ledger::{Encoded, Purpose, RequestOutcome};
use crate::domain::model::{ModelErrorKind, ModelSpec, Usage};
use crate::domain::request::RequestFigures;
use crate::provider::{Attempt, ModelCall};
use crate::render;
use crate::store::journal::{Appended, Guard, append};
use crate::store::ledger::{NewRequest, Packed, PackedBody, Taken};

/// How long a run that is given back waits for its last requests to be recorded.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A request that was sent and is not recorded yet.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    /// What is recorded.
    pub(super) entry: Arc<NewRequest>,
    /// What the next ones can be stored onto.
    pub(super) kept: Kept,
    /// The request in figures.
    pub(super) figures: RequestFigures,
}

/// What a request is sent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Errand {
    /// The turn; 0 without a run.
    pub(super) turn: u32,
    /// The attempt at it.
    pub(super) attempt: u32,
    /// What is asked for.
    pub(super) purpose: Purpose,
}

/// Everything that an entry is made from.
struct Draft {
    id: RequestId,
    errand: Errand,
    model: ModelSpec,
    profile: Value,
    request: Arc<Encoded>,
    before: Before,
    came: Came,
}

/// What came of a request.
struct Came {
    endpoint: String,
    header_names: Vec<String>,
    sent_at: DateTime<Utc>,
    first_byte_after: Option<Duration>,
    took: Duration,
    status: Option<u16>,
    outcome: RequestOutcome,
    error: Option<ModelErrorKind>,
    taken: Option<Taken>,
    response: Option<Bytes>,
    response_type: Option<String>,
}

impl Sent {
    /// An attempt that is over, and what it took although it failed. `None` when its entry could not be made,
    /// which the log tells.
    pub(super) async fn of(
        context: &Context,
        call: &ModelCall,
        errand: Errand,
        (attempt, spent): (&Attempt, Option<Usage>),
        before: Before,
    ) -> Option<Self> {
        let usage = attempt.outcome.as_ref().ok().and_then(|reply| reply.usage).or(spent);
        let price = context.parts.prices.of(&call.spec);
        let taken = usage.map(|usage| Taken { usage, cost: price.map(|price| price.of(usage)) });
        let error = attempt.outcome.as_ref().err().map(|error| error.kind);
        let outcome =
            if error.is_some() { RequestOutcome::Failed } else { RequestOutcome::Replied };
        let came = Came {
            endpoint: attempt.endpoint.clone(),
            header_names: attempt.header_names.clone(),
            sent_at: attempt.sent_at,
            first_byte_after: attempt.first_byte_after,
            took: attempt.took,
            status: attempt.status,
            outcome,
            error,
            taken,
            response: attempt.status.map(|_| attempt.response.clone()),
            response_type: attempt.content_type.as_deref().map(media_type),
        };
        made(context, call, errand, (Arc::clone(&attempt.request), came), before).await
    }
}

async fn made(
    context: &Context,
    call: &ModelCall,
    errand: Errand,
    (request, came): (Arc<Encoded>, Came),
    before: Before,
) -> Option<Sent> {
    let draft = Draft {
        id: RequestId::from(context.parts.ids.sortable()),
        errand,
        model: call.spec.clone(),
        profile: serde_json::to_value(call.profile).unwrap_or_default(),
        request,
        before,
        came,
    };
    let redaction = context.parts.redaction.clone();
    // Hashing and compressing take their time where a request is long.
    let sent = context.tasks.compute(move || draft.packed(&|bytes| redaction.masked(bytes))).await;
    if sent.is_none() {
        tracing::error!("a request was not recorded");
    }
    sent
}

impl Draft {
    /// `mask` takes the secrets of the server out of what came back: some providers echo a key.
    fn packed(self, mask: &dyn Fn(&[u8]) -> Option<Vec<u8>>) -> Sent {
        let Self { id, errand, model, profile, request, .. } = self;
        let provider = model.provider;
        let Errand { turn, attempt, purpose } = errand;
        let figures = self.before.known.compare(&request);
        let bases = self.before.bases.iter().map(|base| (base.id, &*base.request));
        let body = PackedBody::of(&request, &bases.collect::<Vec<_>>());
        let came = self.came;
        let response = came.response.map(|bytes| match mask(&bytes) {
            Some(masked) => Packed::of(&masked),
            None => Packed::of(&bytes),
        });
        let entry = NewRequest {
            id,
            turn,
            attempt,
            purpose,
            provider,
            model: model.name,
            taken: came.taken,
            endpoint: came.endpoint,
            header_names: came.header_names,
            profile,
            renderer: render::VERSION,
            sha256: figures.sha256,
            bytes: figures.bytes,
            body,
            sent_at: came.sent_at,
            first_byte_after: came.first_byte_after,
            took: came.took,
            status: came.status,
            outcome: came.outcome,
            error: came.error,
            response,
            response_type: came.response_type,
        };
        let kept = Kept { id, provider: Some(provider), purpose, request };
        Sent { entry: Arc::new(entry), kept, figures }
    }
}

/// A call that is under way, should it be hung up on.
#[derive(Debug, Clone)]
pub(super) struct InFlight {
    call: Arc<ModelCall>,
    errand: Errand,
    /// When it was sent, by both clocks; nothing was while it waits for its pause to end.
    began: Arc<OnceLock<(DateTime<Utc>, Duration)>>,
}

impl InFlight {
    /// The request that a call makes, if it makes one: a summary comes first.
    pub(super) fn of(call: &Arc<ModelCall>, shortening: Option<&Shortening>) -> Option<Self> {
        let (asked, purpose) = match shortening {
            None => (Arc::clone(call), Purpose::Reply),
            Some(Shortening::Summarise(_, asked)) => (Arc::clone(asked), Purpose::Summary),
            Some(Shortening::Drop(_) | Shortening::Impossible) => return None,
        };
        let errand = Errand { turn: call.turn, attempt: call.attempt, purpose };
        Some(Self { call: asked, errand, began: Arc::default() })
    }

    /// A request for a summary that no run waits for, sent now.
    pub(super) fn of_summary(context: &Context, call: &Arc<ModelCall>) -> Self {
        let errand = Errand { turn: call.turn, attempt: call.attempt, purpose: Purpose::Summary };
        let in_flight = Self { call: Arc::clone(call), errand, began: Arc::default() };
        in_flight.begin(context);
        in_flight
    }

    /// What is asked for.
    pub(super) const fn purpose(&self) -> Purpose {
        self.errand.purpose
    }

    /// It is sent now.
    pub(super) fn begin(&self, context: &Context) {
        let clock = &context.parts.clock;
        self.began.get_or_init(|| (clock.now(), clock.monotonic()));
    }

    /// The entry of a call that is hung up on. What had come back of it is lost, and where it went is
    /// not known here; what was sent is the same as it was.
    pub(super) async fn abandoned(self, context: &Context, before: Before) -> Option<Sent> {
        let (sent_at, began) = *self.began.get()?;
        let call = Arc::clone(&self.call);
        let request = context.tasks.compute(move || Arc::new(call.encoded())).await?;
        let came = Came {
            endpoint: String::new(),
            header_names: Vec::new(),
            sent_at,
            first_byte_after: None,
            took: context.parts.clock.monotonic().saturating_sub(began),
            status: None,
            outcome: RequestOutcome::Abandoned,
            error: None,
            taken: None,
            response: None,
            response_type: None,
        };
        made(context, &self.call, self.errand, (request, came), before).await
    }
}

/// The media type of an answer, without its parameters: a server may write anything there, a key it was
/// shown included.
fn media_type(content_type: &str) -> String {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/+.-".contains(&byte);
    if essence.len() <= 64 && essence.bytes().all(is_plain) && essence.contains('/') {
        essence.to_ascii_lowercase()
    } else {
        "unreadable".to_owned()
    }
}

/// Puts on record what was sent and leads to no step here. The run is given back whether that succeeds or
/// not.
pub(super) async fn record_last(
    context: &Context,
    journal: &Journal,
    guard: &Guard,
    sent: &[Arc<NewRequest>],
) {
    if sent.is_empty() {
        return;
    }
    let (now, ids) = (context.now(), context.parts.ids.as_ref());
    let (mut batch, _) = journal.plan(&[], &Stamp { now, ids, heard: None, sent });
    // A cancel is for whoever takes the run next, and nothing of a budget is asked for.
    (batch.despite_cancel, batch.draws.is_budgeted) = (true, true);
    let appended = Box::pin(append(context.store(), guard, &batch));
    let appended = tokio::time::timeout(LAST_WORDS, appended).await;
    if !matches!(appended, Ok(Ok(Appended::Stored))) {
        tracing::warn!(run = %guard.run, ?appended, "requests were not recorded");
    }
}
