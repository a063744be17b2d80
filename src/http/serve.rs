//! Serves the router on a listener until the server stops.

use std::future::Future;

use axum::Router;
use tokio::net::TcpListener;

/// Serves until `stop` resolves, then finishes the requests that are under way.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}
