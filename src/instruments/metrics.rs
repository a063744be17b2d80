//! Counts, gauges and durations, as Prometheus reads them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use metrics::{Key, KeyName, Label, Level, Metadata, Recorder as _, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};

use crate::domain::model::{ModelErrorKind, Provider, Usage};
use crate::domain::outcome::OutcomeKind;
use crate::domain::run::RunStatus;

/// What is counted.
const COUNTERS: [(&str, &str); 13] = [
    (REQUESTS, "Requests by route, method and class of the status."),
    (RUNS_ACCEPTED, "Runs that were accepted here."),
    (RUNS_ENDED, "Runs that a worker of this server brought to an end, by how they ended."),
    (MODEL_CALLS, "Attempts at calls of models, by outcome."),
    (MODEL_RETRIES, "Attempts at calls of models that were not the first of their turn."),
    (MODEL_TOKENS, "Tokens by type; those read from a cache are also among the input."),
    (TOOL_CALLS, "Calls of tools by kind of tool and outcome."),
    (
        LEASES_LOST,
        "Runs that were taken from this server, or that it gave up, while it was at them.",
    ),
    (WRITES_FENCED, "Writes that another worker's claim has kept out."),
    (TAKEOVERS, "Runs that were claimed after a worker had lost them."),
    (DELIVERIES, "Attempts at deliveries of webhooks, by outcome."),
    (LINES_DROPPED, "Lines of the log of this process that nobody read in time."),
    (SPANS_DROPPED, "Spans that the collector of traces did not take in time."),
];
/// What is measured from time to time.
const GAUGES: [(&str, &str); 6] = [
    (RUNS_ACTIVE, "Runs that this server is at."),
    (RUN_SLOTS, "Runs that this server may be at at once."),
    (RUNS_WAITING, "Runs of all tenants that a worker may claim and none has."),
    (LONGEST_WAIT, "How long the one of them has waited that waits for longest."),
    (CONNECTIONS, "Connections to the database by pool and state."),
    (
        OLDEST_TRANSACTION,
        "How long a transaction has been open, anybody's, that keeps dead rows in the database.",
    ),
];
/// What is measured each time, and told by how often it was how long.
const HISTOGRAMS: [(&str, &str); 5] = [
    (CLAIM_SECONDS, "How long runs could be claimed until a worker did."),
    (REQUEST_SECONDS, "How long requests took until the head of their answer."),
    (MODEL_SECONDS, "How long attempts at calls of models took."),
    (FIRST_BYTE_SECONDS, "How long models took until the first byte of their answer."),
    (TOOL_SECONDS, "How long calls of tools took."),
];

const REQUESTS: &str = "agentling_http_requests_total";
const REQUEST_SECONDS: &str = "agentling_http_request_duration_seconds";
const RUNS_ACCEPTED: &str = "agentling_runs_accepted_total";
const RUNS_ENDED: &str = "agentling_runs_ended_total";
const RUNS_ACTIVE: &str = "agentling_runs_active";
const RUN_SLOTS: &str = "agentling_run_slots";
const MODEL_CALLS: &str = "agentling_model_calls_total";
const MODEL_SECONDS: &str = "agentling_model_call_duration_seconds";
const FIRST_BYTE_SECONDS: &str = "agentling_model_time_to_first_byte_seconds";
const MODEL_RETRIES: &str = "agentling_model_retries_total";
const MODEL_TOKENS: &str = "agentling_model_tokens_total";
const TOOL_CALLS: &str = "agentling_tool_calls_total";
const TOOL_SECONDS: &str = "agentling_tool_call_duration_seconds";
const LEASES_LOST: &str = "agentling_leases_lost_total";
const WRITES_FENCED: &str = "agentling_fenced_writes_total";
const TAKEOVERS: &str = "agentling_run_takeovers_total";
const DELIVERIES: &str = "agentling_webhook_deliveries_total";
const RUNS_WAITING: &str = "agentling_runs_waiting";
const LONGEST_WAIT: &str = "agentling_runs_longest_wait_seconds";
const CLAIM_SECONDS: &str = "agentling_claim_delay_seconds";
const OLDEST_TRANSACTION: &str = "agentling_database_oldest_transaction_seconds";
const CONNECTIONS: &str = "agentling_database_connections";
const LINES_DROPPED: &str = "agentling_log_lines_dropped_total";
const SPANS_DROPPED: &str = "agentling_spans_dropped_total";

/// Upper bounds of durations, in seconds: from a look-up in the database to a patient model.
const BUCKETS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];

const METADATA: Metadata<'static> = Metadata::new("agentling", Level::INFO, None);

/// The metrics of a server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<PrometheusRecorder>);

/// A request that was answered.
#[derive(Debug, Clone, Copy)]
pub struct Requested<'a> {
    /// The method, where it is one of those that there are.
    pub method: &'static str,
    /// The template of the route; callers have no part in it.
    pub route: &'a str,
    /// The status.
    pub status: u16,
    /// How long it took.
    pub took: Duration,
}

impl Default for Metrics {
    fn default() -> Self {
        // The bounds are refused only where there are none.
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).unwrap_or_default();
        let recorder = builder.build_recorder();
        let told = |(name, help)| (KeyName::from_const_str(name), SharedString::const_str(help));
        for (name, help) in COUNTERS.map(told) {
            recorder.describe_counter(name, None, help);
        }
        for (name, help) in GAUGES.map(told) {
            recorder.describe_gauge(name, None, help);
        }
        for (name, help) in HISTOGRAMS.map(told) {
            recorder.describe_histogram(name, None, help);
        }
        let metrics = Self(Arc::new(recorder));
        // What somebody is woken up for is there before it happens for the first time.
        for name in [RUNS_ACCEPTED, LEASES_LOST, WRITES_FENCED, TAKEOVERS, SPANS_DROPPED] {
            metrics.count(name, [], 0);
        }
        metrics
    }
}

/// The metrics by name, as a Markdown table.
pub fn metrics_markdown() -> String {
    let mut table = String::from("| metric | kind | meaning |\n|---|---|---|\n");
    let kinds: [(&str, &[(&str, &str)]); 3] =
        [("counter", &COUNTERS), ("gauge", &GAUGES), ("histogram", &HISTOGRAMS)];
    for (kind, metrics) in kinds {
        for (name, meaning) in metrics {
            // Writing to a String cannot fail.
            writeln!(table, "| `{name}` | {kind} | {meaning} |").unwrap_or_default();
        }
    }
    table
}

impl Metrics {
    /// All of them, in the text format of Prometheus.
    pub fn text(&self) -> String {
        self.0.handle().render()
    }

    /// Sorts what was observed into its buckets. Until then every observation is kept, so this has to be
    /// called now and then even where nobody reads the metrics.
    pub fn tidy_up(&self) {
        self.0.handle().run_upkeep();
    }

    /// A request was answered.
    pub fn requested(&self, Requested { method, route, status, took }: Requested<'_>) {
        let class = match status {
            100..200 => "1xx",
            200..300 => "2xx",
            300..400 => "3xx",
            400..500 => "4xx",
            _ => "5xx",
        };
        let route = || Label::new("route", route.to_owned());
        let labels = [fixed("method", method), route(), fixed("status_class", class)];
        self.count(REQUESTS, labels, 1);
        self.observe(REQUEST_SECONDS, [fixed("method", method), route()], took);
    }

    /// A run was accepted.
    pub fn run_accepted(&self) {
        self.count(RUNS_ACCEPTED, [], 1);
    }

    /// A run has ended here.
    pub fn run_ended(&self, status: RunStatus) {
        self.count(RUNS_ENDED, [fixed("outcome", status.label())], 1);
    }

    /// How many runs this server is at, and how many it may be at.
    pub fn runs_active(&self, n_active: usize, n_slots: usize) {
        self.gauge(RUNS_ACTIVE, [], number(n_active));
        self.gauge(RUN_SLOTS, [], number(n_slots));
    }

    /// How many runs wait for a worker, and how long the one does that waits for longest.
    pub fn runs_waiting(&self, n_runs: usize, longest: Duration) {
        self.gauge(RUNS_WAITING, [], number(n_runs));
        self.gauge(LONGEST_WAIT, [], longest.as_secs_f64());
    }

    /// A run was claimed that had waited for so long.
    pub fn claimed(&self, waited: Duration) {
        self.observe(CLAIM_SECONDS, [], waited);
    }

    /// A model was asked once, and failed in a way or did not.
    pub fn model_called(
        &self,
        provider: Provider,
        failed: Option<ModelErrorKind>,
        (took, first_byte): (Duration, Option<Duration>),
    ) {
        let provider = || fixed("provider", provider.label());
        let outcome = failed.map_or("success", ModelErrorKind::label);
        self.count(MODEL_CALLS, [provider(), fixed("outcome", outcome)], 1);
        self.observe(MODEL_SECONDS, [provider()], took);
        if let Some(first_byte) = first_byte {
            self.observe(FIRST_BYTE_SECONDS, [provider()], first_byte);
        }
    }

    /// A model is asked again.
    pub fn model_retried(&self, provider: Provider) {
        self.count(MODEL_RETRIES, [fixed("provider", provider.label())], 1);
    }

    /// A model has read and written tokens.
    pub fn tokens(&self, provider: Provider, usage: Usage) {
        let types =
            [("input", usage.input), ("output", usage.output), ("cache_read", usage.cache_read)];
        for (kind, n_tokens) in types {
            let labels = [fixed("provider", provider.label()), fixed("type", kind)];
            self.count(MODEL_TOKENS, labels, n_tokens);
        }
    }

    /// A tool was called.
    pub fn tool_called(&self, kind: &'static str, outcome: OutcomeKind, took: Duration) {
        self.count(TOOL_CALLS, [fixed("kind", kind), fixed("outcome", outcome.label())], 1);
        self.observe(TOOL_SECONDS, [fixed("kind", kind)], took);
    }

    /// A run was lost while this server was at it.
    pub fn lease_lost(&self) {
        self.count(LEASES_LOST, [], 1);
    }

    /// A write was kept out.
    pub fn write_fenced(&self) {
        self.count(WRITES_FENCED, [], 1);
    }

    /// A run was taken over from a worker that had lost it.
    pub fn taken_over(&self) {
        self.count(TAKEOVERS, [], 1);
    }

    /// A delivery was attempted.
    pub fn delivered(&self, is_taken: bool) {
        let outcome = if is_taken { "success" } else { "failure" };
        self.count(DELIVERIES, [fixed("outcome", outcome)], 1);
    }

    /// How many connections a pool has in use and idle.
    pub fn connections(&self, pool: &'static str, (n_used, n_idle): (usize, usize)) {
        for (state, n) in [("used", n_used), ("idle", n_idle)] {
            let labels = [fixed("pool", pool), fixed("state", state)];
            self.gauge(CONNECTIONS, labels, number(n));
        }
    }

    /// How long the oldest transaction has been open that keeps dead rows.
    pub fn oldest_transaction(&self, age: Duration) {
        self.gauge(OLDEST_TRANSACTION, [], age.as_secs_f64());
    }

    /// Spans were dropped.
    pub fn spans_dropped(&self, n_dropped: u64) {
        self.count(SPANS_DROPPED, [], n_dropped);
    }

    /// How many lines of the log this process has dropped until now.
    pub fn log_lines_dropped(&self, n_dropped: u64) {
        self.0.register_counter(&key(LINES_DROPPED, []), &METADATA).absolute(n_dropped);
    }

    fn count<const N: usize>(&self, name: &'static str, labels: [Label; N], n: u64) {
        self.0.register_counter(&key(name, labels), &METADATA).increment(n);
    }

    fn gauge<const N: usize>(&self, name: &'static str, labels: [Label; N], value: f64) {
        self.0.register_gauge(&key(name, labels), &METADATA).set(value);
    }

    fn observe<const N: usize>(&self, name: &'static str, labels: [Label; N], took: Duration) {
        self.0.register_histogram(&key(name, labels), &METADATA).record(took.as_secs_f64());
    }
}

fn number(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}

fn key<const N: usize>(name: &'static str, labels: [Label; N]) -> Key {
    Key::from_parts(name, Vec::from(labels))
}

const fn fixed(name: &'static str, value: &'static str) -> Label {
    Label::from_static_parts(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told_with_its_labels_and_what_is_not_yet_with_zero() {
        let metrics = Metrics::default();
        metrics.run_ended(RunStatus::Failed);
        let took = Duration::from_millis(40);
        metrics.requested(Requested { method: "GET", route: "/v1/runs/{id}", status: 404, took });
        metrics.tidy_up();
        let text = metrics.text();
        for line in [
            "agentling_runs_ended_total{outcome=\"failed\"} 1",
            "agentling_leases_lost_total 0",
            "agentling_spans_dropped_total 0",
            "agentling_http_requests_total{method=\"GET\",route=\"/v1/runs/{id}\",status_class=\"4xx\"} 1",
            "agentling_http_request_duration_seconds_bucket{method=\"GET\",route=\"/v1/runs/{id}\",le=\"0.025\"} 0",
            "agentling_http_request_duration_seconds_bucket{method=\"GET\",route=\"/v1/runs/{id}\",le=\"0.05\"} 1",
            "agentling_http_request_duration_seconds_count{method=\"GET\",route=\"/v1/runs/{id}\"} 1",
            "# TYPE agentling_http_request_duration_seconds histogram",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn servers_of_one_process_do_not_count_together() {
        let (one, other) = (Metrics::default(), Metrics::default());
        one.write_fenced();
        assert!(one.text().contains("agentling_fenced_writes_total 1"));
        assert!(other.text().contains("agentling_fenced_writes_total 0"));
    }
}
