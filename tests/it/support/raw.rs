//! Requests that no client would send.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::TestApp;

/// Sends bytes as they are and reads until the server closes the connection.
pub(crate) async fn send_raw(app: &TestApp, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(app.running.address).await.unwrap();
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}
