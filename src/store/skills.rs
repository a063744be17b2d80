//! Skills, their immutable versions, and those that runs are pinned to.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::agents::Behind;
use super::idempotency::{self, IdempotencyKey};
use super::rows::{At, labels, to_json};
use super::{Conflict, Store, StoreError};
use crate::domain::id::{RunId, SkillId, TenantId};
use crate::domain::page::{ListFilter, Page, PageRequest};
use crate::domain::skill::{Skill, SkillRef, SkillSpec};

struct SkillRow {
    skill_id: Uuid,
    version: i32,
    spec: String,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
    archived_at: Option<DateTime<Utc>>,
}

impl TryFrom<SkillRow> for Skill {
    type Error = StoreError;

    fn try_from(row: SkillRow) -> Result<Self, StoreError> {
        let id = SkillId::from(row.skill_id);
        Ok(Self {
            id,
            version: row.version,
            spec: At { table: "skill_version", id: &id }.json("spec", &row.spec)?,
            created_at: row.created_at,
            updated_at: row.updated_at,
            archived_at: row.archived_at,
        })
    }
}

fn skills(rows: Vec<SkillRow>) -> Result<Vec<Skill>, StoreError> {
    rows.into_iter().map(Skill::try_from).collect()
}

/// Stores a new skill as its version 1.
///
/// # Errors
/// [`Conflict::SkillNameTaken`] when another skill of the tenant holds the name.
pub async fn create(
    store: &Store,
    tenant: &TenantId,
    (id, key): (SkillId, Option<&IdempotencyKey>),
    spec: &SkillSpec,
    now: DateTime<Utc>,
) -> Result<Skill, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, key, id.uuid().into()).await?;
    sqlx::query!(
        "WITH new_skill AS (
             INSERT INTO skill (tenant_id, skill_id, name, version, created_at, updated_at)
             VALUES ($1, $2, $3, 1, $5, $5)
             RETURNING tenant_id, skill_id
         )
         INSERT INTO skill_version (tenant_id, skill_id, version, spec, created_at)
         SELECT tenant_id, skill_id, 1, ($4::text)::json, $5 FROM new_skill",
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
    let (spec, version) = (spec.clone(), 1);
    Ok(Skill { id, version, spec, created_at: now, updated_at: now, archived_at: None })
}

/// The skills of a list, each at the version that is asked for or at its newest, in the places of the
/// list; `None` for what is not there. A name that no skill holds finds the last one that held it.
///
/// # Errors
/// When the database does not answer.
pub async fn resolve(
    store: &Store,
    tenant: &TenantId,
    wanted: &[SkillRef],
) -> Result<Vec<Option<Skill>>, StoreError> {
    let ids: Vec<Option<Uuid>> =
        wanted.iter().map(|skill| Some(skill.wanted().parse::<SkillId>().ok()?.uuid())).collect();
    let names: Vec<String> = wanted.iter().map(|skill| skill.wanted().to_owned()).collect();
    let versions: Vec<Option<i32>> = wanted.iter().map(SkillRef::version).collect();
    let rows = sqlx::query!(
        r#"SELECT wanted.place AS "place!", s.skill_id, v.version, v.spec::text AS "spec!",
                  s.created_at, v.created_at AS updated_at, s.archived_at
             FROM unnest($2::uuid[], $3::text[], $4::integer[])
                  WITH ORDINALITY AS wanted(id, name, version, place)
            CROSS JOIN LATERAL (
                  SELECT *
                    FROM skill
                   WHERE tenant_id = $1
                     AND (skill_id = wanted.id OR name = wanted.name)
                   ORDER BY archived_at DESC NULLS FIRST, skill_id DESC
                   LIMIT 1) s
             JOIN skill_version v
               ON v.tenant_id = s.tenant_id
              AND v.skill_id = s.skill_id
              AND v.version = coalesce(wanted.version, s.version)"#,
        tenant.as_str(),
        &ids as &[Option<Uuid>],
        &names,
        &versions as &[Option<i32>]
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    let mut found: Vec<Option<Skill>> = vec![None; wanted.len()];
    for row in rows {
        let place = usize::try_from(row.place - 1).ok().and_then(|at| found.get_mut(at));
        if let Some(place) = place {
            *place = Some(Skill::try_from(SkillRow {
                skill_id: row.skill_id,
                version: row.version,
                spec: row.spec,
                created_at: row.created_at,
                updated_at: row.updated_at,
                archived_at: row.archived_at,
            })?);
        }
    }
    Ok(found)
}

/// One version of a skill by its id.
///
/// # Errors
/// When the database does not answer.
pub async fn version(
    store: &Store,
    tenant: &TenantId,
    (id, version): (SkillId, i32),
) -> Result<Option<Skill>, StoreError> {
    sqlx::query_as!(
        SkillRow,
        r#"SELECT s.skill_id, v.version, v.spec::text AS "spec!", s.created_at,
                  v.created_at AS updated_at, s.archived_at
             FROM skill s
             JOIN skill_version v
               ON v.tenant_id = s.tenant_id
              AND v.skill_id = s.skill_id
            WHERE s.tenant_id = $1
              AND s.skill_id = $2
              AND v.version = $3"#,
        tenant.as_str(),
        id.uuid(),
        version
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?
    .map(Skill::try_from)
    .transpose()
}

/// A skill's newest version, by its id, which finds archived ones too, or by the name that it holds.
///
/// # Errors
/// When the database does not answer.
pub async fn get(
    store: &Store,
    tenant: &TenantId,
    (id, name): (Option<SkillId>, &str),
) -> Result<Option<Skill>, StoreError> {
    sqlx::query_as!(
        SkillRow,
        r#"SELECT s.skill_id, v.version, v.spec::text AS "spec!", s.created_at,
                  v.created_at AS updated_at, s.archived_at
             FROM skill s
             JOIN skill_version v
               ON v.tenant_id = s.tenant_id
              AND v.skill_id = s.skill_id
              AND v.version = s.version
            WHERE s.tenant_id = $1
              AND (s.skill_id = $2 OR (s.name = $3 AND s.archived_at IS NULL))"#,
        tenant.as_str(),
        id.map(SkillId::uuid),
        name
    )
    .fetch_optional(store.api())
    .await
    .map_err(StoreError::of_read)?
    .map(Skill::try_from)
    .transpose()
}

/// Skills that are not archived, newest first, each at its newest version.
///
/// # Errors
/// When the database does not answer.
pub async fn list(
    store: &Store,
    tenant: &TenantId,
    filter: &ListFilter,
    page: &PageRequest<(DateTime<Utc>, SkillId)>,
) -> Result<Page<Skill, (DateTime<Utc>, SkillId)>, StoreError> {
    let (keys, values) = labels(&filter.metadata);
    let rows = sqlx::query_as!(
        SkillRow,
        r#"SELECT s.skill_id, v.version, v.spec::text AS "spec!", s.created_at,
                  v.created_at AS updated_at, s.archived_at
             FROM skill s
             JOIN skill_version v
               ON v.tenant_id = s.tenant_id
              AND v.skill_id = s.skill_id
              AND v.version = s.version
            WHERE s.tenant_id = $1
              AND s.archived_at IS NULL
              AND ($2::timestamptz IS NULL OR (s.created_at, s.skill_id) < ($2, $3::uuid))
              AND ($4::timestamptz IS NULL OR s.created_at > $4)
              AND ($5::timestamptz IS NULL OR s.created_at < $5)
              AND NOT EXISTS (
                  SELECT 1
                    FROM unnest($6::text[], $7::text[]) AS wanted(key, value)
                   WHERE (v.spec -> 'metadata' ->> wanted.key) IS DISTINCT FROM wanted.value)
            ORDER BY s.created_at DESC, s.skill_id DESC
            LIMIT $8"#,
        tenant.as_str(),
        page.after.map(|key| key.0),
        page.after.map(|key| key.1.uuid()),
        filter.created_after,
        filter.created_before,
        &keys,
        &values,
        i64::from(page.limit) + 1
    )
    .fetch_all(store.api())
    .await
    .map_err(StoreError::of_read)?;
    Ok(Page::of(skills(rows)?, page.limit, |skill| (skill.created_at, skill.id)))
}

/// The versions of a skill, newest first, below a version.
///
/// # Errors
/// When the database does not answer.
pub async fn versions(
    store: &Store,
    tenant: &TenantId,
    id: SkillId,
    page: &PageRequest<i32>,
) -> Result<Page<Skill, i32>, StoreError> {
    let rows = sqlx::query_as!(
        SkillRow,
        r#"SELECT s.skill_id, v.version, v.spec::text AS "spec!", s.created_at,
                  v.created_at AS updated_at, s.archived_at
             FROM skill s
             JOIN skill_version v
               ON v.tenant_id = s.tenant_id
              AND v.skill_id = s.skill_id
            WHERE s.tenant_id = $1
              AND s.skill_id = $2
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
    Ok(Page::of(skills(rows)?, page.limit, |skill| skill.version))
}

/// Adds a version behind the newest one; behind the one that was seen and no other with
/// [`Behind::Seen`].
///
/// # Errors
/// [`Conflict::Stale`] when the newest version is another than it has to be, or the skill was archived;
/// [`Conflict::SkillNameTaken`] when the new name is held by another skill.
pub async fn add_version(
    store: &Store,
    tenant: &TenantId,
    (seen, behind): (&Skill, Behind),
    spec: &SkillSpec,
    now: DateTime<Utc>,
) -> Result<Skill, StoreError> {
    let expected = (behind == Behind::Seen).then_some(seen.version);
    // As with agents: the row lock makes concurrent changes follow each other.
    let added = sqlx::query!(
        r#"WITH moved AS (
               UPDATE skill
                  SET version = version + 1, name = $4, updated_at = $6
                WHERE tenant_id = $1
                  AND skill_id = $2
                  AND ($3::integer IS NULL OR version = $3)
                  AND archived_at IS NULL
            RETURNING tenant_id, skill_id, version
           )
           INSERT INTO skill_version (tenant_id, skill_id, version, spec, created_at)
           SELECT tenant_id, skill_id, version, ($5::text)::json, $6 FROM moved
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
    .ok_or(StoreError::Conflict(Conflict::Stale))?;
    Ok(Skill { version: added.version, spec: spec.clone(), updated_at: now, ..seen.clone() })
}

/// Archives a skill: no new agent can name it, and it gives its name back. Agents that name it, and
/// their runs, keep it.
///
/// # Errors
/// When the database does not take it.
pub async fn archive(
    store: &Store,
    tenant: &TenantId,
    id: SkillId,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE skill
            SET archived_at = coalesce(archived_at, $3)
          WHERE tenant_id = $1
            AND skill_id = $2",
        tenant.as_str(),
        id.uuid(),
        now
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Pins a run to versions of skills, in order.
pub(super) async fn pin(
    tx: &mut sqlx::PgConnection,
    tenant: &TenantId,
    run: RunId,
    pinned: &[(SkillId, i32)],
) -> Result<(), StoreError> {
    if pinned.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = pinned.iter().map(|(id, _)| id.uuid()).collect();
    let versions: Vec<i32> = pinned.iter().map(|(_, version)| *version).collect();
    sqlx::query!(
        "INSERT INTO run_skill (tenant_id, run_id, place, skill_id, version)
         SELECT $1, $2, p.place, p.skill_id, p.version
           FROM unnest($3::uuid[], $4::integer[]) WITH ORDINALITY AS p(skill_id, version, place)",
        tenant.as_str(),
        run.uuid(),
        &ids,
        &versions
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// The versions that a run is pinned to, in order.
pub(super) async fn of_run(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
) -> Result<Vec<Skill>, StoreError> {
    let rows = sqlx::query_as!(
        SkillRow,
        r#"SELECT s.skill_id, v.version, v.spec::text AS "spec!", s.created_at,
                  v.created_at AS updated_at, s.archived_at
             FROM run_skill p
             JOIN skill s
               ON s.tenant_id = p.tenant_id
              AND s.skill_id = p.skill_id
             JOIN skill_version v
               ON v.tenant_id = p.tenant_id
              AND v.skill_id = p.skill_id
              AND v.version = p.version
            WHERE p.tenant_id = $1
              AND p.run_id = $2
            ORDER BY p.place"#,
        tenant.as_str(),
        run.uuid()
    )
    .fetch_all(store.worker())
    .await
    .map_err(StoreError::of_read)?;
    skills(rows)
}
