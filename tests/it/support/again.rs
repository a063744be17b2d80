//! Drives the runs of a database again.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use agentling::app::{Surroundings, engine};
use agentling::domain::id::{RunId, TenantId};
use agentling::engine::replay_run;
use agentling::error::AgentlingError;
use tokio::runtime::Builder;
use uuid::Uuid;

use super::invariants::assert_none;
use super::{TestDb, config_at};

type Settings = Vec<(String, String)>;

/// The settings of the last server on each database: what a model is told may depend on them.
static SETTINGS: Mutex<BTreeMap<String, Settings>> = Mutex::new(BTreeMap::new());

/// Notes the settings of a server on a database.
pub(super) fn remember(db: &TestDb, settings: &[(&str, &str)]) {
    let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    SETTINGS.lock().unwrap().insert(db.url.clone(), settings.collect());
}

/// What is answered once a busy machine has a connection to spare.
async fn patiently<T>(ask: impl AsyncFn() -> Result<T, AgentlingError>) -> T {
    loop {
        match ask().await {
            Err(AgentlingError::Store(error)) if error.is_passing() => {
                tokio::task::yield_now().await;
            }
            answer => return answer.unwrap(),
        }
    }
}

/// Drives the runs of a server's database again once the server is gone, so that no run of a test escapes it.
pub(super) struct Again {
    db: TestDb,
    is_due: AtomicBool,
}

impl Again {
    pub(super) fn later(db: &TestDb) -> Self {
        Self { db: db.clone(), is_due: AtomicBool::new(true) }
    }

    /// Leaves it to the test: what is on record there is not what happened.
    pub(super) fn never(&self) {
        self.is_due.store(false, Ordering::Relaxed);
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        let is_due = self.is_due.load(Ordering::Relaxed) && !std::thread::panicking();
        // On a cluster of its own, which may be gone by now, a test asserts the invariants itself.
        let Some(db) = self.db.shared().filter(|_| is_due) else { return };
        let settings = settings_of(&self.db);
        // The runtime of the test is held up here, so that nothing but this goes on.
        let driven = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(divergences_with(&db, &settings))
        });
        assert_none(&driven.join().expect("the runs can be driven again"));
    }
}

/// How runs that have ended part from their record when they are driven again; empty when none does.
pub(crate) async fn divergences(db: &TestDb) -> Vec<String> {
    divergences_with(db, &settings_of(db)).await
}

fn settings_of(db: &TestDb) -> Settings {
    SETTINGS.lock().unwrap().get(&db.url).cloned().unwrap_or_default()
}

async fn divergences_with(db: &TestDb, settings: &Settings) -> Vec<String> {
    let settings: Vec<(&str, &str)> =
        settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let config = config_at(&db.url, "127.0.0.1:1", &settings);
    let store = db.store();
    let engine = engine(&config, &store, &Surroundings::default()).await.unwrap();
    let runs: Vec<(String, Uuid)> = sqlx::query_as(
        "SELECT r.tenant_id, r.run_id FROM run r
          WHERE r.status NOT IN ('queued', 'running')
            -- What was erased cannot be told again.
            AND NOT EXISTS (SELECT 1 FROM tombstone t
                             WHERE (t.tenant_id, t.thread_id) = (r.tenant_id, r.thread_id))",
    )
    .fetch_all(&mut db.connect().await)
    .await
    .unwrap();
    let mut found = Vec::new();
    for (tenant, run) in runs {
        let tenant = TenantId::parse(&tenant).unwrap();
        let run = RunId::from(run);
        let replayed = patiently(async || replay_run(&engine, &tenant, run).await).await.unwrap();
        let is_same = replayed.first_divergence.is_none()
            && replayed.missing.is_empty()
            && replayed.matches == replayed.requests;
        if !is_same {
            found.push(format!("{run} driven again: {replayed:?}"));
        }
    }
    store.close().await;
    found
}
