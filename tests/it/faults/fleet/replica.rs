//! The program itself as a process, as an operator runs it.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{FakeTools, TestDb, with_json};

/// A server in a process of its own. It is killed when this value is dropped.
pub(super) struct Replica {
    process: Child,
    base: String,
    client: Client,
    /// The log, where nobody reads it.
    unread: Option<Log>,
}

/// What a process says, line by line.
type Log = Lines<BufReader<ChildStderr>>;

impl Replica {
    /// Starts one and waits until it serves.
    pub(super) async fn start(db: &TestDb, tools: &FakeTools, settings: &[(&str, &str)]) -> Self {
        let mut replica = Self::unread(db, tools, settings).await;
        // Whoever does not read what a process says loses it.
        let log = replica.unread.take();
        std::thread::spawn(move || log.into_iter().flatten().for_each(drop));
        replica
    }

    /// The same; once it serves, nobody reads its log any more.
    pub(super) async fn unread(db: &TestDb, tools: &FakeTools, settings: &[(&str, &str)]) -> Self {
        let listen = free_address();
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentling"));
        command
            .args(["serve", "--no-migrate"])
            .env_clear()
            .envs([
                ("DATABASE_URL", db.url.as_str()),
                ("AGENTLING_LISTEN", &listen),
                ("AGENTLING_EGRESS_ALLOW", &tools.host),
                ("AGENTLING_DB_CONNECTIONS", "8"),
                ("AGENTLING_EGRESS_ANY_MODEL", "true"),
                ("AGENTLING_POLL_MS", "100"),
                ("AGENTLING_SWEEP_MS", "100"),
                ("AGENTLING_LAG_LIMIT_MS", "60000"),
                ("AGENTLING_DB_WAIT_LIMIT_MS", "60000"),
            ])
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let started = tokio::task::spawn_blocking(move || {
            let found = lines.by_ref().map_while(Result::ok).any(|line| line.contains("serving"));
            (found, lines)
        });
        let (serves, lines) = started.await.unwrap();
        assert!(serves, "it serves");
        // The service's own constructor sets up the TLS that clients ask for and do not use here.
        drop(agentling::provider::client::http_client(std::sync::Arc::default()));
        let client = Client::builder().no_proxy().build().unwrap();
        Self { process, base: format!("http://{listen}"), client, unread: Some(lines) }
    }

    /// A `GET`.
    pub(super) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(format!("{}{path}", self.base)).timeout(Duration::from_mins(1))
    }

    /// A `POST`.
    pub(super) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        let request = self.client.post(format!("{}{path}", self.base));
        with_json(request, body).timeout(Duration::from_mins(1))
    }

    /// The status of a `GET`; nothing when it does not answer.
    pub(super) async fn status(&self, path: &str) -> Option<u16> {
        Some(self.get(path).send().await.ok()?.status().as_u16())
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Its exit code, once it has ended.
    pub(super) async fn code(mut self) -> Option<i32> {
        let ended = tokio::time::timeout(Duration::from_mins(1), async {
            while !self.has_ended() {
                tokio::task::yield_now().await;
            }
        });
        ended.await.expect("it ends");
        self.process.wait().unwrap().code()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// An address of this machine that nothing listens on.
fn free_address() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}
