//! A fake model behind a real HTTP server that speaks streamed Chat Completions, piece by piece, and
//! can be held between two pieces.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// A piece of a reply.
#[derive(Debug, Clone)]
pub(crate) enum Piece {
    /// Text.
    Text(&'static str),
    /// A whole tool call: the tool and the arguments.
    Call(&'static str, Value),
    /// A whole tool call whose arguments are this text.
    Spelt(&'static str, &'static str),
    /// Nothing more until it is let through.
    Hold,
    /// The reply ends here without its end marker.
    Cut,
}

/// What has reached the fake, and what became of it.
#[derive(Debug, Clone, Default)]
struct Ledger {
    requests: Vec<Value>,
    hung_up: usize,
}

#[derive(Debug)]
struct Shared {
    replies: Mutex<VecDeque<Vec<Piece>>>,
    gate: Semaphore,
    ledger: watch::Sender<Ledger>,
}

/// A server of one model.
#[derive(Clone)]
pub(crate) struct HeldModel {
    base_url: String,
    shared: Arc<Shared>,
}

impl HeldModel {
    /// Starts the server with its replies in order; past them it says `Done.`.
    pub(crate) async fn saying(replies: impl IntoIterator<Item = Vec<Piece>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies.into_iter().collect()),
            gate: Semaphore::new(0),
            ledger: watch::Sender::new(Ledger::default()),
        });
        let router = Router::new().fallback(complete).with_state(Arc::clone(&shared));
        #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { base_url, shared }
    }

    /// The model of an agent that thinks with it.
    pub(crate) fn spec(&self) -> Value {
        json!({"provider": "openai", "name": "fake", "base_url": self.base_url})
    }

    /// Lets one hold pass.
    pub(crate) fn release(&self) {
        self.shared.gate.add_permits(1);
    }

    /// The bodies of the requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.shared.ledger.borrow().requests.clone()
    }

    /// The messages of a request, counted from 0.
    pub(crate) fn messages(&self, request: usize) -> Vec<Value> {
        self.requests()[request]["messages"].as_array().cloned().unwrap()
    }

    /// Waits until it was asked so many times.
    pub(crate) async fn asked(&self, times: usize) {
        let mut ledger = self.shared.ledger.subscribe();
        ledger.wait_for(|ledger| ledger.requests.len() >= times).await.unwrap();
    }

    /// Waits until a caller has hung up on a reply under way.
    pub(crate) async fn hung_up(&self) {
        let mut ledger = self.shared.ledger.subscribe();
        ledger.wait_for(|ledger| ledger.hung_up > 0).await.unwrap();
    }
}

async fn complete(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let request = serde_json::from_slice(&body).unwrap();
    shared.ledger.send_modify(|ledger| ledger.requests.push(request));
    let said = shared.replies.lock().unwrap().pop_front();
    let said = said.unwrap_or_else(|| vec![Piece::Text("Done.")]);
    let reply = Reply { shared, chunks: chunks(said), is_over: false };
    let stream = futures::stream::unfold(reply, |mut reply| async move {
        let chunk = reply.next().await?;
        Some((Ok::<_, Infallible>(chunk), reply))
    });
    ([("content-type", "text/event-stream")], Body::from_stream(stream)).into_response()
}

/// A reply under way.
struct Reply {
    shared: Arc<Shared>,
    /// What is still to be said; `None` is a hold.
    chunks: VecDeque<Option<Bytes>>,
    is_over: bool,
}

impl Reply {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.chunks.pop_front() {
                Some(Some(chunk)) => return Some(chunk),
                Some(None) => self.shared.gate.acquire().await.unwrap().forget(),
                None => {
                    self.is_over = true;
                    return None;
                }
            }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.is_over {
            self.shared.ledger.send_modify(|ledger| ledger.hung_up += 1);
        }
    }
}

fn chunks(pieces: Vec<Piece>) -> VecDeque<Option<Bytes>> {
    let is_cut = matches!(pieces.last(), Some(Piece::Cut));
    let calls =
        pieces.iter().filter(|piece| matches!(piece, Piece::Call(..) | Piece::Spelt(..))).count();
    let mut index = 0;
    let mut chunks: VecDeque<_> = pieces
        .into_iter()
        .filter_map(|piece| match piece {
            Piece::Text(text) => Some(Some(event(&json!({"content": text}), None))),
            Piece::Call(name, arguments) => {
                index += 1;
                Some(Some(call_event(index - 1, name, &arguments.to_string())))
            }
            Piece::Spelt(name, arguments) => {
                index += 1;
                Some(Some(call_event(index - 1, name, arguments)))
            }
            Piece::Hold => Some(None),
            Piece::Cut => None,
        })
        .collect();
    if !is_cut {
        let reason = if calls > 0 { "tool_calls" } else { "stop" };
        chunks.push_back(Some(event(&json!({}), Some(reason))));
        chunks.push_back(Some(Bytes::from_static(b"data: [DONE]\n\n")));
    }
    chunks
}

fn call_event(index: usize, name: &str, arguments: &str) -> Bytes {
    let function = json!({"name": name, "arguments": arguments});
    let call = json!({"index": index, "id": format!("call_{index}"), "function": function});
    event(&json!({"tool_calls": [call]}), None)
}

fn event(delta: &Value, finish_reason: Option<&str>) -> Bytes {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": finish_reason});
    let chunk = json!({
        "id": "chatcmpl-fake",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "fake",
        "choices": [choice],
    });
    Bytes::from(format!("data: {chunk}\n\n"))
}
