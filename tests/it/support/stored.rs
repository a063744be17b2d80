//! What a database holds, to tell whether anything changed.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Row as _};

use super::TestDb;

/// How many rows each table has, with a hash of what is in them.
pub(crate) type Stored = BTreeMap<String, (i64, String)>;

/// Everything that is stored. A lease is left out: its holder renews it whatever callers do.
pub(crate) async fn stored(db: &TestDb) -> Stored {
    let mut connection = db.connect().await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'
            AND tablename NOT IN ('run_lease', 'chore')",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let selects: Vec<String> = tables
        .iter()
        .map(|table| {
            format!(
                "SELECT '{table}', count(*), coalesce(md5(string_agg(x::text, chr(10) ORDER BY x::text)), '') FROM \"{table}\" x"
            )
        })
        .collect();
    // The names come from the catalogue.
    let statement = AssertSqlSafe(selects.join(" UNION ALL "));
    let rows = sqlx::query(statement).fetch_all(&mut connection).await.unwrap();
    rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect()
}
