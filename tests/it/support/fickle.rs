//! A provider that misbehaves differently each time it is asked.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::Replay;

/// Which recording answers, and how the replay server misbehaves over it.
pub(crate) type Answer = (&'static str, String);

/// A relay before the replay server that gives every request the next answer of a script; the last one
/// repeats. It has an origin of its own, and so retries of its own.
pub(crate) struct Fickle {
    /// The base address for an agent's model.
    pub(crate) base_url: String,
    relay: JoinHandle<()>,
}

impl Drop for Fickle {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

/// What every connection of a relay knows.
struct Script {
    server: String,
    /// The path prefixes of the answers.
    prefixes: Vec<String>,
    asked: AtomicUsize,
}

impl Fickle {
    /// Starts it.
    pub(crate) async fn start(replay: &Replay, answers: &[Answer]) -> Self {
        let listener = listener().await;
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let prefixes = answers.iter().map(|(recording, chaos)| replay.prefix(recording, chaos));
        let script = Arc::new(Script {
            server: replay.origin.trim_start_matches("http://").to_owned(),
            prefixes: prefixes.collect(),
            asked: AtomicUsize::new(0),
        });
        #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
        let relay = tokio::spawn(async move {
            // Connections end with the relay.
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(serve(client, Arc::clone(&script)));
            }
        });
        Self { base_url, relay }
    }
}

/// A listener at an address that no other one of this process has. A port alone would come back once
/// its listener is gone, and with it what is remembered of its origin.
async fn listener() -> TcpListener {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let [_, high, middle, low] = COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let own = Ipv4Addr::new(127, high + 1, middle, low);
    match TcpListener::bind((own, 0)).await {
        Ok(listener) => listener,
        // Some systems have no loopback address but the first.
        Err(_) => TcpListener::bind("127.0.0.1:0").await.unwrap(),
    }
}

impl Script {
    fn next(&self) -> &str {
        let nth = self.asked.fetch_add(1, Ordering::Relaxed);
        &self.prefixes[nth.min(self.prefixes.len() - 1)]
    }
}

/// Relays one exchange. A connection that the server resets is reset here too.
async fn serve(mut client: TcpStream, script: Arc<Script>) {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut buffer = vec![0; 16 * 1024];
        let Ok(n @ 1..) = client.read(&mut buffer).await else { return };
        head.extend_from_slice(&buffer[..n]);
    }
    let at = head.iter().position(|byte| *byte == b'/').unwrap();
    let line_end = head.windows(2).position(|window| window == b"\r\n").unwrap();
    let mut request = head[..at].to_vec();
    request.extend_from_slice(script.next().as_bytes());
    request.extend_from_slice(&head[at..line_end]);
    // The next request is another one's turn.
    request.extend_from_slice(b"\r\nconnection: close");
    request.extend_from_slice(&head[line_end..]);
    let mut server = TcpStream::connect(&script.server).await.unwrap();
    let sent = server.write_all(&request).await;
    if sent.is_err() || copy_bidirectional(&mut client, &mut server).await.is_err() {
        client.set_zero_linger().unwrap();
    }
}
