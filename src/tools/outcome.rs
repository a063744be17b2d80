//! Results as outcomes, which are all that leaves this layer.

use super::response::{Output, storable};
use super::toolset::LogText;
use crate::domain::id::CallId;
use crate::domain::tool::{OutcomeKind, ToolCallError, ToolFailure, ToolOutcome};

/// The outcome of a call that needs nothing from outside.
pub(super) fn settled(
    call_id: CallId,
    name: &str,
    result: Result<Output, ToolCallError>,
) -> ToolOutcome {
    let outcome = ToolOutcome::not_run(call_id, name, OutcomeKind::Success, None);
    match result {
        Ok(Output { said, files, sanitised }) => {
            ToolOutcome { is_error: false, output: said, files, sanitised, ..outcome }
        }
        Err(error) => {
            let (message, sanitised) = storable(&error.message);
            let error_kind = error.kind;
            let failure =
                ToolFailure { r#type: error.type_name.to_owned(), message, redacted: false };
            ToolOutcome { kind: error_kind, error: Some(failure), sanitised, ..outcome }
        }
    }
}

/// Withholds what a tool said about its failure. The arguments that we find not to fit, the names of tools
/// and the time bound stay: they tell nothing that the model does not know. What a server of others says of
/// arguments is its own text.
pub(super) fn redact(outcome: &mut ToolOutcome, is_judged_elsewhere: bool, log: &LogText) {
    let is_theirs = match outcome.kind {
        OutcomeKind::Execution => true,
        OutcomeKind::InvalidArguments => is_judged_elsewhere,
        _ => false,
    };
    let Some(failure) = outcome.error.as_mut().filter(|_| is_theirs) else { return };
    // Debug formatting escapes control characters, which could forge lines of the log.
    tracing::warn!(
        tool_call_id = %outcome.tool_call_id,
        tool = ?log.of(&outcome.name),
        error_type = ?log.of(&failure.r#type),
        message = ?log.of(&failure.message),
        "a tool's failure is withheld from the model",
    );
    failure.message.clear();
    failure.redacted = true;
}
