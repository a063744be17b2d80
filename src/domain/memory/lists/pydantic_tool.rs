//! Pydantic AI messages: what came of tool calls, and why a call or a reply has to be made again.
//!
//! The text of a failure becomes its message as a whole and its type stays empty, as in version 1.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::conversation::Conversation;
use super::{each, files, unsupported};
use crate::domain::file::FilePart;
use crate::domain::id::CallId;
use crate::domain::memory::checks::call_id;
use crate::domain::memory::read::{Fields, Node, Read};
use crate::domain::memory::v1::attempts;
use crate::domain::step::{ErrorDetail, RetryContent};
use crate::domain::tool::{
    JsonOutput, OutcomeKind, TextOutput, ToolFailure, ToolOutcome, ToolOutput,
};

/// How deep an output stands in a document of version 2, in which it must be readable again.
const OUTPUT_DEPTH: usize = 7;

/// How deep the value stands there that an error is about.
const INPUT_DEPTH: usize = 6;

/// Why something has to be made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// Something failed validation, or a check of the application asks for it.
    Error,
    /// The reply held nothing usable.
    NoOutput,
    /// There is no such tool, or it cannot be called at this point.
    UnknownTool,
}

/// The causes in the words of Pydantic AI and in ours.
const CAUSES: [(&str, Cause); 6] = [
    ("error", Cause::Error),
    ("no_output", Cause::NoOutput),
    ("validation_error", Cause::Error),
    ("model_retry", Cause::Error),
    ("unknown_tool", Cause::UnknownTool),
    ("unavailable_tool", Cause::UnknownTool),
];

/// How a call ended; `None` for one that has to be made again, whose cause says how.
const ENDINGS: [(&str, Option<OutcomeKind>); 5] = [
    ("success", Some(OutcomeKind::Success)),
    ("failed", Some(OutcomeKind::Execution)),
    ("denied", Some(OutcomeKind::Denied)),
    ("interrupted", Some(OutcomeKind::Interrupted)),
    ("retried", None),
];

impl Cause {
    /// How a call ended that has to be made again for this cause.
    pub(super) const fn outcome_kind(self) -> OutcomeKind {
        match self {
            Self::Error | Self::NoOutput => OutcomeKind::InvalidArguments,
            Self::UnknownTool => OutcomeKind::UnknownTool,
        }
    }
}

/// The cause of a retry, beside its content or inside `retry`; absent in old histories.
pub(super) fn cause(fields: &mut Fields<'_>) -> Read<Option<Cause>> {
    let beside = fields.optional("cause", |node| named(node, &CAUSES));
    let inside = fields
        .optional("retry", |node| node.object()?.optional("cause", |node| named(node, &CAUSES)));
    Ok(beside?.or(inside?.flatten()))
}

/// What a word of a vocabulary means.
fn named<T: Copy>(node: &Node<'_>, words: &[(&str, T)]) -> Read<T> {
    let text = node.text()?;
    let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
    found.ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        node.flaw("invalid_value", format!("expected one of: {}", known.join(", ")))
    })
}

/// When a part was made. A time in another form than RFC 3339 is not kept.
pub(super) fn timestamp(fields: &mut Fields<'_>) -> Read<Option<DateTime<Utc>>> {
    let text = fields.optional("timestamp", Node::text)?;
    let time = text.and_then(|text| DateTime::parse_from_rfc3339(&text).ok());
    Ok(time.map(|time| time.to_utc()))
}

/// What a retry says: a message, or a list of errors.
pub(super) fn retry_content(node: &Node<'_>) -> Read<RetryContent> {
    if node.is_array() {
        return node.list(error_detail).map(RetryContent::Errors);
    }
    node.text().map(RetryContent::Message)
}

/// An error of a validator, without the context and the address that it may come with.
fn error_detail(node: &Node<'_>) -> Read<ErrorDetail> {
    let mut fields = node.object()?;
    let r#type = fields.required("type", Node::text);
    let loc = fields.required("loc", |node| node.list(Node::value));
    let msg = fields.required("msg", Node::text);
    // A null is the value in question, not an absent one.
    let input = fields.take("input").map(|node| node.at_depth(INPUT_DEPTH).value()).transpose();
    Ok(ErrorDetail { r#type: r#type?, loc: loc?, msg: msg?, input: input? })
}

/// What a retry says, as the message of a call that failed: a list of errors becomes JSON.
pub(super) fn message(content: &RetryContent) -> String {
    match content {
        RetryContent::Message(text) => text.clone(),
        // A list of plain values always has a text.
        RetryContent::Errors(errors) => serde_json::to_string(errors).unwrap_or_default(),
    }
}

/// The outcome of a call that failed.
pub(super) fn failed(
    (id, name): (CallId, &str),
    kind: OutcomeKind,
    message: String,
    finished_at: Option<DateTime<Utc>>,
) -> ToolOutcome {
    let failure = ToolFailure { r#type: String::new(), message, redacted: false };
    let attempts = attempts(kind);
    ToolOutcome { attempts, finished_at, ..ToolOutcome::not_run(id, name, kind, Some(failure)) }
}

/// Reads what a tool gave back.
pub(super) fn tool_return<'a>(
    fields: &mut Fields<'a>,
    conversation: &mut Conversation<'a>,
) -> Read<()> {
    let id = fields.required("tool_call_id", |node| Ok((node.clone(), call_id(node)?)));
    let name = fields.required("tool_name", |node| Ok((node.clone(), node.text()?)));
    let content = fields.required("content", given);
    let ending = fields.optional("outcome", |node| named(node, &ENDINGS));
    let cause = cause(fields);
    let finished_at = timestamp(fields);
    let ((place, id), (at, name), content) = (id?, name?, content?);
    let (ending, cause, finished_at) = (ending?, cause?, finished_at?);
    let kind = ending.unwrap_or(Some(OutcomeKind::Success)).unwrap_or_else(|| kind_of(cause));
    let outcome = if kind == OutcomeKind::Success {
        let attempts = attempts(kind);
        let base = ToolOutcome::not_run(id, &name, kind, None);
        let Given { said: output, files, .. } = content;
        ToolOutcome { is_error: false, output, files, attempts, finished_at, ..base }
    } else {
        failed((id, &name), kind, content.shown()?, finished_at)
    };
    conversation.answer(&place, Some(&at), outcome);
    Ok(())
}

/// How a call ended that has to be made again; without a cause it is its arguments that are at fault.
pub(super) fn kind_of(cause: Option<Cause>) -> OutcomeKind {
    cause.map_or(OutcomeKind::InvalidArguments, Cause::outcome_kind)
}

/// What a tool gave back.
#[derive(Debug)]
struct Given<'a> {
    /// Where it stands.
    node: Node<'a>,
    said: Option<ToolOutput>,
    files: Vec<FilePart>,
}

impl Given<'_> {
    /// The same as the message of a failure, which has a place for text alone.
    fn shown(self) -> Read<String> {
        if !self.files.is_empty() {
            return Err(unsupported(&self.node, "files among what a failed call gave back"));
        }
        Ok(match self.said {
            None => String::new(),
            Some(ToolOutput::Text(output)) => output.text,
            Some(ToolOutput::Json(output)) => output.text(),
        })
    }
}

/// What a tool gave back: a text or JSON as it is spelt, a file, or a list with files in it.
fn given<'a>(node: &Node<'a>) -> Read<Given<'a>> {
    let node = node.clone().at_depth(OUTPUT_DEPTH);
    let mut files = Vec::new();
    let mut pieces = Vec::new();
    let mut take = |piece: &Node<'a>| {
        match file_kind(&piece.value()?) {
            Some(kind) if files::is_file(&kind) => {
                let nth = files.len() + 1;
                files.push(files::content(piece, &kind, &mut piece.object()?, nth)?);
            }
            Some(_) => return Err(unsupported(piece, "a file that only its provider has")),
            None => pieces.push(piece.clone()),
        }
        Ok(())
    };
    if node.is_array() {
        each(&node, take)?;
    } else {
        take(&node)?;
    }
    let said = match (pieces.as_slice(), files.is_empty()) {
        (_, true) => Some(said(&node)?),
        ([], false) => None,
        // Beside files, a list of one is only a list for their sake.
        ([only], false) => Some(said(only)?),
        (several, false) => Some(listed(several)?),
    };
    Ok(Given { node, said, files })
}

/// The kind of a value that is a file: an object of such a `kind` that has its content.
fn file_kind(value: &Value) -> Option<String> {
    let kind = value.get("kind").and_then(Value::as_str)?;
    let content = match kind {
        "binary" => "data",
        "uploaded-file" => "file_id",
        address if files::is_file(address) => "url",
        _ => return None,
    };
    value.get(content).map(|_| kind.to_owned())
}

/// What is left of a list whose files are taken out.
fn listed(pieces: &[Node<'_>]) -> Read<ToolOutput> {
    let values: Vec<Value> = pieces.iter().map(Node::value).collect::<Read<_>>()?;
    let spelling: Vec<String> = pieces.iter().map(Node::exact).collect();
    let spelt = JsonOutput::of(&format!("[{}]", spelling.join(","))).ok();
    Ok(ToolOutput::Json(spelt.unwrap_or_else(|| JsonOutput::from(Value::Array(values)))))
}

fn said(node: &Node<'_>) -> Read<ToolOutput> {
    Ok(match node.value()? {
        Value::String(text) => ToolOutput::Text(TextOutput { text }),
        json => {
            let spelt = JsonOutput::of(&node.exact()).ok();
            ToolOutput::Json(spelt.unwrap_or_else(|| JsonOutput::from(json)))
        }
    })
}
