//! Which secrets are named by what: those of a run, and what keeps a secret from being forgotten.

use super::secrets::{SecretRow, StoredSecret};
use super::{Store, StoreError};
use crate::domain::id::{AgentId, McpServerId, RunId, SkillId, TenantId};
use crate::domain::secret::SecretName;

/// The most names that are told of what names a secret.
const MAX_REFERENCES: i64 = 20;

/// The secrets that the agent of a run names for its models and tools, those of the skills that the run may
/// load, and those that its MCP servers are sent. What does not read as one is left out.
///
/// # Errors
/// When the database does not answer.
pub async fn of_run(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
) -> Result<Vec<StoredSecret>, StoreError> {
    let rows = sqlx::query_as!(
        SecretRow,
        r#"WITH spec AS (
               SELECT coalesce(r.inline_agent, v.spec)::jsonb AS said
                 FROM run r
                 LEFT JOIN agent_version v
                   ON v.tenant_id = r.tenant_id
                  AND v.agent_id = r.agent_id
                  AND v.version = r.agent_version
                WHERE r.tenant_id = $1
                  AND r.run_id = $2
                UNION ALL
               SELECT v.spec::jsonb
                 FROM run_skill k
                 JOIN skill_version v
                   ON v.tenant_id = k.tenant_id
                  AND v.skill_id = k.skill_id
                  AND v.version = k.version
                WHERE k.tenant_id = $1
                  AND k.run_id = $2
           ), named AS (
               SELECT jsonb_path_query(said, '$.model.api_key.secret') #>> '{}' AS name FROM spec
                UNION ALL
               SELECT jsonb_path_query(said, '$.model.fallbacks[*].api_key.secret') #>> '{}'
                 FROM spec
                UNION ALL
               SELECT jsonb_path_query(said, '$.tools[*].headers.*.secret') #>> '{}' FROM spec
                UNION ALL
               SELECT jsonb_path_query(m.spec::jsonb, '$.headers.*.secret') #>> '{}'
                 FROM mcp_server m
                WHERE m.tenant_id = $1
                  AND m.name IN (
                      SELECT jsonb_path_query(said, '$.tools[*] ? (@.kind == "mcp").server') #>> '{}'
                        FROM spec)
           )
           SELECT name, version, sealed, wrapped_key, kek_id, origins, fingerprint, created_at,
                  updated_at, last_used_at
             FROM secret
            WHERE tenant_id = $1
              AND name IN (SELECT named.name FROM named)"#,
        tenant.as_str(),
        run.uuid()
    )
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    Ok(rows.into_iter().filter_map(|row| StoredSecret::try_from(row).ok()).collect())
}

/// What names a secret as it stands now: agents and skills that are not archived, and MCP servers, by their
/// ids.
///
/// # Errors
/// When the database does not answer.
pub async fn references(
    store: &Store,
    tenant: &TenantId,
    name: &SecretName,
) -> Result<Vec<String>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT named.kind AS "kind!", named.id AS "id!"
             FROM (
                  SELECT 'agent' AS kind, a.agent_id AS id, v.spec::jsonb AS said
                    FROM agent a
                    JOIN agent_version v
                      ON v.tenant_id = a.tenant_id
                     AND v.agent_id = a.agent_id
                     AND v.version = a.version
                   WHERE a.tenant_id = $1
                     AND a.archived_at IS NULL
                   UNION ALL
                  SELECT 'skill', s.skill_id, v.spec::jsonb
                    FROM skill s
                    JOIN skill_version v
                      ON v.tenant_id = s.tenant_id
                     AND v.skill_id = s.skill_id
                     AND v.version = s.version
                   WHERE s.tenant_id = $1
                     AND s.archived_at IS NULL
                   UNION ALL
                  SELECT 'mcp_server', m.server_id, m.spec::jsonb
                    FROM mcp_server m
                   WHERE m.tenant_id = $1) AS named
            WHERE to_jsonb($2::text) IN (
                  SELECT jsonb_path_query(said, '$.model.api_key.secret')
                   UNION ALL
                  SELECT jsonb_path_query(said, '$.model.fallbacks[*].api_key.secret')
                   UNION ALL
                  SELECT jsonb_path_query(said, '$.tools[*].headers.*.secret')
                   UNION ALL
                  SELECT jsonb_path_query(said, '$.headers.*.secret'))
            ORDER BY named.kind, named.id
            LIMIT $3"#,
        tenant.as_str(),
        name.as_str(),
        MAX_REFERENCES
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let named = rows.into_iter().map(|row| match row.kind.as_str() {
        "agent" => AgentId::from(row.id).to_string(),
        "skill" => SkillId::from(row.id).to_string(),
        _ => McpServerId::from(row.id).to_string(),
    });
    Ok(named.collect())
}
