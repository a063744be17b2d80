//! Sets up the log from the settings.

mod queue;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::with_default;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{LogFormat, Telemetry};
use crate::domain::redaction::RedactionChannel;
use crate::engine::redaction::Redactor;
use queue::Queue;

pub use queue::{LogEnd, lines_dropped};

/// Sends the log of this process to standard error; standard output belongs to the commands. What the
/// redactor takes does not get there, whoever says it and at whatever level.
///
/// # Errors
/// When a log is set up already, or there can be no thread that writes it.
pub fn install(settings: &Telemetry, redactor: Redactor) -> Result<LogEnd, LogError> {
    let queue = Queue::to(io::stderr())?;
    let writer = Scrubbing::to(queue.clone(), redactor, settings.format);
    match settings.format {
        LogFormat::Text => text(settings, writer).try_init()?,
        LogFormat::Json => json(settings, writer).try_init()?,
    }
    log_panics();
    Ok(LogEnd(queue))
}

/// There can be no log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// There is one.
    #[error(transparent)]
    Twice(#[from] TryInitError),
    /// It cannot be written.
    #[error("the log cannot be written: {0}")]
    Thread(#[from] io::Error),
}

/// What a text is in the log, in both of its formats, by the code that writes it.
pub fn line(redactor: Redactor, text: &str) -> String {
    let redactor = Arc::new(redactor);
    let written = |format| {
        let settings = Telemetry { filter: "error".to_owned(), format };
        let lines = Lines::default();
        let inner = lines.clone();
        let inner = move || inner.clone();
        let writer = Scrubbing { inner, redactor: Arc::clone(&redactor), format };
        let log = || tracing::error!(sample = text, debugged = ?text, "{text}");
        match format {
            LogFormat::Text => with_default(self::text(&settings, writer), log),
            LogFormat::Json => with_default(json(&settings, writer), log),
        }
        lines.read()
    };
    [LogFormat::Text, LogFormat::Json].map(written).concat()
}

/// Lines that stay in memory.
#[derive(Debug, Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn read(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A panic is told like everything else: what it says can hold what must not get out.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tell_panic(&place, text.unwrap_or_default());
    }));
}

fn tell_panic(place: &str, text: &str) {
    tracing::error!(place, text, "panicked");
}

/// A writer that redacts. A line of the log is one write.
#[derive(Debug, Clone)]
struct Scrubbing<W> {
    inner: W,
    redactor: Arc<Redactor>,
    format: LogFormat,
}

impl<W> Scrubbing<W> {
    fn to(inner: W, redactor: Redactor, format: LogFormat) -> Self {
        Self { inner, redactor: Arc::new(redactor), format }
    }
}

impl<'w, W: MakeWriter<'w>> MakeWriter<'w> for Scrubbing<W> {
    type Writer = Scrubbing<W::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        let inner = self.inner.make_writer();
        Scrubbing { inner, redactor: Arc::clone(&self.redactor), format: self.format }
    }
}

impl<W: io::Write> io::Write for Scrubbing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        let shown = match self.format {
            LogFormat::Text => self.redactor.text(RedactionChannel::Log, &line),
            LogFormat::Json => self.redactor.json_text(RedactionChannel::Log, &line),
        };
        self.inner.write_all(shown.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn text<W>(settings: &Telemetry, writer: W) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let log = fmt().with_env_filter(filter(settings)).with_writer(writer).with_ansi(false);
    log.finish().with(filter_fn(is_discreet))
}

fn json<W>(settings: &Telemetry, writer: W) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let log = fmt().with_env_filter(filter(settings)).with_writer(writer).json();
    log.finish().with(filter_fn(is_discreet))
}

/// The filter; the settings hold only filters that parse.
fn filter(settings: &Telemetry) -> EnvFilter {
    EnvFilter::new(&settings.filter)
}

/// Whether somebody who logs keeps to themselves what others sent. The MCP library repeats messages whole, at
/// every level, so that no filter of an operator may let it speak.
fn is_discreet(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    target != "rmcp" && !target.starts_with("rmcp::")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::redaction::Redaction;

    fn tell_a_secret() {
        tracing::warn!(detail = "key hunter22\"hunter22", "a call failed");
        tell_panic("src/here.rs:1:1", "it was sk-abcdefghijklmnopqrstuvwx");
    }

    fn claims_and_tells_a_secret() {
        tracing::info!(run = "run_1", "claimed");
        tracing::debug!("hidden");
        tell_a_secret();
    }

    fn repeats_messages() {
        repeats_one();
        repeats_another();
        tracing::error!(target: "rmcpx", "of somebody else");
    }

    fn repeats_one() {
        tracing::error!(target: "rmcp", "one message");
    }

    fn repeats_another() {
        tracing::error!(target: "rmcp::service", "another message");
    }

    fn logged(format: LogFormat) -> String {
        logged_of(format, "info", claims_and_tells_a_secret)
    }

    fn logged_of(format: LogFormat, filter: &str, log: fn()) -> String {
        let settings = Telemetry { filter: filter.to_owned(), format };
        let buffer = Lines::default();
        let writer = buffer.clone();
        let redactor = Redaction::new([1; 32], &[], ["hunter22\"hunter22"]).of_server();
        let make = Scrubbing::to(move || writer.clone(), redactor, format);
        match format {
            LogFormat::Text => with_default(text(&settings, make), log),
            LogFormat::Json => with_default(json(&settings, make), log),
        }
        buffer.read()
    }

    #[test]
    fn a_text_line_reads_without_colour() {
        let shown = logged(LogFormat::Text);
        assert!(shown.contains("claimed run=\"run_1\""), "{shown}");
        assert!(!shown.contains('\u{1b}') && !shown.contains("hidden"), "{shown}");
        assert!(shown.contains("key [redacted:secret:") && !shown.contains("hunter22"), "{shown}");
        assert_panic_is_told(&shown);
    }

    /// What a panic says is scrubbed like the rest, also of what nobody has told us is a secret.
    fn assert_panic_is_told(shown: &str) {
        assert!(shown.contains("src/here.rs:1:1"), "{shown}");
        assert!(shown.contains("it was [redacted:secret:provider_key]"), "{shown}");
    }

    #[test]
    fn no_filter_lets_those_speak_who_repeat_messages() {
        for filter in ["trace", "info,rmcp=trace", "rmcp::service=trace,rmcpx=info"] {
            for format in [LogFormat::Text, LogFormat::Json] {
                let shown = logged_of(format, filter, repeats_messages);
                assert!(!shown.contains("one message") && !shown.contains("another message"));
                assert!(shown.contains("of somebody else"), "{filter}: {shown}");
            }
        }
    }

    #[test]
    fn a_json_line_is_one_object() {
        let shown = logged(LogFormat::Json);
        assert!(shown.contains("key [redacted:secret:") && !shown.contains("hunter22"), "{shown}");
        assert_panic_is_told(&shown);
        let first = shown.lines().next().unwrap();
        let value: serde_json::Value = serde_json::from_str(first).unwrap();
        assert_eq!(value["fields"]["message"], "claimed");
        assert_eq!(value["fields"]["run"], "run_1");
    }
}
