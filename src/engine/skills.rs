//! The skills that an agent names: whether it may, and which versions a run of it has.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, agents};
use crate::domain::agent::AgentSpec;
use crate::domain::id::TenantId;
use crate::domain::memory::Finding;
use crate::domain::skill::{Skill, SkillSpec};
use crate::domain::tool::ToolSpec;
use crate::error::AgentlingError;
use crate::store::{StoreError, skills};
use crate::tools::{MAX_TOOLS, Toolbox};

/// Whether the tools of a skill can be stored, as those of an agent.
pub(super) fn check_spec(toolbox: &Toolbox, spec: &SkillSpec) -> Result<(), AgentlingError> {
    agents::verdict(&spec.tools, &toolbox.check_tools(&spec.tools), "")
}

/// The skills of an agent that starts a run, at the versions that the run has to its end. Those that were
/// archived after the agent named them are there as ever.
pub(super) async fn pinned(
    context: &Context,
    tenant: &TenantId,
    spec: &AgentSpec,
) -> Result<Vec<Skill>, StoreError> {
    if spec.skills.is_empty() {
        return Ok(Vec::new());
    }
    let found = skills::resolve(context.store(), tenant, &spec.skills).await?;
    Ok(found.into_iter().flatten().collect())
}

/// The skills of an agent that is made now. `at` is the pointer to it in the caller's document.
///
/// # Errors
/// When one of them is not there, is archived or is there twice, or two of all its tools have one name.
pub(super) async fn check(
    context: &Context,
    tenant: &TenantId,
    spec: &AgentSpec,
    at: &str,
) -> Result<Vec<Skill>, AgentlingError> {
    if spec.skills.is_empty() {
        return Ok(Vec::new());
    }
    let found = skills::resolve(context.store(), tenant, &spec.skills).await?;
    let mut findings = Vec::new();
    let (mut seen, mut skills) = (BTreeSet::new(), Vec::new());
    for (place, skill) in found.into_iter().enumerate() {
        let fault = match &skill {
            None => Some(("unknown_skill", "there is no such skill, or no such version of it")),
            Some(skill) if skill.archived_at.is_some() => {
                Some(("unknown_skill", "the skill is archived"))
            }
            Some(skill) if !seen.insert(skill.spec.name.clone()) => {
                Some(("repeated", "the agent has a skill of this name already"))
            }
            Some(_) => None,
        };
        findings.extend(
            fault.map(|(code, text)| Finding::new(format!("{at}/skills/{place}"), code, text)),
        );
        skills.extend(skill);
    }
    let n_tools =
        spec.tools.len() + skills.iter().map(|skill| skill.spec.tools.len()).sum::<usize>();
    if n_tools > MAX_TOOLS {
        let text = format!("with those of its skills an agent has at most {MAX_TOOLS} tools");
        findings.push(Finding::new(format!("{at}/skills"), "too_many", text));
    }
    if !findings.is_empty() {
        return Err(AgentlingError::Invalid(findings));
    }
    unambiguous(&spec.tools, &skills)?;
    Ok(skills)
}

/// Refuses tools of one name. Skills that get new versions later may still bring some; these are then not
/// loaded.
fn unambiguous(own: &[ToolSpec], skills: &[Skill]) -> Result<(), AgentlingError> {
    let brought = skills.iter().flat_map(|skill| &skill.spec.tools);
    let mut count: BTreeMap<&str, u32> = BTreeMap::new();
    for name in own.iter().chain(brought).filter_map(ToolSpec::tool_name) {
        let n = count.entry(name).or_default();
        *n += 1;
        if *n > 1 {
            return Err(AgentlingError::ToolNameConflict { name: name.to_owned() });
        }
    }
    Ok(())
}
