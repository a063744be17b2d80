//! Skills: instructions and tools that an agent takes up when a task calls for them.

mod file;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::agent::Metadata;
use super::id::SkillId;
use super::step::StepContent;
use super::tool::ToolSpec;

pub use file::{MAX_FRONT_MATTER, SkillFile, SkillLoadError};

/// The tool that takes up a skill; there when an agent has any.
pub const LOAD_SKILL: &str = "load_skill";

/// Bytes of a skill's instructions, and of a `SKILL.md`.
pub const MAX_INSTRUCTIONS: usize = 256 * 1024;

/// Characters of a skill's description.
pub const MAX_DESCRIPTION: usize = 1_024;

/// What a skill is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillSpec {
    /// Unique within the tenant: `^[a-z0-9][a-z0-9-]{0,63}$`.
    #[schema(pattern = "^[a-z0-9][a-z0-9-]{0,63}$", examples("invoices"))]
    pub name: String,
    /// When it is of use; agents that have it are told this much from the start, on one line. At most
    /// 1,024 characters.
    #[schema(max_length = 1024, examples("How invoices are checked and booked."))]
    pub description: String,
    /// What to do; told when it is loaded. At most 256 KiB.
    pub instructions: String,
    /// What may be called once it is loaded; at most 128 tools, each with its own name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 128)]
    pub tools: Vec<ToolSpec>,
    /// The caller's own labels.
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub metadata: Metadata,
}

/// A skill that an agent has: by name or id at the version that is newest when a run starts, or at one
/// version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(examples("invoices", json!({"name": "invoices", "version": 2})))]
pub enum SkillRef {
    /// Its name or id.
    Newest(String),
    /// One version of it.
    Pinned(PinnedSkill),
}

/// One version of a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedSkill {
    /// Its name or id.
    pub name: String,
    /// The version.
    #[schema(minimum = 1)]
    pub version: i32,
}

impl SkillRef {
    /// Its name or id.
    pub fn wanted(&self) -> &str {
        match self {
            Self::Newest(name) | Self::Pinned(PinnedSkill { name, .. }) => name,
        }
    }

    /// The version, where one is named.
    pub const fn version(&self) -> Option<i32> {
        match self {
            Self::Newest(_) => None,
            Self::Pinned(PinnedSkill { version, .. }) => Some(*version),
        }
    }
}

/// What an agent is told of a skill from the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillLine {
    /// Its name.
    pub name: String,
    /// When it is of use, as its author wrote it.
    pub description: String,
}

impl From<&Skill> for SkillLine {
    fn from(skill: &Skill) -> Self {
        let SkillSpec { name, description, .. } = &skill.spec;
        Self { name: name.clone(), description: description.clone() }
    }
}

/// One version of a skill as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// Its id, the same for all versions.
    pub id: SkillId,
    /// 1, 2, 3 …
    pub version: i32,
    /// What this version is.
    pub spec: SkillSpec,
    /// When the skill was created.
    pub created_at: DateTime<Utc>,
    /// When this version was created.
    pub updated_at: DateTime<Utc>,
    /// When the skill was archived: no new agent can name it.
    pub archived_at: Option<DateTime<Utc>>,
}

/// Whether a skill can have this name: `^[a-z0-9][a-z0-9-]{0,63}$`. No id looks like it.
pub fn is_skill_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=64).contains(&text.len())
        && text.bytes().next().is_some_and(plain)
        && text.bytes().all(|byte| plain(byte) || byte == b'-')
}

/// The tools that came by the way and have not gone: those that the `tools` steps of a history tell of.
pub fn brought(steps: &[StepContent]) -> BTreeSet<&str> {
    let mut there = BTreeSet::new();
    for step in steps {
        if let StepContent::Tools(change) = step {
            there.extend(change.added.iter().map(String::as_str));
            for name in &change.removed {
                there.remove(name.as_str());
            }
        }
    }
    there
}
