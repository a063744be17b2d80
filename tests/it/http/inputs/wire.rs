//! Requests that no client would send, as bytes.

use crate::support::{TestApp, send_raw, stored};

const KEEP: &str =
    "POST /v1/agents HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

/// Sends bytes; answers the status line and the rest of the answer, in lower case.
async fn sent(app: &TestApp, request: &str) -> (String, String) {
    let answer = send_raw(app, request.as_bytes()).await.to_lowercase();
    let (status, rest) = answer.split_once("\r\n").unwrap_or((answer.as_str(), ""));
    (status.to_owned(), rest.to_owned())
}

#[tokio::test]
async fn b11_a_body_that_stalls_is_given_up() {
    let app = TestApp::with(&[("AGENTLING_BODY_READ_SECS", "1")]).await;
    let before = stored(&app.db).await;
    let (status, rest) = sent(&app, &format!("{KEEP}Content-Length: 100\r\n\r\n{{")).await;
    assert_eq!(status, "http/1.1 408 request timeout");
    assert!(rest.contains("\"/problems/request-timeout\""), "{rest}");
    assert!(rest.contains("connection: close\r\n"), "{rest}");
    assert_eq!(stored(&app.db).await, before);
}

#[tokio::test]
async fn b16_b18_requests_that_no_path_takes_are_turned_away() {
    let app = TestApp::start().await;
    let before = stored(&app.db).await;
    let end = "Host: localhost\r\nConnection: close\r\n";
    for (id, request, status, slug) in [
        (
            "B-16 TRACE",
            format!("TRACE /v1/agents HTTP/1.1\r\n{end}\r\n"),
            405,
            "method-not-allowed",
        ),
        ("B-16 CONNECT", format!("CONNECT a:443 HTTP/1.1\r\n{end}\r\n"), 405, "method-not-allowed"),
        ("B-16 FOO", format!("FOO /v1/agents HTTP/1.1\r\n{end}\r\n"), 405, "method-not-allowed"),
        (
            "B-16 PATCH",
            format!("PATCH /v1/agents HTTP/1.1\r\n{end}\r\n"),
            405,
            "method-not-allowed",
        ),
        (
            "B-18 9 KiB",
            format!("GET /{} HTTP/1.1\r\n{end}\r\n", "a".repeat(9 * 1024)),
            414,
            "uri-too-long",
        ),
        // So much the parser refuses by itself, in fewer words.
        ("B-18 100 KiB", format!("GET /{} HTTP/1.1\r\n{end}\r\n", "a".repeat(100 * 1024)), 414, ""),
        (
            "B-18 33 KiB",
            format!("GET /v1/agents HTTP/1.1\r\n{end}X: {}\r\n\r\n", "a".repeat(33 * 1024)),
            431,
            "headers-too-large",
        ),
        (
            "B-18 101 headers",
            format!("GET /v1/agents HTTP/1.1\r\n{end}{}\r\n", "X: y\r\n".repeat(101)),
            431,
            "headers-too-large",
        ),
    ] {
        let (line, rest) = sent(&app, &request).await;
        assert!(line.starts_with(&format!("http/1.1 {status} ")), "{id}: {line}");
        let is_told = slug.is_empty() || rest.contains(&format!("\"/problems/{slug}\""));
        assert!(is_told, "{id}: {rest}");
        assert_eq!(rest.contains("allow: "), status == 405, "{id}: {rest}");
    }
    assert_eq!(stored(&app.db).await, before);
}

#[tokio::test]
async fn b19_a_request_that_can_be_cut_in_two_ways_is_refused_and_its_connection_closed() {
    let app = TestApp::start().await;
    let before = stored(&app.db).await;
    let agent = r#"{"name":"b","model":{"provider":"scripted","name":"m"}}"#;
    let length = agent.len();
    let chunks = format!("{length:x}\r\n{agent}\r\n0\r\n\r\n");
    for (id, request) in [
        (
            "both lengths",
            format!("{KEEP}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"),
        ),
        (
            "both lengths, the other way round",
            format!("{KEEP}Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{chunks}"),
        ),
        (
            "two lengths",
            format!("{KEEP}Content-Length: {length}\r\nContent-Length: 1\r\n\r\n{agent}"),
        ),
        (
            "one length twice",
            format!("{KEEP}Content-Length: {length}\r\nContent-Length: {length}\r\n\r\n{agent}"),
        ),
        ("a folded line", format!("{KEEP}X: a\r\n b\r\nContent-Length: {length}\r\n\r\n{agent}")),
        (
            "line feeds alone",
            format!("{}Content-Length: {length}\n\n{agent}", KEEP.replace("\r\n", "\n")),
        ),
        ("one line feed alone", format!("{KEEP}Content-Length: {length}\n\r\n{agent}")),
        ("an unknown coding", format!("{KEEP}Transfer-Encoding: gzip\r\n\r\n{agent}")),
    ] {
        // It returns, so the connection was closed, though nothing asked for that.
        let (line, _) = sent(&app, &request).await;
        assert_eq!(line, "http/1.1 400 bad request", "{id}");
    }
    assert_eq!(stored(&app.db).await, before);
    let twice = format!(
        "{KEEP}Content-Length: 2\r\n\r\n{{}}{KEEP}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
    );
    let answers = send_raw(&app, twice.as_bytes()).await;
    let statuses: Vec<&str> = answers
        .lines()
        .filter_map(|line| line.split("HTTP/1.1 ").nth(1))
        .map(|status| status.split(' ').next().unwrap())
        .collect();
    assert_eq!(statuses, ["422", "201"], "{answers}");
}

#[tokio::test]
async fn b95_a_body_that_is_too_large_is_never_asked_for() {
    let app = TestApp::start().await;
    let before = stored(&app.db).await;
    let request = format!("{KEEP}Expect: 100-continue\r\nContent-Length: 999999999\r\n\r\n");
    let (line, rest) = sent(&app, &request).await;
    assert_eq!(line, "http/1.1 413 payload too large");
    assert!(rest.contains("\"/problems/body-too-large\""), "{rest}");
    assert_eq!(stored(&app.db).await, before);
}
