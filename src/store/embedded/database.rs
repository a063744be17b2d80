//! Makes the database inside the embedded Postgres.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};

use super::EmbeddedError;

/// The one database.
pub(super) const NAME: &str = "agentling";

/// SQLSTATE of a database that exists.
const DUPLICATE_DATABASE: &str = "42P04";

/// Makes the database that an embedded URL names, unless it is there.
///
/// # Errors
/// When the server cannot be reached or refuses.
pub async fn ensure_database(url: &str) -> Result<(), EmbeddedError> {
    make(url).await.map_err(EmbeddedError::Database)
}

async fn make(url: &str) -> Result<(), sqlx::Error> {
    let options = PgConnectOptions::from_str(url)?.database("postgres");
    let mut connection = options.connect().await?;
    if !exists(&mut connection).await? {
        let made = sqlx::query("CREATE DATABASE agentling").execute(&mut connection).await;
        // A command that attached at the same moment may have been quicker.
        if let Err(error) = made.map(drop)
            && !is_duplicate(&error)
        {
            return Err(error);
        }
    }
    connection.close().await
}

async fn exists(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let query = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)";
    sqlx::query_scalar(query).bind(NAME).fetch_one(connection).await
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| code == DUPLICATE_DATABASE)
}
