//! The ways out that are searched: those of the engine, and those that end here.

use crate::domain::memory::{Finding, Memory, export_v2};
use crate::domain::redaction::RedactionChannel;
use crate::engine::redaction::Redaction;
use crate::engine::self_test::{self, Sink, shown};
use crate::error::AgentlingError;
use crate::http::AppState;
use crate::http::layers::problem_body;
use crate::http::problem::{Problem, ProblemKind};
use crate::http::webhooks::sample;

/// Every way out.
///
/// # Errors
/// When one of them cannot be made ready.
pub(super) fn sinks(app: &AppState) -> Result<Vec<Sink<'_>>, AgentlingError> {
    let log = Sink {
        name: "log",
        takes_shapes: true,
        way: Box::new(|redaction, text| app.log.line(redaction.of_server(), text)),
    };
    let of_api = [
        log,
        Sink { name: "problem", takes_shapes: true, way: Box::new(problem) },
        Sink { name: "export", takes_shapes: false, way: Box::new(export) },
        Sink { name: "webhook", takes_shapes: false, way: Box::new(webhook) },
    ];
    Ok(of_api.into_iter().chain(self_test::sinks(&app.engine)?).collect())
}

/// The body of a problem whose sentence and findings hold the text.
fn problem(redaction: &Redaction, text: &str) -> String {
    let finding = Finding::new("/input", "invalid_value", text);
    let problem = Problem::with_errors(ProblemKind::ValidationFailed, vec![finding]);
    problem_body(&problem, &redaction.of_server())
}

fn export(redaction: &Redaction, text: &str) -> String {
    let steps = vec![shown(redaction, RedactionChannel::Export, text)];
    export_v2(&Memory { metadata: None, framing_policy: None, steps })
}

fn webhook(redaction: &Redaction, text: &str) -> String {
    let step = shown(redaction, RedactionChannel::Webhook, text);
    sample(serde_json::to_value(&step).unwrap_or_default())
}
