//! Version 1, the seed framework's own format: loading.
//!
//! What that format says and our words do not is kept in [`V1Extras`], so that the document can be
//! written again. The text of a failed result becomes the failure's message as a whole and its type
//! stays empty: the format does not tell them apart. Tools ran exactly once there, and not at all
//! when the arguments or the name were wrong; `attempts` says so.

use serde_json::Value;

use super::Memory;
use super::checks::{Layout, Pairing, call_id};
use super::load;
use super::read::{Fields, Node, Read};
use super::v2_parts::unknown_kind;
use crate::domain::id::CallId;
use crate::domain::message::{Reply, ReplyPart, ReplyState, TextPart, ToolCallPart};
use crate::domain::model::Usage;
use crate::domain::step::{
    ActionStep, FinalStep, InputPart, InputText, StepContent, TaskStep, V1Extras,
};
use crate::domain::tool::{OutcomeKind, TextOutput, ToolFailure, ToolOutcome, ToolOutput};

/// The role of a model's message.
pub(super) const ASSISTANT: &str = "assistant";

const ROLES: [&str; 4] = ["system", "user", ASSISTANT, "tool"];

/// What version 1 calls the kinds of failure it knows.
pub(super) const ERROR_KINDS: [(&str, OutcomeKind); 4] = [
    ("validation", OutcomeKind::InvalidArguments),
    ("execution", OutcomeKind::Execution),
    ("timeout", OutcomeKind::Timeout),
    ("unknown_tool", OutcomeKind::UnknownTool),
];

/// How often a tool ran whose call ended like this.
pub(super) const fn attempts(kind: OutcomeKind) -> u32 {
    match kind {
        OutcomeKind::Success
        | OutcomeKind::Execution
        | OutcomeKind::Timeout
        | OutcomeKind::InDoubt => 1,
        OutcomeKind::InvalidArguments
        | OutcomeKind::UnknownTool
        | OutcomeKind::Truncated
        | OutcomeKind::Denied
        | OutcomeKind::Cancelled
        | OutcomeKind::Interrupted => 0,
    }
}

/// Reads what follows `version`.
pub(super) fn document(mut fields: Fields<'_>) -> Read<Memory> {
    let mut pairing = Pairing::new(Layout::V1, fields.report());
    let steps = load::steps(&mut fields, |index, node| {
        let mut step = step(node)?;
        if let StepContent::Action(action) = &mut step {
            pairing.check(index, action)?;
        }
        Ok(step)
    });
    fields.finish()?;
    Ok(Memory { metadata: None, framing_policy: None, steps: steps? })
}

fn step(node: &Node<'_>) -> Read<StepContent> {
    let mut fields = node.object()?;
    let kind = fields.required("type", |kind| Ok((kind.clone(), kind.text()?)));
    let data = fields.required("data", Node::object);
    fields.finish()?;
    let ((tag, kind), mut data) = (kind?, data?);
    let step = match kind.as_str() {
        "task" => data.required("task", Node::text).map(task),
        "action" => action(&mut data).map(StepContent::Action),
        "final" => data.required("answer", Node::text).map(|answer| {
            StepContent::Final(FinalStep { answer, output: None, stop_reason: None })
        }),
        _ => return Err(unknown_kind(&tag, "task, action, final")),
    };
    data.finish()?;
    step
}

fn task(text: String) -> StepContent {
    StepContent::Task(TaskStep { parts: vec![InputPart::Text(InputText { text })] })
}

fn action(data: &mut Fields<'_>) -> Read<ActionStep> {
    let message = data.required("model_message", message);
    let results = data.required("tool_results", |node| node.list(result));
    let error = data.nullable("error", Node::text);
    let usage = data.nullable("usage", usage);
    let duration = data.nullable("duration", Node::number);
    let (mut reply, mut extras) = message?;
    let results = results?;
    extras.error = error?;
    extras.usage = usage?;
    extras.duration = duration?;
    extras.untyped_errors = results.iter().filter_map(|(_, untyped)| untyped.clone()).collect();
    reply.usage = extras.message_usage.as_ref().or(extras.usage.as_ref()).map(counted);
    let outcomes = results.into_iter().map(|(outcome, _)| outcome).collect();
    Ok(ActionStep { reply, outcomes, v1: Some(extras) })
}

fn message(node: &Node<'_>) -> Read<(Reply, V1Extras)> {
    let mut fields = node.object()?;
    let role = fields.required("role", role);
    let content = fields.nullable("content", Node::text);
    let calls = fields.required("tool_calls", |node| node.list(call));
    let tool_call_id = fields.nullable("tool_call_id", Node::text);
    let usage = fields.nullable("usage", usage);
    fields.finish()?;
    let (role, content) = (role?, content?);
    let extras = V1Extras {
        role: (role != ASSISTANT).then_some(role),
        content_is_empty_text: content.as_deref() == Some(""),
        tool_call_id: tool_call_id?,
        message_usage: usage?,
        ..V1Extras::default()
    };
    let text = content.filter(|text| !text.is_empty());
    let text = text.map(|text| ReplyPart::Text(TextPart { text, echo: None }));
    let calls = calls?.into_iter().map(ReplyPart::ToolCall);
    let reply = Reply {
        host: None,
        provider: None,
        model: None,
        response_id: None,
        finish_reason: None,
        usage: None,
        state: ReplyState::Complete,
        parts: text.into_iter().chain(calls).collect(),
    };
    Ok((reply, extras))
}

/// A message's role.
pub(super) fn role(node: &Node<'_>) -> Read<String> {
    let text = node.text()?;
    if ROLES.contains(&text.as_str()) {
        return Ok(text);
    }
    Err(node.flaw("invalid_value", format!("expected one of: {}", ROLES.join(", "))))
}

fn call(node: &Node<'_>) -> Read<ToolCallPart> {
    let mut fields = node.object()?;
    let id = fields.required("id", call_id);
    let name = fields.required("name", Node::text);
    let arguments = fields.required("arguments", |node| {
        // The whole value is looked at, but its own text is what is kept.
        node.object_value().map(|_| node.exact())
    });
    fields.finish()?;
    Ok(ToolCallPart {
        tool_call_id: id?,
        provider_call_id: None,
        name: name?,
        arguments: arguments?,
        echo: None,
    })
}

/// A usage as it stands in the document.
pub(super) fn usage(node: &Node<'_>) -> Read<Value> {
    let mut fields = node.object()?;
    let input = fields.required("input_tokens", Node::count::<u64>);
    let output = fields.required("output_tokens", Node::count::<u64>);
    fields.finish()?;
    input.and(output)?;
    node.value()
}

fn counted(usage: &Value) -> Usage {
    let count = |name| usage.get(name).and_then(Value::as_u64).unwrap_or_default();
    Usage { input: count("input_tokens"), output: count("output_tokens"), ..Usage::default() }
}

/// A result, and its call's id again when it is an error of no named kind.
fn result(node: &Node<'_>) -> Read<(ToolOutcome, Option<CallId>)> {
    let mut fields = node.object()?;
    let id = fields.required("tool_call_id", call_id);
    let name = fields.required("name", Node::text);
    let content = fields.required("content", Node::text);
    let is_error = fields.switch("is_error");
    let named = fields.optional("error_kind", |at| Ok((at.clone(), error_kind(at)?)));
    fields.finish()?;
    let (id, content, is_error, named) = (id?, content?, is_error?, named?);
    if let (false, Some((at, _))) = (is_error, &named) {
        return Err(at.flaw("invalid_value", "only an error has an `error_kind`"));
    }
    let untyped = (is_error && named.is_none()).then(|| id.clone());
    let kind = match named {
        Some((_, kind)) => kind,
        None if is_error => OutcomeKind::Execution,
        None => OutcomeKind::Success,
    };
    let (output, error) = if is_error {
        (None, Some(ToolFailure { r#type: String::new(), message: content, redacted: false }))
    } else {
        (Some(ToolOutput::Text(TextOutput { text: content })), None)
    };
    let outcome = ToolOutcome {
        tool_call_id: id,
        name: name?,
        is_error,
        kind,
        output,
        files: Vec::new(),
        error,
        attempts: attempts(kind),
        started_at: None,
        finished_at: None,
        sanitised: false,
    };
    Ok((outcome, untyped))
}

fn error_kind(node: &Node<'_>) -> Read<OutcomeKind> {
    let text = node.text()?;
    ERROR_KINDS
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, kind)| *kind)
        .ok_or_else(|| unknown_kind(node, &ERROR_KINDS.map(|(name, _)| name).join(", ")))
}
