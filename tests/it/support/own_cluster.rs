//! A Postgres of a test's own, to be frozen, restarted and crashed, behind a proxy that outlives it.

use std::path::PathBuf;
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

    /// Starts it again where it was.
    pub(crate) async fn start_again(&mut self) {
        let embedded = launch(self.settings.clone()).await;
        self.proxy.lead_to(&embedded.url());
        self.embedded = Some(embedded);
    }

    /// Makes every commit wait after its local flush, or lets them all through.
    pub(crate) async fn freeze(&self, frozen: bool) {
        let standby = if frozen { "'nobody'" } else { "''" };
        let mut connection = self.db().connect().await;
        for statement in [
            format!("ALTER SYSTEM SET synchronous_standby_names = {standby}"),
            "SELECT pg_reload_conf()".to_owned(),
        ] {
            // The text is made of constants.
            let statement = sqlx::AssertSqlSafe(statement);
            sqlx::query(statement).execute(&mut connection).await.unwrap();
        }
        let wanted = if frozen { "nobody" } else { "" };
        loop {
            // A session of its own, which reads the setting as those to come do.
            let mut fresh = self.db().connect().await;
            let set: String = sqlx::query_scalar("SHOW synchronous_standby_names")
                .fetch_one(&mut fresh)
                .await
                .unwrap();
            if set == wanted {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

async fn launch(settings: EmbeddedSettings) -> Embedded {
    let start = move || Embedded::start(&settings).expect("PostgreSQL starts");
    tokio::task::spawn_blocking(start).await.unwrap()
}
