//! The database of a process: the operator's, or one of our own.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::StartError;
use crate::config::Config;
use crate::store::embedded::{self, Embedded, EmbeddedSettings};
use crate::store::{PoolSettings, Store, probe};

/// How often the embedded Postgres is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A database that can be connected to, kept for as long as this value lives.
#[derive(Debug)]
pub struct Database {
    url: String,
    system_url: Option<SecretString>,
    embedded: Option<Embedded>,
    connections: u32,
}

impl Database {
    /// The database that a server uses; without a `DATABASE_URL` the embedded one is started. Call it
    /// outside of async code: starting blocks.
    ///
    /// # Errors
    /// When the embedded Postgres does not start.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        let connections = config.database.connections;
        if let Some(url) = &config.database.url {
            let url = url.expose_secret().to_owned();
            let system_url = config.database.system_url.clone();
            return Ok(Self { url, system_url, embedded: None, connections });
        }
        let started = Embedded::start(&EmbeddedSettings::of(&config.database))?;
        Ok(Self { url: started.url(), system_url: None, embedded: Some(started), connections })
    }

    /// The database that a command uses: that of the server that runs on the data directory, if there
    /// is one.
    ///
    /// # Errors
    /// When the embedded Postgres does not start.
    pub fn attach(config: &Config) -> Result<Self, StartError> {
        let running = embedded::attach(&config.database.data_dir);
        match (&config.database.url, running) {
            (None, Some(url)) => {
                let connections = config.database.connections;
                Ok(Self { url, system_url: None, embedded: None, connections })
            }
            _ => Self::start(config),
        }
    }

    /// Opens the pools, making the database first where it is our own.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn open(&self) -> Result<Store, StartError> {
        if self.embedded.is_some() {
            embedded::ensure_database(&self.url).await?;
        }
        // A pool only says that it waited in vain; one bare connection says why.
        probe(&self.url).await?;
        let Some(system_url) = &self.system_url else {
            return Ok(Store::open(&self.url, split(self.connections))?);
        };
        let system_url = system_url.expose_secret();
        probe(system_url).await?;
        let store =
            Store::open(&self.url, split(self.connections.saturating_sub(FOR_ALL.total())))?;
        Ok(store.with_system(system_url, FOR_ALL)?)
    }

    /// Resolves when the embedded Postgres has ended by itself; never for another database.
    pub async fn gone(&mut self) {
        let Some(embedded) = &mut self.embedded else { return std::future::pending().await };
        while embedded.is_running() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Stops the embedded Postgres, if it is ours.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stop(self) -> Result<(), StartError> {
        if let Some(embedded) = self.embedded {
            embedded.stop()?;
        }
        Ok(())
    }
}

/// What the server's own role has where row-level security is on.
const FOR_ALL: PoolSettings = PoolSettings { critical: 2, api: 1, worker: 1 };

/// Splits the connections that may be held: two for heartbeats and cancels, the rest in halves.
fn split(connections: u32) -> PoolSettings {
    let rest = connections.saturating_sub(2).max(2);
    PoolSettings { critical: 2, api: rest / 2, worker: rest - rest / 2 }
}
