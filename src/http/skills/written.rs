//! What a skill is made from: JSON, or a `SKILL.md`.

use serde::Deserialize;
use utoipa::IntoParams;

use crate::domain::skill::{
    MAX_DESCRIPTION, MAX_INSTRUCTIONS, SkillFile, SkillSpec, is_skill_name,
};
use crate::engine::Engine;
use crate::error::AgentlingError;
use crate::http::extract::{Checks, JsonOrMarkdown};

/// What a `SKILL.md` that does not say so itself is called. JSON says it in its body.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Titles {
    /// The name of a `SKILL.md` whose front matter gives none.
    #[serde(default)]
    name: Option<String>,
    /// The description of a `SKILL.md` whose front matter gives none.
    #[serde(default)]
    description: Option<String>,
}

/// The skill that a body describes, checked.
pub(super) fn read(
    engine: &Engine,
    body: JsonOrMarkdown<SkillSpec>,
    titles: Titles,
) -> Result<SkillSpec, AgentlingError> {
    let spec = match body {
        JsonOrMarkdown::Json(spec) => spec,
        JsonOrMarkdown::Markdown(text) => {
            SkillFile::read(&text)?.spec(titles.name, titles.description)?
        }
    };
    let mut checks = Checks::new();
    check(&spec, &mut checks);
    let of_tools = match engine.check_skill(&spec) {
        Err(AgentlingError::Invalid(findings)) => {
            checks.extend(findings);
            Ok(())
        }
        other => other,
    };
    checks.finish().and(of_tools)?;
    Ok(spec)
}

fn check(spec: &SkillSpec, checks: &mut Checks) {
    let message = "must match ^[a-z0-9][a-z0-9-]{0,63}$";
    checks.require(is_skill_name(&spec.name), "/name", "invalid_value", message);
    checks.length("/description", &spec.description, 0..=MAX_DESCRIPTION);
    checks.not_blank("/description", &spec.description);
    checks.not_blank("/instructions", &spec.instructions);
    let fits = spec.instructions.len() <= MAX_INSTRUCTIONS;
    let message = format!("must have at most {MAX_INSTRUCTIONS} bytes");
    checks.require(fits, "/instructions", "length", &message);
    checks.metadata("/metadata", &spec.metadata);
}
