//! A reply, put together from a whole body or from the events of a stream.

use serde_json::Value;

use super::drafts::{Channel, Drafts, Told};
use super::usage;
use crate::domain::message::{Reply, ReplyPart, ReplyState};
use crate::domain::model::{FinishReason, ModelErrorKind, Provider, Usage};
use crate::wire::assembly::Assembly;
use crate::wire::failure;
use crate::wire::json::{items, present, storable, text};
use crate::wire::{DeltaPiece, WireError};

/// How a response ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Completed,
    Incomplete,
    Failed,
}

impl Status {
    /// `None` for one that is not an end.
    fn read(word: &str) -> Option<Self> {
        match word {
            "completed" => Some(Self::Completed),
            "incomplete" => Some(Self::Incomplete),
            "failed" | "cancelled" => Some(Self::Failed),
            _ => None,
        }
    }
}

/// What has come of a reply so far.
#[derive(Debug)]
pub(super) struct ResponsesReply {
    provider: Provider,
    model: Option<String>,
    response_id: Option<String>,
    drafts: Drafts,
    /// How it ended, once it has.
    status: Option<Status>,
    /// Why it is incomplete.
    reason: Option<String>,
    usage: Option<Usage>,
    pieces: Vec<DeltaPiece>,
}

impl ResponsesReply {
    pub(super) fn new(provider: Provider) -> Self {
        Self {
            provider,
            model: None,
            response_id: None,
            drafts: Drafts::default(),
            status: None,
            reason: None,
            usage: None,
            pieces: Vec::new(),
        }
    }

    /// Takes what every spelling of the response has in common.
    fn open(&mut self, response: &Value) {
        self.usage = usage::read(response).or(self.usage);
        self.model = self.model.take().or_else(|| text(response, "model").map(storable));
        self.response_id = self.response_id.take().or_else(|| text(response, "id").map(storable));
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        self.reason = reason.map(str::to_owned).or_else(|| self.reason.take());
    }

    /// The response has ended like this.
    fn end(&mut self, status: Status, response: &Value) -> Result<(), WireError> {
        self.open(response);
        self.drafts.end_all(items(response, "output"));
        self.status = Some(status);
        if status == Status::Failed {
            return Err(if present(response, "error").is_some() {
                failure::named(response)
            } else {
                WireError::new(ModelErrorKind::Server, "the response failed")
            });
        }
        self.check()
    }

    fn check(&self) -> Result<(), WireError> {
        if self.drafts.is_too_many() {
            let error = WireError::protocol("the reply has too many items");
            return Err(WireError { retryable: false, ..error });
        }
        Ok(())
    }

    /// An event about a piece of an item; others are kept silent about.
    fn add_piece(&mut self, kind: &str, event: &Value) -> Result<(), WireError> {
        let Some((channel, told)) = read_piece(kind, event) else {
            return failure::in_band(event).map_or(Ok(()), Err);
        };
        self.pieces.extend(self.drafts.tell(event, channel, told));
        self.check()
    }

    /// A call decides, whatever the status says, unless the reply was cut; so does a refusal.
    fn finish_reason(&self, parts: &[ReplyPart]) -> Option<FinishReason> {
        if parts.iter().any(|part| matches!(part, ReplyPart::Refusal(_))) {
            return Some(FinishReason::ContentFilter);
        }
        let calls = parts.iter().any(|part| matches!(part, ReplyPart::ToolCall(_)));
        Some(match self.status? {
            Status::Completed if calls => FinishReason::ToolCalls,
            Status::Completed => FinishReason::Stop,
            Status::Failed => FinishReason::Error,
            Status::Incomplete => match self.reason.as_deref() {
                Some("max_output_tokens" | "max_tokens" | "length") => FinishReason::Length,
                Some("content_filter") => FinishReason::ContentFilter,
                _ => FinishReason::Other,
            },
        })
    }
}

/// What a piece is a piece of. Texts come by the piece, and again whole.
fn read_piece<'e>(kind: &str, event: &'e Value) -> Option<(Channel, Told<'e>)> {
    let (of, how) = kind.rsplit_once('.')?;
    let part = event.get("part").unwrap_or(&Value::Null);
    let (channel, member) = match of {
        "output_text" | "text" => (Channel::Said, "text"),
        "refusal" => (Channel::Refusal, "refusal"),
        "reasoning_summary_text" | "reasoning_summary" => (Channel::Summary, "text"),
        "reasoning_text" | "reasoning" => (Channel::Thought, "text"),
        "function_call_arguments" => (Channel::Arguments, "arguments"),
        "reasoning_summary_part" => (Channel::Summary, ""),
        "content_part" => match text(part, "type")? {
            "output_text" | "text" => (Channel::Said, ""),
            "refusal" => (Channel::Refusal, ""),
            "reasoning_text" => (Channel::Thought, ""),
            _ => return None,
        },
        _ => return None,
    };
    if member.is_empty() {
        let whole = text(part, "text").or_else(|| text(part, "refusal")).unwrap_or_default();
        return Some((channel, Told::Whole(whole)));
    }
    let piece = || {
        let delta = event.get("delta")?;
        delta.as_str().or_else(|| text(delta, "text"))
    };
    match how {
        "delta" => Some((channel, Told::Piece(piece().unwrap_or_default()))),
        "done" => Some((channel, Told::Whole(text(event, member).unwrap_or_default()))),
        _ => None,
    }
}

impl Assembly for ResponsesReply {
    const END: &'static str = "the response's end";

    fn add_event(&mut self, name: Option<&str>, event: &Value) -> Result<(), WireError> {
        let kind = text(event, "type").or(name).unwrap_or_default();
        let kind = kind.strip_prefix("response.").unwrap_or(kind);
        let response = event.get("response").unwrap_or(&Value::Null);
        if kind == "error" || name == Some("error") {
            return Err(failure::named(event));
        }
        match kind {
            "created" | "in_progress" | "queued" => self.open(response),
            "completed" | "incomplete" | "failed" | "cancelled" | "done" => {
                let told = text(response, "status").and_then(Status::read);
                let status = told.or_else(|| Status::read(kind)).unwrap_or(Status::Completed);
                return self.end(status, response);
            }
            "output_item.added" => self.drafts.begin(event),
            "output_item.done" => self.pieces.extend(self.drafts.end(event, self.provider)),
            _ => return self.add_piece(kind, event),
        }
        self.check()
    }

    fn add_body(&mut self, body: &Value) -> Result<(), WireError> {
        if let Some(error) = failure::in_band(body) {
            self.open(body);
            return Err(error);
        }
        let status = text(body, "status");
        if status.is_none() && !body.get("output").is_some_and(Value::is_array) {
            return Err(WireError::protocol("the answer is no response"));
        }
        match Status::read(status.unwrap_or("completed")) {
            Some(status) => self.end(status, body),
            None => Err(WireError::protocol("the response has not ended")),
        }
    }

    fn is_done(&self) -> bool {
        self.status.is_some()
    }

    fn is_complete(&self) -> bool {
        self.status.is_some()
    }

    fn take_pieces(&mut self) -> Vec<DeltaPiece> {
        std::mem::take(&mut self.pieces)
    }

    fn reply(&self, state: ReplyState) -> Reply {
        let parts = self.drafts.parts(self.provider);
        Reply {
            host: None,
            provider: Some(self.provider),
            model: self.model.clone(),
            response_id: self.response_id.clone(),
            finish_reason: self.finish_reason(&parts),
            usage: self.usage,
            state,
            parts,
        }
    }
}
