//! A fake MCP server, for what no real one does: lists that are hostile, and answers that never come.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// It is answered with the name of its tool.
    Answered,
    /// The connection is closed in the middle of the answer.
    HungUp,
    /// Keep-alives and progress come, and never an answer.
    KeptAlive,
    /// Somebody in between gives up, with an error that names no request: a code and a text.
    GivenUp(i32, &'static str),
    /// It is answered with an error of the server about its arguments.
    Refused(&'static str),
    /// It is answered like this: a status, a type and a body, in which `{id}` is that of the request.
    Says(u16, &'static str, &'static str),
    /// It is answered with more than is taken.
    Floods,
}

#[derive(Debug)]
struct Shared {
    tools: Mutex<Value>,
    call: Mutex<Call>,
    session: Mutex<u32>,
    version: Mutex<&'static str>,
    seen: Mutex<Vec<(Value, String)>>,
}

/// The server.
#[derive(Debug, Clone)]
pub(crate) struct FakeMcp {
    /// Its port.
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

impl FakeMcp {
    /// A server that lists these tools.
    pub(crate) async fn start(tools: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            tools: Mutex::new(tools),
            call: Mutex::new(Call::Answered),
            session: Mutex::new(1),
            version: Mutex::new("2025-06-18"),
            seen: Mutex::default(),
        });
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { port, shared }
    }

    /// Where it is reached.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Its origin, which secrets are bound to.
    pub(crate) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Lists other tools from now on.
    pub(crate) fn list(&self, tools: Value) {
        *self.shared.tools.lock().unwrap() = tools;
    }

    /// Treats calls like this from now on.
    pub(crate) fn treat_calls(&self, call: Call) {
        *self.shared.call.lock().unwrap() = call;
    }

    /// Speaks this version of the protocol from now on.
    pub(crate) fn speak(&self, version: &'static str) {
        *self.shared.version.lock().unwrap() = version;
    }

    /// Forgets its sessions, as a server does that is restarted.
    pub(crate) fn forget(&self) {
        *self.shared.session.lock().unwrap() += 1;
    }

    /// The requests of a method so far, each with its `Authorization`.
    pub(crate) fn seen(&self, method: &str) -> Vec<(Value, String)> {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter().filter(|(body, _)| body["method"] == method).cloned().collect()
    }
}

/// A tool with a name and a description, which takes anything.
pub(crate) fn tool_listed(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description,
           "inputSchema": {"type": "object", "additionalProperties": true}})
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if parts.method != "POST" {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    let header = |name: &str| {
        let value = parts.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let session = format!("session-{}", shared.session.lock().unwrap());
    let is_known = body["method"] == "initialize" || header("mcp-session-id") == session;
    if !is_known {
        return (StatusCode::NOT_FOUND, "Session not found").into_response();
    }
    shared.seen.lock().unwrap().push((body.clone(), header("authorization")));
    if body.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let (call, version) = (*shared.call.lock().unwrap(), *shared.version.lock().unwrap());
    let result = match body["method"].as_str().unwrap() {
        "initialize" => json!({"protocolVersion": version, "capabilities": {"tools": {}},
                               "serverInfo": {"name": "fake", "version": "1"}}),
        "tools/list" => json!({"tools": *shared.tools.lock().unwrap()}),
        "tools/call" if call != Call::Answered => return otherwise(call, &body),
        "tools/call" => content(body["params"]["name"].as_str().unwrap(), &header("authorization")),
        _ => json!({}),
    };
    let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
    let headers = [("content-type", "application/json"), ("mcp-session-id", session.as_str())];
    (headers, answer).into_response()
}

/// A tool says its own name; `echo` repeats the credential of the request, as text and as a file.
fn content(name: &str, authorization: &str) -> Value {
    let said = if name == "echo" { authorization } else { name };
    let file = BASE64_STANDARD.encode(format!("\u{1}{authorization}"));
    let mut content = vec![json!({"type": "text", "text": said})];
    if name == "echo" {
        content.push(json!({"type": "image", "mimeType": "image/png", "data": file}));
    }
    json!({"content": content})
}

fn otherwise(call: Call, request: &Value) -> Response {
    let error = |id: &Value, code: i32, text: &str| {
        let error = json!({"code": code, "message": text});
        json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
    };
    let json = [("content-type", "application/json")];
    match call {
        Call::GivenUp(code, text) => {
            (StatusCode::GATEWAY_TIMEOUT, json, error(&Value::Null, code, text)).into_response()
        }
        Call::Says(status, media_type, body) => {
            let body = body.replace("{id}", &request["id"].to_string());
            let status = StatusCode::from_u16(status).unwrap();
            (status, [("content-type", media_type)], body).into_response()
        }
        Call::Floods => (json, vec![b' '; 7 << 20]).into_response(),
        Call::Refused(text) => (json, error(&request["id"], -32_602, text)).into_response(),
        Call::Answered | Call::HungUp | Call::KeptAlive => unanswered(call, request),
    }
}

fn unanswered(call: Call, request: &Value) -> Response {
    let token = &request["params"]["_meta"]["progressToken"];
    let params = json!({"progressToken": token, "progress": 1});
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    let piece = Bytes::from(format!(": still here\n\ndata: {progress}\n\n"));
    let n_pieces = if call == Call::HungUp { 1 } else { usize::MAX };
    let ticks = tokio::time::interval(Duration::from_millis(100));
    let pieces = futures::stream::unfold((ticks, 0), move |(mut ticks, n)| {
        let piece = piece.clone();
        async move {
            if n == n_pieces {
                return None;
            }
            ticks.tick().await;
            Some((Ok::<_, std::io::Error>(piece), (ticks, n + 1)))
        }
    });
    ([("content-type", "text/event-stream")], Body::from_stream(pieces)).into_response()
}
