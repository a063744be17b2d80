//! A second look at where a connection has come out, before a byte of a request is sent over it.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::{Connection, HttpInfo};
use tower::{Layer, Service};

use super::policy::{EgressDenied, EgressPolicy, EgressRule};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Drops connections to addresses that are closed. Addresses are judged before they are connected to, so
/// that this finds nothing; it holds should a later version of the connector find addresses elsewhere.
#[derive(Debug, Clone)]
pub(super) struct PeerCheck(pub(super) Arc<EgressPolicy>);

/// A connector whose connections are looked at.
#[derive(Debug, Clone)]
pub(super) struct Checked<S> {
    connector: S,
    policy: Arc<EgressPolicy>,
}

impl<S> Layer<S> for PeerCheck {
    type Service = Checked<S>;

    fn layer(&self, connector: S) -> Checked<S> {
        Checked { connector, policy: Arc::clone(&self.0) }
    }
}

impl<S, R> Service<R> for Checked<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Connection + Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, target: R) -> Self::Future {
        let connecting = self.connector.call(target);
        let policy = Arc::clone(&self.policy);
        Box::pin(async move {
            let connection = connecting.await?;
            judge(&policy, &connection)?;
            Ok(connection)
        })
    }
}

/// A connection that does not say where it leads is refused as well.
pub(super) fn judge(
    policy: &EgressPolicy,
    connection: &impl Connection,
) -> Result<(), EgressDenied> {
    let mut facts = http::Extensions::new();
    connection.connected().get_extras(&mut facts);
    let peer = facts.get::<HttpInfo>().map(|info| info.remote_addr().ip());
    policy.vet([peer.ok_or(EgressRule::Address)?])
}
