//! A pool whose callers do not storm a database that refuses connections.
//!
//! While it does, each caller of a plain pool would try to connect for as long as it may wait, and all
//! of them at once. Here one of them tries, for all pools of the process; the others wait for what comes
//! of it, and no longer than they would wait for a connection.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{
    Connection as _, Either, Execute, Executor, PgConnection, PgPool, Postgres, SqlStr, Transaction,
};
use tokio::sync::{Mutex, MutexGuard, watch};

use super::patience::in_time;
use super::scope;
use crate::clock::{Ids as _, System};
use crate::domain::id::TenantId;

/// How long a connection is waited for.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long nobody tries after somebody was refused, at least; at most nearly twice that.
const BREATH: Duration = Duration::from_millis(200);

/// Whether the database lets us in, as all pools of a process know it.
#[derive(Debug, Default)]
pub(super) struct Gate {
    refusal: watch::Sender<Option<Refusal>>,
    turn: Mutex<()>,
}

/// How the database let nobody in.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    /// It has no connection to spare.
    Full,
    /// It is not there.
    Gone,
}

impl Refusal {
    /// What an error says of it; `None` for any other error, and where it is this pool that is full.
    const fn of(error: &sqlx::Error, is_pool_full: bool) -> Option<Self> {
        match error {
            sqlx::Error::PoolTimedOut if !is_pool_full => Some(Self::Full),
            sqlx::Error::Io(_) => Some(Self::Gone),
            _ => None,
        }
    }

    /// What those are told who did not try because of it: the same as the one who did.
    fn error(self) -> sqlx::Error {
        match self {
            Self::Full => sqlx::Error::PoolTimedOut,
            Self::Gone => {
                io::Error::new(ErrorKind::NotConnected, "it was not there just now").into()
            }
        }
    }
}

/// A pool behind the gate.
#[derive(Debug, Clone)]
pub(super) struct GatedPool {
    pool: PgPool,
    gate: Arc<Gate>,
    /// Whether its connections see the rows of one tenant at a time.
    is_walled: bool,
}

impl GatedPool {
    pub(super) const fn new(pool: PgPool, gate: Arc<Gate>) -> Self {
        Self { pool, gate, is_walled: false }
    }

    /// The same, whose connections see the rows of one tenant at a time.
    pub(super) fn walled(self) -> Self {
        Self { is_walled: true, ..self }
    }

    /// How many connections are in use, and how many are not.
    pub(super) fn connections(&self) -> (usize, usize) {
        let (n_all, n_idle) = (self.pool.size() as usize, self.pool.num_idle());
        (n_all.saturating_sub(n_idle), n_idle)
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
    }

    /// Takes a connection for the work that is being done.
    ///
    /// # Errors
    /// Also when the pool is walled and it is nobody's work: it would find nothing, and take that for an
    /// answer.
    pub(super) async fn acquire(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        let tenant = if self.is_walled { scope::tenant() } else { None };
        if self.is_walled && tenant.is_none() {
            return Err(sqlx::Error::Protocol("work that is no tenant's".to_owned()));
        }
        self.acquire_for(tenant.as_ref()).await
    }

    /// Takes a connection that sees the rows of a tenant, if the pool is walled. One that is there already
    /// and alive is taken at once, so that hearts beat on while others are refused.
    pub(super) async fn acquire_for(
        &self,
        tenant: Option<&TenantId>,
    ) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        // A plain pool would open another one in the place of one that is dead, without waiting its turn.
        while let Some(mut idle) = self.pool.try_acquire() {
            if in_time(ACQUIRE_TIMEOUT, self.take(&mut idle, tenant)).await.is_ok() {
                return Ok(idle);
            }
            drop(idle.detach());
        }
        let mut connection = self.wait_for_one().await?;
        if self.is_walled {
            in_time(ACQUIRE_TIMEOUT, show(&mut connection, tenant)).await?;
        }
        Ok(connection)
    }

    /// Takes over a connection that was there already, if it is alive.
    async fn take(
        &self,
        idle: &mut PgConnection,
        tenant: Option<&TenantId>,
    ) -> Result<(), sqlx::Error> {
        if self.is_walled { show(idle, tenant).await } else { idle.ping().await }
    }

    async fn wait_for_one(&self) -> Result<PoolConnection<Postgres>, sqlx::Error> {
        // Also where all are in use: who waits for one may come to open it, when another one has failed to.
        self.connecting(Box::pin(self.pool.acquire())).await
    }

    /// Takes a connection and begins a transaction on it.
    pub(super) async fn begin(&self) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        let connection = Box::pin(self.acquire()).await?;
        Transaction::begin(connection, None).await
    }

    /// Does what opens a connection, once it is this caller's turn, and takes note of what comes of it.
    pub(super) async fn connecting<T>(
        &self,
        connect: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        let turn = self.turn().await?;
        let connected = match turn {
            Some(_) => connect.await,
            None => self.while_open(connect).await,
        };
        match &connected {
            Ok(_) => {
                self.gate.refusal.send_replace(None);
            }
            Err(error) => self.note(error),
        }
        drop(turn);
        connected
    }

    /// Goes on with what opens a connection until the gate is shut. Whoever was let through before would
    /// else go on trying beside the one whose turn it is.
    async fn while_open<T>(
        &self,
        connect: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        let mut gate = self.gate.refusal.subscribe();
        tokio::select! {
            connected = connect => connected,
            shut = gate.wait_for(Option::is_some) => Err(told(shut.ok().and_then(|shut| *shut))),
        }
    }

    /// Waits for this caller's turn while the gate is shut.
    async fn turn(&self) -> Result<Option<MutexGuard<'_, ()>>, sqlx::Error> {
        let refusal = || *self.gate.refusal.borrow();
        if refusal().is_none() {
            return Ok(None);
        }
        let turn = tokio::time::timeout(ACQUIRE_TIMEOUT, self.gate.turn.lock()).await;
        let turn = turn.map_err(|_| told(refusal()))?;
        if refusal().is_none() {
            return Ok(None);
        }
        // A plain pool tries nine times in its two seconds; with this that is four times a second, and
        // replicas that were refused together do not come back together.
        let (random, _) = System::new().random().as_u64_pair();
        let spread = Duration::from_millis((random >> 56) * 3 / 4);
        tokio::time::sleep(BREATH + spread).await;
        Ok(Some(turn))
    }

    /// Shuts the gate where the database let nobody in.
    fn note(&self, error: &sqlx::Error) {
        let is_full = self.pool.size() >= self.pool.options().get_max_connections();
        if let Some(refusal) = Refusal::of(error, is_full) {
            self.gate.refusal.send_replace(Some(refusal));
        }
    }
}

/// What somebody is told who waited for the gate; it may have opened a moment ago.
fn told(refusal: Option<Refusal>) -> sqlx::Error {
    refusal.unwrap_or(Refusal::Full).error()
}

/// Shows a connection the rows of a tenant, or none; what its last user saw is hidden. An idle connection is
/// asked by that whether it is alive, in the place of a ping.
async fn show(connection: &mut PgConnection, tenant: Option<&TenantId>) -> Result<(), sqlx::Error> {
    sqlx::query_scalar!(
        "SELECT set_config('agentling.tenant', $1, false)",
        tenant.map_or("", TenantId::as_str)
    )
    .fetch_one(connection)
    .await
    .map(drop)
}

impl<'p> Executor<'p> for &'_ GatedPool {
    type Database = Postgres;

    // Statements of this layer have answers of a few rows, which are taken whole.
    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, sqlx::Error>>
    where
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        let answer = async move {
            let mut connection = pool.acquire().await?;
            let answer: Vec<_> = connection.fetch_many(query).try_collect().await?;
            Ok::<_, sqlx::Error>(stream::iter(answer.into_iter().map(Ok)))
        };
        stream::once(answer).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxFuture<'e, Result<Option<PgRow>, sqlx::Error>>
    where
        E: 'q + Execute<'q, Postgres>,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.fetch_optional(query).await })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, sqlx::Error>>
    where
        'p: 'e,
    {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.prepare_with(sql, parameters).await })
    }

    fn describe<'e>(
        self,
        sql: SqlStr,
    ) -> BoxFuture<'e, Result<sqlx::Describe<Postgres>, sqlx::Error>> {
        let pool = self.clone();
        Box::pin(async move { pool.acquire().await?.describe(sql).await })
    }
}
