//! A fake model behind a real HTTP server: it keeps every request as it came and answers by a script.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the fake model answers to one request.
#[derive(Debug, Clone)]
pub(crate) enum ModelReply {
    /// A reply, as a stream when one is asked for.
    Says {
        /// The text; empty for none.
        text: String,
        /// The calls: names and argument texts.
        calls: Vec<(String, String)>,
        /// The finish reason.
        finish: &'static str,
    },
    /// A status with any body.
    Status(u16, &'static str, String),
    /// The first half of a stream, and then a broken connection.
    Cut(String),
    /// Nothing, ever.
    Hang,
}

impl ModelReply {
    /// A text.
    pub(crate) fn text(text: &str) -> Self {
        Self::Says { text: text.to_owned(), calls: Vec::new(), finish: "stop" }
    }

    /// Calls without text.
    pub(crate) fn calls(calls: &[(&str, &str)]) -> Self {
        let calls = calls.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        Self::Says { text: String::new(), calls: calls.collect(), finish: "tool_calls" }
    }

    /// One call.
    pub(crate) fn call(name: &str, arguments: &str) -> Self {
        Self::calls(&[(name, arguments)])
    }
}

/// A request as the model saw it.
#[derive(Debug, Clone)]
pub(crate) struct ModelRequest {
    /// The path.
    pub(crate) path: String,
    /// The `Authorization` header.
    pub(crate) authorization: Option<String>,
    /// The body, byte for byte.
    pub(crate) body: String,
}

impl ModelRequest {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The messages.
    pub(crate) fn messages(&self) -> Vec<Value> {
        self.json()["messages"].as_array().unwrap().clone()
    }

    /// The contents of the messages with this role.
    pub(crate) fn said_by(&self, role: &str) -> Vec<String> {
        let messages = self.messages();
        let of_role = messages.iter().filter(|message| message["role"] == role);
        of_role.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }
}

#[derive(Debug, Default)]
struct Shared {
    script: Mutex<VecDeque<ModelReply>>,
    seen: Mutex<Vec<ModelRequest>>,
}

/// A server that speaks Chat Completions.
#[derive(Debug, Clone)]
pub(crate) struct FakeModel {
    /// `http://127.0.0.1:port`.
    pub(crate) origin: String,
    shared: Arc<Shared>,
}

impl FakeModel {
    /// Starts one that gives these answers in turn; the last one repeats.
    pub(crate) async fn start(script: impl IntoIterator<Item = ModelReply>) -> Self {
        let shared = Arc::new(Shared::default());
        shared.script.lock().unwrap().extend(script);
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        Self { origin: spawn(router).await, shared }
    }

    /// What an agent gives as its model; `stream` says how replies are asked for.
    pub(crate) fn spec(&self, stream: bool) -> Value {
        let base_url = format!("{}/v1", self.origin);
        let settings = json!({"stream": stream});
        json!({"provider": "openai", "name": "m", "base_url": base_url, "settings": settings})
    }

    /// Gives these answers in turn from now on; the last one repeats.
    pub(crate) fn goes_on_with(&self, script: impl IntoIterator<Item = ModelReply>) {
        *self.shared.script.lock().unwrap() = script.into_iter().collect();
    }

    /// Every request so far, in order.
    pub(crate) fn requests(&self) -> Vec<ModelRequest> {
        self.shared.seen.lock().unwrap().clone()
    }
}

/// Serves on a port of its own for as long as the test's runtime lives; answers the origin.
pub(super) async fn spawn(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
    tokio::spawn(async move { axum::serve(listener, router).await });
    origin
}

/// Reads a request to its end.
pub(super) async fn read(request: Request) -> ModelRequest {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 1 << 22).await.unwrap();
    let authorization = parts.headers.get("authorization");
    ModelRequest {
        path: parts.uri.path().to_owned(),
        authorization: authorization.map(|value| value.to_str().unwrap().to_owned()),
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let seen = read(request).await;
    let streams = seen.json()["stream"] == true;
    shared.seen.lock().unwrap().push(seen);
    let reply = {
        let mut script = shared.script.lock().unwrap();
        let next = if script.len() > 1 { script.pop_front() } else { script.front().cloned() };
        next.expect("the script has an entry")
    };
    answer(reply, streams).await
}

pub(super) async fn answer(reply: ModelReply, streams: bool) -> Response {
    match reply {
        ModelReply::Says { text, calls, finish } if streams => {
            let events = [chunks(&text, &calls, finish), vec!["[DONE]".to_owned()]].concat();
            stream(Body::from(lines(&events)))
        }
        ModelReply::Says { text, calls, finish } => {
            (StatusCode::OK, [JSON], whole(&text, &calls, finish).to_string()).into_response()
        }
        ModelReply::Status(status, content_type, body) => {
            let status = StatusCode::from_u16(status).unwrap();
            (status, [("content-type", content_type)], body).into_response()
        }
        ModelReply::Cut(text) => {
            let half = lines(&[delta(&json!({"content": text}))]);
            let broken = std::io::Error::other("the fake model hangs up");
            let pieces = futures::stream::iter([Ok(half), Err(broken)]);
            stream(Body::from_stream(pieces))
        }
        ModelReply::Hang => std::future::pending().await,
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");

fn stream(body: Body) -> Response {
    (StatusCode::OK, [("content-type", "text/event-stream")], body).into_response()
}

fn lines(events: &[String]) -> String {
    events.iter().flat_map(|event| ["data: ", event, "\n\n"]).collect()
}

fn delta(delta: &Value) -> String {
    json!({"id": "r1", "model": "fake", "choices": [{"index": 0, "delta": delta}]}).to_string()
}

/// Ids start over with every reply, as those of some servers do.
fn called(nth: usize, (name, arguments): &(String, String)) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    json!({"index": nth, "id": format!("call_{nth}"), "type": "function", "function": function})
}

fn whole(text: &str, calls: &[(String, String)], finish: &str) -> Value {
    let calls: Vec<Value> = calls.iter().enumerate().map(|(n, call)| called(n, call)).collect();
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": finish});
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10});
    json!({"id": "r1", "model": "fake", "choices": [choice], "usage": usage})
}

/// The text and every argument text come in two pieces.
fn chunks(text: &str, calls: &[(String, String)], finish: &str) -> Vec<String> {
    let mut events = Vec::new();
    for piece in halves(text) {
        events.push(delta(&json!({"content": piece})));
    }
    for (nth, (name, arguments)) in calls.iter().enumerate() {
        let begun = called(nth, &(name.clone(), String::new()));
        events.push(delta(&json!({"tool_calls": [begun]})));
        for piece in halves(arguments) {
            let call = json!({"index": nth, "function": {"arguments": piece}});
            events.push(delta(&json!({"tool_calls": [call]})));
        }
    }
    let end = json!({"index": 0, "delta": {}, "finish_reason": finish});
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10});
    events.push(json!({"id": "r1", "model": "fake", "choices": [end]}).to_string());
    events.push(json!({"id": "r1", "choices": [], "usage": usage}).to_string());
    events
}

fn halves(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let pieces = letters.chunks(letters.len().div_ceil(2).max(1));
    pieces.map(|piece| piece.iter().collect()).collect()
}
