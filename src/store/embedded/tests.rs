//! The embedded Postgres against the real programs. They must be installed: `make postgres`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use sqlx::{Connection, PgConnection};
use tempfile::TempDir;

use super::*;
use crate::config::{Config, Source};

/// A data directory that any user can reach, as root needs it.
fn data_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir
}

fn settings(dir: &TempDir) -> EmbeddedSettings {
    let data_dir = dir.path().join("data");
    let source = Source::of([("AGENTLING_DATA_DIR", data_dir.as_os_str())]);
    let database = Config::read(&source).unwrap().database;
    let patience = Duration::from_millis(50);
    EmbeddedSettings {
        durable: false,
        orphan_patience: patience,
        ..EmbeddedSettings::of(&database)
    }
}

fn refusal(settings: &EmbeddedSettings) -> String {
    Embedded::start(settings).unwrap_err().to_string()
}

/// What a crash leaves: the kernel closes the pipe and drops the lock, and nobody cleans up.
fn crash(mut embedded: Embedded) {
    drop(embedded.guard.pipe.take());
    embedded.lock.file.unlock().unwrap();
    std::mem::forget(embedded);
}

async fn connect(url: &str) -> PgConnection {
    ensure_database(url).await.unwrap();
    PgConnection::connect(url).await.unwrap()
}

async fn count_rows(connection: &mut PgConnection) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM kept").fetch_one(connection).await.unwrap()
}

/// Ends a process as `kill -9` does.
fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn children(parent: u32) -> Vec<u32> {
    let list = format!("/proc/{parent}/task/{parent}/children");
    let list = std::fs::read_to_string(list).unwrap();
    list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[tokio::test]
async fn what_is_stored_survives_a_restart() {
    let dir = data_dir();
    let embedded = Embedded::start(&settings(&dir)).unwrap();
    let mut connection = connect(&embedded.url()).await;
    sqlx::query("CREATE TABLE kept AS SELECT 1").execute(&mut connection).await.unwrap();
    embedded.stop().unwrap();

    let mut embedded = Embedded::start(&settings(&dir)).unwrap();
    assert!(embedded.is_running());
    let mut connection = connect(&embedded.url()).await;
    assert_eq!(count_rows(&mut connection).await, 1);
}

#[tokio::test]
async fn nothing_is_left_after_a_stop() {
    let dir = data_dir();
    let embedded = Embedded::start(&settings(&dir)).unwrap();
    let socket_dir = embedded.socket.path().to_owned();
    let cluster = embedded.cluster.dir().to_owned();
    assert!(socket_dir.exists());
    embedded.stop().unwrap();
    assert!(!socket_dir.exists());
    assert_eq!(PidFile::read(&cluster).unwrap(), None);
    assert_eq!(attach(&settings(&dir).data_dir), None);
}

#[test]
fn the_socket_is_closed_to_other_users() {
    let dir = data_dir();
    let embedded = Embedded::start(&settings(&dir)).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(embedded.socket.path()), 0o700);
    assert_eq!(mode(embedded.cluster.dir()), 0o700);
}

#[test]
fn a_second_server_on_the_directory_is_refused_and_told_who_has_it() {
    let dir = data_dir();
    let first = Embedded::start(&settings(&dir)).unwrap();
    let said = refusal(&settings(&dir));
    let expected = format!("another agentling server (pid {}) uses", std::process::id());
    assert!(said.starts_with(&expected), "{said}");
    first.stop().unwrap();
    Embedded::start(&settings(&dir)).unwrap().stop().unwrap();
}

#[tokio::test]
async fn a_command_attaches_to_the_running_server() {
    let dir = data_dir();
    let embedded = Embedded::start(&settings(&dir)).unwrap();
    let url = attach(&settings(&dir).data_dir).unwrap();
    assert_eq!(url, embedded.url());
    connect(&url).await.close().await.unwrap();
}

#[test]
fn postgres_stops_when_the_server_is_gone() {
    let dir = data_dir();
    let embedded = Embedded::start(&settings(&dir)).unwrap();
    let (cluster, server) = (embedded.cluster.dir().to_owned(), embedded.guard.server);
    assert!(orphan::serves(&cluster, server));
    crash(embedded);
    let is_gone = || (!orphan::serves(&cluster, server)).then_some(());
    assert_eq!(poll::until(Duration::from_secs(30), is_gone), Some(()));
    Embedded::start(&settings(&dir)).unwrap().stop().unwrap();
}

#[tokio::test]
async fn a_start_right_after_a_crash_succeeds_and_cleans_up() {
    let dir = data_dir();
    let patient = EmbeddedSettings { orphan_patience: Duration::from_secs(10), ..settings(&dir) };
    let embedded = Embedded::start(&patient).unwrap();
    let left = embedded.socket.path().to_owned();
    crash(embedded);
    let embedded = Embedded::start(&patient).unwrap();
    assert!(!left.exists());
    connect(&embedded.url()).await.close().await.unwrap();
}

#[test]
fn the_end_of_postgres_is_noticed() {
    let dir = data_dir();
    let mut embedded = Embedded::start(&settings(&dir)).unwrap();
    kill(embedded.guard.server);
    let gone = poll::until(Duration::from_secs(30), || (!embedded.is_running()).then_some(()));
    assert_eq!(gone, Some(()));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_orphan_without_its_guard_is_stopped() {
    let dir = data_dir();
    let embedded = Embedded::start(&settings(&dir)).unwrap();
    let (cluster, server) = (embedded.cluster.dir().to_owned(), embedded.guard.server);
    let guard = embedded.guard.process.id();
    let watcher = children(guard).into_iter().find(|pid| *pid != server).unwrap();
    kill(watcher);
    kill(guard);
    crash(embedded);
    assert!(orphan::serves(&cluster, server));

    let embedded = Embedded::start(&settings(&dir)).unwrap();
    assert!(!orphan::serves(&cluster, server));
    connect(&embedded.url()).await.close().await.unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_pid_file_that_names_a_stranger_does_not_stop_a_start() {
    let dir = data_dir();
    let embedded = Embedded::start(&settings(&dir)).unwrap();
    let cluster = embedded.cluster.dir().to_owned();
    embedded.stop().unwrap();
    // After a reboot the number of the old server can be that of any process: here it is ours.
    let stale =
        format!("{}\n{}\n1\n5432\n/tmp\n\n\nready\n", std::process::id(), cluster.display());
    std::fs::write(pid_file::path(&cluster), stale).unwrap();
    Embedded::start(&settings(&dir)).unwrap().stop().unwrap();
}

#[test]
fn a_directory_without_the_programs_is_named() {
    let dir = data_dir();
    let empty = dir.path().to_owned();
    let said = refusal(&EmbeddedSettings { pg_bin: Some(empty), ..settings(&dir) });
    assert!(said.contains("does not hold `postgres` and `initdb`"), "{said}");
}

#[test]
fn programs_that_fail_are_quoted_and_leave_no_half_made_cluster() {
    let dir = data_dir();
    for name in ["postgres", "initdb"] {
        let path = dir.path().join(name);
        std::fs::write(&path, "#!/bin/sh\necho no such luck >&2\nexit 1\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    let said = refusal(&EmbeddedSettings { pg_bin: Some(dir.path().to_owned()), ..settings(&dir) });
    assert!(said.ends_with("initdb failed: no such luck"), "{said}");
    assert!(!settings(&dir).data_dir.join("postgres").exists());
    Embedded::start(&settings(&dir)).unwrap().stop().unwrap();
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let dir = data_dir();
    let greedy = EmbeddedSettings { connections: u32::MAX, ..settings(&dir) };
    let said = refusal(&greedy);
    assert!(said.contains("max_connections"), "{said}");
    Embedded::start(&settings(&dir)).unwrap().stop().unwrap();
}

#[test]
fn a_cluster_of_another_major_version_is_refused() {
    let dir = data_dir();
    Embedded::start(&settings(&dir)).unwrap().stop().unwrap();
    let file = settings(&dir).data_dir.join("postgres/PG_VERSION");
    let version = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, "9\n").unwrap();
    let said = refusal(&settings(&dir));
    assert!(said.contains("was made by PostgreSQL 9, and the programs found"), "{said}");
    std::fs::write(&file, version).unwrap();
    Embedded::start(&settings(&dir)).unwrap().stop().unwrap();
}

#[test]
#[expect(clippy::print_stdout, reason = "a test that checks nothing says so")]
fn root_is_told_which_directory_is_closed_to_postgres() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root runs PostgreSQL as somebody else");
        return;
    }
    let dir = data_dir();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    let said = refusal(&settings(&dir));
    let expected = format!("{} is closed to the user", dir.path().display());
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn our_environment_does_not_reach_postgres() {
    let account = Account::for_cluster(Path::new("/nonexistent")).unwrap();
    let mut command = account.command("/usr/bin/env");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<_> = text.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(names.iter().all(|name| ["LC_ALL", "PATH", "PWD", "_"].contains(name)), "{names:?}");
    assert!(names.contains(&"LC_ALL"));
}
