//! Agents and their immutable versions.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::idempotency::{self, IdempotencyKey};
use super::rows::{At, labels, to_json};
use super::{Store, StoreError};
use crate::domain::agent::{Agent, AgentSpec};
use crate::domain::id::{AgentId, TenantId};
use crate::domain::page::{ListFilter, Page, PageRequest};

struct AgentRow {
    agent_id: Uuid,
    version: i32,
    spec: String,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    archived_at: Option<DateTime<Utc>>,
}

impl TryFrom<AgentRow> for Agent {
    type Error = StoreError;

    fn try_from(row: AgentRow) -> Result<Self, StoreError> {
        let id = AgentId::from(row.agent_id);
        Ok(Self {
            id,
            version: row.version,
            spec: At { table: "agent_version", id: &id }.json("spec", &row.spec)?,
            created_at: row.created_at,
            updated_at: row.updated_at,
            archived_at: row.archived_at,
        })
    }
}

/// How a caller names an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentRef {
    /// By its id; finds archived agents too.
    Id(AgentId),
    /// By the name it holds; an archived agent holds none.
    Name(String),
}

impl AgentRef {
    /// What a text names: no name looks like an id.
    pub fn of(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

/// Stores a new agent as its version 1.
///
/// # Errors
/// [`super::Conflict::AgentNameTaken`] when another agent of the tenant holds the name.
pub async fn create(
    store: &Store,
    tenant: &TenantId,
    (id, key): (AgentId, Option<&IdempotencyKey>),
    spec: &AgentSpec,
    now: DateTime<Utc>,
) -> Result<Agent, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, key, id.uuid().into()).await?;
    sqlx::query!(
        "WITH new_agent AS (
             INSERT INTO agent (tenant_id, agent_id, name, version, created_at, updated_at)
             VALUES ($1, $2, $3, 1, $5, $5)
             RETURNING tenant_id, agent_id
         )
         INSERT INTO agent_version (tenant_id, agent_id, version, spec, created_at)
         SELECT tenant_id, agent_id, 1, ($4::text)::json, $5 FROM new_agent",
        tenant.as_str(),
        id.uuid(),
        spec.name,
        to_json(spec)?,
        now
    )
    .execute(&mut *tx)
    .await
    .map_err(StoreError::of_write)?;
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Agent {
        id,
        version: 1,
        spec: spec.clone(),
        created_at: now,
        updated_at: now,
        archived_at: None,
    })
}

/// An agent's newest version, or the one asked for.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    which: &AgentRef,
    version: Option<i32>,
) -> Result<Option<Agent>, StoreError> {
    let (id, name) = match which {
        AgentRef::Id(id) => (Some(id.uuid()), None),
        AgentRef::Name(name) => (None, Some(name.as_str())),
    };
    sqlx::query_as!(
        AgentRow,
        r#"SELECT a.agent_id, v.version, v.spec::text AS "spec!", a.created_at,
                  v.created_at AS updated_at, a.archived_at
             FROM agent a
             JOIN agent_version v
               ON v.tenant_id = a.tenant_id
              AND v.agent_id = a.agent_id
              AND v.version = coalesce($4, a.version)
            WHERE a.tenant_id = $1
              AND (a.agent_id = $2 OR (a.name = $3 AND a.archived_at IS NULL))"#,
        tenant.as_str(),
        id,
        name,
        version
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?
    .map(Agent::try_from)
    .transpose()
}

/// The place of an agent in a list: when it was created, and its id.
pub type AgentKey = (DateTime<Utc>, AgentId);

/// A tenant's agents that are not archived, newest first.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    filter: &ListFilter,
    page: &PageRequest<AgentKey>,
) -> Result<Page<Agent, AgentKey>, StoreError> {
    let after = page.after.as_ref();
    let (keys, values) = labels(&filter.metadata);
    let rows = sqlx::query_as!(
        AgentRow,
        r#"SELECT a.agent_id, v.version, v.spec::text AS "spec!", a.created_at,
                  v.created_at AS updated_at, a.archived_at
             FROM agent a
             JOIN agent_version v
               ON v.tenant_id = a.tenant_id
              AND v.agent_id = a.agent_id
              AND v.version = a.version
            WHERE a.tenant_id = $1
              AND a.archived_at IS NULL
              AND ($2::timestamptz IS NULL OR (a.created_at, a.agent_id) < ($2, $3::uuid))
              AND ($4::timestamptz IS NULL OR a.created_at > $4)
              AND ($5::timestamptz IS NULL OR a.created_at < $5)
              AND NOT EXISTS (
                  SELECT 1 FROM unnest($6::text[], $7::text[]) AS wanted(key, value)
                   WHERE (v.spec -> 'metadata' ->> wanted.key) IS DISTINCT FROM wanted.value)
            ORDER BY a.created_at DESC, a.agent_id DESC
            LIMIT $8"#,
        tenant.as_str(),
        after.map(|key| key.0),
        after.map(|key| key.1.uuid()),
        filter.created_after,
        filter.created_before,
        &keys,
        &values,
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let agents: Result<Vec<Agent>, _> = rows.into_iter().map(Agent::try_from).collect();
    Ok(Page::of(agents?, page.limit, |agent| (agent.created_at, agent.id)))
}

/// The versions of an agent, newest first, below a version.
///
/// # Errors
/// When the database does not answer.
pub async fn versions(
    store: &Store,
    tenant: &TenantId,
    id: AgentId,
    page: &PageRequest<i32>,
) -> Result<Page<Agent, i32>, StoreError> {
    let rows = sqlx::query_as!(
        AgentRow,
        r#"SELECT a.agent_id, v.version, v.spec::text AS "spec!", a.created_at,
                  v.created_at AS updated_at, a.archived_at
             FROM agent a
             JOIN agent_version v
               ON v.tenant_id = a.tenant_id
              AND v.agent_id = a.agent_id
            WHERE a.tenant_id = $1
              AND a.agent_id = $2
              AND ($3::integer IS NULL OR v.version < $3)
            ORDER BY v.version DESC
            LIMIT $4"#,
        tenant.as_str(),
        id.uuid(),
        page.after,
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let agents: Result<Vec<Agent>, _> = rows.into_iter().map(Agent::try_from).collect();
    Ok(Page::of(agents?, page.limit, |agent| agent.version))
}

/// Which version a new one may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// The newest, whichever that is by now.
    Newest,
    /// Only the one that was seen.
    Seen,
}

/// Adds a version behind the newest one; behind the one that was seen and no other with
/// [`Behind::Seen`].
///
/// # Errors
/// [`super::Conflict::Stale`] when the newest version is another than it has to be, or the agent was
/// archived; [`super::Conflict::AgentNameTaken`] when the new name is held by another agent.
pub async fn add_version(
    store: &Store,
    tenant: &TenantId,
    (seen, behind): (&Agent, Behind),
    spec: &AgentSpec,
    now: DateTime<Utc>,
) -> Result<Agent, StoreError> {
    let expected = (behind == Behind::Seen).then_some(seen.version);
    // The row lock makes concurrent changes follow each other; the compare-and-set makes those that
    // name what they saw lose to the first.
    let added = sqlx::query!(
        r#"WITH moved AS (
               UPDATE agent
                  SET version = version + 1, name = $4, updated_at = $6
                WHERE tenant_id = $1
                  AND agent_id = $2
                  AND ($3::integer IS NULL OR version = $3)
                  AND archived_at IS NULL
            RETURNING tenant_id, agent_id, version
           )
           INSERT INTO agent_version (tenant_id, agent_id, version, spec, created_at)
           SELECT tenant_id, agent_id, version, ($5::text)::json, $6 FROM moved
           RETURNING version"#,
        tenant.as_str(),
        seen.id.uuid(),
        expected,
        spec.name,
        to_json(spec)?,
        now
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_write)?
    .ok_or(StoreError::Conflict(super::Conflict::Stale))?;
    Ok(Agent { version: added.version, spec: spec.clone(), updated_at: now, ..seen.clone() })
}

/// Archives an agent: it takes no new runs and gives its name back; its runs keep their version.
///
/// # Errors
/// When the database does not take it.
pub async fn archive(
    store: &Store,
    tenant: &TenantId,
    id: AgentId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE agent
            SET archived_at = coalesce(archived_at, $3)
          WHERE tenant_id = $1
            AND agent_id = $2",
        tenant.as_str(),
        id.uuid(),
        now
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}
