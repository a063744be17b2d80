//! Composition: builds the adapters, wires them, starts and drains the tasks, runs the commands.

pub mod cli;
mod database;
mod demo;
mod egress;
mod keys;
mod oidc;
mod secrets;
mod serve;
mod traces;
mod transcript;

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use secrecy::ExposeSecret;

pub use database::Database;
pub use serve::{Running, run_server};

use crate::clock::{SharedClock, SharedIds, System};
use crate::config::Config;
use crate::domain::id::KeyId;
use crate::egress::{EgressPolicy, InvalidAllowEntry, SetupError};
use crate::engine::items::StoredItems;
use crate::engine::redaction::{Redaction, Redactor};
use crate::engine::servers::StoredServers;
use crate::engine::{CommitObserver, Engine, NoObserver, Parts};
use crate::error::AgentlingError;
use crate::http::auth::{Auth, AuthSettings, Pepper};
use crate::http::cursor::Cursors;
use crate::http::{AppState, LogLines, RateLimits, Readiness, StreamSlots};
use crate::instruments::Instruments;
use crate::provider::{Models, ProviderKeys, client};
use crate::store::{Store, StoreError, keys as stored_keys};
use crate::telemetry;
use crate::tools::mcp::McpClients;
use crate::tools::secrets::SecretSource;
use crate::tools::{Toolbox, ToolboxError};

/// What keeps a server from starting.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database.
    #[error("the database is not usable: {0}")]
    Store(#[from] StoreError),
    /// The embedded Postgres.
    #[error("{0}")]
    Embedded(#[from] crate::store::embedded::EmbeddedError),
    /// The embedded Postgres ended by itself.
    #[error("the embedded PostgreSQL has ended by itself; see postgres.log in the data directory")]
    DatabaseGone,
    /// An HTTP client.
    #[error("an HTTP client cannot be made")]
    Client(#[from] SetupError),
    /// The tools' client.
    #[error("{0}")]
    Toolbox(#[from] ToolboxError),
    /// An entry of the egress allow-list.
    #[error("AGENTLING_EGRESS_ALLOW: {0}")]
    Egress(#[from] InvalidAllowEntry),
    /// The operating system gives no random bytes, or a socket cannot be used.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The server would be open to the network without any key.
    #[error(
        "refusing to listen on {0} without authentication: create a key with `agentling keys create` \
         or set AGENTLING_API_KEY, or listen on a loopback address"
    )]
    OpenToTheNetwork(SocketAddr),
    /// The database allows fewer connections than the settings say.
    #[error(
        "AGENTLING_DB_CONNECTIONS and those for hints make {wanted} connections, and the database \
         allows {allowed}"
    )]
    TooManyConnections {
        /// How many the server would open.
        wanted: u32,
        /// How many there may be.
        allowed: u32,
    },
    /// Keys cannot be replaced.
    #[error("the keys of secrets cannot be replaced")]
    Rewrap(#[source] AgentlingError),
    /// Some secrets are under keys that are not set.
    #[error(
        "{n_left} secrets cannot be opened with the keys that are set, and are as they were; the log \
         names them"
    )]
    NotRewrapped {
        /// How many.
        n_left: u64,
    },
    /// Row-level security hides from the server what it must see.
    #[error(
        "row-level security hides rows from the role of DATABASE_URL: name one that sees all in \
         AGENTLING_SYSTEM_DATABASE_URL"
    )]
    Hidden,
    /// Row-level security does not do what the settings say.
    #[error(
        "the roles of DATABASE_URL and AGENTLING_SYSTEM_DATABASE_URL are not those of row-level security: \
         call `agentling migrate --row-level-security on` and see the README"
    )]
    NoWall,
    /// A key that is to be revoked is not there.
    #[error("the tenant has no key {0}")]
    NoSuchKey(KeyId),
}

/// The parts of a server that tests replace.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The clock.
    pub clock: SharedClock,
    /// Ids and randomness.
    pub ids: SharedIds,
    /// Who sees the commits.
    pub observer: Arc<dyn CommitObserver>,
    /// How the log is written, to whoever asks what it would hold.
    pub log: Arc<dyn LogLines>,
    /// What operators see of the server.
    pub instruments: Instruments,
}

/// The log as it is set up.
#[derive(Debug)]
struct Log;

impl LogLines for Log {
    fn line(&self, redactor: Redactor, text: &str) -> String {
        telemetry::line(redactor, text)
    }

    fn lines_dropped(&self) -> u64 {
        telemetry::lines_dropped()
    }
}

impl Default for Surroundings {
    fn default() -> Self {
        let system = Arc::new(System::new());
        let clock: SharedClock = Arc::<System>::clone(&system);
        let instruments = Instruments::default();
        Self { clock, ids: system, observer: Arc::new(NoObserver), log: Arc::new(Log), instruments }
    }
}

/// Wires an engine over a migrated store.
///
/// # Errors
/// When a client cannot be made, a setting does not fit, or the shared secret cannot be read or made.
pub async fn engine(
    config: &Config,
    store: &Store,
    around: &Surroundings,
) -> Result<Engine, StartError> {
    let policy = Arc::new(egress::policy(config).await?);
    let keys = ProviderKeys::of(&config.providers);
    let offered = around.ids.secret()?;
    let secret = stored_keys::shared_secret(store, "redaction", offered).await?;
    let offered = around.ids.secret()?;
    let webhook_secret = stored_keys::shared_secret(store, "webhook", offered).await?;
    let secrets = secrets::keeper(config, store, around)?;
    let redaction = redaction(config, secret);
    let toolbox = toolbox(config, store, (Arc::clone(&policy), around), Arc::new(secrets.clone()))?;
    Ok(Engine::new(Parts {
        toolbox: toolbox.scrubbing(redaction.of_outside()),
        redaction,
        webhooks: config.webhooks,
        webhook_secret,
        retention: config.retention,
        store: store.clone(),
        models: Models::new(client::http_client(policy)?, keys, Arc::clone(&around.clock)),
        secrets,
        clock: Arc::clone(&around.clock),
        ids: Arc::clone(&around.ids),
        prices: config.prices.clone(),
        settings: config.engine,
        rendering: config.rendering.clone(),
        observer: Arc::clone(&around.observer),
        instruments: around.instruments.clone(),
    }))
}

/// What runs tools, with the servers of tenants and of the operator.
fn toolbox(
    config: &Config,
    store: &Store,
    (policy, around): (Arc<EgressPolicy>, &Surroundings),
    secrets: Arc<dyn SecretSource>,
) -> Result<Toolbox, ToolboxError> {
    let servers = Arc::new(StoredServers(store.clone()));
    let servers = McpClients::new(servers, config.mcp.servers.clone(), Arc::clone(&around.clock));
    let toolbox = Toolbox::new(policy, Arc::clone(&around.clock), secrets)?;
    Ok(toolbox.with_servers(servers).with_items(Arc::new(StoredItems(store.clone()))))
}

/// What is redacted for everyone, by the settings.
pub(super) fn redaction(config: &Config, secret: [u8; 32]) -> Redaction {
    let credentials = config.redaction.credentials.iter().map(ExposeSecret::expose_secret);
    Redaction::new(secret, &config.redaction.rules, credentials)
}

/// Wires what the endpoints work with.
///
/// # Errors
/// When the shared secrets cannot be read or made.
pub async fn state(
    config: &Config,
    store: &Store,
    engine: &Engine,
    around: &Surroundings,
) -> Result<AppState, StartError> {
    let offered = around.ids.secret()?;
    let cursor_key = stored_keys::shared_secret(store, "cursor", offered).await?;
    let settings = AuthSettings {
        pepper: pepper(config, store, around).await?,
        bootstrap: config.auth.api_key.clone(),
        loopback: config.http.listen_is_loopback(),
        oidc: oidc::oidc(config).await?,
    };
    let auth = Auth::new(Box::new(store.clone()), Arc::clone(&around.clock), settings);
    Ok(AppState {
        store: store.clone(),
        engine: engine.clone(),
        auth: Arc::new(auth),
        cursors: Arc::new(Cursors::of(&cursor_key)),
        clock: Arc::clone(&around.clock),
        ids: Arc::clone(&around.ids),
        public_url: config.http.public_url.as_ref().map(ToString::to_string),
        body_limits: (&config.http).into(),
        streams: StreamSlots::new(config.streams),
        rates: Arc::new(RateLimits::new(config.rates)),
        readiness: Arc::new(Ready { store: store.clone(), engine: engine.clone() }),
        log: Arc::clone(&around.log),
        serves_metrics: config.instruments.metrics_listen.is_none(),
    })
}

/// What the hashes of stored keys are made with: the operator's, or one that the database keeps. Keys
/// have 256 random bits, so a pepper beside the hashes gives nothing away.
async fn pepper(
    config: &Config,
    store: &Store,
    around: &Surroundings,
) -> Result<Pepper, StartError> {
    if let Some(text) = &config.auth.key_pepper {
        return Ok(Pepper::of(text.expose_secret().as_bytes()));
    }
    let offered = around.ids.secret()?;
    Ok(Pepper::of(&stored_keys::shared_secret(store, "pepper", offered).await?))
}

#[derive(Debug)]
struct Ready {
    store: Store,
    engine: Engine,
}

impl Readiness for Ready {
    fn check(&self) -> BoxFuture<'_, Result<(), AgentlingError>> {
        Box::pin(async {
            self.engine.admit()?;
            if self.store.is_ready().await? { Ok(()) } else { Err(AgentlingError::Overloaded) }
        })
    }
}
