//! Where the data is.

use std::path::PathBuf;

use secrecy::SecretString;

use super::Setting;
use super::reader::Reader;

pub(super) const URL: Setting = Setting::secret(
    "DATABASE_URL",
    "the PostgreSQL database to use; without it the server runs a private one of its own",
);
pub(super) const SYSTEM_URL: Setting = Setting::secret(
    "AGENTLING_SYSTEM_DATABASE_URL",
    "the same database as a role that sees the rows of all tenants; with it, that of DATABASE_URL sees \
     those of one at a time, by row-level security",
);
pub(super) const DATA_DIR: Setting = Setting::plain(
    "AGENTLING_DATA_DIR",
    "where the private database lives; by default `agentling` in the user's data directory, \
     `/var/lib/agentling` for root",
);
pub(super) const PG_BIN: Setting = Setting::plain(
    "AGENTLING_PG_BIN",
    "the directory of the programs `postgres` and `initdb`; by default PATH and the usual places \
     are searched",
);
pub(super) const CONNECTIONS: Setting =
    Setting::plain("AGENTLING_DB_CONNECTIONS", "the most database connections to hold").or("20");

/// Bounds of the number of connections: the pools need four between them to make progress.
const CONNECTION_BOUNDS: (u32, u32) = (4, 500);

/// The fewest connections with two roles, each of which has pools.
const TWO_ROLES: u32 = 8;

/// The database.
#[derive(Debug, Clone)]
pub struct Database {
    /// The operator's database; the embedded one is used when absent.
    pub url: Option<SecretString>,
    /// The same with a role that sees all tenants, where row-level security is on.
    pub system_url: Option<SecretString>,
    /// Where the embedded database lives.
    pub data_dir: PathBuf,
    /// Where the PostgreSQL programs are, if the operator says so.
    pub pg_bin: Option<PathBuf>,
    /// The directories in which programs are looked for.
    pub program_path: Vec<PathBuf>,
    /// The most connections over all pools.
    pub connections: u32,
}

impl Database {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let url = reader.optional(URL, postgres_url);
        let system_url = reader.optional(SYSTEM_URL, postgres_url);
        if system_url.is_some() && url.is_none() {
            reader.refuse(SYSTEM_URL, "goes with DATABASE_URL: a private database has one role");
        }
        let data_dir = reader.path(DATA_DIR).or_else(|| home_dir(reader));
        let pg_bin = reader.path(PG_BIN);
        let connections = reader.number(CONNECTIONS, CONNECTION_BOUNDS);
        if system_url.is_some() && connections.is_some_and(|connections| connections < TWO_ROLES) {
            reader.refuse(CONNECTIONS, format!("must be at least {TWO_ROLES} for two roles"));
        }
        let program_path = reader.source.get("PATH").map(std::env::split_paths);
        Some(Self {
            url,
            system_url,
            data_dir: data_dir?,
            pg_bin,
            program_path: program_path.into_iter().flatten().collect(),
            connections: connections?,
        })
    }
}

fn postgres_url(text: &str) -> Result<SecretString, String> {
    if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        return Ok(text.into());
    }
    Err("must start with postgres:// or postgresql://".to_owned())
}

/// The data directory when none is set.
fn home_dir(reader: &mut Reader<'_>) -> Option<PathBuf> {
    let source = reader.source;
    let absolute = |name| source.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if source.is_root() {
        // Not below root's home: the unprivileged user that PostgreSQL runs as cannot reach it.
        return Some(PathBuf::from("/var/lib/agentling"));
    }
    let home = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(user_data())));
    let found = home.map(|home| home.join("agentling"));
    // With a database of the operator's own the directory is not used, so none is asked for.
    let found = found.or_else(|| source.get(URL.name).map(|_| PathBuf::from("/var/lib/agentling")));
    if found.is_none() {
        reader.refuse(
            DATA_DIR,
            "or DATABASE_URL must be set, since neither XDG_DATA_HOME nor HOME is",
        );
    }
    found
}

const fn user_data() -> &'static str {
    if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" }
}
