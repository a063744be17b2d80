//! The redaction rules under which runs append.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::rows::At;
use super::{Store, StoreError};
use crate::domain::id::{RunId, TenantId};
use crate::domain::redaction::RedactionRule;

/// The rules of the agents of some runs; runs whose agents have none are left out.
///
/// # Errors
/// When the database does not answer.
pub async fn rules(
    store: &Store,
    tenant: &TenantId,
    runs: &[RunId],
) -> Result<BTreeMap<RunId, Vec<RedactionRule>>, StoreError> {
    let ids: Vec<Uuid> = runs.iter().map(|run| run.uuid()).collect();
    let rows = sqlx::query!(
        r#"SELECT r.run_id, (coalesce(r.inline_agent, v.spec) -> 'redaction')::text AS "rules!"
             FROM run r
             LEFT JOIN agent_version v
               ON v.tenant_id = r.tenant_id
              AND v.agent_id = r.agent_id
              AND v.version = r.agent_version
            WHERE r.tenant_id = $1
              AND r.run_id = ANY($2)
              AND coalesce(r.inline_agent, v.spec) -> 'redaction' IS NOT NULL"#,
        tenant.as_str(),
        &ids
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let read = |run: RunId, text: &str| At { table: "run", id: &run }.json("redaction", text);
    rows.into_iter()
        .map(|row| {
            let run = RunId::from(row.run_id);
            Ok((run, read(run, &row.rules)?))
        })
        .collect()
}
