//! Sends spans to a collector: in batches, from a queue that holds nobody up. What finds no room in it, and
//! what the collector does not take in time, is dropped and counted.

use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Array, Context, KeyValue, Value};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, Span, SpanData, SpanProcessor};
use prost::Message as _;
use secrecy::ExposeSecret as _;
use tokio::sync::mpsc;
use url::Url;

use super::{StartError, Surroundings, redaction};
use crate::config::{Collector, Config};
use crate::domain::redaction::RedactionChannel;
use crate::egress::{Clients, EgressPolicy, deliver};
use crate::engine::redaction::Redactor;
use crate::engine::tasks::Tasks;
use crate::instruments::{Metrics, Tracer};
use crate::store::{Store, keys};

/// The most spans that wait for the collector.
const QUEUE: usize = 4_096;
/// The most spans that are sent at once.
const BATCH: usize = 512;
/// How long the first span of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// How long the collector has to take a batch.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long what is left at the end is waited for.
const FAREWELL: Duration = Duration::from_secs(3);

/// What sends spans, if anything does.
#[derive(Debug, Default)]
pub(super) struct Export(Option<Tasks>);

impl Export {
    /// Sends what is left, unless that takes too long.
    pub(super) async fn end(&self) {
        let Some(tasks) = &self.0 else { return };
        tasks.stop();
        if tokio::time::timeout(FAREWELL, tasks.ended()).await.is_err() {
            tracing::warn!("the collector of traces did not take the last ones");
            tasks.abort();
        }
    }
}

/// Starts sending spans where the settings name a collector, and says to whom they are handed.
pub(super) async fn start(
    config: &Config,
    store: &Store,
    around: &Surroundings,
) -> Result<(Surroundings, Export), StartError> {
    let Some(collector) = &config.instruments.collector else {
        return Ok((around.clone(), Export::default()));
    };
    let secret = keys::shared_secret(store, "redaction", around.ids.secret()?).await?;
    let resource = Resource::builder_empty()
        .with_service_name(collector.service.clone())
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    let tasks = Tasks::default();
    let (queue, spans) = mpsc::channel(QUEUE);
    let metrics = around.instruments.metrics.clone();
    let exporter = Exporter {
        spans,
        to: Destination::of(collector)?,
        packer: Arc::new(Packer {
            resource: ResourceAttributesWithSchema::from(&resource),
            redactor: redaction(config, secret).of_server(),
        }),
        tasks: tasks.clone(),
        metrics: metrics.clone(),
        is_failing: false,
    };
    tasks.spawn(exporter.run());
    let provider = SdkTracerProvider::builder()
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
        .with_resource(resource)
        .with_span_processor(Queue { queue, metrics })
        .build();
    let mut around = around.clone();
    let tracer = provider.tracer("agentling");
    around.instruments.tracer = Tracer::new(tracer, config.instruments.captures_content);
    Ok((around, Export(Some(tasks))))
}

/// Takes spans that have ended, as long as there is room.
#[derive(Debug)]
struct Queue {
    queue: mpsc::Sender<SpanData>,
    metrics: Metrics,
}

impl SpanProcessor for Queue {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() && self.queue.try_send(span).is_err() {
            self.metrics.spans_dropped(1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Where spans are sent.
struct Destination {
    clients: Clients,
    url: Url,
    headers: HeaderMap,
}

impl Destination {
    /// The operator vouches for the collector, and for nothing else here.
    fn of(collector: &Collector) -> Result<Self, StartError> {
        let url = collector.url.clone();
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let policy = EgressPolicy::new([format!("{host}:{port}")], false)?;
        let mut headers = HeaderMap::new();
        for (name, value) in &collector.headers {
            // The settings hold only what fits.
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(value.expose_secret());
            if let (Ok(name), Ok(mut value)) = (name, value) {
                value.set_sensitive(true);
                headers.append(name, value);
            }
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        Ok(Self { clients: Clients::new(Arc::new(policy))?, url, headers })
    }
}

/// Sends what is in the queue.
struct Exporter {
    spans: mpsc::Receiver<SpanData>,
    to: Destination,
    packer: Arc<Packer>,
    tasks: Tasks,
    metrics: Metrics,
    is_failing: bool,
}

impl Exporter {
    async fn run(mut self) {
        while let Some(batch) = self.batch().await {
            let n_spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            let sent = tokio::select! {
                sent = self.send(batch) => sent,
                () = self.tasks.aborting() => return,
            };
            if sent.is_err() {
                self.metrics.spans_dropped(n_spans);
            }
            self.tell(sent);
        }
    }

    /// The spans that are next; `None` at the end.
    async fn batch(&mut self) -> Option<Vec<SpanData>> {
        let mut batch = Vec::new();
        tokio::select! {
            n_taken = self.spans.recv_many(&mut batch, BATCH) => if n_taken == 0 { return None },
            () = self.tasks.stopping() => self.spans.close(),
        }
        if !self.tasks.is_stopping() && batch.len() < BATCH {
            tokio::select! {
                () = tokio::time::sleep(LINGER) => {}
                () = self.tasks.stopping() => {}
            }
        }
        while batch.len() < BATCH
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
        }
        (!batch.is_empty()).then_some(batch)
    }

    async fn send(&self, batch: Vec<SpanData>) -> Result<(), String> {
        let packer = Arc::clone(&self.packer);
        let packed = self.tasks.compute(move || packer.pack(batch)).await;
        let body = packed.ok_or_else(|| "they could not be packed".to_owned())?;
        let Destination { clients, url, headers } = &self.to;
        let sent = tokio::time::timeout(TIMEOUT, deliver(clients, url, headers.clone(), body));
        match sent.await {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err("there is no answer in time".to_owned()),
        }
    }

    /// Says once that the collector has stopped taking spans, and once that it takes them again.
    fn tell(&mut self, sent: Result<(), String>) {
        if std::mem::replace(&mut self.is_failing, sent.is_err()) == sent.is_err() {
            return;
        }
        if let Err(error) = sent {
            warn_of(&error);
        } else {
            tracing::info!("the collector takes traces again");
        }
    }
}

fn warn_of(error: &str) {
    tracing::warn!(error, "the collector takes no traces; they are dropped");
}

/// Makes spans what is sent of them.
struct Packer {
    resource: ResourceAttributesWithSchema,
    redactor: Redactor,
}

impl Packer {
    /// A batch as a request. Whatever somebody has put into a span is scrubbed here, like the log.
    fn pack(&self, mut batch: Vec<SpanData>) -> Vec<u8> {
        for span in &mut batch {
            span.name = self.shown(&span.name).into();
            for attribute in &mut span.attributes {
                self.scrub(&mut attribute.value);
            }
        }
        let resource_spans = group_spans_by_resource_and_scope(batch, &self.resource);
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    fn scrub(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.shown(text.as_str()).into(),
            Value::Array(Array::String(texts)) => {
                for text in texts {
                    *text = self.shown(text.as_str()).into();
                }
            }
            _ => {}
        }
    }

    fn shown(&self, text: &str) -> String {
        self.redactor.json_text(RedactionChannel::Trace, text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::Kind;

    #[test]
    fn what_finds_no_room_is_dropped_and_counted_and_what_is_secret_is_not_packed() {
        let (queue, mut spans) = mpsc::channel(2);
        let metrics = Metrics::default();
        let processor = Queue { queue, metrics: metrics.clone() };
        let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
        let tracer = Tracer::new(provider.tracer("t"), false);
        for n in 0..5 {
            let span = tracer.span(Kind::Internal, || format!("sk-abcdefghijklmnopqrstuvwx {n}"));
            span.set("told", "Bearer abcdefghijklmnopqrstuvwxyz012345");
            span.set("kept", "as it is");
        }
        assert!(metrics.text().contains("agentling_spans_dropped_total 3"));
        let batch = vec![spans.try_recv().unwrap(), spans.try_recv().unwrap()];
        let resource = ResourceAttributesWithSchema::from(&Resource::builder_empty().build());
        let packed = Packer { resource, redactor: Redactor::of_shapes() }.pack(batch);
        let packed = String::from_utf8_lossy(&packed);
        assert!(packed.contains("as it is") && packed.contains("[redacted:"), "{packed}");
        assert!(!packed.contains("abcdefghijkl"), "{packed}");
    }
}
