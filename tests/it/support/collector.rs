//! A collector of traces: it keeps what it is sent, or does not even answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A span as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Traced {
    /// Its name.
    pub(crate) name: String,
    /// 1 internal, 2 server, 3 client.
    pub(crate) kind: i32,
    /// Its trace, its id and its parent, in hexadecimal digits.
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    /// Whether it says that it failed.
    pub(crate) is_error: bool,
    /// What it says, as text.
    pub(crate) says: BTreeMap<String, String>,
}

impl Traced {
    fn of(span: Span) -> Self {
        let hex =
            |bytes: &[u8]| bytes.iter().fold(String::new(), |hex, b| hex + &format!("{b:02x}"));
        let text = |value: Option<AnyValue>| match value {
            Some(AnyValue::StringValue(text)) => text,
            Some(AnyValue::IntValue(number)) => number.to_string(),
            other => format!("{other:?}"),
        };
        let says = span
            .attributes
            .into_iter()
            .map(|said| (said.key, text(said.value.and_then(|value| value.value))));
        Self {
            kind: span.kind,
            trace: hex(&span.trace_id),
            id: hex(&span.span_id),
            parent: hex(&span.parent_span_id),
            is_error: span.status.is_some_and(|status| status.code == 2),
            says: says.collect(),
            name: span.name,
        }
    }

    /// What it says under a key, or nothing.
    pub(crate) fn says(&self, key: &str) -> &str {
        self.says.get(key).map_or("", String::as_str)
    }
}

#[derive(Debug, Default)]
struct Kept {
    bodies: Vec<Vec<u8>>,
    headers: Vec<HeaderMap>,
}

/// The collector.
#[derive(Clone)]
pub(crate) struct Collector {
    /// Where it is.
    pub(crate) origin: String,
    kept: Arc<Mutex<Kept>>,
    n_requests: Arc<watch::Sender<usize>>,
    stalls: bool,
}

impl Collector {
    /// One that takes everything.
    pub(crate) async fn start() -> Self {
        Self::listening(false).await
    }

    /// One that takes requests and never answers.
    pub(crate) async fn stalling() -> Self {
        Self::listening(true).await
    }

    #[expect(clippy::disallowed_methods, reason = "the test is over before its collector")]
    async fn listening(stalls: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let n_requests = Arc::new(watch::Sender::new(0));
        let collector = Self { origin, kept: Arc::default(), n_requests, stalls };
        let router = Router::new().route("/v1/traces", axum::routing::post(take));
        let router = router.with_state(collector.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        collector
    }

    /// Everything that arrived.
    pub(crate) fn spans(&self) -> Vec<Traced> {
        let bodies = self.kept.lock().unwrap().bodies.clone();
        let decoded = bodies.iter().map(|body| ExportTraceServiceRequest::decode(&**body).unwrap());
        let resources = decoded.flat_map(|request| request.resource_spans);
        let scopes = resources.flat_map(|resource| resource.scope_spans);
        scopes.flat_map(|scope| scope.spans).map(Traced::of).collect()
    }

    /// Everything that arrived, as text: of the wire only the lengths and the numbers are none.
    pub(crate) fn text(&self) -> String {
        let kept = self.kept.lock().unwrap();
        kept.bodies.iter().map(|body| String::from_utf8_lossy(body).into_owned()).collect()
    }

    /// The values of a header of everything that arrived.
    pub(crate) fn header(&self, name: &str) -> Vec<String> {
        let kept = self.kept.lock().unwrap();
        let values = kept.headers.iter().filter_map(|headers| headers.get(name));
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    /// Waits until it has been asked.
    pub(crate) async fn asked(&self) {
        let mut n_requests = self.n_requests.subscribe();
        let asked = tokio::time::timeout(Duration::from_mins(1), n_requests.wait_for(|n| *n > 0));
        assert!(asked.await.is_ok(), "nothing came");
    }

    /// Waits for spans, and answers all that there are.
    pub(crate) async fn until(
        &self,
        enough: impl Fn(&[Traced]) -> bool + Send + Sync,
    ) -> Vec<Traced> {
        let mut changes = self.n_requests.subscribe();
        let waited = changes.wait_for(|_| enough(&self.spans()));
        let waited = tokio::time::timeout(Duration::from_mins(1), waited).await;
        assert!(waited.is_ok(), "only these came: {:#?}", self.spans());
        self.spans()
    }

    /// Waits for a span of this name.
    pub(crate) async fn named(&self, name: &str) -> Traced {
        let spans = self.until(|spans| spans.iter().any(|span| span.name == name)).await;
        spans.into_iter().find(|span| span.name == name).unwrap()
    }
}

async fn take(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) {
    if !collector.stalls {
        let mut kept = collector.kept.lock().unwrap();
        kept.bodies.push(body.to_vec());
        kept.headers.push(headers);
    }
    collector.n_requests.send_modify(|n| *n += 1);
    if collector.stalls {
        std::future::pending::<()>().await;
    }
}
