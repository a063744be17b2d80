//! The accept loop: connections, their bounds, and how they end.
//!
//! `axum::serve` has no say over header counts, header time or HTTP/2 streams, so the connections are
//! served here.

mod prompt;
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
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::limits;
use prompt::Prompt;

/// How long to wait before the next accept when the process is out of something, such as files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves connections until `stop` resolves, then lets those that are busy end, for at most `grace`.
///
/// # Errors
/// When the listener itself fails for good.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()>,
    grace: Duration,
) -> io::Result<()> {
    let builder = builder();
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                let service = TowerToHyperService::new(router.clone());
                let stream = TokioIo::new(Prompt::new(stream, limits::HEADER_READ));
                let connection = builder.serve_connection(stream, service).into_owned();
                let connection = graceful.watcher().watch(connection);
                connections.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(error, "a connection ended early");
                    }
                });
            }
            Err(error) => survive(error).await?,
        }
    }
    drop(listener);
    // Dropping what is left aborts it: a subscriber of a stream comes back elsewhere with its cursor.
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections were cut off");
    }
    Ok(())
}

/// The bounds of a connection. Headers between our limit and these get our answer; beyond them the
/// parser gives up by itself.
fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADER_READ)
        .max_headers(4 * limits::HEADER_COUNT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::HTTP2_STREAMS)
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
