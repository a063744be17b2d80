//! How callers name a skill in a path: by id or by name.

use std::str::FromStr;

use crate::domain::id::{InvalidId, SkillId};
use crate::domain::skill::is_skill_name;

/// A skill's id, or the unique name it holds. No text is both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SkillName {
    /// Its id.
    Id(SkillId),
    /// Its name.
    Name(String),
}

impl SkillName {
    /// The id and the name that are looked for.
    pub(super) fn wanted(&self) -> (Option<SkillId>, &str) {
        match self {
            Self::Id(id) => (Some(*id), ""),
            Self::Name(name) => (None, name),
        }
    }
}

impl FromStr for SkillName {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        match text.parse() {
            Ok(id) => Ok(Self::Id(id)),
            Err(_) if is_skill_name(text) => Ok(Self::Name(text.to_owned())),
            Err(error) => Err(error),
        }
    }
}
