//! The program as an operator runs it. Everything that it says is kept in files.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::support::search_path;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// What servers and commands say.
pub(super) struct Sayings {
    dir: TempDir,
    count: std::sync::atomic::AtomicUsize,
}

impl Sayings {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), count: 0.into() }
    }

    /// A file that nobody has.
    fn file(&self, kind: &str) -> PathBuf {
        let n = self.count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.dir.path().join(format!("{kind}-{n}"))
    }

    /// A file with this text, for a setting to name.
    pub(super) fn given(&self, text: &str) -> String {
        let path = self.file("given");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Everything said by the servers, or by the commands.
    pub(super) fn all(&self, kind: &str) -> String {
        let mut all = String::new();
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with(kind) {
                all.push_str(&String::from_utf8_lossy(&std::fs::read(path).unwrap()));
            }
        }
        all
    }

    fn spawn(&self, kind: &str, arguments: &[&str], settings: &[(&str, &str)]) -> (Child, PathBuf) {
        let (path, open) = (self.file(kind), |path: &PathBuf| {
            File::options().append(true).create(true).open(path).unwrap()
        });
        let child = Command::new(env!("CARGO_BIN_EXE_agentling"))
            .args(arguments)
            .env_clear()
            .env("PATH", search_path())
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(open(&path))
            .stderr(open(&path))
            .spawn()
            .unwrap();
        (child, path)
    }

    /// Runs a command to its end and answers what it said; one that goes on is killed.
    pub(super) async fn command(&self, arguments: &[&str], settings: &[(&str, &str)]) -> String {
        let (mut child, path) = self.spawn("command", arguments, settings);
        let ended = tokio::time::timeout(PATIENCE, async {
            while child.try_wait().unwrap().is_none() {
                tokio::task::yield_now().await;
            }
        });
        let ended = ended.await;
        drop(child.kill());
        drop(child.wait());
        let said = std::fs::read_to_string(path).unwrap();
        assert!(ended.is_ok(), "{arguments:?} goes on: {said}");
        said
    }
}

/// A server. It is killed when this value is dropped.
pub(super) struct Server {
    process: Child,
    /// Where it answers.
    pub(super) base: String,
}

impl Server {
    /// Starts one and waits until it is ready.
    pub(super) async fn start(sayings: &Sayings, settings: &[(&str, &str)]) -> Self {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = free.local_addr().unwrap().to_string();
        drop(free);
        let settings = [settings, &[("AGENTLING_LISTEN", listen.as_str())]].concat();
        let (process, path) = sayings.spawn("server", &["serve"], &settings);
        let mut server = Self { process, base: format!("http://{listen}") };
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let ready = async {
            while !server.is_ready(&client).await {
                let ended = server.process.try_wait().unwrap();
                assert!(ended.is_none(), "{}", std::fs::read_to_string(&path).unwrap());
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.expect("the server is ready");
        server
    }

    async fn is_ready(&self, client: &reqwest::Client) -> bool {
        let answer = client.get(format!("{}/readyz", self.base)).send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    /// Tells it to stop, or kills it; answers how it ended.
    pub(super) async fn end(mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        tokio::task::spawn_blocking(move || self.process.wait().unwrap()).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
