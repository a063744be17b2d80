//! The process that stands between us and PostgreSQL.
//!
//! It reads from a pipe that we hold and never write to. When we end, in whatever way, the kernel
//! closes the pipe, and the guard asks PostgreSQL for a fast shutdown. When PostgreSQL ends by
//! itself, so does the guard, and we notice.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use super::account::SHELL;
use super::cluster::Cluster;
use super::error::{During, if_exists};
use super::pid_file::PidFile;
use super::{EmbeddedError, EmbeddedSettings, orphan, poll, socket};

/// Uses nothing but what every shell has built in.
///
/// The watcher outlives the guard if the guard is killed, and still does its duty.
const SCRIPT: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- >&2 &
server=$!
(read -r line <&3; kill -INT "$server") >&2 &
watcher=$!
exec 3<&-
echo "$server"
wait "$server"
status=$?
kill "$watcher"
exit "$status"
"#;

/// How long PostgreSQL may take to accept connections: after a crash it replays its log first.
const READY_PATIENCE: Duration = Duration::from_mins(5);

/// How long the guard may take before PostgreSQL is told to stop directly.
const GUARD_PATIENCE: Duration = Duration::from_secs(5);

/// How long PostgreSQL may take to stop: it writes everything out.
const STOP_PATIENCE: Duration = Duration::from_mins(1);

/// The log is set aside at a start once it is larger than this.
const LOG_LIMIT: u64 = 16 * 1024 * 1024;

/// Connections beyond our pools: for tools of the operator, and what PostgreSQL reserves.
const SPARE_CONNECTIONS: u32 = 20;

/// A running guard.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) process: Child,
    /// Open as long as PostgreSQL is wanted.
    pub(super) pipe: Option<ChildStdin>,
    /// The pid of PostgreSQL.
    pub(super) server: u32,
}

impl Guard {
    pub(super) fn start(
        cluster: &Cluster,
        socket_dir: &Path,
        settings: &EmbeddedSettings,
    ) -> Result<Self, EmbeddedError> {
        let shell = Path::new(SHELL);
        let mut command = cluster.account().command(shell);
        command.args(["-c", SCRIPT, "agentling-guard"]).arg(cluster.postgres());
        add_options(&mut command, cluster.dir(), socket_dir, settings);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(open_log(cluster.log())?);
        // A group of its own: Ctrl-C is for us, and we stop PostgreSQL when we are done with it.
        let mut process = command.process_group(0).spawn().during("run", shell)?;
        let pipe = process.stdin.take();
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut line).during("read from", shell)?;
        }
        let server = line.trim().parse().map_err(|_| not_ready(cluster))?;
        Ok(Self { process, pipe, server })
    }

    /// An error in asking counts as gone.
    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Closes the pipe and waits for the end of PostgreSQL.
    pub(super) fn stop(&mut self, cluster: &Cluster) -> Result<(), EmbeddedError> {
        drop(self.pipe.take());
        if self.ends_within(GUARD_PATIENCE) {
            return Ok(());
        }
        // The watcher may be gone, and a repeated request does no harm.
        orphan::interrupt(cluster.dir());
        if self.ends_within(STOP_PATIENCE) {
            return Ok(());
        }
        Err(EmbeddedError::NotStopped(cluster.dir().to_owned()))
    }

    fn ends_within(&mut self, patience: Duration) -> bool {
        poll::until(patience, || (!self.is_running()).then_some(())).is_some()
    }
}

/// Waits until PostgreSQL accepts connections.
pub(super) fn wait_until_ready(
    mut guard: Guard,
    cluster: &Cluster,
) -> Result<Guard, EmbeddedError> {
    let server = guard.server;
    // A pid file of an earlier server may say `ready`, hence the comparison.
    let is_ready = || {
        let file = PidFile::read(cluster.dir()).ok().flatten();
        file.is_some_and(|file| file.pid == server && file.is_ready())
    };
    let answer = poll::until(READY_PATIENCE, || {
        if is_ready() {
            return Some(true);
        }
        (!guard.is_running()).then_some(false)
    });
    if answer == Some(true) {
        return Ok(guard);
    }
    let error = not_ready(cluster);
    guard.stop(cluster)?;
    Err(error)
}

/// What PostgreSQL is told on its command line, so that no file of the cluster need be edited.
fn add_options(
    command: &mut Command,
    cluster: &Path,
    socket_dir: &Path,
    settings: &EmbeddedSettings,
) {
    command.arg("-D").arg(cluster).arg("-k").arg(socket_dir);
    let mut set = |name: &str, value: &str| {
        command.args(["-c", &format!("{name}={value}")]);
    };
    set("listen_addresses", "");
    set("port", &socket::PORT.to_string());
    set("unix_socket_permissions", "0700");
    set("max_connections", &settings.connections.saturating_add(SPARE_CONNECTIONS).to_string());
    set("timezone", "UTC");
    set("log_timezone", "UTC");
    // Values of rows, and so secrets of callers, stay out of the log.
    set("log_error_verbosity", "terse");
    set("log_min_error_statement", "panic");
    set("log_parameter_max_length", "0");
    if !settings.durable {
        set("fsync", "off");
        set("synchronous_commit", "off");
        set("full_page_writes", "off");
        // With a database a test, one of its workers would start ten times a second.
        set("autovacuum", "off");
    }
}

fn open_log(path: &Path) -> Result<fs::File, EmbeddedError> {
    let size = if_exists(fs::metadata(path)).during("look at", path)?.map(|data| data.len());
    if size.is_some_and(|size| size > LOG_LIMIT) {
        fs::rename(path, path.with_extension("log.old")).during("rename", path)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path).during("open", path)
}

fn not_ready(cluster: &Cluster) -> EmbeddedError {
    let tail = tail(cluster.log()).unwrap_or_default();
    EmbeddedError::NotReady { log: cluster.log().to_owned(), tail }
}

/// The last lines of a file.
fn tail(path: &Path) -> std::io::Result<String> {
    const LEN: u64 = 1024;
    let mut file = fs::File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(LEN);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
