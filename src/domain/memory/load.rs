//! The front door of loading: which version a document is, and what every version shares.

use serde::de::IgnoredAny;

use super::read::{Fields, Flawed, Node, Read, Report};
use super::{Finding, MAX_STEPS, Memory, MemoryLoadError, lists, v1, v2};
use crate::domain::step::StepContent;

/// Reads a memory document: an object of version 2 or 1, or a list of messages. An object without
/// `version` is read as version 1.
pub fn load(text: &str) -> Result<Memory, MemoryLoadError> {
    if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
        let finding = Finding {
            pointer: String::new(),
            code: "not_json".to_owned(),
            message: format!("the document is not JSON: {error}"),
        };
        return Err(MemoryLoadError { findings: vec![finding], unsupported_version: false });
    }
    let report = Report::default();
    let memory = document(&Node::root(text, &report));
    let findings = report.into_findings();
    match memory {
        Ok(memory) if findings.is_empty() => Ok(memory),
        _ => {
            let unsupported_version =
                findings.iter().any(|finding| finding.code == "unsupported_version");
            Err(MemoryLoadError { findings, unsupported_version })
        }
    }
}

fn document(root: &Node<'_>) -> Read<Memory> {
    if root.is_array() {
        return lists::document(root);
    }
    if !root.is_object() {
        let message = "a memory document is a JSON object, or a list of messages";
        return Err(root.flaw("not_an_object", message));
    }
    let mut fields = root.object()?;
    match fields.take("version") {
        None => v1::document(fields),
        Some(version) => match version.number()?.as_i64() {
            Some(1) => v1::document(fields),
            Some(2) => v2::document(fields),
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

/// Reads the `steps`, each on its own, so that one flawed step hides no other.
pub(super) fn steps(
    fields: &mut Fields<'_>,
    mut read: impl FnMut(usize, &Node<'_>) -> Read<StepContent>,
) -> Read<Vec<StepContent>> {
    fields.required("steps", |node| {
        let nodes = node.array()?;
        if nodes.len() > MAX_STEPS {
            return Err(node.flaw("too_many_steps", format!("at most {MAX_STEPS} steps are read")));
        }
        let mut steps = Ok(Vec::with_capacity(nodes.len()));
        for (index, node) in nodes.iter().enumerate() {
            if node.report().is_full() {
                return Err(Flawed);
            }
            match (read(index, node), &mut steps) {
                (Ok(step), Ok(steps)) => steps.push(step),
                (Ok(_), Err(Flawed)) => {}
                (Err(Flawed), _) => steps = Err(Flawed),
            }
        }
        steps
    })
}
