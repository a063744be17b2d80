//! A provider that keeps every byte it is sent, by wire, and answers each wire in its own words.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What arrived at one address, in order.
type Kept = Arc<Mutex<BTreeMap<String, Vec<Vec<u8>>>>>;

/// The provider. It reads HTTP from the socket itself, so that nothing stands between the wire and
/// what is kept.
pub(crate) struct Capture {
    address: std::net::SocketAddr,
    kept: Kept,
}

impl Capture {
    #[expect(clippy::disallowed_methods, reason = "the test is over before its provider")]
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kept = Kept::default();
        let all = Arc::clone(&kept);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(socket, Arc::clone(&all)));
            }
        });
        Self { address, kept }
    }

    /// The base address whose requests are kept under a name.
    pub(crate) fn base_url(&self, name: &str) -> String {
        format!("http://{}/{name}/v1", self.address)
    }

    /// The bodies that arrived under a name.
    pub(crate) fn bodies(&self, name: &str) -> Vec<Vec<u8>> {
        self.kept.lock().unwrap().get(name).cloned().unwrap_or_default()
    }
}

/// Answers one request after the other until the client hangs up.
async fn serve(mut socket: TcpStream, kept: Kept) {
    let mut bytes = Vec::new();
    while let Some((path, body)) = request(&mut socket, &mut bytes).await {
        let name = path.split('/').nth(1).unwrap_or_default().to_owned();
        kept.lock().unwrap().entry(name).or_default().push(body);
        let answer = answer(&path).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
        let whole = format!("{head} {}\r\n\r\n{answer}", answer.len());
        if socket.write_all(whole.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The path and the body of the next request; `None` when the client is gone.
async fn request(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        read_more(socket, bytes).await?;
    };
    let head = String::from_utf8(bytes.drain(..end).collect()).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
    });
    let length: usize = length.expect("requests say how long they are");
    while bytes.len() < length {
        read_more(socket, bytes).await?;
    }
    Some((path, bytes.drain(..length).collect()))
}

async fn read_more(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = vec![0; 16 * 1024];
    let n = socket.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
    bytes.extend_from_slice(&buffer[..n]);
    Some(())
}

/// A whole reply that says `ok`, as the wire of the path spells it.
fn answer(path: &str) -> Value {
    let path = path.split('?').next().unwrap_or_default();
    if path.ends_with("/chat/completions") {
        json!({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]})
    } else if path.ends_with("/responses") {
        let content = json!([{"type": "output_text", "text": "ok"}]);
        json!({"status": "completed", "output": [{"type": "message", "content": content}]})
    } else if path.ends_with("/messages") {
        json!({"content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"})
    } else if path.ends_with(":generateContent") {
        json!({"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]})
    } else if path.ends_with("/converse") {
        json!({"output": {"message": {"content": [{"text": "ok"}]}}, "stopReason": "end_turn"})
    } else {
        json!({"message": {"content": "ok"}, "done": true, "done_reason": "stop"})
    }
}
