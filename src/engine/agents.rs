//! What the tools, schemas and rules of an agent must be before it is stored or run, as an error for the
//! caller.

use std::collections::BTreeSet;

use super::Parts;
use crate::domain::agent::AgentSpec;
use crate::domain::memory::Finding;
use crate::domain::model::ModelSpec;
use crate::domain::redaction::{RuleFault, faults};
use crate::domain::tool::ToolSpec;
use crate::egress::EgressDenied;
use crate::error::AgentlingError;
use crate::provider::Models;
use crate::tools::{SpecFinding, SpecProblem, Toolbox};

/// The code of a value that is out of its bounds.
const INVALID: &str = "invalid_value";

pub(super) fn check(parts: &Parts, spec: &AgentSpec, at: &str) -> Result<(), AgentlingError> {
    check_models(&parts.models, &spec.model, &format!("{at}/model"))?;
    verdict(&spec.tools, &parts.toolbox.check(spec), at)?;
    let found = faults(&spec.redaction).into_iter();
    let places = found.map(|RuleFault { pointer, message }| {
        Finding::new(format!("{at}/redaction{pointer}"), INVALID, message)
    });
    let places: Vec<Finding> = places.collect();
    if places.is_empty() { Ok(()) } else { Err(AgentlingError::Invalid(places)) }
}

/// What a tool must be to be tried out. `spec` has no other.
pub(super) fn check_tool(
    toolbox: &Toolbox,
    spec: &AgentSpec,
    at: &str,
) -> Result<(), AgentlingError> {
    let found = toolbox.check(spec).into_iter().map(|finding| {
        let pointer = finding.pointer.strip_prefix("/tools/0").unwrap_or(&finding.pointer);
        SpecFinding { pointer: pointer.to_owned(), ..finding }
    });
    verdict(&spec.tools, &found.collect::<Vec<_>>(), at)
}

/// Whether the addresses that an agent names for its models may be called.
fn check_models(models: &Models, model: &ModelSpec, at: &str) -> Result<(), AgentlingError> {
    let refuse = |at: &str, denied: EgressDenied| {
        let pointer = format!("{at}/base_url");
        AgentlingError::EgressDenied(Finding::new(pointer, "egress_denied", denied.to_string()))
    };
    models.check_address(model).map_err(|denied| refuse(at, denied))?;
    let mut fallbacks = model.fallbacks.iter().enumerate();
    fallbacks.try_for_each(|(index, fallback)| {
        let at = format!("{at}/fallbacks/{index}");
        models.check_address(fallback).map_err(|denied| refuse(&at, denied))
    })
}

/// Problems of their own name one place each, so the first of them is told; the others are listed.
pub(super) fn verdict(
    tools: &[ToolSpec],
    found: &[SpecFinding],
    at: &str,
) -> Result<(), AgentlingError> {
    let own = found.iter().find(|finding| finding.code != SpecProblem::Invalid);
    match own {
        Some(finding) => Err(refusal(tools, finding, at)),
        None if found.is_empty() => Ok(()),
        None => {
            let places = found.iter().map(|finding| place(finding, at, INVALID));
            Err(AgentlingError::Invalid(places.collect()))
        }
    }
}

fn refusal(tools: &[ToolSpec], finding: &SpecFinding, at: &str) -> AgentlingError {
    let at = |code| place(finding, at, code);
    match finding.code {
        SpecProblem::InvalidToolSchema => {
            AgentlingError::InvalidToolSchema(at("invalid_tool_schema"))
        }
        SpecProblem::SchemaTooComplex => AgentlingError::SchemaTooComplex(at("schema_too_complex")),
        SpecProblem::RemoteRefForbidden => {
            AgentlingError::RemoteRefForbidden(at("remote_ref_forbidden"))
        }
        SpecProblem::EgressDenied => AgentlingError::EgressDenied(at("egress_denied")),
        SpecProblem::InvalidHeaderName => {
            AgentlingError::InvalidHeaderName(at("invalid_header_name"))
        }
        SpecProblem::ToolNameConflict => {
            AgentlingError::ToolNameConflict { name: repeated_name(tools) }
        }
        SpecProblem::Invalid => AgentlingError::Invalid(vec![at(INVALID)]),
    }
}

fn place(finding: &SpecFinding, at: &str, code: &str) -> Finding {
    Finding::new(format!("{at}{}", finding.pointer), code, finding.message.as_str())
}

fn repeated_name(tools: &[ToolSpec]) -> String {
    let mut seen = BTreeSet::new();
    let mut names = tools.iter().filter_map(ToolSpec::tool_name);
    names.find(|name| !seen.insert(*name)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::egress::EgressPolicy;
    use crate::tools::check_spec;

    fn tool(name: &str, url: &str, timeout_ms: u64) -> serde_json::Value {
        let parameters = json!({ "type": "object", "properties": {} });
        json!({ "kind": "http", "name": name, "url": url, "parameters": parameters,
                "timeout_ms": timeout_ms })
    }

    fn judge(tools: &serde_json::Value) -> Result<(), AgentlingError> {
        let spec = json!({ "name": "a", "tools": tools,
                           "model": { "provider": "scripted", "name": "s" } });
        let spec: AgentSpec = serde_json::from_value(spec).unwrap();
        verdict(&spec.tools, &check_spec(&spec, &EgressPolicy::default()), "/agent")
    }

    #[test]
    fn sound_tools_pass() {
        assert!(judge(&json!([tool("look", "https://example.com/a", 10)])).is_ok());
    }

    #[test]
    fn values_out_of_bounds_are_all_listed_at_their_places_in_the_callers_document() {
        let tools =
            json!([tool("a b", "https://example.com", 10), tool("c", "https://example.com", 9)]);
        let Err(AgentlingError::Invalid(found)) = judge(&tools) else { panic!("not refused") };
        let places: Vec<&str> = found.iter().map(|finding| finding.pointer.as_str()).collect();
        assert_eq!(places, ["/agent/tools/0/name", "/agent/tools/1/timeout_ms"]);
    }

    #[test]
    fn a_problem_of_its_own_is_told_before_values_out_of_bounds() {
        let url = "http://127.0.0.1/";
        let Err(AgentlingError::EgressDenied(place)) = judge(&json!([tool("a b", url, 0)])) else {
            panic!("not refused")
        };
        assert_eq!(place.pointer, "/agent/tools/0/url");
    }

    #[test]
    fn two_tools_of_one_name_are_named() {
        let tools =
            json!([tool("a", "https://example.com", 1), tool("a", "https://example.com", 1)]);
        let Err(AgentlingError::ToolNameConflict { name }) = judge(&tools) else {
            panic!("not refused")
        };
        assert_eq!(name, "a");
    }
}
