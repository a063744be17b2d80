//! What to do with a PostgreSQL that outlived a crash of ours.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::error::During;
use super::pid_file::{self, PidFile};
use super::{EmbeddedError, poll};

/// How long a server may take to stop once it is told to.
const STOP_PATIENCE: Duration = Duration::from_mins(1);

/// What every process of a server is called.
const NAME: &str = "postgres";

/// Leaves the cluster without a server, so that a new one can start.
///
/// Called under the lock of the data directory: whoever still runs here is not somebody's server.
pub(super) fn settle(cluster: &Path, patience: Duration) -> Result<(), EmbeddedError> {
    if poll::until(patience, || users(cluster).is_empty().then_some(())).is_none() {
        stop(cluster)?;
    }
    forget_stranger(cluster)
}

/// Tells the server of a cluster to stop and waits until all its processes are gone.
fn stop(cluster: &Path) -> Result<(), EmbeddedError> {
    interrupt(cluster);
    let mut left = Vec::new();
    let gone = poll::until(STOP_PATIENCE, || {
        left = users(cluster);
        left.is_empty().then_some(())
    });
    let pid = left.first().copied().unwrap_or_default();
    gone.ok_or_else(|| EmbeddedError::Orphan { pid, cluster: cluster.to_owned() })
}

/// Asks the server of a cluster for a fast shutdown.
///
/// The pid file alone is no proof: after a reboot its number may be anybody's.
pub(super) fn interrupt(cluster: &Path) {
    let named = PidFile::read(cluster).ok().flatten().map(|file| file.pid);
    let server = named.filter(|pid| serves(cluster, *pid)).and_then(pid_of);
    if let Some(Err(error)) = server.map(|pid| kill_process(pid, Signal::INT)) {
        tracing::warn!(%error, "the embedded Postgres could not be told to stop");
    }
}

/// Removes a pid file whose number belongs to a stranger by now.
///
/// PostgreSQL copes with a number that nobody has, but takes any living process of its own user
/// for another server. That no process uses the cluster is known at this point.
fn forget_stranger(cluster: &Path) -> Result<(), EmbeddedError> {
    let path = pid_file::path(cluster);
    let file = PidFile::read(cluster).during("read", &path)?;
    if file.is_some_and(|file| is_alive(file.pid)) {
        fs::remove_file(&path).during("remove", &path)?;
    }
    Ok(())
}

/// Whether a process is a PostgreSQL on this cluster.
pub(super) fn serves(cluster: &Path, pid: u32) -> bool {
    users(cluster).contains(&pid)
}

/// Whether there is a process of this number.
fn is_alive(pid: u32) -> bool {
    let answer = pid_of(pid).map(test_kill_process);
    // A process that we may not signal is a process all the same.
    matches!(answer, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
}

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(pid.try_into().ok()?)
}

/// The processes of PostgreSQL on a cluster: each works in its directory.
fn users(cluster: &Path) -> Vec<u32> {
    match fs::read_dir("/proc/self/task") {
        Ok(_) => users_by_proc(cluster).unwrap_or_default(),
        Err(_) => user_by_name(cluster).into_iter().collect(),
    }
}

fn users_by_proc(cluster: &Path) -> io::Result<Vec<u32>> {
    let processes = fs::read_dir("/proc")?.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let dir = fs::read_link(entry.path().join("cwd")).ok()?;
        // A person may stand in the directory too; their shell is no server.
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        (dir == cluster && name.contains(NAME)).then_some(pid)
    });
    Ok(processes.collect())
}

/// The same without `/proc`: the process in the pid file, if it is a PostgreSQL.
fn user_by_name(cluster: &Path) -> Option<u32> {
    let pid = PidFile::read(cluster).ok()??.pid;
    let output = Command::new("ps").args(["-o", "comm=", "-p", &pid.to_string()]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).contains(NAME).then_some(pid)
}
