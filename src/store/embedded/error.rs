//! What can keep the embedded Postgres from running, in the operator's words.

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the embedded Postgres. Each says what the operator can do about it.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// PostgreSQL is not installed.
    #[error(
        "the PostgreSQL programs are not installed: install them (Debian, Ubuntu: `apt-get \
         install postgresql`; Fedora: `dnf install postgresql-server`; Alpine: `apk add \
         postgresql`; macOS: `brew install postgresql`), or set AGENTLING_PG_BIN to the directory \
         of `postgres` and `initdb`, or set DATABASE_URL to a database of your own"
    )]
    NoPrograms,
    /// The directory that the operator named is not what it should be.
    #[error("AGENTLING_PG_BIN is {}, which does not hold `postgres` and `initdb`", .0.display())]
    NotPrograms(PathBuf),
    /// Root has nobody to run PostgreSQL as.
    #[error(
        "PostgreSQL refuses to run as root, and there is no user `postgres` or `nobody` to run it \
         as: add one, or set DATABASE_URL"
    )]
    NoAccount,
    /// The user that PostgreSQL runs as cannot reach the data.
    #[error(
        "{} is closed to the user that PostgreSQL runs as (uid {uid}): set AGENTLING_DATA_DIR to \
         a place that is not, or open it with `chmod o+x`", .dir.display()
    )]
    Unreachable {
        /// The first directory on the way that is closed.
        dir: PathBuf,
        /// The user.
        uid: u32,
    },
    /// The cluster belongs to somebody else.
    #[error(
        "{} belongs to uid {owner}, so this user cannot run it: start as that user or as root, or \
         set AGENTLING_DATA_DIR to another directory", .cluster.display()
    )]
    ForeignCluster {
        /// The cluster.
        cluster: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Another server has the directory.
    #[error(
        "another agentling server{} uses {}: stop it, or set AGENTLING_DATA_DIR to another \
         directory", .pid.map_or_else(String::new, |pid| format!(" (pid {pid})")), .dir.display()
    )]
    InUse {
        /// The data directory.
        dir: PathBuf,
        /// The other server.
        pid: Option<u32>,
    },
    /// The data was written by another major version.
    #[error(
        "{} was made by PostgreSQL {cluster_version}, and the programs found are of version \
         {found}: install PostgreSQL {cluster_version}, or move the directory away to start anew",
        .cluster.display()
    )]
    Version {
        /// The cluster.
        cluster: PathBuf,
        /// What made it.
        cluster_version: String,
        /// What is installed.
        found: String,
    },
    /// The directory of the cluster holds something else.
    #[error("{} is not a PostgreSQL cluster: move it away", .0.display())]
    NotACluster(PathBuf),
    /// A PostgreSQL from before a crash is still there.
    #[error("PostgreSQL (pid {pid}) still runs on {} and does not stop: stop it", .cluster.display())]
    Orphan {
        /// The process.
        pid: u32,
        /// What it runs on.
        cluster: PathBuf,
    },
    /// A program cannot be run, or says no.
    #[error("{} failed: {detail}", .program.display())]
    Program {
        /// The program.
        program: PathBuf,
        /// What it said.
        detail: String,
    },
    /// PostgreSQL ended before it accepted connections, or took too long.
    #[error("PostgreSQL did not start; the end of {}: {tail}", .log.display())]
    NotReady {
        /// Its log.
        log: PathBuf,
        /// The last lines.
        tail: String,
    },
    /// PostgreSQL does not stop.
    #[error("PostgreSQL on {} does not stop", .0.display())]
    NotStopped(PathBuf),
    /// A file or directory does not do what it must.
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The database could not be made.
    #[error("the database could not be made in the embedded Postgres")]
    Database(#[source] sqlx::Error),
}

/// Says what was being done to a path when it failed.
pub(super) trait During<T> {
    fn during(self, action: &'static str, path: &Path) -> Result<T, EmbeddedError>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, action: &'static str, path: &Path) -> Result<T, EmbeddedError> {
        self.map_err(|source| EmbeddedError::Io { action, path: path.to_owned(), source })
    }
}

/// A file that may be missing.
pub(super) fn if_exists<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
