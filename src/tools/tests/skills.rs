//! What `load_skill` gives, and what may be called after it.

use std::sync::Arc;

use serde_json::json;

use super::{agent, reply, toolbox};
use crate::domain::id::SkillId;
use crate::domain::skill::{Skill, SkillSpec};
use crate::domain::step::{StepContent, ToolsStep};
use crate::domain::tool::{OutcomeKind, PlannedCall, ToolOutput};
use crate::tools::ToolSet;

fn skill(name: &str, tools: &[&str]) -> Skill {
    let parameters = json!({"type": "object", "properties": {}});
    let tools = tools
        .iter()
        .map(|tool| json!({"kind": "client", "name": tool, "parameters": parameters}))
        .map(|tool| serde_json::from_value(tool).unwrap());
    let moment = chrono::DateTime::UNIX_EPOCH;
    Skill {
        id: SkillId::from(uuid::Uuid::nil()),
        version: 1,
        spec: SkillSpec {
            name: name.to_owned(),
            description: "d".to_owned(),
            instructions: format!("How to {name}."),
            tools: tools.collect(),
            metadata: std::collections::BTreeMap::new(),
        },
        created_at: moment,
        updated_at: moment,
        archived_at: None,
    }
}

fn set(own: &[&str], skills: &[Skill]) -> Arc<ToolSet> {
    let parameters = json!({"type": "object", "properties": {}});
    let own: Vec<_> = own
        .iter()
        .map(|tool| json!({"kind": "client", "name": tool, "parameters": parameters}))
        .collect();
    let (toolbox, spec) = (toolbox(&[]), agent(&json!(own), &json!({})));
    Arc::new(toolbox.stock(toolbox.toolset(&spec), &spec, skills))
}

fn plan(set: &ToolSet, calls: &[(&str, &str)]) -> Vec<PlannedCall> {
    set.plan(&reply(calls))
}

fn names(set: &ToolSet) -> Vec<&str> {
    set.definitions().iter().map(|tool| tool.name.as_str()).collect()
}

fn came(names: &[&str]) -> [StepContent; 1] {
    let added = names.iter().map(|&name| name.to_owned()).collect();
    [StepContent::Tools(ToolsStep { added, removed: Vec::new() })]
}

/// The kind of a settled call's outcome, and what the model is told.
fn told(call: &PlannedCall) -> (OutcomeKind, String) {
    let outcome = call.settled.clone().unwrap();
    let message = outcome.error.map(|failure| failure.message);
    let text = match outcome.output {
        Some(ToolOutput::Text(output)) => Some(output.text),
        _ => None,
    };
    (outcome.kind, message.or(text).unwrap())
}

#[test]
fn an_agent_without_skills_has_no_tool_to_load_them() {
    let set = set(&["a"], &[]);
    assert_eq!(names(&set), ["a", "final_answer"]);
    let calls = plan(&set, &[("load_skill", r#"{"name":"x"}"#)]);
    assert_eq!(told(&calls[0]).0, OutcomeKind::UnknownTool);
}

#[test]
fn loading_gives_the_instructions_and_brings_the_tools() {
    let set = set(&["a"], &[skill("sail", &["reef", "tack"]), skill("row", &[])]);
    assert_eq!(names(&set), ["a", "load_skill", "final_answer"]);
    let calls =
        plan(&set, &[("load_skill", r#"{"name":"sail"}"#), ("load_skill", r#"{"name":"row"}"#)]);
    assert_eq!(told(&calls[0]), (OutcomeKind::Success, "How to sail.".to_owned()));
    assert_eq!(calls[0].brings, ["reef", "tack"]);
    assert_eq!(told(&calls[1]), (OutcomeKind::Success, "How to row.".to_owned()));
    assert_eq!(calls[1].brings, [""; 0]);
}

#[test]
fn a_tool_of_a_skill_is_unknown_until_the_skill_is_loaded() {
    let set = set(&["a"], &[skill("sail", &["reef"])]);
    let calls = plan(&set, &[("load_skill", r#"{"name":"sail"}"#), ("reef", "{}")]);
    assert_eq!(
        told(&calls[1]),
        (
            OutcomeKind::UnknownTool,
            "Unknown tool 'reef'. Available: a, load_skill, final_answer".to_owned()
        )
    );
    let after = set.after(&came(&["reef"]));
    assert_eq!(names(&after), ["a", "reef", "load_skill", "final_answer"]);
    assert!(plan(&after, &[("reef", "{}")])[0].waits.by_client);
}

#[test]
fn loading_again_gives_the_instructions_again_and_brings_nothing() {
    let set = set(&[], &[skill("sail", &["reef"])]);
    let load = ("load_skill", r#"{"name":"sail"}"#);
    let twice = plan(&set, &[load, load]);
    assert_eq!((&*twice[0].brings, &*twice[1].brings), (&["reef".to_owned()][..], &[][..]));
    let again = plan(&set.after(&came(&["reef"])), &[load]);
    assert_eq!(told(&again[0]).1, "How to sail.");
    assert_eq!(again[0].brings, [""; 0]);
}

#[test]
fn a_skill_that_is_not_there_is_told_with_those_that_are() {
    let set = set(&[], &[skill("sail", &[]), skill("row", &[])]);
    let calls = plan(
        &set,
        &[
            ("load_skill", r#"{"name":"fly\n"}"#),
            ("load_skill", r#"{"skill":"sail"}"#),
            ("load_skill", r#"{"name":7}"#),
        ],
    );
    let (kind, message) = told(&calls[0]);
    assert_eq!(kind, OutcomeKind::InvalidArguments);
    assert_eq!(message, "Unknown skill 'fly'. Available: sail, row");
    for call in &calls[1..] {
        assert_eq!(told(call).0, OutcomeKind::InvalidArguments);
        assert_eq!(call.brings, [""; 0]);
    }
}

#[test]
fn a_skill_whose_tool_has_the_name_of_another_is_not_loaded() {
    let skills = [skill("sail", &["reef"]), skill("dive", &["reef"]), skill("row", &["a", "pull"])];
    let set = set(&["a"], &skills);
    for (name, tool) in [("sail", "reef"), ("dive", "reef"), ("row", "a")] {
        let calls = plan(&set, &[("load_skill", &format!(r#"{{"name":"{name}"}}"#))]);
        let (kind, message) = told(&calls[0]);
        assert_eq!(kind, OutcomeKind::Execution, "{name}");
        assert!(
            message.ends_with(&format!("another tool has the name of its tool '{tool}'")),
            "{message}"
        );
        assert_eq!(calls[0].brings, [""; 0]);
    }
    // Whatever a history says, a name means one thing.
    assert_eq!(names(&set.after(&came(&["reef", "a"]))), ["a", "load_skill", "final_answer"]);
}

#[test]
fn a_skill_with_more_tools_than_there_may_be_is_not_loaded() {
    let own: Vec<String> = (0..127).map(|n| format!("t{n}")).collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let set = set(&own, &[skill("one", &["x"]), skill("two", &["y", "z"])]);
    let calls =
        plan(&set, &[("load_skill", r#"{"name":"one"}"#), ("load_skill", r#"{"name":"two"}"#)]);
    assert_eq!(told(&calls[0]).0, OutcomeKind::Success);
    assert_eq!(told(&calls[1]).0, OutcomeKind::Execution);
}
