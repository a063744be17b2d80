//! Typed settings, read once at start; every mistake is reported in one go.

mod auth;
mod database;
mod egress;
mod engine;
mod error;
mod http;
mod instruments;
mod mcp;
mod oidc;
mod prices;
mod providers;
mod rates;
mod reader;
mod redaction;
mod rendering;
mod retention;
mod secrets;
mod setting;
mod source;
mod streams;
mod telemetry;
#[cfg(test)]
mod tests;
mod webhooks;

pub use auth::Auth;
pub use database::Database;
pub use egress::{Egress, HostPort, Subnet};
pub use engine::{Engine, Role};
pub use error::ConfigError;
pub use http::Http;
pub use instruments::{Collector, Instruments};
pub use mcp::{Mcp, McpProgram};
pub use oidc::{Oidc, OidcIssuer};
pub use providers::{AwsKeys, Providers};
pub use rates::{Rate, Rates};
pub use redaction::Redaction;
pub use rendering::Rendering;
pub use retention::Retention;
pub use secrets::SecretKeys;
pub use setting::{Setting, settings_help, settings_markdown};
pub use source::Source;
pub use streams::Streams;
pub use telemetry::{LogFormat, Telemetry};
pub use webhooks::Webhooks;

use std::sync::LazyLock;

use crate::domain::budget::Prices;
use reader::Reader;

/// Every setting there is, in the order in which they are documented.
pub static SETTINGS: LazyLock<Vec<Setting>> =
    LazyLock::new(|| [BEFORE_KEYS, &providers::key_settings(), AFTER_KEYS].concat());

const BEFORE_KEYS: &[Setting] = &[
    database::URL,
    database::SYSTEM_URL,
    database::DATA_DIR,
    database::PG_BIN,
    database::CONNECTIONS,
    http::LISTEN,
    http::PUBLIC_URL,
    http::BODY_LIMIT,
    http::MEMORY_LIMIT,
    http::BODY_READ,
    http::BODY_IDLE,
    http::HEADER_READ,
    streams::PER_TENANT,
    streams::PER_SERVER,
    streams::LIFETIME,
    streams::STALL,
    streams::KEEP_ALIVE,
    auth::API_KEY,
    auth::KEY_PEPPER,
    oidc::ISSUERS,
    oidc::AUDIENCE,
    oidc::TENANT_CLAIM,
    oidc::SCOPE_CLAIM,
    oidc::SCOPES,
    oidc::TIMEOUT,
    rates::KEY,
    rates::TENANT,
    rates::RUNS,
    secrets::KEYS,
    secrets::FILE,
    redaction::FILE,
    engine::CONCURRENCY,
    engine::POLL,
    engine::LEASE,
    engine::HEARTBEAT,
    engine::SWEEP,
    engine::DRAIN,
    webhooks::TIMEOUT,
    webhooks::RETRY,
    retention::THREADS,
    retention::LEDGER,
    retention::DELIVERIES,
    retention::ITEM_VERSIONS,
    retention::USAGE,
    engine::ROLE,
    engine::PER_TENANT,
    engine::OLD_TRANSACTION,
    engine::MAX_DEPTH,
    engine::NOTIFY,
    engine::LAG_LIMIT,
    engine::WAIT_LIMIT,
];

const AFTER_KEYS: &[Setting] = &[
    providers::AWS_ACCESS_KEY_ID,
    providers::AWS_SECRET_ACCESS_KEY,
    providers::AWS_SESSION_TOKEN,
    providers::AWS_REGION,
    providers::AWS_DEFAULT_REGION,
    providers::ORIGINS,
    providers::OPENAI_ORIGINS,
    prices::PRICES,
    rendering::FRAMING_TAGS,
    egress::ALLOW,
    egress::ALLOW_HTTP,
    mcp::STDIO,
    egress::PORTS,
    egress::DENY,
    egress::DNS,
    egress::ANY_MODEL,
    telemetry::LOG,
    telemetry::LOG_FORMAT,
    instruments::LISTEN,
    instruments::ENDPOINT,
    instruments::TRACES_ENDPOINT,
    instruments::HEADERS,
    instruments::SERVICE_NAME,
    instruments::CONTENT,
];

/// The settings of one process, each within its bounds.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the server listens and how much a request may carry.
    pub http: Http,
    /// How many streams may be open, and for how long.
    pub streams: Streams,
    /// Where the data is.
    pub database: Database,
    /// How runs are worked on.
    pub engine: Engine,
    /// How histories are framed.
    pub rendering: Rendering,
    /// Where tools may connect.
    pub egress: Egress,
    /// Keys and origins of model providers.
    pub providers: Providers,
    /// What models cost.
    pub prices: Prices,
    /// The operator's own credentials.
    pub auth: Auth,
    /// What is redacted for everyone.
    pub redaction: Redaction,
    /// What is logged and how.
    pub telemetry: Telemetry,
    /// What operators see of the server at work.
    pub instruments: Instruments,
    /// How endpoints are told of events.
    pub webhooks: Webhooks,
    /// How long what is stored is kept.
    pub retention: Retention,
    /// The operator's MCP servers.
    pub mcp: Mcp,
    /// What secrets of tenants are sealed with.
    pub secret_keys: SecretKeys,
    /// Whose tokens are taken beside API keys.
    pub oidc: Oidc,
    /// How fast callers may ask.
    pub rates: Rates,
}

impl Config {
    /// Reads all sections.
    ///
    /// # Errors
    /// Every mistake found, so that an operator corrects them in one round.
    pub fn read(source: &Source) -> Result<Self, Vec<ConfigError>> {
        let mut reader = Reader::new(source);
        reader.refuse_unknown(&SETTINGS);
        let sections = (
            Http::read(&mut reader),
            Streams::read(&mut reader),
            Database::read(&mut reader),
            Engine::read(&mut reader),
            Rendering::read(&mut reader),
            Egress::read(&mut reader),
            Providers::read(&mut reader),
            Auth::read(&mut reader),
            Redaction::read(&mut reader),
            Telemetry::read(&mut reader),
            (
                Instruments::read(&mut reader),
                Webhooks::read(&mut reader),
                Retention::read(&mut reader),
                SecretKeys::read(&mut reader),
                Mcp::read(&mut reader),
                Oidc::read(&mut reader),
                Rates::read(&mut reader),
            ),
        );
        let prices = prices::read(&mut reader);
        reader.finish(Self::assemble(sections, prices))
    }

    fn assemble(sections: Sections, prices: Prices) -> Option<Self> {
        let (
            http,
            streams,
            database,
            engine,
            rendering,
            egress,
            providers,
            auth,
            redaction,
            telemetry,
            rest,
        ) = sections;
        let (instruments, webhooks, retention, secret_keys, mcp, oidc, rates) = rest;
        let (secret_keys, instruments) = (secret_keys?, instruments?);
        let collecting = instruments.secrets();
        let (database, providers) = (database?, providers?);
        let sealing = secret_keys.iter().map(|(_, key)| key);
        let own = auth.api_key.iter().chain(&auth.key_pepper).chain(sealing);
        let databases = database.url.iter().chain(&database.system_url);
        let redaction =
            redaction?.and(providers.secrets().chain(own).chain(&collecting), databases);
        Some(Self {
            http: http?,
            streams: streams?,
            database,
            engine: engine?,
            rendering: rendering?,
            egress: egress?,
            providers,
            prices,
            auth,
            redaction,
            telemetry: telemetry?,
            instruments,
            webhooks: webhooks?,
            retention: retention?,
            mcp: mcp?,
            secret_keys,
            oidc: oidc?,
            rates: rates?,
        })
    }
}

/// What was read of each section; a section with a mistake is absent.
type Sections = (
    Option<Http>,
    Option<Streams>,
    Option<Database>,
    Option<Engine>,
    Option<Rendering>,
    Option<Egress>,
    Option<Providers>,
    Auth,
    Option<Redaction>,
    Option<Telemetry>,
    (
        Option<Instruments>,
        Option<Webhooks>,
        Option<Retention>,
        Option<SecretKeys>,
        Option<Mcp>,
        Option<Oidc>,
        Option<Rates>,
    ),
);
