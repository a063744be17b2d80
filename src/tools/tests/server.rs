//! A server that takes one request at a time and answers bytes as they are given.

use std::io::ErrorKind;

use tokio::net::{TcpListener, TcpStream};

pub(super) struct Server {
    listener: TcpListener,
    pub(super) host: String,
}

impl Server {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        Self { listener, host }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.host)
    }

    /// Takes one request, answers and closes; gives back what was asked.
    pub(super) async fn answer(&self, answer: &[u8]) -> String {
        let (stream, _) = self.listener.accept().await.unwrap();
        let asked = read_request(&stream).await;
        write(&stream, answer).await;
        asked
    }

    /// Takes requests and never answers one.
    pub(super) async fn hang(&self) -> ! {
        let mut held = Vec::new();
        loop {
            held.push(self.listener.accept().await.unwrap());
        }
    }
}

/// An answer with a body, complete in itself.
pub(super) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(super) async fn read_request(stream: &TcpStream) -> String {
    let mut bytes = Vec::new();
    while !is_complete(&bytes) {
        stream.readable().await.unwrap();
        let mut buffer = [0; 4096];
        match stream.try_read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn is_complete(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length:").map(|value| value.trim().parse::<usize>().unwrap())
    });
    body.len() >= length.unwrap_or(0)
}

/// Writes until the other side has everything or will have no more; whether it has everything.
pub(super) async fn write(stream: &TcpStream, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        stream.writable().await.unwrap();
        match stream.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}
