//! The skills of a run: what `load_skill` gives, and the tools that come with it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::entry::Entry;
use super::response::Output;
use super::spec::MAX_TOOLS;
use crate::domain::skill::{LOAD_SKILL, Skill};
use crate::domain::tool::{OutcomeKind, ToolCallError, ToolDefinition, ToolSpec};

/// A tool that may be called once its skill is loaded.
#[derive(Debug, Clone)]
pub(super) struct Stocked {
    /// What the model is told about it.
    pub(super) definition: ToolDefinition,
    /// What its calls mean.
    pub(super) entry: Arc<Entry>,
}

/// A skill that is loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Its instructions.
    pub(super) output: Output,
    /// The names of its tools that could not be called before.
    pub(super) brings: Vec<String>,
}

/// The skills of a run.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    skills: Vec<Shelved>,
    /// Their tools, in order, each name once.
    tools: Vec<Stocked>,
    /// Names that more than one of all the tools has: none of those that skills bring can be called.
    clashes: BTreeSet<String>,
}

#[derive(Debug)]
struct Shelved {
    name: String,
    instructions: String,
    tools: Vec<String>,
}

impl Shelf {
    /// The skills, whose tools are made by a function, beside tools that have these names.
    pub(super) fn of(
        skills: &[Skill],
        taken: BTreeSet<String>,
        stock: impl Fn(&ToolSpec) -> Option<Stocked>,
    ) -> Self {
        let mut shelf = Self::default();
        let mut seen = taken;
        for skill in skills {
            let stocked: Vec<Stocked> = skill.spec.tools.iter().filter_map(&stock).collect();
            shelf.skills.push(Shelved {
                name: skill.spec.name.clone(),
                instructions: skill.spec.instructions.clone(),
                tools: stocked.iter().map(|tool| tool.definition.name.clone()).collect(),
            });
            for tool in &stocked {
                let name = &tool.definition.name;
                let is_new = seen.insert(name.clone());
                shelf.clashes.extend((!is_new).then(|| name.clone()));
            }
            shelf.tools.extend(stocked);
        }
        shelf.tools.retain(|tool| !shelf.clashes.contains(&tool.definition.name));
        shelf
    }

    /// Whether there is any skill.
    pub(super) const fn is_empty(&self) -> bool {
        self.skills.is_empty()
    }

    /// The tools among these names that come with skills, in order.
    pub(super) fn tools(&self, names: &BTreeSet<&str>) -> Vec<Stocked> {
        let is_named = |tool: &&Stocked| names.contains(tool.definition.name.as_str());
        self.tools.iter().filter(is_named).cloned().collect()
    }

    /// What loading a skill gives.
    ///
    /// A skill that was loaded before is given again: what it said may no longer be in the conversation.
    pub(super) fn load(
        &self,
        arguments: &Value,
        (n_tools, can_call): (usize, impl Fn(&str) -> bool),
    ) -> Result<Loaded, ToolCallError> {
        let wanted = arguments.get("name").and_then(Value::as_str).unwrap_or_default();
        let found = self.skills.iter().find(|skill| skill.name == wanted);
        let skill = found.ok_or_else(|| self.unknown(wanted))?;
        if let Some(name) = skill.tools.iter().find(|name| self.clashes.contains(*name)) {
            return Err(refused(&format!(
                "The skill '{wanted}' cannot be loaded: another tool has the name of its tool '{name}'"
            )));
        }
        let brings: Vec<String> =
            skill.tools.iter().filter(|name| !can_call(name)).cloned().collect();
        if n_tools + brings.len() > MAX_TOOLS {
            return Err(refused(&format!(
                "The skill '{wanted}' cannot be loaded: with its tools there would be more than {MAX_TOOLS}"
            )));
        }
        Ok(Loaded { output: Output::text(&skill.instructions), brings })
    }

    fn unknown(&self, wanted: &str) -> ToolCallError {
        let wanted: String = wanted.chars().filter(|c| !c.is_control()).take(64).collect();
        let names: Vec<&str> = self.skills.iter().map(|skill| skill.name.as_str()).collect();
        ToolCallError {
            kind: OutcomeKind::InvalidArguments,
            type_name: "UnknownSkill",
            message: format!("Unknown skill '{wanted}'. Available: {}", names.join(", ")),
        }
    }
}

fn refused(message: &str) -> ToolCallError {
    let message = message.to_owned();
    ToolCallError { kind: OutcomeKind::Execution, type_name: "SkillNotLoadable", message }
}

/// The tool that loads a skill.
pub(super) fn definition() -> ToolDefinition {
    ToolDefinition {
        name: LOAD_SKILL.to_owned(),
        description: "Returns the instructions of one of your skills. The tools that belong to it can be called \
                      from then on."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"name": {"type": "string", "description": "The skill's name."}},
            "required": ["name"],
            "additionalProperties": false,
        }),
    }
}
