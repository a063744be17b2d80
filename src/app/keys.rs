//! `agentling keys create | list | revoke`.

use chrono::Utc;
use clap::Subcommand;
use secrecy::ExposeSecret;

use super::{StartError, Surroundings, pepper};
use crate::config::Config;
use crate::domain::caller::Scope;
use crate::domain::id::{KeyId, TenantId};
use crate::http::auth::ApiKey;
use crate::store::Store;
use crate::store::keys::{self, StoredKey};

/// What is done with keys.
#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// Make a key; it is shown once and never again.
    Create {
        /// What people call it: 1–64 characters, none of them a control character.
        #[arg(long, default_value = "unnamed", value_parser = name)]
        name: String,
        /// For whom it acts.
        #[arg(long, default_value = TenantId::DEFAULT, value_parser = tenant)]
        tenant: TenantId,
        /// What it allows, for example `runs:read`; give it once for each. Absent: everything.
        #[arg(long = "scope", value_parser = scope)]
        scopes: Vec<Scope>,
        /// Days until it stops working; absent: never.
        #[arg(long, value_parser = clap::value_parser!(u32).range(1..=3650))]
        expires_in_days: Option<u32>,
    },
    /// List the keys of a tenant.
    List {
        /// Whose.
        #[arg(long, default_value = TenantId::DEFAULT, value_parser = tenant)]
        tenant: TenantId,
    },
    /// Revoke a key; servers refuse it within 30 seconds.
    Revoke {
        /// Its id, `key_…`.
        #[arg(value_parser = key_id)]
        id: KeyId,
        /// Whose.
        #[arg(long, default_value = TenantId::DEFAULT, value_parser = tenant)]
        tenant: TenantId,
    },
}

fn name(text: &str) -> Result<String, String> {
    let fits = ApiKey::name_fits(text).then(|| text.to_owned());
    fits.ok_or_else(|| "1–64 characters, no control characters".to_owned())
}

fn tenant(text: &str) -> Result<TenantId, String> {
    TenantId::parse(text).map_err(|_| "1–64 characters of a–z, 0–9, `_` and `-`".to_owned())
}

fn scope(text: &str) -> Result<Scope, String> {
    text.parse().map_err(|error: crate::domain::label::UnknownLabel| error.to_string())
}

fn key_id(text: &str) -> Result<KeyId, String> {
    text.parse().map_err(|_| "a key id looks like key_ and 32 hex digits".to_owned())
}

/// Runs the command and answers what to print.
pub(super) async fn run(
    config: &Config,
    store: &Store,
    command: KeysCommand,
) -> Result<String, StartError> {
    let around = Surroundings::default();
    match command {
        KeysCommand::Create { name, tenant, scopes, expires_in_days } => {
            let key = ApiKey::mint(around.ids.as_ref())?;
            let now = around.clock.now();
            let scopes = if scopes.is_empty() { vec![Scope::Admin] } else { scopes };
            let pepper = pepper(config, store, &around).await?;
            let stored = StoredKey {
                id: key.id(),
                tenant,
                name,
                hash: key.hash(&pepper).to_vec(),
                scopes,
                created_at: now,
                expires_at: expires_in_days.map(|days| now + chrono::TimeDelta::days(days.into())),
                revoked_at: None,
                replaces: None,
            };
            keys::insert(store, &stored).await?;
            // Standard output holds the key and nothing else, so that scripts can take it.
            tracing::info!(id = %stored.id, tenant = %stored.tenant, "the key is made");
            Ok(format!("{}\n", key.reveal().expose_secret()))
        }
        KeysCommand::List { tenant } => {
            let found = keys::list(store, &tenant).await?;
            let lines: Vec<String> = found.iter().map(line).collect();
            Ok(lines.concat())
        }
        KeysCommand::Revoke { id, tenant } => {
            let done = keys::revoke(store, &tenant, id, around.clock.now()).await?;
            if done { Ok(format!("revoked {id}\n")) } else { Err(StartError::NoSuchKey(id)) }
        }
    }
}

fn line(key: &StoredKey) -> String {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.label()).collect();
    let state = match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {}", day(at)),
        (None, Some(at)) => format!("expires {}", day(at)),
        (None, None) => "active".to_owned(),
    };
    format!(
        "{}  {}  {}  {}  created {}\n",
        key.id,
        key.name,
        scopes.join(","),
        state,
        day(key.created_at)
    )
}

fn day(at: chrono::DateTime<Utc>) -> String {
    at.format("%Y-%m-%d").to_string()
}
