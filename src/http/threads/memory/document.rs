//! Memory documents between callers and the domain.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::domain::caller::{Caller, Scope};
use crate::domain::memory::{self, Memory, MemoryLoadError, export_v1, export_v2};
use crate::domain::step::StepContent;
use crate::error::AgentlingError;
use crate::http::extract::too_deep;
use crate::http::problem::Problem;

/// A thread's history in portable form, to the byte as it was written: `{"version": 2, "thread": …,
/// "steps": […]}`, or version 1, the format of the framework that this service grew from.
#[derive(Debug, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub(super) struct MemoryDocument(Box<RawValue>);

impl MemoryDocument {
    /// Writes version 2, which holds everything.
    pub(super) fn version_2(memory: &Memory) -> Result<Self, AgentlingError> {
        Self::of(export_v2(memory))
    }

    /// Writes version 1; unless `lossy`, only when nothing is lost.
    pub(super) fn version_1(memory: &Memory, lossy: bool) -> Result<Self, AgentlingError> {
        let text =
            export_v1(memory, lossy).map_err(|report| AgentlingError::Invalid(report.findings))?;
        Self::of(text)
    }

    fn of(text: String) -> Result<Self, AgentlingError> {
        let raw = RawValue::from_string(text);
        raw.map(Self).map_err(|error| AgentlingError::internal(error.to_string()))
    }
}

/// The schema of what can be loaded: a memory document, or a list of messages.
#[derive(Debug)]
pub(in crate::http) struct LoadableMemory;

impl PartialSchema for LoadableMemory {
    fn schema() -> RefOr<Schema> {
        let object = || ObjectBuilder::new().schema_type(SchemaType::Type(Type::Object));
        let text = "A memory document of version 2 or 1, a list of Pydantic AI messages, or a list of \
                    OpenAI chat messages.";
        let document = object().description(Some("A memory document."));
        let messages = ArrayBuilder::new()
            .items(object())
            .description(Some("Messages, each with a `kind` (Pydantic AI) or a `role` (OpenAI)."));
        OneOfBuilder::new().item(document).item(messages).description(Some(text)).into()
    }
}

impl ToSchema for LoadableMemory {}

/// How the memory is written.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportQuery {
    /// The version of the document.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 2, default = 2)]
    pub(super) version: Version,
    /// Writes version 1 even when something is lost.
    #[serde(default)]
    #[param(default = false)]
    pub(super) lossy: bool,
}

/// A version that can be written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum Version {
    /// The format of the framework that this service grew from.
    One,
    /// Everything.
    #[default]
    Two,
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            _ => Err(serde::de::Error::custom("must be 1 or 2")),
        }
    }
}

/// Reads a document that a caller may load. `at` is the pointer to it in the body.
pub(in crate::http) fn load(caller: &Caller, text: &str, at: &str) -> Result<Memory, Problem> {
    let memory = memory::load(text).map_err(|error| refusal(text, at, error))?;
    let is_of_the_operator = |step: &StepContent| {
        matches!(step, StepContent::System(_) | StepContent::Context(_) | StepContent::Tools(_))
    };
    let speaks_as_system = memory.steps.iter().any(is_of_the_operator);
    if speaks_as_system && !caller.may(Scope::MemorySystem) {
        return Err(AgentlingError::Forbidden { required: Scope::MemorySystem }.into());
    }
    Ok(memory)
}

/// A document may be nested deeper than other bodies, since a tool's output can be; one that is not
/// a document is answered like any other body of that depth.
fn refusal(text: &str, at: &str, mut error: MemoryLoadError) -> Problem {
    if let Some(problem) = too_deep(text) {
        return problem;
    }
    for finding in &mut error.findings {
        finding.pointer.insert_str(0, at);
    }
    AgentlingError::MemoryLoad(error).into()
}
