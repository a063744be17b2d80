//! Drives the runs of a database again.

use std::collections::BTreeMap;
use std::sync::Mutex;

use agentling::app::{Surroundings, engine};
use agentling::domain::id::{RunId, TenantId};
use agentling::engine::replay_run;
use agentling::error::AgentlingError;
use uuid::Uuid;

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

/// How runs that have ended part from their record when they are driven again; empty when none does.
pub(crate) async fn divergences(db: &TestDb) -> Vec<String> {
    let settings = SETTINGS.lock().unwrap().get(&db.url).cloned().unwrap_or_default();
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
