//! A request as sent: its bytes, which of them come from where, and what came of it.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::id::{RequestId, RunId, ThreadId};
use super::model::{ModelErrorKind, Provider};
use super::request::BodyHash;
use crate::labels;

labels! {
    /// Who speaks in a piece of a request.
    Voice {
        /// Agentling itself: frames, hints, fixed sentences.
        Application = "application",
        /// The operator: instructions, system entries, context, declared tools.
        System = "system",
        /// The person.
        User = "user",
        /// The model that is asked, in an earlier reply.
        Assistant = "assistant",
        /// Tools, other models, files, and what is quoted back.
        Data = "data",
    }
}

labels! {
    /// What of an agent a piece of a request is.
    AgentPart {
        /// The model's name.
        Model = "model",
        /// The standing instructions.
        Instructions = "instructions",
        /// A declared tool.
        Tool = "tool",
        /// The skills that it may load.
        Skills = "skills",
        /// The schema of the answer.
        OutputSchema = "output_schema",
        /// A setting of the model.
        Setting = "setting",
    }
}

labels! {
    /// What a span comes from.
    SpanSource {
        /// Syntax that the codec wrote.
        Wire = "wire",
        /// The agent's declaration.
        Agent = "agent",
        /// A step of the thread.
        Step = "step",
    }
}

/// Where a piece of a request comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum Place {
    /// Syntax that the codec wrote.
    #[default]
    Wire,
    /// The agent's declaration.
    Agent {
        /// What of it.
        part: AgentPart,
    },
    /// A step of the thread.
    Step {
        /// The step's `seq`.
        seq: i64,
        /// The index of its part, from 0: of a task's input, of a reply, or of an action's outcomes.
        part: u32,
    },
}

/// Where a piece of a request comes from, who speaks in it, and what was done to it on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Origin {
    /// Where it comes from.
    #[serde(flatten)]
    pub place: Place,
    /// Who speaks; absent for syntax.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voice: Option<Voice>,
    /// The innermost frame that it stands in or is the tag of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame: Option<Cow<'static, str>>,
    /// Whether characters of it were escaped so that it cannot be read as a tag.
    #[serde(default, skip_serializing_if = "is_false")]
    pub escaped: bool,
    /// Whether it holds placeholders in place of what is kept from the model.
    #[serde(default, skip_serializing_if = "is_false")]
    pub redacted: bool,
    /// Whether its middle was left out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Origin {
    /// Syntax that the codec wrote.
    pub const WIRE: &'static Self = &Self {
        place: Place::Wire,
        voice: None,
        frame: None,
        escaped: false,
        redacted: false,
        truncated: false,
    };

    /// A part of the agent's declaration.
    pub fn agent(part: AgentPart) -> Self {
        Self { place: Place::Agent { part }, voice: Some(Voice::System), ..Self::default() }
    }

    /// A part of a step.
    pub fn step(seq: i64, part: u32, voice: Voice) -> Self {
        Self { place: Place::Step { seq, part }, voice: Some(voice), ..Self::default() }
    }

    /// The same place, in another voice.
    #[must_use]
    pub fn spoken(&self, voice: Voice) -> Self {
        Self { voice: Some(voice), ..self.clone() }
    }
}

/// A range of a request's bytes with one origin. The spans of a request tile it: each begins where the
/// one before it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Span {
    /// The offset of its first byte.
    pub start: u64,
    /// The offset after its last byte.
    pub end: u64,
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
}

/// A request body with what the ledger wants to know of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The body, byte for byte as it is sent and stored.
    pub body: Vec<u8>,
    /// Where its bytes come from, in order, without gap or overlap.
    pub spans: Vec<Span>,
    /// The offset at which the conversation begins: after the bracket of the list of its messages.
    pub conversation_at: usize,
}

labels! {
    /// What a model is asked for.
    Purpose {
        /// The reply of a turn.
        Reply = "reply",
        /// A summary of older steps.
        Summary = "summary",
    }
}

labels! {
    /// What became of a request.
    RequestOutcome {
        /// A whole reply came.
        Replied = "replied",
        /// None came, or one that cannot be used.
        Failed = "failed",
        /// The server hung up on it: its run was cancelled, interrupted or out of time.
        Abandoned = "abandoned",
    }
}

labels! {
    /// How stored bytes are written.
    ByteEncoding {
        /// As they are.
        Identity = "identity",
        /// Compressed by zlib.
        Zlib = "zlib",
    }
}

/// One request to a model and what came of it, without their bytes. What is optional is not known of
/// requests that were sent before there was a ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerEntry {
    /// Its id.
    pub id: RequestId,
    /// The thread.
    pub thread_id: ThreadId,
    /// The run that sent it; `None` for a summary that a caller asked for.
    pub run_id: Option<RunId>,
    /// `seq` of the step that came of it.
    pub step_seq: Option<i64>,
    /// The turn that it was sent for; 0 without a run.
    pub turn: u32,
    /// The attempt at what it was sent for.
    pub attempt: u32,
    /// What was asked for.
    pub purpose: Purpose,
    /// Who was asked.
    pub provider: Option<Provider>,
    /// Path and query of the address; empty when the address was none.
    pub endpoint: Option<String>,
    /// The names of its headers.
    pub header_names: Vec<String>,
    /// What the renderer knew of the model.
    pub profile: Option<Value>,
    /// The version of the renderer.
    pub renderer: Option<u32>,
    /// The hash of its body.
    pub sha256: Option<BodyHash>,
    /// How long its body was.
    pub bytes: Option<u64>,
    /// Whether its body is kept.
    pub is_kept: bool,
    /// When it was sent.
    pub sent_at: Option<DateTime<Utc>>,
    /// How long it took until the answer's body began.
    pub first_byte_ms: Option<u64>,
    /// How long it took in all.
    pub took_ms: Option<u64>,
    /// The answer's status.
    pub status: Option<u16>,
    /// What became of it.
    pub outcome: RequestOutcome,
    /// Why it failed.
    pub error: Option<ModelErrorKind>,
    /// The answer's media type, as its server named it.
    pub response_type: Option<String>,
}
