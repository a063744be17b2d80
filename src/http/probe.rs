//! Asks the server on this machine whether it is ready: what a health check runs.

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long the server may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The status of `GET /readyz`.
///
/// # Errors
/// When the server cannot be reached, is silent for five seconds or does not speak HTTP.
pub async fn ask_readiness(address: SocketAddr) -> std::io::Result<u16> {
    let answer = tokio::time::timeout(PATIENCE, ask(address)).await;
    answer.unwrap_or_else(|_| Err(Error::from(ErrorKind::TimedOut)))
}

async fn ask(address: SocketAddr) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).await?;
    let status = std::str::from_utf8(&head).ok().and_then(|head| head.strip_prefix("HTTP/1.1 "));
    status.and_then(|status| status.parse().ok()).ok_or_else(|| Error::from(ErrorKind::InvalidData))
}
