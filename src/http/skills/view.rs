//! A skill as callers see it.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::agent::Metadata;
use crate::domain::id::SkillId;
use crate::domain::skill::{Skill, SkillSpec};
use crate::domain::tool::ToolSpec;
use crate::http::time::Time;

/// One version of a skill.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Skill)]
pub(super) struct SkillView {
    /// Its id, the same for all versions.
    id: SkillId,
    /// Unique within the tenant.
    #[schema(examples("invoices"))]
    name: String,
    /// 1, 2, 3 …
    #[schema(examples(1))]
    version: i32,
    /// When the skill was created.
    created_at: Time,
    /// When this version was created.
    updated_at: Time,
    /// When the skill was archived: no new agent can name it.
    #[serde(skip_serializing_if = "Option::is_none")]
    archived_at: Option<Time>,
    /// When it is of use.
    description: String,
    /// What to do.
    instructions: String,
    /// What may be called once it is loaded.
    tools: Vec<ToolSpec>,
    /// The caller's own labels.
    #[schema(value_type = BTreeMap<String, String>)]
    metadata: Metadata,
}

impl From<Skill> for SkillView {
    fn from(skill: Skill) -> Self {
        let SkillSpec { name, description, instructions, tools, metadata } = skill.spec;
        Self {
            id: skill.id,
            name,
            version: skill.version,
            created_at: skill.created_at.into(),
            updated_at: skill.updated_at.into(),
            archived_at: skill.archived_at.map(Time::from),
            description,
            instructions,
            tools,
            metadata,
        }
    }
}

/// The `ETag` of a version.
pub(super) fn etag(skill: &Skill) -> String {
    format!("\"{}\"", skill.version)
}
