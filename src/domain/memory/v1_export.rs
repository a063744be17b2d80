//! Version 1, the seed framework's own format: writing.
//!
//! The format carries a history, not its thread: labels and framing policy are not part of it.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Memory;
use super::loss::{LossReport, losses};
use super::v1::{ASSISTANT, ERROR_KINDS};
use crate::domain::id::CallId;
use crate::domain::message::{Reply, ReplyPart, ToolCallPart};
use crate::domain::model::Usage;
use crate::domain::retry::plain_retry_text;
use crate::domain::step::{ActionStep, InputPart, StepContent, TaskStep, V1Extras};
use crate::domain::tool::{OutcomeKind, ToolOutcome, ToolOutput};

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    steps: Vec<Entry<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
enum Entry<'a> {
    Task { task: String },
    Action(Action<'a>),
    Final { answer: &'a str },
}

#[derive(Serialize)]
struct Action<'a> {
    model_message: Message<'a>,
    tool_results: Vec<ToolResult<'a>>,
    error: Option<&'a str>,
    usage: Option<Value>,
    duration: Option<&'a Value>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'a str,
    content: Option<String>,
    tool_calls: Vec<Call<'a>>,
    tool_call_id: Option<&'a str>,
    usage: Option<Value>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a CallId,
    name: &'a str,
    arguments: Box<RawValue>,
}

#[derive(Serialize)]
struct ToolResult<'a> {
    tool_call_id: &'a CallId,
    name: &'a str,
    content: String,
    is_error: bool,
    error_kind: Option<&'static str>,
}

#[derive(Serialize)]
struct TokenCounts {
    input_tokens: u64,
    output_tokens: u64,
}

/// Writes a memory as a document of version 1.
///
/// With `lossy`, what the format cannot say is left out or said in plain text; without it, the first
/// thing that would be lost refuses the export.
pub fn export_v1(memory: &Memory, lossy: bool) -> Result<String, LossReport> {
    if !lossy {
        let findings = losses(&memory.steps);
        if !findings.is_empty() {
            return Err(LossReport { findings });
        }
    }
    let steps = memory.steps.iter().filter_map(entry).collect();
    // Writing into memory fails only for keys that are no text, and there are none.
    Ok(serde_json::to_string(&Document { version: 1, steps }).unwrap_or_default())
}

fn entry(step: &StepContent) -> Option<Entry<'_>> {
    match step {
        StepContent::Task(task) => Some(Entry::Task { task: task_text(task) }),
        StepContent::Action(step) => Some(Entry::Action(action(step))),
        StepContent::Retry(retry) => Some(Entry::Task { task: plain_retry_text(retry) }),
        // Nothing in the format speaks in the system voice, and the user must not seem to.
        // What a summary stands for is in the document itself.
        StepContent::System(_)
        | StepContent::Context(_)
        | StepContent::Tools(_)
        | StepContent::Summary(_) => None,
        StepContent::Final(step) => Some(Entry::Final { answer: &step.answer }),
    }
}

fn task_text(task: &TaskStep) -> String {
    let texts: Vec<&str> = task.parts.iter().filter_map(InputPart::text).collect();
    texts.join("\n")
}

fn action(step: &ActionStep) -> Action<'_> {
    let ActionStep { reply, outcomes, v1 } = step;
    let extras = v1.as_ref();
    let counted = || reply.usage.and_then(token_counts);
    Action {
        model_message: Message {
            role: extras.and_then(|v1| v1.role.as_deref()).unwrap_or(ASSISTANT),
            content: content(reply, extras),
            tool_calls: reply.tool_calls().map(call).collect(),
            tool_call_id: extras.and_then(|v1| v1.tool_call_id.as_deref()),
            usage: extras.map_or_else(counted, |v1| v1.message_usage.clone()),
        },
        tool_results: outcomes.iter().map(|outcome| result(outcome, extras)).collect(),
        error: extras.and_then(|v1| v1.error.as_deref()),
        usage: extras.map_or_else(counted, |v1| v1.usage.clone()),
        duration: extras.and_then(|v1| v1.duration.as_ref()),
    }
}

fn token_counts(usage: Usage) -> Option<Value> {
    let counts = TokenCounts { input_tokens: usage.input, output_tokens: usage.output };
    serde_json::to_value(counts).ok()
}

/// The text of a reply; the seed framework writes an empty text where there is none.
fn content(reply: &Reply, extras: Option<&V1Extras>) -> Option<String> {
    let text: String =
        reply
            .parts
            .iter()
            .filter_map(|part| {
                if let ReplyPart::Text(text) = part { Some(text.text.as_str()) } else { None }
            })
            .collect();
    let null = text.is_empty() && extras.is_some_and(|v1| !v1.content_is_empty_text);
    (!null).then_some(text)
}

fn call(call: &ToolCallPart) -> Call<'_> {
    let exact = super::loss::is_object(&call.arguments)
        .then(|| RawValue::from_string(call.arguments.clone()).ok())
        .flatten();
    // Arguments that are no object are among the losses.
    let arguments =
        exact.unwrap_or_else(|| RawValue::from_string("{}".to_owned()).unwrap_or_default());
    Call { id: &call.tool_call_id, name: &call.name, arguments }
}

fn result<'a>(outcome: &'a ToolOutcome, extras: Option<&V1Extras>) -> ToolResult<'a> {
    let untyped = extras.is_some_and(|v1| v1.untyped_errors.contains(&outcome.tool_call_id));
    ToolResult {
        tool_call_id: &outcome.tool_call_id,
        name: &outcome.name,
        content: result_text(outcome),
        is_error: outcome.is_error,
        error_kind: if untyped { None } else { error_kind(outcome.kind) },
    }
}

/// The nearest kind that version 1 knows.
fn error_kind(kind: OutcomeKind) -> Option<&'static str> {
    if kind == OutcomeKind::Success {
        return None;
    }
    let known = ERROR_KINDS.iter().find(|(_, known)| *known == kind);
    Some(known.map_or("execution", |(name, _)| name))
}

/// What came of a call, as a text.
pub(super) fn result_text(outcome: &ToolOutcome) -> String {
    match (&outcome.output, &outcome.error) {
        (Some(ToolOutput::Text(text)), _) => text.text.clone(),
        (Some(ToolOutput::Json(json)), _) => json.text(),
        (None, Some(error)) if error.redacted => {
            format!("{} while running '{}' (details suppressed).", error.r#type, outcome.name)
        }
        (None, Some(error)) if error.r#type.is_empty() => error.message.clone(),
        (None, Some(error)) => format!("{}: {}", error.r#type, error.message),
        (None, None) if outcome.is_error => format!("The call ended as {}.", outcome.kind),
        (None, None) => String::new(),
    }
}
