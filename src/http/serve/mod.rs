//! The accept loop: connections, their bounds, and how they end.
//!
//! `axum::serve` has no say over header counts, header time or HTTP/2 streams, so the connections are
//! served here.

mod prompt;
mod scan;
mod stall;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::limits;
use prompt::Prompt;
use stall::Stall;

/// How long to wait before the next accept when the process is out of something, such as files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long connections are waited for.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For those that are busy when the server ends.
    pub grace: Duration,
    /// For a client that takes nothing of what it is sent.
    pub stall: Duration,
    /// For the headers of a request.
    pub headers: Duration,
}

/// Serves connections until `stop` resolves, then lets those that are busy end, but not for ever.
///
/// # Errors
/// When the listener itself fails for good.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    patience: Patience,
) -> io::Result<()> {
    let mut connections = Connections::new(router, patience);
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => connections.admit(stream),
                Err(error) => survive(error).await?,
            },
        }
    }
    drop(listener);
    connections.end(patience.grace).await;
    Ok(())
}

/// The connections that are open.
struct Connections {
    router: Router,
    builder: Builder<TokioExecutor>,
    graceful: GracefulShutdown,
    open: JoinSet<()>,
    patience: Patience,
}

impl Connections {
    fn new(router: Router, patience: Patience) -> Self {
        let (graceful, open) = (GracefulShutdown::new(), JoinSet::new());
        Self { router, builder: builder(patience.headers), graceful, open, patience }
    }

    fn admit(&mut self, stream: TcpStream) {
        // What has ended is forgotten here, so that the set holds no more than was open at once.
        while self.open.try_join_next().is_some() {}
        let service = TowerToHyperService::new(self.router.clone());
        let stream = Stall::new(stream, self.patience.stall);
        let stream = TokioIo::new(Prompt::new(stream, self.patience.headers));
        let connection = self.builder.serve_connection(stream, service).into_owned();
        let connection = self.graceful.watch(connection);
        // How a connection ends is its client's business.
        self.open.spawn(async move { connection.await.unwrap_or_default() });
    }

    /// Lets what is under way end. What is left then is dropped, which aborts it: a subscriber of a
    /// stream comes back elsewhere with its cursor.
    async fn end(self, grace: Duration) {
        if tokio::time::timeout(grace, self.graceful.shutdown()).await.is_err() {
            tracing::warn!(connections = self.open.len(), "connections were cut off");
        }
    }
}

/// The bounds of a connection. Headers between our limit and these get our answer; beyond them the
/// parser gives up by itself. An HTTP/2 client that is silent is asked whether it is there: one that has
/// stopped amid its headers cannot say so, and is dropped.
fn builder(headers: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(headers)
        .max_headers(4 * limits::HEADER_COUNT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(headers)
        .keep_alive_timeout(headers)
        .max_concurrent_streams(limits::HTTP2_STREAMS)
        .max_pending_accept_reset_streams(limits::HTTP2_EARLY_RESETS)
        .max_local_error_reset_streams(limits::HTTP2_ERRORS)
        .max_header_list_size(limits::HTTP2_HEADER_BYTES);
    builder
}

/// Goes on after an accept that failed for its connection only, or for want of something that may
/// come back.
async fn survive(error: io::Error) -> io::Result<()> {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput};
    match error.kind() {
        ConnectionAborted | ConnectionRefused | ConnectionReset => Ok(()),
        InvalidInput => Err(error),
        _ => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            Ok(())
        }
    }
}
