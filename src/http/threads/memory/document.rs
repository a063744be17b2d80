//! Memory documents between callers and the domain.

use serde::{Deserialize, Deserializer};
use utoipa::openapi::schema::{
    ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::domain::caller::{Caller, Scope};
use crate::domain::memory::{
    self, Finding, Loaded, Memory, MemoryLoadError, export_chat, export_v1, export_v2,
};
use crate::domain::step::StepContent;
use crate::error::AgentlingError;
use crate::http::extract::too_deep;
use crate::http::problem::{Problem, ProblemKind};

/// What a memory document is written in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Written {
    /// Version 2, which holds everything.
    Version2,
    /// Version 1; unless `lossy`, only when nothing is lost.
    Version1 { lossy: bool },
    /// A list of OpenAI chat messages, in the same way.
    Chat { lossy: bool },
}

impl Written {
    /// Writes a memory.
    pub(super) fn of(self, memory: &Memory) -> Result<String, AgentlingError> {
        let written = match self {
            Self::Version2 => return Ok(export_v2(memory)),
            Self::Version1 { lossy } => export_v1(memory, lossy),
            Self::Chat { lossy } => export_chat(memory, lossy),
        };
        written.map_err(|report| AgentlingError::Invalid(report.findings))
    }
}

/// The schema of what can be loaded and exported: a memory document, or a list of messages.
#[derive(Debug)]
pub(in crate::http) struct LoadableMemory;

impl PartialSchema for LoadableMemory {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Object));
        let text = "A memory document of version 2 or 1, a list of Pydantic AI messages, or a list of \
                    OpenAI chat messages.";
        let document = Ref::from_schema_name(MemoryDocument::name());
        let messages = ArrayBuilder::new()
            .items(object)
            .description(Some("Messages, each with a `kind` (Pydantic AI) or a `role` (OpenAI)."));
        OneOfBuilder::new().item(document).item(messages).description(Some(text)).into()
    }
}

impl ToSchema for LoadableMemory {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((MemoryDocument::name().into_owned(), MemoryDocument::schema()));
    }
}

/// The schema of a memory document, whose members are those of its version.
#[derive(Debug)]
struct MemoryDocument;

impl PartialSchema for MemoryDocument {
    fn schema() -> RefOr<Schema> {
        let text = "A memory document: `{\"version\": 2, \"thread\": …, \"steps\": […]}`, or one of version \
                    1, the format of the framework that this service grew from.";
        let object = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Object));
        object.description(Some(text)).into()
    }
}

impl ToSchema for MemoryDocument {}

/// How the memory is written.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportQuery {
    /// The version of the document; 2 unless it is given.
    #[serde(default)]
    #[param(value_type = Option<u32>, minimum = 1, maximum = 2)]
    version: Option<Version>,
    /// Writes a list of messages in another format instead.
    #[serde(default)]
    #[param(value_type = Option<String>, pattern = "^openai$")]
    format: Option<ListFormat>,
    /// Whether something may be lost: by default only in a list of messages, in which much has no place.
    #[serde(default)]
    lossy: Option<bool>,
}

impl ExportQuery {
    /// What is asked for.
    pub(super) fn written(&self) -> Result<Written, Problem> {
        match (self.format, self.version) {
            (None, None | Some(Version::Two)) => Ok(Written::Version2),
            (None, Some(Version::One)) => {
                Ok(Written::Version1 { lossy: self.lossy.unwrap_or(false) })
            }
            (Some(ListFormat::Openai), None) => {
                Ok(Written::Chat { lossy: self.lossy.unwrap_or(true) })
            }
            (Some(ListFormat::Openai), Some(_)) => {
                let message = "a list of messages has no version";
                let finding = Finding::new("version", "invalid_value", message);
                Err(Problem::with_errors(ProblemKind::InvalidParameter, vec![finding]))
            }
        }
    }
}

/// A list of messages that can be written.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ListFormat {
    /// OpenAI chat messages.
    Openai,
}

/// How a memory document is read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ReadQuery {
    /// Mends what would be refused otherwise and leaves nothing in doubt: calls without an outcome,
    /// outcomes without a call, steps that are counted with gaps.
    #[serde(default)]
    #[param(default = false)]
    pub(super) repair: bool,
}

/// A version that can be written.
#[derive(Debug, Clone, Copy)]
enum Version {
    /// The format of the framework that this service grew from.
    One,
    /// Everything.
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
    read(caller, (text, at), false).map(|loaded| loaded.memory)
}

/// The same with all that is to be said about it; with `repair`, what can be mended is.
pub(super) fn read(
    caller: &Caller,
    (text, at): (&str, &str),
    repair: bool,
) -> Result<Loaded, Problem> {
    let loaded = memory::load_with(text, repair).map_err(|error| refusal(text, at, error))?;
    let is_of_the_operator = |step: &StepContent| {
        matches!(step, StepContent::System(_) | StepContent::Context(_) | StepContent::Tools(_))
    };
    let speaks_as_system = loaded.memory.steps.iter().any(is_of_the_operator);
    if speaks_as_system && !caller.may(Scope::MemorySystem) {
        return Err(AgentlingError::Forbidden { required: Scope::MemorySystem }.into());
    }
    Ok(loaded)
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
