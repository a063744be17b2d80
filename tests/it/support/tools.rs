//! Fake tools behind a real HTTP server, with a ledger of every call that reached them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;

/// A call as the tool saw it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolCallSeen {
    /// The path without its leading slash: the fake's name.
    pub(crate) tool: String,
    /// The query, as sent.
    pub(crate) query: Option<String>,
    /// The body, when it is JSON.
    pub(crate) body: Value,
    /// The body, as sent.
    pub(crate) text: String,
    /// The `Idempotency-Key`.
    pub(crate) key: String,
    /// The `Agentling-Fence`.
    pub(crate) fence: String,
    /// All headers, by name.
    pub(crate) headers: BTreeMap<String, String>,
    /// What it is told as an endpoint: `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    pub(crate) webhook: [String; 3],
}

/// An answer that is no JSON: status, headers and bytes.
#[derive(Clone)]
struct Raw {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

type Reply = Arc<dyn Fn(&ToolCallSeen) -> (u16, Value) + Send + Sync>;

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<ToolCallSeen>>,
    replies: Mutex<BTreeMap<String, Reply>>,
    raw: Mutex<BTreeMap<String, Raw>>,
    gates: Mutex<BTreeMap<String, Arc<tokio::sync::Semaphore>>>,
    arrived: tokio::sync::Notify,
}

/// A server of fake tools: `POST {base}/{name}`.
#[derive(Clone)]
pub(crate) struct FakeTools {
    /// `127.0.0.1:port`.
    pub(crate) host: String,
    shared: Arc<Shared>,
}

impl FakeTools {
    /// Starts the server; it lives as long as the test's runtime.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared::default());
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { host, shared }
    }

    /// Where they are, as an origin.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.host)
    }

    /// The URL of a tool.
    pub(crate) fn url(&self, tool: &str) -> String {
        format!("http://{}/{tool}", self.host)
    }

    /// What a tool answers; by default 200 and what it was sent.
    pub(crate) fn answer(
        &self,
        tool: &str,
        reply: impl Fn(&ToolCallSeen) -> (u16, Value) + Send + Sync + 'static,
    ) {
        self.shared.replies.lock().unwrap().insert(tool.to_owned(), Arc::new(reply));
    }

    /// A tool that answers 200 with these headers and these bytes.
    pub(crate) fn answer_bytes(&self, tool: &str, headers: &[(&'static str, &str)], body: &[u8]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let raw = Raw { status: 200, headers, body: body.to_vec() };
        self.shared.raw.lock().unwrap().insert(tool.to_owned(), raw);
    }

    /// A tool that is elsewhere.
    pub(crate) fn redirect(&self, tool: &str, status: u16, location: &str) {
        let headers = vec![("location", location.to_owned())];
        let raw = Raw { status, headers, body: Vec::new() };
        self.shared.raw.lock().unwrap().insert(tool.to_owned(), raw);
    }

    /// Holds every call of a tool until it is let through.
    pub(crate) fn hold(&self, tool: &str) {
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        self.shared.gates.lock().unwrap().insert(tool.to_owned(), gate);
    }

    /// Lets calls of a held tool through, those to come included.
    pub(crate) fn release(&self, tool: &str) {
        self.shared.gates.lock().unwrap()[tool].add_permits(1_000);
    }

    /// Every call so far, in order of arrival.
    pub(crate) fn seen(&self) -> Vec<ToolCallSeen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Waits until so many calls have arrived.
    pub(crate) async fn wait_for(&self, n: usize) {
        loop {
            let arrived = self.shared.arrived.notified();
            if self.seen().len() >= n {
                return;
            }
            arrived.await;
        }
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let seen = note(&parts, &body);
    shared.seen.lock().unwrap().push(seen.clone());
    shared.arrived.notify_waiters();
    let gate = shared.gates.lock().unwrap().get(&seen.tool).cloned();
    if let Some(gate) = gate {
        drop(gate.acquire().await);
    }
    let raw = shared.raw.lock().unwrap().get(&seen.tool).cloned();
    if let Some(Raw { status, headers, body }) = raw {
        let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
        response.headers_mut().clear();
        for (name, value) in headers {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        return response;
    }
    let reply = shared.replies.lock().unwrap().get(&seen.tool).cloned();
    let (status, text) = reply.map_or_else(
        || (200, echo(&seen)),
        |reply| {
            let (status, body) = reply(&seen);
            (status, body.to_string())
        },
    );
    let status = StatusCode::from_u16(status).unwrap();
    (status, [("content-type", "application/json")], text).into_response()
}

/// What was sent, in its own spelling.
fn echo(seen: &ToolCallSeen) -> String {
    if seen.body.is_null() { seen.body.to_string() } else { seen.text.clone() }
}

fn note(parts: &Parts, body: &Bytes) -> ToolCallSeen {
    let header = |name: &str| {
        let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    ToolCallSeen {
        tool: parts.uri.path().trim_start_matches('/').to_owned(),
        query: parts.uri.query().map(str::to_owned),
        body: serde_json::from_slice(body).unwrap_or_default(),
        text: String::from_utf8_lossy(body).into_owned(),
        key: header("idempotency-key"),
        fence: header("agentling-fence"),
        headers: parts
            .headers
            .keys()
            .map(|name| (name.to_string(), header(name.as_str())))
            .collect(),
        webhook: ["webhook-id", "webhook-timestamp", "webhook-signature"].map(header),
    }
}
