//! The front door of loading: which version a document is, and what every version shares.

use serde::de::IgnoredAny;

use super::read::{Fields, Flawed, Node, Read, Report};
use super::{Finding, MAX_STEPS, Memory, MemoryLoadError, Notes, lists, v1, v2};
use crate::domain::step::StepContent;
use crate::labels;

labels! {
    /// What a memory document is written in.
    MemoryFormat {
        /// Version 2, the native one.
        Version2 = "version_2",
        /// Version 1, that of the framework that this service grew from.
        Version1 = "version_1",
        /// A list of Pydantic AI messages.
        PydanticAi = "pydantic_ai",
        /// A list of OpenAI chat messages.
        OpenaiChat = "openai_chat",
    }
}

/// A memory as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The memory.
    pub memory: Memory,
    /// What it was written in.
    pub format: MemoryFormat,
    /// What was mended.
    pub repairs: Notes,
    /// What was said in it that a history has no place for.
    pub losses: Notes,
}

/// Reads a memory document: an object of version 2 or 1, or a list of messages. An object without
/// `version` is read as version 1.
pub fn load(text: &str) -> Result<Memory, MemoryLoadError> {
    load_with(text, false).map(|loaded| loaded.memory)
}

/// The same with all that is to be said about it.
///
/// With `repair`, what a caller can do without is mended rather than refused: calls without an outcome, outcomes without a call, and steps counted with gaps.
pub fn load_with(text: &str, repair: bool) -> Result<Loaded, MemoryLoadError> {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        let message = format!("the document is not JSON: {error}");
        let findings = vec![Finding::new("", "not_json", message)];
        return Err(MemoryLoadError { findings, unsupported_version: false });
    }
    let mut report = if repair { Report::of_a_mender() } else { Report::default() };
    let read = document(&Node::root(text, &report));
    let (repairs, losses) = report.take_notes();
    let findings = report.into_findings();
    match read {
        Ok((format, memory)) if findings.is_empty() => {
            Ok(Loaded { memory, format, repairs, losses })
        }
        _ => {
            let unsupported_version =
                findings.iter().any(|finding| finding.code == "unsupported_version");
            Err(MemoryLoadError { findings, unsupported_version })
        }
    }
}

fn document(root: &Node<'_>) -> Read<(MemoryFormat, Memory)> {
    if root.is_array() {
        return lists::document(root);
    }
    if !root.is_object() {
        let message = "a memory document is a JSON object, or a list of messages";
        return Err(root.flaw("not_an_object", message));
    }
    let mut fields = root.object()?;
    match fields.take("version") {
        None => Ok((MemoryFormat::Version1, v1::document(fields)?)),
        Some(version) => match version.number()?.as_i64() {
            Some(1) => Ok((MemoryFormat::Version1, v1::document(fields)?)),
            Some(2) => Ok((MemoryFormat::Version2, v2::document(fields)?)),
            _ => Err(unknown_version(&version)),
        },
    }
}

fn unknown_version(version: &Node<'_>) -> Flawed {
    let is_whole = version.exact().bytes().all(|b| b.is_ascii_digit() || b == b'-');
    if is_whole {
        version.flaw("unsupported_version", "this server knows the versions 1 and 2")
    } else {
        version.flaw("wrong_type", "a whole number is expected here")
    }
}

/// Reports more steps than are read.
pub(super) fn too_many(node: &Node<'_>) -> Flawed {
    node.flaw("too_many_steps", format!("at most {MAX_STEPS} steps are read"))
}

/// Reads the `steps`, each on its own, so that one flawed step hides no other.
pub(super) fn steps(
    fields: &mut Fields<'_>,
    mut read: impl FnMut(usize, &Node<'_>) -> Read<StepContent>,
) -> Read<Vec<StepContent>> {
    fields.required("steps", |node| {
        let nodes = node.array()?;
        if nodes.len() > MAX_STEPS {
            return Err(too_many(node));
        }
        let mut steps = Ok(Vec::with_capacity(nodes.len()));
        for (index, node) in nodes.iter().enumerate() {
            if node.report().is_full() {
                return Err(Flawed);
            }
            match (read(index, &node), &mut steps) {
                (Ok(step), Ok(steps)) => steps.push(step),
                (Ok(_), Err(Flawed)) => {}
                (Err(Flawed), _) => steps = Err(Flawed),
            }
        }
        steps
    })
}
