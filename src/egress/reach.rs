//! Whether a request can have left: no byte of it does before there is a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use tower::{Layer, Service};

tokio::task_local! {
    /// Who wants to know about the request that is being made.
    static ASKED: Reached;
}

/// Says whether a request has got a connection.
///
/// A client keeps no connections, so that it makes one for every request, and does so in the request's own
/// task.
#[derive(Debug, Clone, Default)]
pub struct Reached(Arc<AtomicBool>);

impl Reached {
    /// Makes a request, and takes note of its connection.
    pub async fn note<F: Future>(&self, request: F) -> F::Output {
        ASKED.scope(self.clone(), request).await
    }

    /// Whether there was a connection.
    pub fn is_so(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A layer that notes connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noting;

/// A connector whose connections are noted.
#[derive(Debug, Clone)]
pub(super) struct Noted<S>(S);

impl<S> Layer<S> for Noting {
    type Service = Noted<S>;

    fn layer(&self, connector: S) -> Noted<S> {
        Noted(connector)
    }
}

impl<S, R> Service<R> for Noted<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, target: R) -> Self::Future {
        let connecting = self.0.call(target);
        Box::pin(async move {
            let connection = connecting.await?;
            // Where nobody has asked there is nobody to tell.
            ASKED.try_with(|asked| asked.0.store(true, Ordering::Release)).unwrap_or_default();
            Ok(connection)
        })
    }
}
