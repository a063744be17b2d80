//! The private Postgres that the server runs when no `DATABASE_URL` is set.
//!
//! A data directory holds everything: `postgres/` is the cluster, `agentling.lock` belongs to the
//! one server that may use it, `socket` names the directory of the current Unix socket, and
//! `postgres.log` is what PostgreSQL has to say. Only the cluster belongs to the user that
//! PostgreSQL runs as; the rest stays with us, so that root never follows a path that somebody
//! else controls.
//!
//! PostgreSQL runs under a guard process that stops it when we are gone, however we went.

mod account;
mod cluster;
mod database;
mod error;
mod guard;
mod lock;
mod orphan;
mod pid_file;
mod poll;
mod programs;
mod socket;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use database::ensure_database;
pub use error::EmbeddedError;

use account::Account;
use cluster::Cluster;
use guard::Guard;
use lock::DirLock;
use pid_file::PidFile;
use socket::SocketDir;

use crate::config::Database;

/// How the embedded Postgres is run.
#[derive(Debug, Clone)]
pub struct EmbeddedSettings {
    /// Where everything lives.
    pub data_dir: PathBuf,
    /// The directory of the PostgreSQL programs, when the operator names one.
    pub pg_bin: Option<PathBuf>,
    /// Where the programs are looked for otherwise, before the usual places.
    pub program_path: Vec<PathBuf>,
    /// The connections that our pools may open.
    pub connections: u32,
    /// Whether a commit survives a power cut. Tests do without, which makes them several times
    /// faster.
    pub durable: bool,
    /// How long a server left over from a crash may take to stop by itself.
    pub orphan_patience: Duration,
}

impl EmbeddedSettings {
    /// What a server uses.
    pub fn of(database: &Database) -> Self {
        Self {
            data_dir: database.data_dir.clone(),
            pg_bin: database.pg_bin.clone(),
            program_path: database.program_path.clone(),
            connections: database.connections,
            durable: true,
            orphan_patience: Duration::from_secs(10),
        }
    }
}

/// A running Postgres of our own. It stops when this value is dropped.
#[derive(Debug)]
pub struct Embedded {
    guard: Guard,
    cluster: Cluster,
    socket: SocketDir,
    /// Held as long as the value lives: it is what keeps a second server away.
    lock: DirLock,
}

impl Embedded {
    /// Starts Postgres on the data directory, which is made first if need be.
    ///
    /// Blocks until connections are accepted. The database itself is made by [`ensure_database`].
    ///
    /// # Errors
    /// Each with what the operator can do about it.
    pub fn start(settings: &EmbeddedSettings) -> Result<Self, EmbeddedError> {
        let candidates = programs::find(settings)?;
        let data_dir = cluster::make_data_dir(&settings.data_dir)?;
        let lock = DirLock::acquire(&data_dir)?;
        let account = Account::for_cluster(&cluster::path(&data_dir))?;
        account.check_reach(&data_dir)?;
        orphan::settle(&cluster::path(&data_dir), settings.orphan_patience)?;
        socket::remove_recorded(&data_dir)?;
        let cluster = Cluster::open(&data_dir, candidates, account, settings.durable)?;
        let socket = SocketDir::make(&data_dir, cluster.account())?;
        let guard = Guard::start(&cluster, socket.path(), settings)?;
        guard::wait_until_ready(guard, &cluster).map(|guard| Self { guard, cluster, socket, lock })
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        url(self.socket.path())
    }

    /// Whether Postgres is still there; it may have been stopped behind our back.
    pub fn is_running(&mut self) -> bool {
        self.guard.is_running()
    }

    /// Stops Postgres, in which transactions under way are rolled back.
    ///
    /// # Errors
    /// When it does not stop in time. It is never killed outright.
    pub fn stop(mut self) -> Result<(), EmbeddedError> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<(), EmbeddedError> {
        self.guard.stop(&self.cluster)?;
        self.socket.remove()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            tracing::error!(%error, lock = ?self.lock, "the embedded Postgres did not stop");
        }
    }
}

/// The URL of a server that is running on this data directory already.
///
/// Commands such as `agentling keys` use it, since they cannot have the directory to themselves.
pub fn attach(data_dir: &Path) -> Option<String> {
    let cluster = std::fs::canonicalize(cluster::path(data_dir)).ok()?;
    let file = PidFile::read(&cluster).ok()??;
    let is_open = file.is_ready() && orphan::serves(&cluster, file.pid);
    file.socket_dir.filter(|_| is_open).map(|dir| url(&dir))
}

/// The URL of a database behind a socket. The path is percent-encoded as the query needs it.
fn url(socket_dir: &Path) -> String {
    let dir = socket_dir.to_string_lossy();
    let dir: String = url::form_urlencoded::byte_serialize(dir.as_bytes()).collect();
    let (user, name, port) = (cluster::USER, database::NAME, socket::PORT);
    format!("postgres://{user}@localhost/{name}?host={dir}&port={port}")
}
