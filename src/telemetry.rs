//! Sets up the log from the settings.

use std::io;

use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, fmt};

use crate::config::{LogFormat, Telemetry};

/// Sends the log of this process to standard error; standard output belongs to the commands.
///
/// # Errors
/// When a log is set up already.
pub fn install(settings: &Telemetry) -> Result<(), TryInitError> {
    match settings.format {
        LogFormat::Text => text(settings, io::stderr).try_init(),
        LogFormat::Json => json(settings, io::stderr).try_init(),
    }
}

fn text<W>(settings: &Telemetry, writer: W) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    fmt().with_env_filter(filter(settings)).with_writer(writer).with_ansi(false).finish()
}

fn json<W>(settings: &Telemetry, writer: W) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    fmt().with_env_filter(filter(settings)).with_writer(writer).json().finish()
}

/// The filter; the settings hold only filters that parse.
fn filter(settings: &Telemetry) -> EnvFilter {
    EnvFilter::new(&settings.filter)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat) -> String {
        let settings = Telemetry { filter: "info".to_owned(), format };
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let log = || {
            tracing::info!(run = "run_1", "claimed");
            tracing::debug!("hidden");
        };
        let make = move || writer.clone();
        match format {
            LogFormat::Text => tracing::subscriber::with_default(text(&settings, make), log),
            LogFormat::Json => tracing::subscriber::with_default(json(&settings, make), log),
        }
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_text_line_reads_without_colour() {
        let shown = logged(LogFormat::Text);
        assert!(shown.contains("claimed run=\"run_1\""), "{shown}");
        assert!(!shown.contains('\u{1b}') && !shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn a_json_line_is_one_object() {
        let shown = logged(LogFormat::Json);
        let value: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(value["fields"]["message"], "claimed");
        assert_eq!(value["fields"]["run"], "run_1");
    }
}
