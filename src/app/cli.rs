//! The commands.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::demo::{self, DemoModel};
use super::keys::KeysCommand;
use super::secrets::SecretsCommand;
use super::{Database, StartError, keys, run_server, secrets};
use crate::clock::{Ids as _, System};
use crate::config::{Config, Source, settings_help};
use crate::domain::model::Provider;
use crate::domain::redaction::RedactionChannel;
use crate::engine::redaction::Redactor;
use crate::store::{Store, StoreError};
use crate::{http, telemetry};

/// The agent server that can prove what the model saw and what the agent did.
#[derive(Debug, Parser)]
#[command(name = "agentling", version, after_help = settings_help())]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API and work on runs.
    Serve(ServeArgs),
    /// Serve, create a demo agent with a real tool, run it, and say what to try next.
    Demo(DemoArgs),
    /// Bring the database schema up to date.
    Migrate(MigrateArgs),
    /// Write the OpenAPI document to standard output.
    Openapi,
    /// Create, list and revoke API keys.
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Replace the keys that secrets of tenants are sealed with.
    #[command(subcommand)]
    Secrets(SecretsCommand),
    /// Say whether the server on this machine would accept a run; for health checks.
    Health,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Leave the schema as it is; for servers whose database role may not change it.
    #[arg(long)]
    no_migrate: bool,
}

#[derive(Debug, Args)]
struct MigrateArgs {
    /// Turn row-level security on or off; without this it stays as it is.
    #[arg(long, value_name = "on|off", value_parser = switch)]
    row_level_security: Option<bool>,
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("on or off".to_owned()),
    }
}

#[derive(Debug, Args)]
struct DemoArgs {
    /// Who answers: `scripted`, or `openai` for every server that speaks Chat Completions.
    #[arg(long, default_value = "scripted", value_parser = provider)]
    provider: Provider,
    /// Where the provider is reached, for example `http://127.0.0.1:11434/v1`.
    #[arg(long)]
    base_url: Option<String>,
    /// The model's name.
    #[arg(long, default_value = "demo")]
    model: String,
}

fn provider(text: &str) -> Result<Provider, String> {
    text.parse().map_err(|error: crate::domain::label::UnknownLabel| error.to_string())
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            // There is nobody left to tell when standard error is closed.
            drop(writeln!(std::io::stderr(), "agentling: {message}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), String> {
    if matches!(command, Command::Openapi) {
        let document = http::openapi_document();
        let text = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?;
        return print(&format!("{text}\n"));
    }
    let config = Config::read(&Source::process()).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(|error| format!("\n  {error}")).collect();
        // Which values are secrets is not known yet, but what credentials look like is.
        said(&Redactor::of_shapes(), &format!("the settings do not fit:{}", lines.concat()))
    })?;
    // Numbers of placeholders in the log hold for this process: it has no database yet.
    let secret = System::new().secret().map_err(|error| error.to_string())?;
    let redaction = super::redaction(&config, secret);
    let log = telemetry::install(&config.telemetry, redaction.of_server())
        .map_err(|error| error.to_string())?;
    let done = perform(command, &config);
    log.wait();
    done.map_err(|message| said(&redaction.of_server(), &message))
}

/// What an operator is told, which is scrubbed like the log.
fn said(redactor: &Redactor, message: &str) -> String {
    redactor.text(RedactionChannel::Log, message).into_owned()
}

fn perform(command: Command, config: &Config) -> Result<(), String> {
    match command {
        Command::Openapi => Ok(()),
        Command::Health => health(config),
        Command::Serve(args) => on_database(config, Database::start, async |store| {
            if !args.no_migrate {
                migrate(&store).await?;
            }
            run_server(config, store).await
        }),
        Command::Demo(args) => {
            let model =
                DemoModel { provider: args.provider, base_url: args.base_url, name: args.model };
            on_database(config, Database::start, async |store| {
                migrate(&store).await?;
                demo::run(config, store, model).await
            })
        }
        Command::Migrate(args) => on_database(config, Database::attach, async |store| {
            store.migrate_with(args.row_level_security).await?;
            Ok(())
        }),
        Command::Keys(command) => on_database(config, Database::attach, async |store| {
            migrate(&store).await?;
            let said = keys::run(config, &store.as_system(), command).await?;
            print(&said).map_err(|error| StartError::Io(std::io::Error::other(error)))
        }),
        Command::Secrets(command) => on_database(config, Database::attach, async |store| {
            migrate(&store).await?;
            let said = secrets::run(config, &store.as_system(), command).await?;
            print(&said).map_err(|error| StartError::Io(std::io::Error::other(error)))
        }),
    }
}

/// Brings the schema up to date, unless the roles are those that may not.
async fn migrate(store: &Store) -> Result<(), StoreError> {
    if store.is_walled() { Ok(()) } else { store.migrate().await }
}

/// How long connections may take to close at the end.
const CLOSE: Duration = Duration::from_secs(1);

/// Runs a command over a database that lives as long as the command.
fn on_database(
    config: &Config,
    database: impl FnOnce(&Config) -> Result<Database, StartError>,
    command: impl AsyncFnOnce(Store) -> Result<(), StartError>,
) -> Result<(), String> {
    let mut database = database(config).map_err(|error| chain(&error))?;
    let done = runtime()?.block_on(async {
        let store = database.open().await?;
        tokio::select! {
            done = command(store.clone()) => {
                // Long over after an orderly end; after another one nobody waits for it.
                drop(tokio::time::timeout(CLOSE, store.close()).await);
                done
            }
            // Nothing works without it, and whoever started us starts us again.
            () = database.gone() => Err(StartError::DatabaseGone),
        }
    });
    let stopped = database.stop();
    done.and(stopped).map_err(|error| chain(&error))
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime cannot start: {error}"))
}

fn health(config: &Config) -> Result<(), String> {
    let answer = runtime()?.block_on(http::ask_readiness(config.http.local_address()));
    match answer {
        Ok(200) => Ok(()),
        Ok(status) => Err(format!("the server answers /readyz with {status}")),
        Err(error) => Err(format!("the server does not answer: {error}")),
    }
}

fn print(text: &str) -> Result<(), String> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

/// An error with what caused it, for the operator.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
