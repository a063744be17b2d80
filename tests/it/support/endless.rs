//! A provider whose answers have no end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// How much a client gets that reads on and on.
const PATIENCE: usize = 1 << 30;

/// An answer: a head and a beginning, then the same again and again.
#[derive(Debug, Clone)]
pub(crate) struct EndlessAnswer {
    /// Status line and headers, without the blank line.
    pub(crate) head: String,
    /// What comes first.
    pub(crate) first: Vec<u8>,
    /// What never stops.
    pub(crate) again: Vec<u8>,
}

/// The provider.
pub(crate) struct Endless {
    address: SocketAddr,
    sent: Arc<AtomicUsize>,
}

impl Endless {
    /// Starts it; it lives as long as the test's runtime.
    #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
    pub(crate) async fn start(answer: EndlessAnswer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::new(AtomicUsize::new(0));
        let (counter, answer) = (Arc::clone(&sent), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, Arc::clone(&answer), Arc::clone(&counter)));
            }
        });
        Self { address, sent }
    }

    /// `127.0.0.1:port`.
    pub(crate) fn host(&self) -> String {
        self.address.to_string()
    }

    /// The base address for an agent's model.
    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// How many bytes of bodies were taken, by the client or by the sockets between.
    pub(crate) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

async fn serve(
    mut client: TcpStream,
    answer: Arc<EndlessAnswer>,
    counter: Arc<AtomicUsize>,
) -> std::io::Result<()> {
    // The requests of these tests fit into one read.
    if client.read(&mut vec![0; 256 * 1024]).await? == 0 {
        return Ok(());
    }
    client.write_all(format!("{}\r\nconnection: close\r\n\r\n", answer.head).as_bytes()).await?;
    client.write_all(&answer.first).await?;
    // Many small pieces are written at once: they are many all the same to who reads them.
    let block = answer.again.repeat((64 * 1024 / answer.again.len()).max(1));
    let mut sent = 0;
    while sent < PATIENCE {
        client.write_all(&block).await?;
        sent += block.len();
        counter.fetch_add(block.len(), Ordering::Relaxed);
    }
    Ok(())
}
