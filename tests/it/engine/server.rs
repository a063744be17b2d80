//! The program itself: signals, two servers on one directory, `kill -9`.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use reqwest::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    FakeTools, TestApp, TestDb, agent_with, assert_invariants, calling, open_to_all, saying,
    search_path, tool,
};

/// `agentling serve` in a process of its own.
struct Server {
    process: Child,
    /// `http://127.0.0.1:port`; empty when it did not start.
    base: String,
    /// What it said before it served, or in all.
    said: String,
}

impl Server {
    /// Starts it and waits until it serves or has given up.
    async fn start(settings: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentling"));
        command.arg("serve").env_clear().env("PATH", search_path());
        command.envs([("AGENTLING_LISTEN", "127.0.0.1:0"), ("AGENTLING_LEASE_MS", "1000")]);
        command.envs([("AGENTLING_HEARTBEAT_MS", "200"), ("AGENTLING_SWEEP_MS", "200")]);
        command.envs(settings.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let process = command.spawn().unwrap();
        tokio::task::spawn_blocking(|| Self::wait_until_it_serves(process)).await.unwrap()
    }

    fn wait_until_it_serves(mut process: Child) -> Self {
        let mut lines = BufReader::new(process.stderr.take().unwrap());
        let (mut said, mut base) = (String::new(), String::new());
        let mut line = String::new();
        while base.is_empty() && lines.read_line(&mut line).unwrap() > 0 {
            if let Some((_, address)) = line.split_once("serving address=") {
                base = format!("http://{}", address.trim());
            }
            said.push_str(&line);
            line.clear();
        }
        // Whatever it says later must have somewhere to go.
        std::thread::spawn(move || drop(lines.read_to_end(&mut Vec::new())));
        Self { process, base, said }
    }

    async fn post_run(&self, body: &Value) -> Value {
        let request = Client::builder().no_proxy().build().unwrap().post(self.url("/v1/runs"));
        let request = request.header("content-type", "application/json").body(body.to_string());
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    /// Watches a run until its stream ends: the last event says how it went.
    async fn watch(&self, run: &Value) -> String {
        let path = format!("/v1/runs/{}/stream", run["id"].as_str().unwrap());
        let request = Client::builder().no_proxy().build().unwrap().get(self.url(&path));
        let text = request.send().await.unwrap().text().await.unwrap();
        let mut names = text.lines().filter_map(|line| line.strip_prefix("event: "));
        names.next_back().unwrap_or_default().to_owned()
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Sends it a signal and answers its exit code; none when the signal was its end.
    async fn end(self, signal: Signal) -> Option<i32> {
        kill_process(self.pid(), signal).unwrap();
        self.ended().await
    }

    /// Waits for its end and answers its exit code.
    async fn ended(mut self) -> Option<i32> {
        let pid = self.pid();
        let wait = tokio::task::spawn_blocking(move || self.process.wait().unwrap().code());
        let Ok(code) = tokio::time::timeout(Duration::from_mins(1), wait).await else {
            kill_process(pid, Signal::KILL).unwrap();
            panic!("the server does not end");
        };
        code.unwrap()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn agent(tools: &FakeTools) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let declared = [tool(tools, "a", "idempotent", &parameters)];
    agent_with(&[calling(&["a"]), saying("Done.")], &declared)
}

fn text(answer: &str) -> Value {
    json!({"agent": agent_with(&[saying(answer)], &[]), "input": "go on"})
}

/// A directory that the user PostgreSQL runs as can reach.
fn data_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    open_to_all(dir.path());
    dir
}

fn inside(dir: &Path) -> String {
    dir.join("data").display().to_string()
}

#[tokio::test]
async fn sigterm_ends_a_server_with_0_and_leaves_its_runs_to_others() {
    let app = TestApp::start().await;
    let db = TestDb::new().await;
    let tools = FakeTools::start().await;
    tools.hold("a");
    let settings = [
        ("DATABASE_URL", db.url.as_str()),
        ("AGENTLING_EGRESS_ALLOW", tools.host.as_str()),
        ("AGENTLING_DRAIN_SECS", "0"),
    ];
    let server = Server::start(&settings).await;
    let run = server.post_run(&json!({"agent": agent(&tools), "input": "go on"})).await;
    tools.wait_for(1).await;
    assert_eq!(server.end(Signal::TERM).await, Some(0));
    assert_invariants(&db).await;
    tools.release("a");
    let other = Server::start(&settings).await;
    assert_eq!(other.watch(&run).await, "run.completed");
    assert_eq!(other.end(Signal::INT).await, Some(0));
    assert_invariants(&db).await;
    app.running.stop().await;
}

#[tokio::test]
async fn a_second_signal_ends_a_server_that_still_waits() {
    // The TLS that clients of this process ask for is set up by the first server in it.
    let app = TestApp::start().await;
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("a");
    let settings = [
        ("DATABASE_URL", db.url.as_str()),
        ("AGENTLING_EGRESS_ALLOW", tools.host.as_str()),
        ("AGENTLING_DRAIN_SECS", "3600"),
    ];
    let server = Server::start(&settings).await;
    server.post_run(&json!({"agent": agent(&tools), "input": "go on"})).await;
    tools.wait_for(1).await;
    kill_process(server.pid(), Signal::TERM).unwrap();
    // It has taken the first signal once it refuses to be ready or to be reached.
    let ready = server.url("/readyz");
    let client = Client::builder().no_proxy().build().unwrap();
    while client.get(&ready).send().await.is_ok_and(|answer| answer.status().is_success()) {}
    assert_eq!(server.end(Signal::TERM).await, Some(0));
    assert_invariants(&db).await;
    app.running.stop().await;
}

#[tokio::test]
async fn an_embedded_server_that_is_killed_starts_again_and_ends_what_it_acknowledged() {
    let app = TestApp::start().await;
    let tools = FakeTools::start().await;
    tools.hold("a");
    let dir = data_dir();
    let data = inside(dir.path());
    let settings =
        [("AGENTLING_DATA_DIR", data.as_str()), ("AGENTLING_EGRESS_ALLOW", tools.host.as_str())];
    let server = Server::start(&settings).await;
    assert!(!server.base.is_empty(), "{}", server.said);
    let done = server.post_run(&text("Hello.")).await;
    assert_eq!(server.watch(&done).await, "run.completed");
    let run = server.post_run(&json!({"agent": agent(&tools), "input": "go on"})).await;
    tools.wait_for(1).await;

    let second = Server::start(&settings).await;
    let said = second.said.clone();
    assert_eq!(second.ended().await, Some(1));
    let holder = format!("another agentling server (pid {})", server.process.id());
    assert!(said.contains(&holder) && said.contains(&data), "{said}");

    assert_eq!(server.end(Signal::KILL).await, None);
    tools.release("a");
    let server = Server::start(&settings).await;
    assert!(!server.base.is_empty(), "{}", server.said);
    assert_eq!(server.watch(&run).await, "run.completed");
    assert_eq!(server.watch(&done).await, "run.completed");
    let keys: Vec<String> = tools.seen().into_iter().map(|call| call.key).collect();
    assert_eq!(keys.first(), keys.last(), "the call was repeated with its key");
    assert_eq!(server.end(Signal::TERM).await, Some(0));
    app.running.stop().await;
}
