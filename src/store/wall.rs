//! Row-level security: whether it is applied, and whether it holds who is to be held.

use sqlx::{Executor as _, PgConnection};

use super::{Store, StoreError};

const ON: &str = include_str!("../../migrations/optional/row_level_security.sql");
const OFF: &str = include_str!("../../migrations/optional/row_level_security_off.sql");

/// What row-level security does to the roles of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wall {
    /// Whether the role that works for one tenant at a time is held to that tenant in every table.
    pub holds_tenants: bool,
    /// Whether the role that does the server's own work sees every row.
    pub system_sees_all: bool,
}

/// What row-level security does to the roles of a store.
///
/// # Errors
/// When the database does not answer.
pub async fn of(store: &Store) -> Result<Wall, StoreError> {
    let tenants = store.critical().acquire_for(None).await.map_err(StoreError::of_read)?;
    let (holds_tenants, sees_all) = seen_by(tenants).await?;
    if !store.is_walled() {
        return Ok(Wall { holds_tenants, system_sees_all: sees_all });
    }
    let system = store.system().critical().acquire().await.map_err(StoreError::of_read)?;
    let (_, system_sees_all) = seen_by(system).await?;
    Ok(Wall { holds_tenants, system_sees_all })
}

/// Whether a role is held to one tenant in every table, and whether it sees every row of all of them.
async fn seen_by(
    mut connection: impl std::ops::DerefMut<Target = PgConnection>,
) -> Result<(bool, bool), StoreError> {
    let row = sqlx::query!(
        r#"SELECT bool_and(row_security_active(c.oid) AND NOT s.is_system) AS "is_held!",
                  bool_and(s.is_system OR NOT row_security_active(c.oid)) AS "sees_all!"
             FROM pg_class c
             JOIN pg_attribute a
               ON a.attrelid = c.oid
              AND a.attname = 'tenant_id'
              AND NOT a.attisdropped
            CROSS JOIN (
                  SELECT EXISTS (
                         SELECT
                           FROM pg_roles r
                          WHERE r.rolname = 'agentling_system'
                            AND pg_has_role(r.oid, 'USAGE')) AS is_system) s
            WHERE c.relnamespace = current_schema()::regnamespace
              AND c.relkind IN ('r', 'p')"#
    )
    .fetch_one(&mut *connection)
    .await
    .map_err(StoreError::of_read)?;
    Ok((row.is_held, row.sees_all))
}

/// Applies row-level security to every table, or takes it back; with `None`, applies it to new tables of a
/// database that has it.
pub(super) async fn build(
    connection: &mut PgConnection,
    wanted: Option<bool>,
) -> Result<(), sqlx::Error> {
    let text = match wanted {
        Some(true) => ON,
        Some(false) => OFF,
        None if has_gap(connection).await? => ON,
        None => return Ok(()),
    };
    // A file of the repository, sent as it is.
    connection.execute(sqlx::raw_sql(text)).await.map(drop)
}

/// Whether row-level security is applied, but not to every table that there is.
async fn has_gap(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM pg_policy WHERE polname = 'agentling_tenant')
                  AND EXISTS (
                      SELECT
                        FROM pg_class c
                        JOIN pg_roles r
                          ON r.rolname = 'agentling_system'
                       WHERE c.relnamespace = current_schema()::regnamespace
                         AND c.relkind IN ('r', 'p')
                         AND c.relname <> '_sqlx_migrations'
                         AND (NOT has_table_privilege(r.oid, c.oid, 'INSERT')
                              OR (NOT c.relforcerowsecurity AND EXISTS (
                                  SELECT
                                    FROM pg_attribute a
                                   WHERE a.attrelid = c.oid
                                     AND a.attname = 'tenant_id'
                                     AND NOT a.attisdropped)))) AS "has_gap!""#
    )
    .fetch_one(connection)
    .await
}
