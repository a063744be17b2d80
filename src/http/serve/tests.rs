//! Connections as clients see them: bytes in, bytes out.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::prompt::Prompt;
use super::*;
use crate::clock::System;
use crate::http::extract::Body;
use crate::http::layers;

#[derive(serde::Deserialize, utoipa::ToSchema)]
struct Anything {}

struct Server {
    address: std::net::SocketAddr,
    entered: Arc<Notify>,
    proceed: Arc<Notify>,
    stop: Notify,
}

/// Runs a client beside a server; both have ended when it returns.
async fn with_server<T>(grace: Duration, client: impl AsyncFnOnce(&Server) -> T) -> T {
    with_patience(Patience { grace, stall: HOUR, headers: HOUR }, client).await
}

async fn with_patience<T>(patience: Patience, client: impl AsyncFnOnce(&Server) -> T) -> T {
    let (entered, proceed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let signals = (Arc::clone(&entered), Arc::clone(&proceed));
    let slow = get(async move || {
        signals.0.notify_one();
        signals.1.notified().await;
        "done"
    });
    let router = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/take", post(|Body(Anything {}): Body<Anything>| async {}))
        .route("/large", get(|| async { vec![b'x'; 64 << 20] }))
        .route("/slow", slow);
    let router = layers::wrap(router, Arc::new(System::new()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server { address, entered, proceed, stop: Notify::new() };
    let served = serve(listener, router, server.stop.notified(), patience);
    let (served, said) = futures::join!(served, async {
        let said = client(&server).await;
        server.stop.notify_one();
        said
    });
    served.unwrap();
    said
}

/// Sends bytes and reads until the server closes.
async fn exchange(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

const HOST: &str = "Host: localhost\r\nConnection: close\r\n";
const HOUR: Duration = Duration::from_hours(1);

#[tokio::test]
async fn what_is_over_the_limits_of_headers_and_targets_is_answered_with_a_problem() {
    let headers = "x: v\r\n".repeat(120);
    let (large, long) = ("v".repeat(33 * 1024), "a".repeat(20 * 1024));
    let rows = [
        (format!("GET / HTTP/1.1\r\n{HOST}\r\n"), "200", "hello"),
        (format!("GET / HTTP/1.1\r\n{HOST}{headers}\r\n"), "431", "headers-too-large"),
        (format!("GET / HTTP/1.1\r\n{HOST}x: {large}\r\n\r\n"), "431", "headers-too-large"),
        (format!("GET /?{long} HTTP/1.1\r\n{HOST}\r\n"), "414", "uri-too-long"),
        // Beyond what the parser takes, it answers by itself.
        (format!("GET /?{} HTTP/1.1\r\n{HOST}\r\n", long.repeat(5)), "414", ""),
        (format!("FOO / HTTP/1.1\r\n{HOST}\r\n"), "405", "method-not-allowed"),
        (format!("CONNECT a:1 HTTP/1.1\r\n{HOST}\r\n"), "405", "method-not-allowed"),
    ];
    with_server(HOUR, async |server| {
        for (request, status, part) in rows {
            let answer = exchange(server, &request).await;
            let starts = answer.starts_with(&format!("HTTP/1.1 {status} "));
            assert!(starts && answer.contains(part), "{status} {part}: {answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn ambiguous_requests_are_refused_and_their_connection_closed() {
    let lines = [
        "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        "Content-Length: x\r\n\r\n{}",
        "x: a\r\n folded: b\r\n\r\n",
    ];
    with_server(HOUR, async |server| {
        for line in lines {
            let head = "POST /take HTTP/1.1\r\nHost: localhost\r\n";
            let answer = exchange(server, &format!("{head}{line}")).await;
            assert!(answer.starts_with("HTTP/1.1 400 "), "{line}: {answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_announced_as_too_large_is_refused_unread() {
    let head = "POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 1048577\r\nExpect: 100-continue\r\n\r\n";
    let answer = with_server(HOUR, async |server| exchange(server, head).await).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("body-too-large"), "{answer}");
}

#[tokio::test]
async fn a_request_under_way_is_answered_before_the_server_ends() {
    let answer = with_server(HOUR, async |server| {
        let slow = exchange(server, "GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (answer, ()) = futures::join!(slow, async {
            server.entered.notified().await;
            server.stop.notify_one();
            server.proceed.notify_one();
        });
        answer
    })
    .await;
    assert!(answer.contains("done"), "{answer}");
}

#[tokio::test]
async fn a_connection_that_does_not_end_in_time_is_cut_off() {
    let mut stream = with_server(Duration::ZERO, async |server| {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        server.entered.notified().await;
        stream
    })
    .await;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap_or_default();
    assert!(answer.is_empty());
}

#[tokio::test]
async fn a_client_that_says_nothing_is_dropped() {
    let (near, _far) = tokio::io::duplex(64);
    let error = Prompt::new(near, Duration::ZERO).read_u8().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let (near, mut far) = tokio::io::duplex(64);
    let mut prompt = Prompt::new(near, HOUR);
    far.write_all(b"x").await.unwrap();
    assert_eq!(prompt.read_u8().await.unwrap(), b'x');
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answer_is_dropped() {
    let patience = Patience { stall: Duration::from_millis(100), grace: HOUR, headers: HOUR };
    let taken = with_patience(patience, async |server| {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        // The server ends only once the connection has.
        stream
    })
    .await;
    let (mut taken, mut answer) = (taken, Vec::new());
    taken.read_to_end(&mut answer).await.unwrap_or_default();
    assert!(answer.len() < 64 << 20, "{}", answer.len());
}

#[tokio::test]
async fn a_write_that_goes_on_is_not_hurried() {
    let (near, mut far) = tokio::io::duplex(1);
    let mut near = Stall::new(near, HOUR);
    let (wrote, read) = futures::join!(near.write_all(b"abc"), async {
        let mut read = [0; 3];
        far.read_exact(&mut read).await.unwrap();
        read
    });
    wrote.unwrap();
    assert_eq!(&read, b"abc");
    let (near, _far) = tokio::io::duplex(1);
    let error = Stall::new(near, Duration::ZERO).write_all(b"abc").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
