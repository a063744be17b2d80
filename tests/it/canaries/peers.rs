//! Servers that give back the credential that they were sent, in every place that an answer has.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The answers that hold the credential, by path.
pub(super) const ECHOES: [&str; 9] =
    ["body", "failure", "status-line", "headers", "moved", "cut", "big", "garbage", "gzip"];

/// Starts one; answers its port.
#[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
pub(super) async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    port
}

async fn serve(mut socket: TcpStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split([' ', '?']).nth(1).unwrap_or_default().trim_start_matches('/');
    let sent = head.lines().find_map(|line| line.strip_prefix("authorization: "));
    let answer = answer(path, sent.unwrap_or_default());
    // Whoever hangs up has read enough.
    drop(socket.write_all(&answer).await);
    drop(socket.shutdown().await);
}

fn answer(path: &str, sent: &str) -> Vec<u8> {
    let with = |status: &str, headers: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}")
    };
    let json = format!("{{\"error\": \"refused: {sent}\"}}");
    let text = match path {
        "body" => with("200 OK", "content-type: application/json\r\n", &json),
        "failure" => with("500 Internal Server Error", "content-type: text/plain\r\n", sent),
        "status-line" => with(&format!("500 {sent}"), "", ""),
        "headers" => with("200 OK", &format!("x-sent: {sent}\r\ncontent-type: {sent}\r\n"), "ok"),
        "moved" => {
            let key = sent.trim_start_matches("Bearer ");
            with("302 Found", &format!("location: http://127.0.0.1/?key={key}\r\n"), "")
        }
        "cut" => format!("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n{sent}"),
        "big" => with("200 OK", "", &sent.repeat((5 << 20) / sent.len().max(1))),
        "gzip" => with("200 OK", "content-encoding: gzip\r\n", sent),
        _ => sent.to_owned(),
    };
    text.into_bytes()
}

/// A server whose certificate nobody vouches for; answers its port.
pub(super) fn self_signed() -> u16 {
    const PEM: &[u8] = include_bytes!("../../data/self_signed.pem");
    let certificate = CertificateDer::from_pem_slice(PEM).unwrap();
    let key = PrivateKeyDer::from_pem_slice(PEM).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let (config, listener) =
        (Arc::new(config), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, socket.unwrap());
            let mut seen = [0; 4096];
            if stream.read(&mut seen).is_ok_and(|n| n > 0) {
                // Whoever gets here was trusted with a request.
                drop(stream.write_all(&seen));
            }
        }
    });
    port
}
