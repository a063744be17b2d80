//! `agentling serve`: from settings to a server that answers, and back to nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::traces::{self, Export};
use super::{StartError, Surroundings};
use crate::config::Config;
use crate::engine::{Engine, tasks::Tasks, webhooks};
use crate::http;
use crate::http::serve::{Patience, serve};
use crate::instruments::Metrics;
use crate::store::{HINT_CONNECTIONS, Store, keys, wall};

/// A server that answers.
#[derive(Debug)]
pub struct Running {
    /// Where it listens; with port 0 in the settings, the port that was picked.
    pub address: SocketAddr,
    /// Where its metrics are, if that is an address of their own.
    pub metrics_address: Option<SocketAddr>,
    /// Its engine.
    pub engine: Engine,
    /// Its database.
    pub store: Store,
    serving: Tasks,
    export: Export,
}

/// How long connections may take to end once there is nothing left to wait for.
const GRACE: Duration = Duration::from_secs(5);

impl Running {
    /// Starts a server. Over a database that is not migrated it waits until somebody has done that,
    /// and says meanwhile that it is not ready.
    ///
    /// # Errors
    /// When the address cannot be bound, or would be open to the network without any key.
    pub async fn start(
        config: &Config,
        store: Store,
        around: &Surroundings,
    ) -> Result<Self, StartError> {
        let listen = config.http.listen;
        let listener = bind(listen).await?;
        let address = listener.local_addr()?;
        let own = match config.instruments.metrics_listen {
            Some(listen) => Some(bind(listen).await?),
            None => None,
        };
        let metrics_address = own.as_ref().map(TcpListener::local_addr).transpose()?;
        let listener = wait_for_schema(listener, config, &store, around).await?;
        refuse_if_not_walled(&store).await?;
        refuse_if_open(config, &store).await?;
        refuse_if_too_many(config, &store).await?;
        let (around, export) = traces::start(config, &store, around).await?;
        let engine = super::engine(config, &store, &around).await?;
        let state = super::state(config, &store, &engine, &around).await?;
        engine.work();
        webhooks::start(&engine, http::wording(&state));
        let serving = Tasks::default();
        let metrics = around.instruments.metrics;
        serving.spawn(tidy_up(serving.clone(), metrics));
        let patience = patience(config, GRACE);
        if let Some(own) = own {
            serving.spawn(answer(own, http::metrics_router(&state), serving.clone(), patience));
        }
        let router = if config.engine.role.answers() {
            http::router(state)
        } else {
            http::health_router(&state)
        };
        serving.spawn(answer(listener, router, serving.clone(), patience));
        Ok(Self { address, metrics_address, engine, store, serving, export })
    }

    /// Stops: no new work, which callers are told as long as what is under way ends or is given back;
    /// then the connections are closed.
    pub async fn stop(self) {
        self.engine.shut_down().await;
        self.serving.stop();
        self.serving.ended().await;
        self.export.end().await;
        self.store.close().await;
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| StartError::Listen { address, source })
}

async fn answer(listener: TcpListener, router: http::Router, tasks: Tasks, patience: Patience) {
    let stopped = async { tasks.stopping().await };
    if let Err(error) = serve(listener, router, stopped, patience).await {
        tracing::error!(%error, "the listener failed");
    }
}

/// How often observations are sorted that nobody reads.
const TIDYING: Duration = Duration::from_secs(10);

async fn tidy_up(tasks: Tasks, metrics: Metrics) {
    while !tasks.is_stopping() {
        tokio::select! {
            () = tasks.stopping() => {}
            () = tokio::time::sleep(TIDYING) => metrics.tidy_up(),
        }
    }
}

fn patience(config: &Config, grace: Duration) -> Patience {
    Patience { grace, stall: config.streams.stall, headers: config.http.header_read }
}

/// Answers that the server is not ready for as long as the database has no schema that it can work
/// with, then gives the listener back.
async fn wait_for_schema(
    listener: TcpListener,
    config: &Config,
    store: &Store,
    around: &Surroundings,
) -> Result<TcpListener, StartError> {
    if store.is_ready().await? {
        return Ok(listener);
    }
    tracing::warn!("the database schema is not up to date; waiting for `agentling migrate`");
    let listener = listener.into_std()?;
    let meanwhile = TcpListener::from_std(listener.try_clone()?)?;
    let migrated = async {
        while !store.is_ready().await.unwrap_or(false) {
            tokio::time::sleep(config.engine.poll).await;
        }
    };
    let router = http::waiting_router(Arc::clone(&around.ids));
    let patience = patience(config, config.engine.drain);
    serve(meanwhile, router, migrated, patience).await?;
    Ok(TcpListener::from_std(listener)?)
}

/// Row-level security is there when the settings say so, or not there at all. What is half there looks like
/// a database without rows, or like one in which tenants are kept apart.
async fn refuse_if_not_walled(store: &Store) -> Result<(), StartError> {
    let wall = wall::of(store).await?;
    match (store.is_walled(), wall.holds_tenants, wall.system_sees_all) {
        (true, true, true) | (false, _, true) => Ok(()),
        (true, ..) => Err(StartError::NoWall),
        (false, ..) => Err(StartError::Hidden),
    }
}

async fn refuse_if_open(config: &Config, store: &Store) -> Result<(), StartError> {
    let is_closed = config.http.listen_is_loopback()
        || config.auth.api_key.is_some()
        || !config.oidc.issuers.is_empty()
        || keys::any(store).await?;
    if is_closed { Ok(()) } else { Err(StartError::OpenToTheNetwork(config.http.listen)) }
}

/// The connections of this server must fit what the database allows; where other servers are to fit
/// beside it, it should not take nearly all of them.
async fn refuse_if_too_many(config: &Config, store: &Store) -> Result<(), StartError> {
    let wanted = config.database.connections + HINT_CONNECTIONS;
    let allowed = store.max_connections().await?;
    if wanted > allowed {
        return Err(StartError::TooManyConnections { wanted, allowed });
    }
    if wanted.saturating_mul(5) > allowed.saturating_mul(4) {
        tracing::warn!(wanted, allowed, "this server may use up the connections of the database");
    }
    Ok(())
}

/// Resolves at the first signal that asks the process to end.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Serves until a signal comes; a second one ends the waiting.
///
/// # Errors
/// When the server cannot start.
pub async fn run_server(config: &Config, store: Store) -> Result<(), StartError> {
    let mut signals = Signals::listen()?;
    let around = Surroundings::default();
    let running = tokio::select! {
        running = Running::start(config, store, &around) => running?,
        () = signals.next() => return Ok(()),
    };
    tracing::info!(address = %running.address, "serving");
    signals.next().await;
    stop_or_give_up(running, signals).await;
    Ok(())
}

/// Stops a server, unless a second signal says that there is no time.
pub(super) async fn stop_or_give_up(running: Running, mut signals: Signals) {
    tracing::info!("stopping; a second signal ends the waiting");
    // After that, what is still held here comes free when its lease has run out, as after a crash.
    tokio::select! {
        () = running.stop() => {}
        () = signals.next() => {}
    }
}
