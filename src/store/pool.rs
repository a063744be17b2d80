//! Connections: three pools and one for hints, their timeouts, and the migrations.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool, Row as _};

use super::gated::{ACQUIRE_TIMEOUT, Gate, GatedPool};
use super::patience::in_time;
use super::{StoreError, wall};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// How many connections each pool may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSettings {
    /// For the API.
    pub api: u32,
    /// For workers.
    pub worker: u32,
    /// For heartbeats, cancels and drains.
    pub critical: u32,
}

impl PoolSettings {
    /// How many connections all of them may open.
    pub const fn total(self) -> u32 {
        self.api + self.worker + self.critical
    }
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self { api: 8, worker: 8, critical: 2 }
    }
}

/// The database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    tenants: Pools,
    system: Option<Pools>,
    hints: GatedPool,
    options: PgConnectOptions,
    gate: Arc<Gate>,
}

/// The pools of a role.
#[derive(Debug, Clone)]
pub(super) struct Pools {
    api: GatedPool,
    worker: GatedPool,
    critical: GatedPool,
}

impl Pools {
    fn open(options: &PgConnectOptions, settings: PoolSettings, gate: &Arc<Gate>) -> Self {
        let gated = |pool| GatedPool::new(pool, Arc::clone(gate));
        Self {
            api: gated(pool(options, "agentling-api", settings.api, "10s")),
            worker: gated(pool(options, "agentling-worker", settings.worker, "30s")),
            critical: gated(pool(options, "agentling-critical", settings.critical, "5s")),
        }
    }

    fn walled(self) -> Self {
        let Self { api, worker, critical } = self;
        Self { api: api.walled(), worker: worker.walled(), critical: critical.walled() }
    }

    async fn close(&self) {
        self.api.close().await;
        self.worker.close().await;
        self.critical.close().await;
    }

    pub(super) const fn api(&self) -> &GatedPool {
        &self.api
    }

    pub(super) const fn worker(&self) -> &GatedPool {
        &self.worker
    }

    pub(super) const fn critical(&self) -> &GatedPool {
        &self.critical
    }
}

/// What a server holds beside its pools: a connection to tell others, and one to hear them.
pub const HINT_CONNECTIONS: u32 = 2;

impl Store {
    /// Prepares the pools; the first use opens a connection.
    ///
    /// # Errors
    /// When the URL does not read.
    pub fn open(url: &str, settings: PoolSettings) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url).map_err(StoreError::Database)?;
        let gate = Arc::new(Gate::default());
        // Hints may be lost anyway, so their commits need not reach the disk.
        let lossy = options.clone().options([("synchronous_commit", "off")]);
        Ok(Self {
            tenants: Pools::open(&options, settings, &gate),
            system: None,
            hints: GatedPool::new(pool(&lossy, "agentling-hints", 1, "5s"), Arc::clone(&gate)),
            options,
            gate,
        })
    }

    /// The same where row-level security is on: the role of the first URL sees the rows of one tenant at a
    /// time, and that of this one, for the server's own work, all of them.
    ///
    /// # Errors
    /// When the URL does not read.
    pub fn with_system(self, url: &str, settings: PoolSettings) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url).map_err(StoreError::Database)?;
        let system = Pools::open(&options, settings, &self.gate);
        Ok(Self { tenants: self.tenants.walled(), system: Some(system), ..self })
    }

    /// How many connections of each pool are in use, and how many are not; those of the server's own role
    /// where row-level security is on count with the others.
    pub fn connections(&self) -> [(&'static str, (usize, usize)); 3] {
        let of = |pool: fn(&Pools) -> &GatedPool| {
            let all = [Some(&self.tenants), self.system.as_ref()].into_iter().flatten();
            all.map(|pools| pool(pools).connections())
                .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        };
        [("api", of(Pools::api)), ("worker", of(Pools::worker)), ("critical", of(Pools::critical))]
    }

    /// Whether row-level security is on.
    pub const fn is_walled(&self) -> bool {
        self.system.is_some()
    }

    /// The same for an operator's commands, which are not for one tenant.
    #[must_use]
    pub fn as_system(&self) -> Self {
        Self { tenants: self.system().clone(), system: None, ..self.clone() }
    }

    /// Brings the schema up to date. Several servers may do so at once: one does, the others wait.
    ///
    /// # Errors
    /// When a migration fails, or when the database was migrated by a version that is not this one's
    /// ancestor.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        self.migrate_with(None).await
    }

    /// The same, and applies row-level security or takes it back.
    ///
    /// # Errors
    /// As those of [`Self::migrate`].
    pub async fn migrate_with(&self, row_level_security: Option<bool>) -> Result<(), StoreError> {
        // A migration may take longer than a statement of a server that serves. Nothing waits for a lock
        // longer than that, though: whoever serves would stand behind it.
        let options = limited(&self.options, "agentling-migrate", "0");
        for _ in 1..MIGRATE_TRIES {
            match migrate_once(&options, row_level_security).await {
                Err(error) if has_waited(&error) => {}
                ended => return ended.map_err(StoreError::Migration),
            }
        }
        migrate_once(&options, row_level_security).await.map_err(StoreError::Migration)
    }

    /// Whether the database answers and has every migration of this version.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn is_ready(&self) -> Result<bool, StoreError> {
        let wanted = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0);
        let table = sqlx::query_scalar!(
            r#"SELECT to_regclass('_sqlx_migrations') IS NOT NULL AS "there!""#
        )
        .fetch_one(self.system().critical())
        .await
        .map_err(StoreError::of_read)?;
        if !table {
            return Ok(false);
        }
        // The table belongs to the migrator, so the statement is not checked at compile time.
        let applied: Option<i64> =
            sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success")
                .fetch_one(self.system().critical())
                .await
                .map_err(StoreError::of_read)?;
        Ok(applied.is_some_and(|version| version >= wanted))
    }

    /// Closes every connection once it is free.
    pub async fn close(&self) {
        self.tenants.close().await;
        if let Some(system) = &self.system {
            system.close().await;
        }
        self.hints.close().await;
    }

    /// For what the server does for all tenants.
    pub(super) fn system(&self) -> &Pools {
        self.system.as_ref().unwrap_or(&self.tenants)
    }

    pub(super) const fn api(&self) -> &GatedPool {
        self.tenants.api()
    }

    /// The most connections that the database lets this server's role open, all servers together.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn max_connections(&self) -> Result<u32, StoreError> {
        let n = sqlx::query_scalar!(
            r#"SELECT current_setting('max_connections')::integer
                      - current_setting('superuser_reserved_connections')::integer AS "n!""#
        )
        .fetch_one(self.system().critical())
        .await
        .map_err(StoreError::of_read)?;
        Ok(u32::try_from(n).unwrap_or(0))
    }

    /// Takes a connection of the API's pool and gives it back: how long that takes is how long callers
    /// wait.
    ///
    /// # Errors
    /// When none became free in time, or the database cannot be reached.
    pub async fn try_api(&self) -> Result<(), StoreError> {
        drop(self.api().acquire_for(None).await.map_err(StoreError::of_read)?);
        Ok(())
    }

    /// Opens a connection to listen on.
    pub(super) async fn listener(&self) -> Result<PgListener, sqlx::Error> {
        let pool = pool(&self.options, "agentling-listener", 1, "5s");
        self.hints.connecting(Box::pin(PgListener::connect_with(&pool))).await
    }

    pub(super) const fn hints(&self) -> &GatedPool {
        &self.hints
    }

    pub(super) const fn worker(&self) -> &GatedPool {
        self.tenants.worker()
    }

    pub(super) const fn critical(&self) -> &GatedPool {
        self.tenants.critical()
    }
}

/// How often a lock is waited for, two seconds each time: ten minutes for a replica that migrates.
const MIGRATE_TRIES: u32 = 300;

/// Migrates on a connection of its own: the migrator keeps its lock when it fails, and only the end of the
/// session gives it back.
async fn migrate_once(
    options: &PgConnectOptions,
    row_level_security: Option<bool>,
) -> Result<(), MigrateError> {
    let mut connection = options.connect().await?;
    let migrated = async {
        MIGRATIONS.run(&mut connection).await?;
        wall::build(&mut connection, row_level_security).await.map_err(MigrateError::Execute)
    };
    let migrated = migrated.await;
    drop(connection.close().await);
    migrated
}

/// Whether a migration gave up because somebody else had what it needed.
fn has_waited(error: &MigrateError) -> bool {
    let (MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)) = error else {
        return false;
    };
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code == "55P03")
}

/// Connects once and hangs up, to learn whether and why not a database can be reached.
///
/// # Errors
/// When it cannot be reached, or does not let us in.
pub async fn probe(url: &str) -> Result<(), StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(StoreError::Database)?;
    let connecting = options.connect();
    let connected = tokio::time::timeout(PROBE, connecting).await;
    let connection = connected.unwrap_or(Err(sqlx::Error::PoolTimedOut));
    connection.map_err(StoreError::Unavailable)?.close().await.map_err(StoreError::of_read)
}

/// How long a database may take to let us in.
const PROBE: Duration = Duration::from_secs(10);

/// Whether a connection that comes back may be used again. It may be in the middle of an answer that was
/// no longer waited for, and one that has fallen silent would take its place in the pool for ever; or
/// its server may have become a standby, which takes no write.
///
/// Nor may a transaction be open on it: whoever stops waiting while a `BEGIN` is on its way leaves one, of
/// which nobody knows. What the next user wrote would be acknowledged and lost with it. Outside of a
/// transaction `now()` is the moment at which the very statement began.
async fn is_of_use(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    // As one message: of several, each has a moment of its own.
    let asked = sqlx::raw_sql(
        "SELECT NOT pg_is_in_recovery() AND now() = statement_timestamp() AS is_of_use",
    );
    in_time(SILENCE, asked.fetch_one(connection)).await?.try_get("is_of_use")
}

/// How long a connection that comes back to its pool may be silent.
const SILENCE: Duration = Duration::from_secs(5);

/// How a connection is opened that nobody holds up for ever.
fn limited(options: &PgConnectOptions, name: &str, statement_timeout: &str) -> PgConnectOptions {
    options.clone().application_name(name).options([
        ("statement_timeout", statement_timeout),
        ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "10s"),
    ])
}

fn pool(options: &PgConnectOptions, name: &str, size: u32, statement_timeout: &str) -> PgPool {
    let options = limited(options, name, statement_timeout);
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(Duration::from_mins(5))
        .after_release(|connection, _| Box::pin(is_of_use(connection)))
        .connect_lazy_with(options)
}
