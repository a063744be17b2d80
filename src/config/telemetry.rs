//! What is logged and how.

use tracing_subscriber::EnvFilter;

use super::Setting;
use super::reader::Reader;

pub(super) const LOG: Setting = Setting::plain(
    "AGENTLING_LOG",
    "what is logged: a level, or a filter such as `info,agentling=debug`",
)
.or("info,sqlx=warn,sqlx::query=error");
pub(super) const LOG_FORMAT: Setting =
    Setting::plain("AGENTLING_LOG_FORMAT", "how it is logged: `text` or `json`").or("text");

/// The log.
#[derive(Debug, Clone)]
pub struct Telemetry {
    /// A filter that is known to parse.
    pub filter: String,
    /// The shape of a line.
    pub format: LogFormat,
}

/// The shape of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Telemetry {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let filter = reader.required(LOG, filter);
        let format = reader.required(LOG_FORMAT, format);
        Some(Self { filter: filter?, format: format? })
    }
}

fn filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("is not a log filter: {error}")),
    }
}

fn format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("must be text or json, not {text:?}")),
    }
}
