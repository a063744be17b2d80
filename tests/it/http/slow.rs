//! Clients that are slow, and requests that two servers could read differently.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{TestApp, send_raw, stored};

const BODY: &str = r#"{"name":"a","model":{"provider":"scripted","name":"m"}}"#;

/// Sends bytes, sends nothing more, and reads until the server hangs up.
async fn send_and_stall(app: &TestApp, request: &str) -> String {
    let mut stream = TcpStream::connect(app.running.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap_or_default();
    String::from_utf8_lossy(&answer).into_owned()
}

fn post(headers: &str, body: &str) -> String {
    format!(
        "POST /v1/agents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         {headers}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn b11_a_body_that_stops_is_answered_and_the_connection_closed() {
    let app = TestApp::with(&[("AGENTLING_BODY_IDLE_MS", "100")]).await;
    let before = stored(&app.db).await;
    for request in [
        post("Content-Length: 500", BODY),
        post("Transfer-Encoding: chunked", "5\r\n{\"nam"),
        post("Transfer-Encoding: chunked", ""),
    ] {
        let answer = send_and_stall(&app, &request).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("/problems/request-timeout"), "{answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    }
    assert_eq!(stored(&app.db).await, before);
}

#[tokio::test]
async fn a_body_that_never_stops_coming_is_cut_off_in_the_end() {
    let app = TestApp::with(&[("AGENTLING_BODY_READ_SECS", "1")]).await;
    let mut stream = TcpStream::connect(app.running.address).await.unwrap();
    let (mut read, mut write) = stream.split();
    write.write_all(post("Content-Length: 1000000", "").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let drip = async {
        // Spaces that go on as long as anybody takes them; the limit of the body is far away.
        let mut tick = tokio::time::interval(std::time::Duration::from_millis(5));
        while write.write_all(b" ").await.is_ok() {
            tick.tick().await;
        }
    };
    tokio::select! {
        () = drip => {}
        read = read.read_to_end(&mut answer) => drop(read),
    }
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn headers_that_stop_end_the_connection() {
    let app = TestApp::with(&[("AGENTLING_HEADER_READ_MS", "500")]).await;
    for start in ["", "G", "GET / HT", "GET /healthz HTTP/1.1\r\nHost: loc", "PRI * HTTP/2.0\r\n"] {
        let answer = send_and_stall(&app, start).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{start}: {answer}");
    }
    // A connection that waits for its next request waits no longer either.
    let answer = send_and_stall(&app, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn b18_what_is_too_long_is_refused() {
    let app = TestApp::start().await;
    let close = "Host: localhost\r\nConnection: close\r\n";
    let many = "x: v\r\n".repeat(99);
    for (request, status) in [
        (format!("GET /{} HTTP/1.1\r\n{close}\r\n", "a".repeat(100 * 1024)), "414"),
        (format!("GET /{} HTTP/1.1\r\n{close}\r\n", "a".repeat(10 * 1024)), "414"),
        (format!("GET / HTTP/1.1\r\n{close}x: {}\r\n\r\n", "v".repeat(33 * 1024)), "431"),
        (format!("GET / HTTP/1.1\r\n{close}{many}\r\n"), "431"),
    ] {
        let answer = send_raw(&app, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {answer}");
    }
}

#[tokio::test]
async fn b19_what_two_servers_could_read_differently_is_refused_and_its_connection_closed() {
    let app = TestApp::start().await;
    let before = stored(&app.db).await;
    let length = format!("Content-Length: {}", BODY.len());
    let chunked = format!("{:x}\r\n{BODY}\r\n0\r\n\r\n", BODY.len());
    for request in [
        post(&format!("{length}\r\nTransfer-Encoding: chunked"), &chunked),
        post(&format!("Transfer-Encoding: chunked\r\n{length}"), &chunked),
        post("transfer-encoding: chunked\r\nx: y\r\ncontent-LENGTH: 0", &chunked),
        post(&format!("{length}\r\nContent-Length: 3"), BODY),
        post(&format!("Content-Length: {0}, {0}", BODY.len()), BODY),
        post("Content-Length: +55", BODY),
        post("Content-Length: -1", BODY),
        post("Transfer-Encoding: chunked, identity", &chunked),
        post("Transfer-Encoding: gzip", BODY),
        post(&format!("{length}\r\nx: a\r\n folded"), BODY),
        post(&format!("{length}\r\nx : a"), BODY),
        post(&length, BODY).replace("\r\n", "\n"),
        post(&format!("{length}\r\nx: a\ny: b"), BODY),
        post(&length, BODY).replacen("\r\n\r\n", "\r\n\n", 1),
    ] {
        let answer = send_raw(&app, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{request}: {answer}");
    }
    assert_eq!(stored(&app.db).await, before);
    // Also where a request came before it, and where it comes byte by byte.
    let good = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let bad = post(&format!("Transfer-Encoding: chunked\r\n{length}"), &chunked);
    let made = post("Transfer-Encoding: chunked", &chunked);
    let answer = send_raw(&app, format!("{good}{made}{good}{bad}").as_bytes()).await;
    let statuses: Vec<&str> =
        answer.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect();
    assert_eq!(statuses, ["200", "201", "200", "400"]);
    let mut stream = TcpStream::connect(app.running.address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in good.bytes().chain(bad.bytes()) {
        if stream.write_all(&[byte]).await.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap_or_default();
    assert!(String::from_utf8_lossy(&answer).matches("HTTP/1.1 2").count() <= 1);
}

#[tokio::test]
async fn b95_a_body_that_is_announced_as_too_large_is_refused_unread() {
    let app = TestApp::start().await;
    let request = post("Content-Length: 1048577\r\nExpect: 100-continue", "");
    let answer = send_raw(&app, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(!answer.contains("100 Continue"), "{answer}");
}

#[tokio::test]
async fn methods_that_nobody_has_are_refused() {
    let app = TestApp::start().await;
    for line in ["TRACE / HTTP/1.1", "CONNECT localhost:1 HTTP/1.1", "FOO /healthz HTTP/1.1"] {
        let request = format!("{line}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = send_raw(&app, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{line}: {answer}");
    }
}
