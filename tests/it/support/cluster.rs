//! One Postgres a test process, one database a test.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use agentling::config::{Config, Source};
use agentling::store::embedded::{Embedded, EmbeddedSettings, ensure_database};
use agentling::store::{PoolSettings, Store};
use sqlx::{Connection, PgConnection};
use tokio::sync::OnceCell;

static CLUSTER: OnceLock<String> = OnceLock::new();
static TEMPLATE: OnceCell<()> = OnceCell::const_new();
static WALLED: OnceCell<()> = OnceCell::const_new();
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A database of a test's own, made from a migrated template.
#[derive(Debug, Clone)]
pub(crate) struct TestDb {
    /// Where it is.
    pub(crate) url: String,
}

impl TestDb {
    /// A fresh one; with row-level security if the whole suite is run with it.
    pub(crate) async fn new() -> Self {
        if is_walled_by_default() { Self::walled().await } else { Self::plain().await }
    }

    /// One with row-level security.
    pub(crate) async fn walled() -> Self {
        let server = cluster().await;
        TEMPLATE.get_or_init(|| make_template(&server)).await;
        WALLED.get_or_init(|| make_walled_template(&server)).await;
        Self::copy_of(&server, "walled_template", "walled").await
    }

    /// One without it.
    pub(crate) async fn plain() -> Self {
        let server = cluster().await;
        TEMPLATE.get_or_init(|| make_template(&server)).await;
        Self::copy_of(&server, "agentling", "test").await
    }

    /// One without any table.
    pub(crate) async fn empty() -> Self {
        Self::copy_of(&cluster().await, "template0", "test").await
    }

    async fn copy_of(server: &str, template: &str, prefix: &str) -> Self {
        let name = format!("{prefix}_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let mut connection = admin(server).await;
        // The name is made of a counter.
        let statement = format!("CREATE DATABASE {name} TEMPLATE {template}");
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.unwrap();
        Self { url: named(server, &name) }
    }

    /// A store on it.
    pub(crate) fn store(&self) -> Store {
        Store::open(&self.url, PoolSettings { api: 4, worker: 4, critical: 2 }).unwrap()
    }

    /// Whether it has row-level security.
    pub(crate) fn is_walled(&self) -> bool {
        self.url.contains("/walled_")
    }

    /// The store of a server: with row-level security it has the roles that are held by it.
    pub(crate) fn server_store(&self, pools: PoolSettings) -> Store {
        if !self.is_walled() {
            return Store::open(&self.url, pools).unwrap();
        }
        let store = Store::open(&self.url_of(TENANT_ROLE), pools).unwrap();
        let system = PoolSettings { api: 2, worker: 2, critical: 2 };
        store.with_system(&self.url_of(SYSTEM_ROLE), system).unwrap()
    }

    /// Where another role reaches it.
    pub(crate) fn url_of(&self, role: &str) -> String {
        self.url.replacen("//agentling@", &format!("//{role}@"), 1)
    }

    /// The same past whatever stands before it, if it is on the cluster that tests share.
    pub(crate) fn shared(&self) -> Option<Self> {
        let name = url::Url::parse(&self.url).unwrap().path().trim_start_matches('/').to_owned();
        let is_shared = ["test_", "walled_"].iter().any(|prefix| name.starts_with(prefix));
        is_shared.then(|| Self { url: named(CLUSTER.get().expect("it has it"), &name) })
    }

    /// A bare connection, to look at rows.
    pub(crate) async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url).await.unwrap()
    }
}

async fn cluster() -> String {
    let server = tokio::task::spawn_blocking(|| CLUSTER.get_or_init(start).clone());
    server.await.expect("the cluster starts")
}

fn named(server: &str, name: &str) -> String {
    server.replacen("/agentling?", &format!("/{name}?"), 1)
}

async fn admin(server: &str) -> PgConnection {
    PgConnection::connect(&named(server, "postgres")).await.unwrap()
}

async fn make_template(server: &str) {
    ensure_database(server).await.unwrap();
    let store = Store::open(server, PoolSettings { api: 1, worker: 1, critical: 1 }).unwrap();
    store.migrate().await.unwrap();
    // A template must not be in use while it is copied.
    store.close().await;
}

/// The role of servers that sees one tenant at a time, and the one that sees all.
pub(crate) const TENANT_ROLE: &str = "test_api";
pub(crate) const SYSTEM_ROLE: &str = "test_system";

async fn make_walled_template(server: &str) {
    let made = "CREATE DATABASE walled_template TEMPLATE agentling";
    sqlx::query(made).execute(&mut admin(server).await).await.unwrap();
    let url = named(server, "walled_template");
    let store = Store::open(&url, PoolSettings { api: 1, worker: 1, critical: 1 }).unwrap();
    store.migrate_with(Some(true)).await.unwrap();
    store.close().await;
    for (role, group) in [(TENANT_ROLE, "agentling_tenant"), (SYSTEM_ROLE, "agentling_system")] {
        // The names are those above.
        let made = format!("CREATE ROLE {role} LOGIN IN ROLE {group}");
        let made = sqlx::AssertSqlSafe(made);
        sqlx::query(made).execute(&mut admin(server).await).await.unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "tests read the environment themselves")]
fn is_walled_by_default() -> bool {
    std::env::var("AGENTLING_TEST_WALL").is_ok_and(|chosen| chosen == "on")
}

/// Starts the cluster and lets it live as long as the process: its guard stops it when we are gone.
fn start() -> String {
    let dir = tempfile::tempdir().unwrap().keep();
    // Directories of temporary files are private; Postgres runs as another user when we are root.
    open_to_all(&dir);
    remove_afterwards(&dir);
    let data = dir.join("data").display().to_string();
    let config = Config::read(&Source::of([
        ("AGENTLING_DATA_DIR", data.as_str()),
        ("AGENTLING_DB_CONNECTIONS", "300"),
        ("PATH", &search_path()),
    ]));
    let mut settings = EmbeddedSettings::of(&config.expect("the settings fit").database);
    settings.durable = false;
    settings.orphan_patience = Duration::from_secs(10);
    let embedded = Embedded::start(&settings).expect("PostgreSQL starts; see `make postgres`");
    let url = embedded.url();
    std::mem::forget(embedded);
    url
}

#[expect(clippy::disallowed_methods, reason = "tests read the environment themselves")]
pub(crate) fn search_path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

pub(crate) fn open_to_all(dir: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Removes the directory once this process is gone: a shell holds the other end of a pipe to us.
fn remove_afterwards(dir: &std::path::Path) {
    let script = "cat >/dev/null; for i in 1 2 3 4 5; do rm -rf \"$0\" && break; sleep 1; done";
    let child = Command::new("/bin/sh")
        .args(["-c", script])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::mem::forget(child);
}
