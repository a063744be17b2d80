//! The requests before one: the one that a provider's cache of prompts may still hold, and those that it
//! can be stored onto.
//!
//! A worker keeps the last request to each provider of the run that it drives. What was sent before a
//! claim is read from the ledger.

use std::sync::Arc;

use tokio::sync::OnceCell;

use super::Context;
use super::prompt::body_hash;
use crate::domain::id::{RequestId, TenantId, ThreadId};
use crate::domain::ledger::{Encoded, Purpose};
use crate::domain::model::Provider;
use crate::domain::request::{RequestFigures, shared_prefix};
use crate::store::StoreError;
use crate::store::journal::LoadedRun;
use crate::store::ledger::{self, Bytes, Last};

/// A request that others can be stored onto.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// Its id.
    pub(super) id: RequestId,
    /// Who was asked; not known of requests from before there was a ledger.
    pub(super) provider: Option<Provider>,
    /// For what.
    pub(super) purpose: Purpose,
    /// What was sent.
    pub(super) request: Arc<Encoded>,
}

/// The last requests of a thread.
#[derive(Debug, Clone)]
pub(super) struct Predecessor {
    tenant: TenantId,
    thread: ThreadId,
    /// Whether the whole thread is at hand and has no request.
    is_first: bool,
    /// The last one whose reply is on record, looked up when it is needed.
    replied: Arc<OnceCell<Known>>,
    /// The last ones that were made here, one a provider and purpose.
    made: Vec<Kept>,
}

/// What is known of the last request that got a reply.
#[derive(Debug, Clone)]
pub(super) enum Known {
    /// There was none.
    None,
    /// All of it.
    Body(Kept),
    /// It is not kept, or cannot be read.
    Lost,
}

/// What a request is compared with and stored onto.
#[derive(Debug, Clone)]
pub(super) struct Before {
    /// The last one that got a reply.
    pub(super) known: Known,
    /// What it can be stored onto.
    pub(super) bases: Vec<Kept>,
}

impl Predecessor {
    /// Whose thread it is.
    pub(super) const fn tenant(&self) -> &TenantId {
        &self.tenant
    }

    /// That of a run's thread.
    pub(super) fn of(tenant: &TenantId, loaded: &LoadedRun) -> Self {
        let is_whole = loaded.memory_from == 1;
        let is_first = is_whole && !loaded.steps.iter().any(|step| step.request.is_some());
        Self {
            tenant: tenant.clone(),
            thread: loaded.run.thread_id,
            is_first,
            replied: Arc::new(OnceCell::new_with(is_first.then_some(Known::None))),
            made: Vec::new(),
        }
    }

    /// A request was made, whatever came of it: the next ones can be stored onto it.
    pub(super) fn made(&mut self, kept: &Kept) {
        let is_other = |it: &Kept| (it.provider, it.purpose) != (kept.provider, kept.purpose);
        self.made.retain(is_other);
        self.made.push(kept.clone());
    }

    /// The reply to a request is on record: the next one is compared with it.
    pub(super) fn replied(&mut self, kept: Kept) {
        self.replied = Arc::new(OnceCell::new_with(Some(Known::Body(kept))));
    }

    /// What was made here for a purpose.
    pub(super) fn made_for(&self, purpose: Purpose) -> Before {
        let bases = self.made.iter().filter(|kept| kept.purpose == purpose).cloned().collect();
        Before { known: Known::None, bases }
    }

    /// What is before a request for a reply, looked up where that was not done yet. What cannot be read
    /// makes a request longer to store, and is no reason to keep a reply waiting.
    pub(super) async fn before(&self, context: &Arc<Context>, provider: Provider) -> Before {
        let known = self.replied.get_or_try_init(|| self.look_up(context, None)).await;
        let known = known.cloned().unwrap_or_else(|error| self.lost(&error));
        let Before { mut bases, .. } = self.made_for(Purpose::Reply);
        bases.extend(known.kept().cloned());
        let is_there = bases.iter().any(|kept| kept.provider == Some(provider));
        if !is_there && !self.is_first {
            let last = self.look_up(context, Some(provider)).await;
            bases.extend(last.unwrap_or_else(|error| self.lost(&error)).kept().cloned());
        }
        Before { known, bases }
    }

    async fn look_up(
        &self,
        context: &Arc<Context>,
        provider: Option<Provider>,
    ) -> Result<Known, StoreError> {
        let (store, tenant) = (context.store(), &self.tenant);
        let last = ledger::last(store, tenant, self.thread, provider).await?;
        let Some(Last { id, provider }) = last else { return Ok(Known::None) };
        match ledger::base(store, tenant, id).await {
            Ok(Some(Bytes::Kept(body))) => {
                let (purpose, request) = (Purpose::Reply, Arc::new(body.request));
                Ok(Known::Body(Kept { id, provider, purpose, request }))
            }
            Ok(_) => Ok(Known::Lost),
            // It will not be another one the next time.
            Err(error) if !error.is_passing() => Ok(self.lost(&error)),
            Err(error) => Err(error),
        }
    }

    fn lost(&self, error: &StoreError) -> Known {
        tracing::warn!(thread = %self.thread, error = %error, "a request was not looked up");
        Known::Lost
    }
}

impl Known {
    const fn kept(&self) -> Option<&Kept> {
        match self {
            Self::Body(kept) => Some(kept),
            Self::None | Self::Lost => None,
        }
    }

    /// A request in figures, compared with this one.
    pub(super) fn compare(&self, request: &Encoded) -> RequestFigures {
        let shared = match self {
            Self::None => Some(0),
            Self::Body(before) => Some(shared_prefix(&before.request.body, &request.body)),
            Self::Lost => None,
        };
        let shared = shared.map(count);
        let differs = |shared: u64| request.spans.iter().find(|span| span.end > shared).cloned();
        RequestFigures {
            bytes: count(request.body.len()),
            shared_bytes: shared,
            sha256: body_hash(&request.body),
            difference: self.kept().and_then(|_| differs(shared?)),
        }
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
