//! What operators see of a server at work: metrics, and spans of traces.
//!
//! The layers above say what happens in words of the service; names, labels and attributes are chosen here.
//! Labels of metrics are from closed sets: no tenant, id or text of a caller is ever one. Attributes of spans
//! hold names and ids, and content only where the operator asked for it.

mod metrics;
mod parent;
mod trace;

pub use metrics::{Metrics, Requested, metrics_markdown};
pub use parent::RemoteParent;
pub use trace::{Conversation, Kind, Span, Tracer};

/// The instruments of a server. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Instruments {
    /// Counts and durations.
    pub metrics: Metrics,
    /// Where spans go; nowhere by default.
    pub tracer: Tracer,
}
