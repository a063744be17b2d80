//! What a skill is made from: JSON, or a `SKILL.md`.

use axum::extract::{FromRequest, FromRequestParts as _, Request};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::domain::id::TenantId;
use crate::domain::skill::{
    MAX_DESCRIPTION, MAX_INSTRUCTIONS, SkillFile, SkillSpec, is_skill_name,
};
use crate::engine::Engine;
use crate::error::AgentlingError;
use crate::http::extract::{Bounded, Bounds, Checks, JsonOrMarkdown, Query};
use crate::http::problem::Problem;

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

/// A body, and what the query says of it.
#[derive(Debug)]
pub(super) struct Written {
    titles: Titles,
    body: JsonOrMarkdown<SkillSpec>,
}

impl Bounded for Written {
    fn bounds(request: &Request) -> Bounds {
        Bounds::ordinary(request)
    }
}

impl<S: Send + Sync> FromRequest<S> for Written {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (mut parts, body) = request.into_parts();
        let Query(titles) = Query::from_request_parts(&mut parts, state).await?;
        let request = Request::from_parts(parts, body);
        Ok(Self { titles, body: JsonOrMarkdown::from_request(request, state).await? })
    }
}

/// The skill that a body describes, checked.
pub(super) async fn read(
    engine: &Engine,
    tenant: &TenantId,
    written: Written,
) -> Result<SkillSpec, AgentlingError> {
    let Written { titles, body } = written;
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
    engine.check_skill_secrets(tenant, &spec).await?;
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
