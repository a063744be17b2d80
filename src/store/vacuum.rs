//! What keeps the database from clearing away rows that are dead: every claim and heartbeat leaves some.

use std::time::Duration;

use super::{Store, StoreError};

/// A transaction that somebody has open, and that may see rows which are dead for everyone else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The process of the database that serves it.
    pub pid: i32,
    /// What its session calls itself.
    pub application: String,
    /// How long it has been open.
    pub age: Duration,
}

/// The transaction that has been open for longest in this database, anybody's, as far as the server's role
/// may see it.
///
/// # Errors
/// When the database does not answer.
pub async fn oldest_transaction(store: &Store) -> Result<Option<OpenTransaction>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT pid AS "pid!", coalesce(application_name, '') AS "application!",
                  (extract(epoch FROM clock.now - xact_start) * 1000)::bigint AS "age_ms!"
             FROM pg_stat_activity, (VALUES (now())) AS clock (now)
            WHERE datname = current_database()
              AND pid <> pg_backend_pid()
              AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
              AND xact_start < clock.now
            ORDER BY xact_start
            LIMIT 1"#
    )
    .fetch_optional(store.system().critical())
    .await
    .map_err(StoreError::of_read)?;
    Ok(row.map(|row| OpenTransaction {
        pid: row.pid,
        application: row.application,
        age: Duration::from_millis(u64::try_from(row.age_ms).unwrap_or(0)),
    }))
}
