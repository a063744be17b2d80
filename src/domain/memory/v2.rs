//! Version 2, the native one: the types of the history as they are, in canonical compact JSON.
//!
//! A missing `cause` of a retry is `error`, and so is `no_output` beside a list of errors, as
//! `history.md` 4 has it. A success may come without output; a failure without error.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Memory;
use super::checks::{Layout, Pairing, call_id};
use super::load;
use super::read::{Fields, Node, Read};
use super::repair::RepairCode;
use super::v2_parts::{error_details, file, input_part, reply, unknown_kind, usage, v1_extras};
use crate::domain::agent::Metadata;
use crate::domain::id::InvalidBlockId;
use crate::domain::step::{
    ActionStep, ContextStep, FinalStep, Replaces, RetryCause, RetryContent, RetryStep, StepContent,
    SummaryStep, SystemStep, TaskStep, ToolsStep,
};
use crate::domain::thread::FramingPolicy;
use crate::domain::tool::{
    JsonOutput, OutcomeKind, TextOutput, ToolFailure, ToolOutcome, ToolOutput,
};

const MAX_LABELS: usize = 50;
const MAX_LABEL_KEY_CHARS: usize = 64;
const MAX_LABEL_CHARS: usize = 512;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    thread: ThreadPart<'a>,
    steps: &'a [StepContent],
    redactions: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    framing_policy: Option<FramingPolicy>,
}

#[derive(Serialize)]
struct ThreadPart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

/// Writes a memory as a document of version 2, in canonical form: the same memory always gives the
/// same bytes, and they read back as the same memory.
pub fn export_v2(memory: &Memory) -> String {
    let document = Document {
        version: 2,
        thread: ThreadPart { metadata: memory.metadata.as_ref() },
        steps: &memory.steps,
        redactions: Map::new(),
        framing_policy: memory.framing_policy,
    };
    // Writing into memory fails only for keys that are no text, and there are none.
    serde_json::to_string(&document).unwrap_or_default()
}

/// Reads what follows `version`.
pub(super) fn document(mut fields: Fields<'_>) -> Read<Memory> {
    let metadata = fields.required("thread", thread);
    let steps = load_steps(&mut fields);
    let redactions = fields.optional("redactions", |node| node.object()?.finish());
    let framing_policy = fields.optional("framing_policy", Node::label);
    fields.finish()?;
    redactions?;
    Ok(Memory { metadata: metadata?, framing_policy: framing_policy?, steps: steps? })
}

fn load_steps(fields: &mut Fields<'_>) -> Read<Vec<StepContent>> {
    let report = fields.report();
    let mut pairing = Pairing::new(Layout::V2, report);
    let mut seqs = Vec::new();
    load::steps(fields, |index, node| {
        let mut step = step(&mut seqs, node)?;
        if let StepContent::Action(action) = &mut step {
            pairing.check(index, action)?;
        }
        Ok(step)
    })
}

fn thread(node: &Node<'_>) -> Read<Option<Metadata>> {
    let mut fields = node.object()?;
    let labels = fields.optional("metadata", metadata);
    fields.finish()?;
    labels
}

fn metadata(node: &Node<'_>) -> Read<Metadata> {
    let members = node.object()?.take_all();
    if members.len() > MAX_LABELS {
        return Err(node.flaw("invalid_value", format!("at most {MAX_LABELS} labels are kept")));
    }
    let read: Vec<Read<(String, String)>> = members
        .into_iter()
        .map(|(key, node)| {
            let value = node.text()?;
            let fits = key.chars().count() <= MAX_LABEL_KEY_CHARS
                && value.chars().count() <= MAX_LABEL_CHARS;
            if fits {
                return Ok((key, value));
            }
            let message = format!(
                "a label has at most {MAX_LABEL_KEY_CHARS} characters and its value {MAX_LABEL_CHARS}"
            );
            Err(node.flaw("invalid_value", message))
        })
        .collect();
    read.into_iter().collect()
}

/// `seqs` are those of the steps before it, and then its own too. A step need not say its own.
fn step(seqs: &mut Vec<i64>, node: &Node<'_>) -> Read<StepContent> {
    let next = seqs.last().map_or(1, |last| last.saturating_add(1));
    seqs.push(next);
    let mut fields = node.object()?;
    let counted = fields.optional("seq", |at| {
        let given = at.count::<u32>()?.into();
        seqs.pop();
        seqs.push(given);
        if given == next { Ok(()) } else { at.mend(RepairCode::SeqGap) }
    });
    let step = step_of_kind(fields, seqs);
    counted.and(step)
}

fn step_of_kind(mut fields: Fields<'_>, seqs: &[i64]) -> Read<StepContent> {
    let kind = fields.required("kind", |kind| Ok((kind.clone(), kind.text()?)))?;
    let step = match kind.1.as_str() {
        "task" => task(&mut fields).map(StepContent::Task),
        "action" => action(&mut fields).map(StepContent::Action),
        "retry" => retry(&mut fields).map(StepContent::Retry),
        "system" => {
            fields.required("text", Node::text).map(|text| StepContent::System(SystemStep { text }))
        }
        "context" => context(&mut fields).map(StepContent::Context),
        "tools" => tools(&mut fields).map(StepContent::Tools),
        "summary" => summary(&mut fields, seqs).map(StepContent::Summary),
        "final" => final_answer(&mut fields).map(StepContent::Final),
        _ => {
            return Err(unknown_kind(
                &kind.0,
                "task, action, retry, system, context, tools, summary, final",
            ));
        }
    };
    fields.finish()?;
    step
}

fn task(fields: &mut Fields<'_>) -> Read<TaskStep> {
    let parts = fields.required("parts", |node| {
        let parts = node.list(input_part)?;
        if parts.is_empty() {
            return Err(node.flaw("invalid_value", "a task has at least one part"));
        }
        Ok(parts)
    })?;
    Ok(TaskStep { parts })
}

fn retry(fields: &mut Fields<'_>) -> Read<RetryStep> {
    let cause = fields.optional("cause", Node::label);
    let content = fields.required("content", |node| {
        if node.is_array() {
            error_details(node).map(RetryContent::Errors)
        } else {
            node.text().map(RetryContent::Message)
        }
    })?;
    let cause = match (cause?, &content) {
        (Some(cause), RetryContent::Message(_)) => cause,
        (None, _) | (_, RetryContent::Errors(_)) => RetryCause::Error,
    };
    Ok(RetryStep { cause, content })
}

fn context(fields: &mut Fields<'_>) -> Read<ContextStep> {
    let id = fields.required("id", |node| {
        let id = node.text()?.parse();
        id.map_err(|error: InvalidBlockId| node.flaw("invalid_value", error.to_string()))
    });
    let text = fields.nullable("text", Node::text);
    Ok(ContextStep { id: id?, text: text? })
}

fn tools(fields: &mut Fields<'_>) -> Read<ToolsStep> {
    let added = fields.optional("added", |node| node.list(Node::text));
    let removed = fields.optional("removed", |node| node.list(Node::text));
    Ok(ToolsStep { added: added?.unwrap_or_default(), removed: removed?.unwrap_or_default() })
}

/// A summary stands for steps before itself, whose `seqs` stand before its own; in a history that is
/// loaded, steps are counted from the first one.
fn summary(fields: &mut Fields<'_>, seqs: &[i64]) -> Read<SummaryStep> {
    let replaces = fields.required("replaces", Node::label)?;
    let through_seq = fields.required("through_seq", |node| {
        let through: i64 = node.count::<u32>()?.into();
        let (first, own) = (seqs.first().copied(), seqs.last().copied());
        if first <= Some(through) && Some(through) < own {
            let n_meant = seqs.partition_point(|seq| *seq <= through);
            let n_before = seqs.len().saturating_sub(1);
            return Ok(i64::try_from(n_meant.clamp(1, n_before)).unwrap_or(i64::MAX));
        }
        Err(node.flaw("invalid_value", "a summary stands for steps before itself"))
    });
    let text = match replaces {
        Replaces::Steps => fields.required("text", Node::text).map(Some),
        Replaces::ToolOutput => Ok(None),
    };
    let usage = fields.optional("usage", usage);
    Ok(SummaryStep { replaces, through_seq: through_seq?, text: text?, usage: usage? })
}

fn final_answer(fields: &mut Fields<'_>) -> Read<FinalStep> {
    let answer = fields.required("answer", Node::text);
    // A null is an output like any other here, not an absent one.
    let output = fields.take("output").map(|node| node.value()).transpose();
    let stop_reason = fields.optional("stop_reason", Node::label);
    Ok(FinalStep { answer: answer?, output: output?, stop_reason: stop_reason? })
}

fn action(fields: &mut Fields<'_>) -> Read<ActionStep> {
    let reply = fields.required("reply", reply);
    let outcomes = fields.optional("outcomes", |node| node.list(outcome));
    let v1 = fields.optional("v1", v1_extras);
    Ok(ActionStep { reply: reply?, outcomes: outcomes?.unwrap_or_default(), v1: v1? })
}

fn outcome(node: &Node<'_>) -> Read<ToolOutcome> {
    let mut fields = node.object()?;
    let tool_call_id = fields.required("tool_call_id", call_id);
    let name = fields.required("name", Node::text);
    let is_error = fields.required("is_error", |at| Ok((at.clone(), at.boolean()?)));
    let kind = fields.required("kind", Node::label);
    let output = fields.optional("output", |at| Ok((at.clone(), output(at)?)));
    let files = fields.optional("files", |at| Ok((at.clone(), at.list(file)?)));
    let error = fields.optional("error", |at| Ok((at.clone(), failure(at)?)));
    let attempts = fields.required("attempts", Node::count);
    let started_at = fields.optional("started_at", timestamp);
    let finished_at = fields.optional("finished_at", timestamp);
    let sanitised = fields.switch("sanitised");
    fields.finish()?;
    let (kind, is_error, output, error, files) = (kind?, is_error?, output?, error?, files?);
    let given = output.as_ref().map(|o| &o.0).or_else(|| files.as_ref().map(|f| &f.0));
    consistent(kind, &is_error, given, error.as_ref().map(|e| &e.0))?;
    Ok(ToolOutcome {
        tool_call_id: tool_call_id?,
        name: name?,
        is_error: is_error.1,
        kind,
        output: output.map(|(_, output)| output),
        files: files.map(|(_, files)| files).unwrap_or_default(),
        error: error.map(|(_, error)| error),
        attempts: attempts?,
        started_at: started_at?,
        finished_at: finished_at?,
        sanitised: sanitised?,
    })
}

/// A success is no error and has no error; a failure is one and has no output.
fn consistent(
    kind: OutcomeKind,
    is_error: &(Node<'_>, bool),
    output: Option<&Node<'_>>,
    error: Option<&Node<'_>>,
) -> Read<()> {
    let succeeded = kind == OutcomeKind::Success;
    let mut read = Ok(());
    if is_error.1 == succeeded {
        read = Err(is_error.0.flaw("invalid_value", format!("`is_error` contradicts `{kind}`")));
    }
    if let (true, Some(error)) = (succeeded, error) {
        read = Err(error.flaw("invalid_value", "a success has no `error`"));
    }
    if let (false, Some(output)) = (succeeded, output) {
        read = Err(output.flaw("invalid_value", "only a success gives something back"));
    }
    read
}

fn output(node: &Node<'_>) -> Read<ToolOutput> {
    let mut fields = node.object()?;
    let kind = fields.required("output_kind", |kind| Ok((kind.clone(), kind.text()?)))?;
    let output = match kind.1.as_str() {
        "text" => {
            fields.required("text", Node::text).map(|text| ToolOutput::Text(TextOutput { text }))
        }
        "json" => json_output(&mut fields).map(ToolOutput::Json),
        _ => return Err(unknown_kind(&kind.0, "text, json")),
    };
    fields.finish()?;
    output
}

/// JSON output. A document that does not spell it beside its value spells it in its value.
fn json_output(fields: &mut Fields<'_>) -> Read<JsonOutput> {
    let json = fields.required("json", |node| Ok((node.exact(), node.value()?)));
    let exact = fields.optional("exact", |node| Ok((node.clone(), node.text()?)));
    let ((spelling, json), exact) = (json?, exact?);
    let Some((node, exact)) = exact else {
        let exact = JsonOutput::of(&spelling).ok().and_then(|output| output.exact);
        return Ok(JsonOutput { json, exact });
    };
    if JsonOutput::of(&exact).is_ok_and(|output| output.json == json) {
        return Ok(JsonOutput { json, exact: Some(exact) });
    }
    Err(node.flaw("invalid_value", "`exact` does not spell the value of `json`"))
}

fn failure(node: &Node<'_>) -> Read<ToolFailure> {
    let mut fields = node.object()?;
    let r#type = fields.required("type", |node| {
        let text = node.text()?;
        if text.chars().any(char::is_control) {
            return Err(node.flaw("invalid_value", "a failure's type is a single line"));
        }
        Ok(text)
    });
    let message = fields.required("message", Node::text);
    let redacted = fields.switch("redacted");
    fields.finish()?;
    Ok(ToolFailure { r#type: r#type?, message: message?, redacted: redacted? })
}

fn timestamp(node: &Node<'_>) -> Read<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(&node.text()?)
        .map(|time| time.to_utc())
        .map_err(|_| node.flaw("invalid_value", "an RFC 3339 time is expected here"))
}
