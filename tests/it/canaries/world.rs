//! A server with secrets of twelve kinds, and peers that give back what they are sent.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::caller::Caller;
use super::peers;
use super::program::{Sayings, Server};
use crate::support::{
    Call, Collector, FakeMcp, FakeModel, FakeTools, ModelReply, OwnCluster, tool_listed,
};

pub(super) const API_KEY: &str = "canary-aQ3xN7vK-api-key";
pub(super) const PROVIDER_KEY: &str = "canary-bW8pR2mT-provider-key";
pub(super) const TOOL_HEADER: &str = "canary-cE5yH9sL-tool-header";
pub(super) const DSN_PASSWORD: &str = "canarydD7uJ4kQdsnpassword";
pub(super) const JWT: &str =
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnktZUY2aUwzbloifQ.Y2FuYXJ5LWVGNmlMM25a";
pub(super) const EXCEPTION: &str = "canary-fG2oM8bX tool exception";
pub(super) const URL_KEY: &str = "canary-gH9tP5cV-url-key";
pub(super) const MCP_TOKEN: &str = "canary-hJ4rS6dB-mcp-token";
/// The base64 of `canary-iK3wT8fN-key-of-secrets-x`.
pub(super) const KEK: &str = "Y2FuYXJ5LWlLM3dUOGZOLWtleS1vZi1zZWNyZXRzLXg=";
pub(super) const OTHERS_PROMPT: &str = "canary-jL7zV2gM-prompt-of-another-tenant";
pub(super) const VARIABLE: &str = "canary-kM5aW9hC-variable";
/// What has to be found everywhere: the search would find what it looks for.
pub(super) const CONTROL: &str = "control-nP4cY8jF-found-everywhere";

/// How a model misbehaves, each in a server of its own; the last one behaves.
fn replies() -> Vec<ModelReply> {
    let status = |status, body: String| ModelReply::Status(status, "application/json", body);
    let told = format!("your key is {PROVIDER_KEY}, is it not?");
    let error = json!({ "error": { "message": told, "code": PROVIDER_KEY, "type": PROVIDER_KEY } });
    vec![
        status(401, error.to_string()),
        status(400, error.to_string()),
        status(429, error.to_string()),
        status(500, error.to_string()),
        ModelReply::Status(502, "text/html", format!("<h1>{told}</h1>")),
        status(200, format!("{{ {told}")),
        ModelReply::Cut(told.clone()),
        ModelReply::Hang,
        ModelReply::call("echo", &json!({ "key": PROVIDER_KEY }).to_string()),
        ModelReply::text(&told),
        ModelReply::text(CONTROL),
    ]
}

/// Everything there is.
pub(super) struct World {
    pub(super) sayings: Sayings,
    pub(super) cluster: OwnCluster,
    pub(super) tools: FakeTools,
    pub(super) models: Vec<FakeModel>,
    pub(super) mcp: FakeMcp,
    pub(super) collector: Collector,
    pub(super) echo: String,
    /// Its certificate is its own.
    pub(super) tls: String,
    /// Nobody listens there.
    pub(super) closed: String,
    /// The last secret of the endpoint, which it gives back.
    pub(super) hook_secret: Arc<Mutex<String>>,
    /// Keys and secrets that came to be on the way.
    pub(super) keys: Vec<String>,
    pub(super) hook_secrets: Vec<String>,
    pub(super) server: Option<Server>,
    callers: Vec<Caller>,
}

impl World {
    pub(super) async fn start() -> Self {
        // Whoever comes first chooses for the process; all choose the same.
        drop(rustls::crypto::ring::default_provider().install_default());
        let cluster = OwnCluster::start().await;
        cluster.make_loud_role("canary", DSN_PASSWORD).await;
        let (tools, mcp) = (FakeTools::start().await, FakeMcp::start(listed()).await);
        let mut models = Vec::new();
        for reply in replies() {
            models.push(FakeModel::start([reply]).await);
        }
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = format!("127.0.0.1:{}", closed.local_addr().unwrap().port());
        let mut world = Self {
            sayings: Sayings::new(),
            cluster,
            tools,
            models,
            mcp,
            collector: Collector::start().await,
            echo: format!("127.0.0.1:{}", peers::echo().await),
            tls: format!("127.0.0.1:{}", peers::self_signed()),
            closed,
            hook_secret: Arc::default(),
            keys: Vec::new(),
            hook_secrets: Vec::new(),
            server: None,
            callers: Vec::new(),
        };
        world.serve().await;
        let (b, reader) =
            (world.key("other", "admin").await, world.key("default", "agents:read").await);
        let base = world.base();
        world.callers = [API_KEY, &b, &reader].map(|key| Caller::new(&base, key)).to_vec();
        world.keys = vec![API_KEY.to_owned(), secret_of(&b), secret_of(&reader)];
        world
    }

    /// Where the database is, as the operator writes it.
    pub(super) fn dsn(&self) -> String {
        let user = format!("canary:{DSN_PASSWORD}@");
        self.cluster.proxy.url.replacen("agentling@", &user, 1)
    }

    /// The settings of the server.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let origins: Vec<&str> = self.models.iter().map(|model| model.origin.as_str()).collect();
        let mut hosts = vec![
            self.tools.host.clone(),
            self.echo.clone(),
            self.tls.clone(),
            self.closed.clone(),
            format!("127.0.0.1:{}", self.mcp.port),
        ];
        hosts.extend(origins.iter().map(|origin| origin.replacen("http://", "", 1)));
        vec![
            ("DATABASE_URL", self.dsn()),
            ("AGENTLING_API_KEY", API_KEY.to_owned()),
            ("AGENTLING_SECRET_KEYS", format!("one={KEK}")),
            ("OPENAI_API_KEY", PROVIDER_KEY.to_owned()),
            (
                "AGENTLING_OPENAI_ORIGINS",
                [
                    origins.join(","),
                    format!("https://{}", self.tls),
                    format!("http://{}", self.closed),
                ]
                .join(","),
            ),
            ("AGENTLING_EGRESS_ALLOW", hosts.join(",")),
            ("AGENTLING_LOG", "trace".to_owned()),
            ("AGENTLING_DRAIN_SECS", "1".to_owned()),
            ("AGENTLING_POLL_MS", "200".to_owned()),
            ("AGENTLING_LEASE_MS", "2000".to_owned()),
            ("AGENTLING_HEARTBEAT_MS", "200".to_owned()),
            ("AGENTLING_SWEEP_MS", "200".to_owned()),
            ("AGENTLING_WEBHOOK_RETRY_MS", "1000".to_owned()),
            // A machine that has other things to do is no error path.
            ("AGENTLING_LAG_LIMIT_MS", "60000".to_owned()),
            ("AGENTLING_DB_WAIT_LIMIT_MS", "60000".to_owned()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", self.collector.origin.clone()),
            ("AGENTLING_CAPTURE_CONTENT", "true".to_owned()),
            ("SOME_OTHER_TOKEN", VARIABLE.to_owned()),
        ]
    }

    /// Runs a command with the settings of the server but for some.
    pub(super) async fn command(&self, arguments: &[&str], but: &[(&str, &str)]) -> String {
        let own = self.settings();
        let kept = own.iter().filter(|(name, _)| but.iter().all(|(other, _)| other != name));
        let kept: Vec<(&str, &str)> = kept.map(|(name, value)| (*name, value.as_str())).collect();
        self.sayings.command(arguments, &[&kept, but].concat()).await
    }

    async fn key(&self, tenant: &str, scope: &str) -> String {
        let create = ["keys", "create", "--tenant", tenant, "--name", CONTROL, "--scope", scope];
        let said = self.command(&create, &[("AGENTLING_LOG", "warn")]).await;
        said.lines()
            .find(|line| line.starts_with("ag_"))
            .unwrap_or_else(|| panic!("{said}"))
            .to_owned()
    }

    /// Starts the server, also again.
    pub(super) async fn serve(&mut self) {
        let settings = self.settings();
        let settings: Vec<_> =
            settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.server = Some(Server::start(&self.sayings, &settings).await);
    }

    pub(super) fn base(&self) -> String {
        self.server.as_ref().expect("it runs").base.clone()
    }

    /// The operator, as the tenant without a name.
    pub(super) fn a(&self) -> Caller {
        self.callers[0].at(&self.base())
    }

    /// Another tenant.
    pub(super) fn b(&self) -> Caller {
        self.callers[1].at(&self.base())
    }

    /// One who may hardly do anything.
    pub(super) fn reader(&self) -> Caller {
        self.callers[2].at(&self.base())
    }

    /// Stores the secrets that are sent to tools and MCP servers.
    pub(super) async fn keep_secrets(&self) {
        let origins = [
            self.tools.origin(),
            format!("http://{}", self.echo),
            format!("https://{}", self.tls),
            format!("http://{}", self.closed),
            format!("http://127.0.0.1:{}", self.mcp.port),
        ];
        for (name, value) in [("tool", TOOL_HEADER), ("mcp", MCP_TOKEN)] {
            let body = json!({ "value": value, "origins": origins });
            self.a().ask("PUT", &format!("/v1/secrets/{name}"), &body).await.expect(200);
        }
    }

    /// What the MCP server does with calls.
    pub(super) fn mcp_calls(&self, call: Call) {
        self.mcp.treat_calls(call);
    }
}

/// What the MCP server lists: it says its token to whoever asks for its tools.
fn listed() -> Value {
    let mut talkative = tool_listed("talkative", &format!("Takes Bearer {MCP_TOKEN}."));
    talkative["inputSchema"]["properties"] = json!({ MCP_TOKEN: { "type": "string" } });
    json!([tool_listed("echo", "Gives back what it is sent."), talkative])
}

/// The part of a key that is secret.
fn secret_of(key: &str) -> String {
    key.splitn(3, '_').nth(2).unwrap().to_owned()
}
