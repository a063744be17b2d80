//! What endpoints work with.

use std::sync::Arc;

use axum::extract::FromRef;
use futures::future::BoxFuture;

use super::auth::Auth;
use super::cursor::Cursors;
use super::limits::BodyLimits;
use super::rates::RateLimits;
use super::runs::StreamSlots;
use crate::clock::{SharedClock, SharedIds};
use crate::engine::Engine;
use crate::engine::redaction::Redactor;
use crate::error::AgentlingError;
use crate::store::Store;

/// What every handler can reach. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AppState {
    /// The database.
    pub store: Store,
    /// Where runs are started and steered.
    pub engine: Engine,
    /// Who callers are.
    pub auth: Arc<Auth>,
    /// Seals and opens cursors.
    pub cursors: Arc<Cursors>,
    /// Time.
    pub clock: SharedClock,
    /// Ids.
    pub ids: SharedIds,
    /// The base URL under which clients reach the server, where the operator names one.
    pub public_url: Option<String>,
    /// How large bodies may be.
    pub body_limits: BodyLimits,
    /// How many streams are open.
    pub streams: StreamSlots,
    /// How fast callers ask.
    pub rates: Arc<RateLimits>,
    /// Whether work is taken.
    pub readiness: Arc<dyn Readiness>,
    /// How the log is written.
    pub log: Arc<dyn LogLines>,
    /// Whether metrics are served with everything else.
    pub serves_metrics: bool,
}

/// How the log is written.
pub trait LogLines: Send + Sync + std::fmt::Debug {
    /// What a text is in the log, which is not written to.
    fn line(&self, redactor: Redactor, text: &str) -> String;

    /// How many lines nobody took in time.
    fn lines_dropped(&self) -> u64 {
        0
    }
}

/// Whether a run would be accepted.
pub trait Readiness: Send + Sync + std::fmt::Debug {
    /// The reason why not, if it would not.
    fn check(&self) -> BoxFuture<'_, Result<(), AgentlingError>>;
}

impl FromRef<AppState> for Arc<dyn Readiness> {
    fn from_ref(app: &AppState) -> Self {
        Self::clone(&app.readiness)
    }
}
