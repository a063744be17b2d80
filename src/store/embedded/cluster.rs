//! The cluster: PostgreSQL's own directory, and the programs and the user that fit it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::EmbeddedError;
use super::account::{Account, LOCALE};
use super::error::{During, if_exists};
use super::programs::Programs;
use crate::clock::{Ids, System};

/// The one user of the database; the socket is what keeps others out.
pub(super) const USER: &str = "agentling";

/// A cluster and what it takes to run it.
#[derive(Debug)]
pub(super) struct Cluster {
    dir: PathBuf,
    log: PathBuf,
    programs: Programs,
    account: Account,
}

impl Cluster {
    /// Opens the cluster of a data directory, or makes it.
    pub(super) fn open(
        data_dir: &Path,
        candidates: Vec<Programs>,
        account: Account,
        durable: bool,
    ) -> Result<Self, EmbeddedError> {
        let dir = path(data_dir);
        let log = data_dir.join("postgres.log");
        if dir.exists() {
            let programs = fitting(&dir, candidates)?;
            return Ok(Self { dir, log, programs, account });
        }
        let programs = candidates.into_iter().next().ok_or(EmbeddedError::NoPrograms)?;
        let made = Self { dir, log, programs, account };
        made.init(data_dir, durable)?;
        Ok(made)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    pub(super) fn account(&self) -> Account {
        self.account
    }

    pub(super) fn postgres(&self) -> PathBuf {
        self.programs.postgres()
    }

    /// Makes the cluster beside its place and moves it there, so that a half-made one is never
    /// taken for a whole one.
    fn init(&self, data_dir: &Path, durable: bool) -> Result<(), EmbeddedError> {
        remove_half_made(data_dir).during("clear", data_dir)?;
        // An `initdb` that outlived a crash may still be writing, so the name is a fresh one.
        let fresh = data_dir.join(format!("{HALF_MADE}{}", System::new().random().simple()));
        DirBuilder::new().mode(0o700).create(&fresh).during("make", &fresh)?;
        self.account.own(&fresh)?;
        self.run_initdb(&fresh, durable)?;
        fs::rename(&fresh, &self.dir).during("rename", &fresh)?;
        File::open(data_dir).and_then(|dir| dir.sync_all()).during("sync", data_dir)
    }

    fn run_initdb(&self, fresh: &Path, durable: bool) -> Result<(), EmbeddedError> {
        let program = self.programs.initdb();
        let mut command = self.account.command(&program);
        command.arg("-D").arg(fresh).args(["-U", USER, "--auth-local=trust"]);
        command.args(["--auth-host=reject", "--encoding=UTF8"]).arg(format!("--locale={LOCALE}"));
        command.args((!durable).then_some("--no-sync"));
        let failed = |detail| EmbeddedError::Program { program: program.clone(), detail };
        let output = command.output().map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
    }
}

/// The beginning of the names of clusters in the making.
const HALF_MADE: &str = "postgres.new-";

fn remove_half_made(data_dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(data_dir)? {
        let entry = entry?;
        let is_half_made = entry.file_name().to_string_lossy().starts_with(HALF_MADE);
        if is_half_made && let Err(error) = fs::remove_dir_all(entry.path()) {
            tracing::warn!(%error, path = %entry.path().display(), "cannot remove a half-made cluster");
        }
    }
    Ok(())
}

/// Where the cluster of a data directory is.
pub(super) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("postgres")
}

/// Makes the data directory and yields its real path.
pub(super) fn make_data_dir(data_dir: &Path) -> Result<PathBuf, EmbeddedError> {
    // As root the unprivileged user of PostgreSQL must pass through to its cluster.
    let mode = if geteuid().is_root() { 0o711 } else { 0o700 };
    let made = DirBuilder::new().recursive(true).mode(mode).create(data_dir);
    made.during("make", data_dir)?;
    fs::canonicalize(data_dir).during("resolve", data_dir)
}

/// The first programs of the major version that made the cluster.
fn fitting(cluster: &Path, candidates: Vec<Programs>) -> Result<Programs, EmbeddedError> {
    let file = cluster.join("PG_VERSION");
    let text = if_exists(fs::read_to_string(&file)).during("read", &file)?;
    let text = text.ok_or_else(|| EmbeddedError::NotACluster(cluster.to_owned()))?;
    let cluster_version = text.trim().to_owned();
    let mut found = Vec::new();
    for programs in candidates {
        let version = programs.version()?;
        if version == cluster_version {
            return Ok(programs);
        }
        found.push(version);
    }
    let found = found.join(", ");
    Err(EmbeddedError::Version { cluster: cluster.to_owned(), cluster_version, found })
}
