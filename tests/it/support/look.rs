//! Looks at the rows of a test's database.

use std::time::Duration;

use sqlx::PgConnection;

use super::TestDb;

/// The tables that a run touches.
const TABLES: [&str; 9] = [
    "thread",
    "run",
    "run_lease",
    "step",
    "tool_call",
    "call_answer",
    "run_event",
    "idempotency",
    "model_request",
];

/// A number.
pub(crate) async fn count(db: &TestDb, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&mut db.connect().await).await.unwrap()
}

/// Changes rows behind the server's back, and answers how many.
pub(crate) async fn execute(db: &TestDb, sql: &'static str) -> u64 {
    sqlx::query(sql).execute(&mut db.connect().await).await.unwrap().rows_affected()
}

/// Asks a yes-or-no question until the answer is yes. Each try is a round trip to the database.
pub(crate) async fn until(db: &TestDb, sql: &'static str) {
    let mut connection = db.connect().await;
    let yes = async {
        while !ask(&mut connection, sql).await {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), yes).await;
    waited.unwrap_or_else(|_| panic!("it never became true: {sql}"));
}

async fn ask(connection: &mut PgConnection, sql: &'static str) -> bool {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

/// Every row of every table that a run touches, as text.
pub(crate) async fn picture(db: &TestDb) -> Vec<String> {
    let mut connection = db.connect().await;
    let mut tables = Vec::new();
    for table in TABLES {
        // The names are those above.
        let sql = format!(
            "SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM {table} t"
        );
        let sql = sqlx::AssertSqlSafe(sql);
        let rows: String = sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap();
        tables.push(format!("{table}:\n{rows}"));
    }
    tables
}

/// Every row of a table, as text.
pub(crate) async fn picture_of(db: &TestDb, table: &str) -> String {
    let sql = format!("SELECT coalesce(string_agg(t::text, E'\\n'), '') FROM {table} t");
    let sql = sqlx::AssertSqlSafe(sql);
    sqlx::query_scalar(sql).fetch_one(&mut db.connect().await).await.unwrap()
}

/// Every row of every table there is, as text.
pub(crate) async fn picture_everything(db: &TestDb) -> String {
    let sql = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
    let tables: Vec<String> =
        sqlx::query_scalar(sql).fetch_all(&mut db.connect().await).await.unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    let mut all = String::new();
    for table in tables {
        all.push_str(&picture_of(db, &table).await);
    }
    all
}
