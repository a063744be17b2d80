//! Loopback servers that answer with given bytes, and what is needed to ask them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::clock::System;
use crate::domain::model::{ModelSettings, ModelSpec, ProfileOverrides, Provider};
use crate::egress::EgressPolicy;
use crate::provider::{Attempt, Bounds, ModelCall, Models, ProviderKeys, client};
use crate::wire::{Block, DeltaPiece, Profile, Prompt, PromptTurn, Role};

/// What a server does after it has read a request.
pub(super) enum Then {
    /// Writes these pieces and closes.
    Close(Vec<Vec<u8>>),
    /// Writes these pieces and waits for the client to hang up.
    Hold(Vec<Vec<u8>>),
    /// Writes these pieces and takes the next request on the same connection.
    Keep(Vec<Vec<u8>>),
    /// Writes these pieces, then a comment whenever nothing has come from the client for a moment, until
    /// it hangs up.
    Trickle(Vec<Vec<u8>>),
}

/// A server for as many connections as it is told of.
pub(super) struct Server {
    pub(super) base_url: String,
    /// The head and body of the request.
    pub(super) requests: UnboundedReceiver<String>,
    /// Says so when the client hung up on a server that holds.
    pub(super) hung_up: UnboundedReceiver<()>,
}

impl Server {
    /// A server for one request.
    pub(super) fn start(then: Then) -> Self {
        Self::serve(vec![vec![then]])
    }

    /// A server that takes these connections one after the other, and so many requests on each.
    pub(super) fn serve(connections: Vec<Vec<Then>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let (told, requests) = unbounded_channel();
        let (gone, hung_up) = unbounded_channel();
        let serve = move |exchanges: &[Then]| {
            let (mut stream, _) = listener.accept().unwrap();
            for then in exchanges {
                told.send(read_request(&mut stream)).unwrap_or_default();
                let waited = then.answer(&mut stream);
                waited.then(|| gone.send(())).transpose().unwrap_or_default();
            }
        };
        std::thread::spawn(move || {
            for exchanges in &connections {
                serve(exchanges);
            }
        });
        Self { base_url, requests, hung_up }
    }
}

impl Then {
    /// Answers a request, and says whether the client was waited for until it hung up.
    fn answer(&self, stream: &mut TcpStream) -> bool {
        let (Self::Close(pieces) | Self::Hold(pieces) | Self::Keep(pieces) | Self::Trickle(pieces)) =
            self;
        for piece in pieces {
            // A client that has seen enough hangs up.
            stream.write_all(piece).unwrap_or_default();
        }
        match self {
            Self::Close(_) | Self::Keep(_) => return false,
            Self::Hold(_) => wait_for_the_end(stream),
            Self::Trickle(_) => trickle(stream),
        }
        true
    }
}

fn trickle(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    while stream.write_all(b": x\n").is_ok() && !matches!(stream.read(&mut [0; 64]), Ok(0)) {}
}

fn wait_for_the_end(stream: &mut TcpStream) {
    while stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).unwrap_or(0);
        read.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
        });
        if count == 0 || body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return text;
        }
    }
}

/// An answer whose body ends where the connection does.
pub(super) fn head(status: &str, headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n").into_bytes()
}

/// An answer after which the connection can be used again.
pub(super) fn kept(content_type: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// The head of a stream of events.
pub(super) fn stream_head() -> Vec<u8> {
    head("200 OK", "content-type: text/event-stream\r\n")
}

/// An event with a piece of text.
pub(super) fn said(text: &str) -> Vec<u8> {
    event(&serde_json::json!({"choices": [{"delta": {"content": text}}]}).to_string())
}

/// An event.
pub(super) fn event(data: &str) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

/// The event that says that the model is done.
pub(super) fn finished() -> Vec<u8> {
    event(r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#)
}

/// A model called `m`, at its provider's own address.
pub(in crate::provider) fn spec(provider: Provider) -> ModelSpec {
    ModelSpec {
        provider,
        name: "m".to_owned(),
        base_url: None,
        api_key: None,
        profile: ProfileOverrides::default(),
        settings: ModelSettings::default(),
        script: Vec::new(),
        fallbacks: Vec::new(),
        price: None,
    }
}

/// A call that says `hi` to a server.
pub(super) fn call(base_url: &str) -> ModelCall {
    let spec = ModelSpec { base_url: Some(base_url.to_owned()), ..spec(Provider::Openai) };
    let hi = PromptTurn { role: Role::User, blocks: vec![Block::Text("hi".into())] };
    let prompt = Prompt {
        model: spec.name.clone(),
        system: None,
        turns: vec![hi],
        tools: Vec::new(),
        settings: ModelSettings::default(),
        ..Prompt::default()
    };
    let profile = Profile::resolve(&spec);
    ModelCall {
        spec,
        prompt,
        profile,
        turn: 1,
        attempt: 1,
        tries: 1,
        timeout: Duration::from_secs(30),
    }
}

/// The sender under test, with bounds small enough to be met.
pub(super) fn models(keys: ProviderKeys) -> Models {
    let bounds = Bounds {
        idle: Duration::from_secs(20),
        linger: Duration::from_millis(30),
        reply: 100_000,
        ..Bounds::default()
    };
    let policy = Arc::new(EgressPolicy::default().with_any_model(true));
    let http = client::http_client(policy).unwrap();
    Models::new(http, keys, Arc::new(System::new())).with_bounds(bounds)
}

/// Makes a call and collects what it handed on.
pub(super) async fn ask(models: &Models, call: &ModelCall) -> (Attempt, Vec<DeltaPiece>) {
    let mut pieces = Vec::new();
    let answer = models.call(call, None, &mut |piece| pieces.push(piece)).await;
    (answer, pieces)
}
