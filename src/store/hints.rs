//! Hints between servers: LISTEN and NOTIFY, on connections of their own and outside of every
//! transaction that matters.
//!
//! A transaction that notifies holds a lock of the whole cluster while it commits, so none of those that
//! runs depend on may. Hints are lossy: whoever acts on one would find the same by polling.

use std::time::Duration;

use sqlx::postgres::PgListener;

use super::{Store, StoreError};

/// The channel of every server on a database.
const CHANNEL: &str = "agentling";

/// How long the answer to a ping may take.
const PONG: Duration = Duration::from_secs(5);

/// What a server hears.
#[derive(Debug)]
pub struct Listener {
    inner: PgListener,
}

impl Listener {
    /// Listens from now on, on a new connection: one that was lost may take long to be gone.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn connect(store: &Store) -> Result<Self, StoreError> {
        let mut inner = store.listener().await.map_err(StoreError::of_read)?;
        inner.eager_reconnect(false);
        inner.listen(CHANNEL).await.map_err(StoreError::of_read)?;
        Ok(Self { inner })
    }

    /// The next hint; `None` once the connection is lost, whatever the reason. What was sent since it
    /// was lost is not heard again.
    pub async fn next(&mut self) -> Option<String> {
        let heard = self.inner.try_recv().await.ok().flatten();
        heard.map(|heard| heard.payload().to_owned())
    }

    /// Whether this very session still answers and still listens. A connection whose other end has gone
    /// without a word is silent for ever.
    pub async fn is_alive(&mut self) -> bool {
        let asked = sqlx::query_scalar!(
            r#"SELECT count(*) > 0 AS "listens!"
                 FROM pg_listening_channels() AS channel
                WHERE channel = $1"#,
            CHANNEL
        )
        .fetch_one(&mut self.inner);
        matches!(tokio::time::timeout(PONG, asked).await, Ok(Ok(true)))
    }
}

/// Tells every server on the database, this one included.
///
/// # Errors
/// When the database does not take it; nobody is told then.
pub async fn notify(store: &Store, payload: &str) -> Result<(), StoreError> {
    sqlx::query_scalar!(r#"SELECT pg_notify($1, $2)::text AS "told""#, CHANNEL, payload)
        .fetch_one(store.hints())
        .await
        .map(drop)
        .map_err(StoreError::of_write)
}
