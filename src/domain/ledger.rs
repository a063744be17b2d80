//! A request as sent: which of its bytes come from where.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
        /// The schema of the answer.
        OutputSchema = "output_schema",
        /// A setting of the model.
        Setting = "setting",
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
