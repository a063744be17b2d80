//! Real MCP servers, written by others, when the environment names a folder that has them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{FakeTools, TestApp, TestDb};
use agentling::app::Surroundings;

/// The folder with the servers, or `None`, said plainly, when there is none.
#[expect(clippy::disallowed_methods, reason = "tests are told by the environment where they are")]
#[expect(clippy::print_stderr, reason = "a test that checks nothing must say so")]
pub(crate) fn mcp_servers() -> Option<PathBuf> {
    let named = std::env::var("AGENTLING_MCP_SERVERS").ok().filter(|path| !path.is_empty());
    if named.is_none() {
        eprintln!("skipped: AGENTLING_MCP_SERVERS names no folder with MCP servers");
    }
    named.map(PathBuf::from)
}

/// The program of a server of the npm packages.
pub(crate) fn npm_server(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("npm/node_modules/@modelcontextprotocol/{name}/dist/index.js"))
}

/// The interpreter that has the Python package.
pub(crate) fn python(folder: &Path) -> PathBuf {
    folder.join("venv/bin/python")
}

/// The server of these tests, written with the Python package.
pub(crate) fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mcp/server.py")
}

/// A server of others that listens on a port of its own.
#[derive(Debug)]
pub(crate) struct McpServer {
    port: u16,
    dir: TempDir,
    folder: PathBuf,
    everything: bool,
    process: Option<Child>,
}

impl McpServer {
    /// The server written with the Python package, with these further tools.
    pub(crate) async fn python(folder: &Path, tools: &str) -> Self {
        Self::start(folder, false, tools).await
    }

    /// The reference server.
    pub(crate) async fn everything(folder: &Path) -> Self {
        Self::start(folder, true, "").await
    }

    async fn start(folder: &Path, everything: bool, tools: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (dir, folder) = (tempfile::tempdir().unwrap(), folder.to_owned());
        let mut server = Self { port, dir, folder, everything, process: None };
        server.restart(tools).await;
        server
    }

    /// Starts it anew on its port, with these further tools.
    pub(crate) async fn restart(&mut self, tools: &str) {
        self.kill();
        let mut command = if self.everything {
            let mut command = Command::new("node");
            command.arg(npm_server(&self.folder, "server-everything")).arg("streamableHttp");
            command.env("PORT", self.port.to_string());
            command
        } else {
            let mut command = Command::new(python(&self.folder));
            command.arg(script()).env("MCP_PORT", self.port.to_string()).env("MCP_TOOLS", tools);
            command.env("MCP_LOG", self.dir.path().join("log"));
            command
        };
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.process = Some(quiet.spawn().expect("the server starts"));
        let address = ("127.0.0.1", self.port);
        while tokio::net::TcpStream::connect(address).await.is_err() {
            tokio::task::yield_now().await;
        }
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            drop(process.kill());
            drop(process.wait());
        }
    }

    /// Its port.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Where it is reached.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// What it noted of its calls, in order.
    pub(crate) fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until it has noted a line so often.
    pub(crate) async fn noted(&self, line: &str, times: usize) {
        while self.log().iter().filter(|noted| *noted == line).count() < times {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for McpServer {
    fn drop(&mut self) {
        self.kill();
    }
}

#[expect(clippy::multiple_inherent_impl, reason = "what only tests of MCP need stands here")]
impl TestApp {
    /// A server that may reach these MCP servers, with further settings.
    pub(crate) async fn reaching(ports: &[u16], settings: &[(&str, &str)]) -> Self {
        let (db, tools) = (TestDb::new().await, FakeTools::start().await);
        let allow = allowing(&tools, ports);
        let mut all = vec![("AGENTLING_EGRESS_ALLOW", allow.as_str())];
        all.extend_from_slice(settings);
        Self::on(db, tools, &all, Surroundings::default()).await
    }

    /// The same with one server, registered as `s` with these further members.
    pub(crate) async fn with_mcp(server: &McpServer, members: &Value) -> Self {
        let app = Self::reaching(&[server.port], &[]).await;
        app.register("s", &server.url(), members).await;
        app
    }

    /// Registers a server.
    pub(crate) async fn register(&self, name: &str, url: &str, members: &Value) -> Value {
        let mut body = json!({"name": name, "url": url});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        self.post("/v1/mcp-servers", &body).await.expect(201)
    }
}

/// An allow-list with the fake tools and these ports.
fn allowing(tools: &FakeTools, ports: &[u16]) -> String {
    let ports = ports.iter().map(|port| format!(",127.0.0.1:{port}"));
    format!("{}{}", tools.host, ports.collect::<String>())
}

/// An agent that makes these calls, one a turn, and then answers.
pub(crate) fn mcp_agent(tools: &Value, calls: &[(&str, Value)]) -> Value {
    let call = |(name, arguments): &(&str, Value)| json!({"tool_calls": [{"name": name, "arguments": arguments}]});
    let mut script: Vec<Value> = calls.iter().map(call).collect();
    script.push(json!({"text": "done"}));
    let model = json!({"provider": "scripted", "name": "m", "script": script});
    json!({"name": "a", "model": model, "tools": tools})
}
