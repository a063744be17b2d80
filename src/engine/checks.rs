//! What callers have checked before they store it: agents and skills.

use super::{Engine, agents, secrets, servers, skills, sub_runs};
use crate::domain::agent::AgentSpec;
use crate::domain::id::TenantId;
use crate::domain::skill::SkillSpec;
use crate::error::AgentlingError;

#[expect(
    clippy::multiple_inherent_impl,
    reason = "what is asked before anything runs stands apart"
)]
impl Engine {
    /// Whether the tools and schemas of an agent are such that it can be stored and run. `at` is the
    /// pointer to the agent in the caller's document.
    ///
    /// # Errors
    /// With the place of what is wrong: all places when they are only values out of bounds, else the
    /// first of those that have a problem of their own.
    pub fn check_agent(&self, spec: &AgentSpec, at: &str) -> Result<(), AgentlingError> {
        agents::check(&self.context.parts, spec, at)
    }

    /// Whether the secrets that an agent names are there and bound to where they would be sent. `at` is the
    /// pointer to the agent in the caller's document.
    ///
    /// # Errors
    /// With every place that names one which is not, or when the database does not answer.
    pub async fn check_secrets(
        &self,
        tenant: &TenantId,
        spec: &AgentSpec,
        at: &str,
    ) -> Result<(), AgentlingError> {
        secrets::check(&self.context, tenant, spec, at).await
    }

    /// Whether the MCP servers that an agent names are there.
    ///
    /// # Errors
    /// With every place that names one which is not, or when the database does not answer.
    pub async fn check_servers(
        &self,
        tenant: &TenantId,
        spec: &AgentSpec,
    ) -> Result<(), AgentlingError> {
        servers::check_named(&self.context, tenant, (spec, "")).await
    }

    /// Whether the skills that an agent names can be named.
    ///
    /// # Errors
    /// When one of them is not there, is archived or is there twice, or two of all its tools have one
    /// name.
    pub async fn check_skills(
        &self,
        tenant: &TenantId,
        spec: &AgentSpec,
    ) -> Result<(), AgentlingError> {
        skills::check(&self.context, tenant, spec, "").await.map(drop)
    }

    /// Whether the tools of a skill can be stored.
    ///
    /// # Errors
    /// As for those of an agent.
    pub fn check_skill(&self, spec: &SkillSpec) -> Result<(), AgentlingError> {
        skills::check_spec(&self.context.parts.toolbox, spec)
    }

    /// Whether the secrets that the tools of a skill name are there and bound to where they would be sent.
    ///
    /// # Errors
    /// As for those of an agent.
    pub async fn check_skill_secrets(
        &self,
        tenant: &TenantId,
        spec: &SkillSpec,
    ) -> Result<(), AgentlingError> {
        secrets::check_tools(&self.context, tenant, &spec.tools, "").await
    }

    /// Whether every agent is there that an agent has as a tool. `at` is the pointer to the agent in the
    /// caller's document.
    ///
    /// # Errors
    /// With the first that is not, or when the database does not answer.
    pub async fn check_sub_agents(
        &self,
        tenant: &TenantId,
        spec: &AgentSpec,
        at: &str,
    ) -> Result<(), AgentlingError> {
        sub_runs::check(&self.context, tenant, (spec, at)).await
    }
}
