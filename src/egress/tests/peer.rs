//! Connections as they have come about.

use std::net::SocketAddr;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpInfo};
use tokio::net::TcpListener;
use tower::{Layer as _, Service as _};

use crate::egress::peer::{PeerCheck, judge};
use crate::egress::{EgressDenied, EgressPolicy};

/// A connection that says nothing of itself.
struct Mute;

impl Connection for Mute {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

#[test]
fn a_connection_that_does_not_say_where_it_leads_is_refused() {
    assert!(judge(&EgressPolicy::default(), &Mute).is_err());
}

/// A connector that goes where it is told, with an error that all have.
#[derive(Clone)]
struct Anywhere(HttpConnector);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl tower::Service<http::Uri> for Anywhere {
    type Response = <HttpConnector as tower::Service<http::Uri>>::Response;
    type Error = BoxError;
    type Future = futures::future::BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(
        &mut self,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move { connecting.await.map_err(Into::into) })
    }
}

#[tokio::test]
async fn a_connection_that_has_come_out_at_a_closed_address_is_dropped_unused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let uri: http::Uri = format!("http://{address}/").parse().unwrap();
    // The control: the connector does get there, and the connection says so.
    let stream = Anywhere(HttpConnector::new()).call(uri.clone()).await.unwrap();
    let mut facts = http::Extensions::new();
    stream.connected().get_extras(&mut facts);
    assert_eq!(facts.get::<HttpInfo>().unwrap().remote_addr(), address);
    let check = PeerCheck(EgressPolicy::default().into());
    let mut checked = check.layer(Anywhere(HttpConnector::new()));
    let error = checked.call(uri).await.err().unwrap();
    assert!(error.downcast_ref::<EgressDenied>().is_some(), "{error}");
}
