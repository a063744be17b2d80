//! A Postgres of a test's own, to be frozen, restarted and crashed, behind a proxy that outlives it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use agentling::config::{Config, Source};
use agentling::store::embedded::{Embedded, EmbeddedSettings, ensure_database};
use agentling::store::{PoolSettings, Store};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{PgProxy, TestDb, open_to_all, search_path};

/// The server, and how to reach it.
pub(crate) struct OwnCluster {
    /// The way that servers under test take.
    pub(crate) proxy: PgProxy,
    settings: EmbeddedSettings,
    embedded: Option<Embedded>,
    dir: TempDir,
}

impl OwnCluster {
    /// Starts one with the schema in it, whose commits are as they are in production.
    pub(crate) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        open_to_all(dir.path());
        let data = dir.path().join("data").display().to_string();
        let config = Config::read(&Source::of([
            ("AGENTLING_DATA_DIR", data.as_str()),
            ("AGENTLING_DB_CONNECTIONS", "60"),
            ("PATH", &search_path()),
        ]));
        let settings = EmbeddedSettings::of(&config.expect("the settings fit").database);
        // Making it is no part of any test, and need not survive a power cut.
        let hasty = EmbeddedSettings { durable: false, ..settings.clone() };
        let made = launch(hasty).await;
        tokio::task::spawn_blocking(move || drop(made)).await.unwrap();
        let embedded = launch(settings.clone()).await;
        let url = embedded.url();
        ensure_database(&url).await.unwrap();
        let store = Store::open(&url, PoolSettings { api: 1, worker: 1, critical: 1 }).unwrap();
        store.migrate().await.unwrap();
        store.close().await;
        let proxy = PgProxy::to(&url).await;
        Self { proxy, settings, embedded: Some(embedded), dir }
    }

    /// The database, past the proxy. It is somewhere else after a restart.
    pub(crate) fn db(&self) -> TestDb {
        TestDb { url: self.embedded.as_ref().expect("it runs").url() }
    }

    /// The database as a server under test sees it.
    pub(crate) fn seen(&self) -> TestDb {
        TestDb { url: self.proxy.url.clone() }
    }

    /// The pid of the server.
    pub(crate) fn pid(&self) -> Pid {
        let file = self.data().join("postmaster.pid");
        let text = std::fs::read_to_string(file).unwrap();
        Pid::from_raw(text.lines().next().unwrap().parse().unwrap()).unwrap()
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data/postgres")
    }

    /// Stops the server: `INT` is a fast shutdown, `QUIT` a crash.
    pub(crate) async fn stop(&mut self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
        let mut embedded = self.embedded.take().expect("it runs");
        let ended = tokio::task::spawn_blocking(move || {
            while embedded.is_running() {
                std::thread::park_timeout(Duration::from_millis(10));
            }
            // It is gone already; this clears up behind it.
            drop(embedded);
        });
        ended.await.unwrap();
    }

    /// How many connections it has places for when it is started again.
    pub(crate) const fn allow_connections(&mut self, n: u32) {
        self.settings.connections = n;
    }

    /// Starts it again where it was.
    pub(crate) async fn start_again(&mut self) {
        let embedded = launch(self.settings.clone()).await;
        self.proxy.lead_to(&embedded.url());
        self.embedded = Some(embedded);
    }

    /// Makes every commit wait after its local flush, or lets them all through.
    pub(crate) async fn freeze(&self, frozen: bool) {
        self.set("synchronous_standby_names", if frozen { "nobody" } else { "" }).await;
    }

    /// Changes a setting of the server, and waits until new sessions have it.
    pub(crate) async fn set(&self, name: &str, value: &str) {
        let mut connection = self.db().connect().await;
        // The texts are constants of tests.
        let statement = sqlx::AssertSqlSafe(format!("ALTER SYSTEM SET {name} = '{value}'"));
        sqlx::query(statement).execute(&mut connection).await.unwrap();
        sqlx::query("SELECT pg_reload_conf()").execute(&mut connection).await.unwrap();
        loop {
            let mut fresh = self.db().connect().await;
            let show = sqlx::AssertSqlSafe(format!("SHOW {name}"));
            let set: String = sqlx::query_scalar(show).fetch_one(&mut fresh).await.unwrap();
            if set == value {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Makes a role that is let in by its password alone, and has the server log all that it does, with
    /// every value.
    pub(crate) async fn make_loud_role(&self, name: &str, password: &str) {
        self.admin(format!("CREATE ROLE {name} SUPERUSER LOGIN PASSWORD '{password}'")).await;
        for set in [
            "log_statement = 'all'",
            "log_error_verbosity = 'verbose'",
            "log_min_error_statement = 'info'",
            "log_parameter_max_length = -1",
            "log_parameter_max_length_on_error = -1",
        ] {
            self.admin(format!("ALTER ROLE {name} SET {set}")).await;
        }
        let access = self.data().join("pg_hba.conf");
        let before = std::fs::read_to_string(&access).unwrap();
        std::fs::write(&access, format!("local all {name} scram-sha-256\n{before}")).unwrap();
        self.admin("SELECT pg_reload_conf()".to_owned()).await;
    }

    /// A statement of the administrator, which the log does not hold.
    pub(crate) async fn admin(&self, statement: String) {
        let statement = sqlx::AssertSqlSafe(statement);
        sqlx::raw_sql(statement).execute(&mut self.db().connect().await).await.unwrap();
    }

    /// What the server logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("data/postgres.log")).unwrap()
    }

    /// A standby that follows this server; clients still go to this one.
    pub(crate) async fn standby(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        open_to_all(dir.path());
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        open_to_all(&data);
        let (socket, cluster) = (self.proxy.socket_dir(), data.join("postgres"));
        let copy = Command::new("pg_basebackup")
            .args(["-U", "agentling", "-R", "-X", "stream", "-c", "fast", "--no-sync", "-h"])
            .arg(socket)
            .arg("-D")
            .arg(&cluster)
            .output();
        let copy = copy.expect("pg_basebackup is installed with PostgreSQL");
        assert!(copy.status.success(), "{}", String::from_utf8_lossy(&copy.stderr));
        // PostgreSQL runs as another user when we are root.
        let mut own = Command::new("chown");
        own.arg("-R").arg("--reference").arg(self.data()).arg(&cluster);
        assert!(own.status().unwrap().success());
        let settings = EmbeddedSettings { data_dir: data, ..self.settings.clone() };
        let embedded = launch(settings.clone()).await;
        Self { proxy: self.proxy.clone(), settings, embedded: Some(embedded), dir }
    }

    /// Makes a standby the server that clients go to.
    pub(crate) async fn promote(&self) {
        let promoted: bool = sqlx::query_scalar("SELECT pg_promote()")
            .fetch_one(&mut self.db().connect().await)
            .await
            .unwrap();
        assert!(promoted);
        self.lead_here();
    }

    /// Sends clients here from now on, those included that are connected elsewhere.
    pub(crate) fn lead_here(&self) {
        self.proxy.lead_to(&self.db().url);
        self.proxy.cut();
    }
}

async fn launch(settings: EmbeddedSettings) -> Embedded {
    let start = move || Embedded::start(&settings).expect("PostgreSQL starts");
    tokio::task::spawn_blocking(start).await.unwrap()
}
