//! Hints between servers, and what becomes of runs when there are none.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentling::app::{Running, Surroundings};
use agentling::domain::id::{RunId, TenantId};
use agentling::domain::run::RunStatus;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use super::{fake, times};
use crate::engine::crash::accept;
use crate::support::{
    FakeTools, TestApp, TestDb, agent_with, assert_invariants, calling, count, execute, request,
    saying, until,
};

const PATIENCE: Duration = Duration::from_mins(1);
const LISTENING: &str = "SELECT count(*) > 0 FROM pg_stat_activity
                          WHERE datname = current_database()
                            AND application_name = 'agentling-listener' AND query LIKE 'LISTEN%'";

/// Settings of a server that finds out nothing by itself for an hour.
const DEAF: [(&str, &str); 5] = [
    ("AGENTLING_NOTIFY", "on"),
    ("AGENTLING_POLL_MS", "3600000"),
    ("AGENTLING_SWEEP_MS", "3600000"),
    ("AGENTLING_LEASE_MS", "3600000"),
    ("AGENTLING_HEARTBEAT_MS", "1800000"),
];

fn with(role: &'static str) -> Vec<(&'static str, &'static str)> {
    [&DEAF[..], &[("AGENTLING_ROLE", role)]].concat()
}

async fn server(db: &TestDb, tools: &FakeTools, settings: &[(&str, &str)]) -> TestApp {
    TestApp::on(db.clone(), tools.clone(), settings, Surroundings::default()).await
}

fn hello() -> Value {
    agent_with(&[saying("Hello.")], &[])
}

async fn start(running: &Running, agent: &Value) -> RunId {
    running.engine.start(&TenantId::default(), request(agent)).await.unwrap().run.id
}

async fn completed(running: &Running, run: RunId) {
    let ended = running.engine.wait(&TenantId::default(), run, PATIENCE).await.unwrap().unwrap();
    assert_eq!(ended.facts.status, RunStatus::Completed);
}

#[tokio::test]
async fn a_worker_hears_of_a_run_and_of_its_cancel_that_another_server_accepted() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let worker = server(&db, &tools, &with("worker")).await;
    let api = server(&db, &tools, &with("api")).await;
    until(&db, LISTENING).await;
    assert_eq!(api.get("/readyz").await.status, 200);
    assert_eq!(worker.get("/readyz").await.status, 200);
    worker.get("/v1/runs").await.expect_problem(404, "not-found");
    let run = start(&api.running, &hello()).await;
    completed(&api.running, run).await;
    tools.hold("a");
    let agent = agent_with(&[calling(&["a"]), saying("Done.")], &[fake(&tools, "a", "pure")]);
    let run = start(&api.running, &agent).await;
    tools.wait_for(1).await;
    api.running.engine.cancel(&TenantId::default(), run).await.unwrap();
    until(&db, "SELECT count(*) = 1 FROM run WHERE status = 'cancelled'").await;
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f27_a_listener_whose_session_is_ended_comes_back_and_looks_at_what_it_missed() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let worker = server(&db, &tools, &with("worker")).await;
    until(&db, LISTENING).await;
    // Nobody is told of this one.
    let run = accept(&db, &tools, &hello()).await.id;
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'agentling-listener'";
    assert_eq!(execute(&db, cut).await, 1);
    completed(&worker.running, run).await;
    until(&db, LISTENING).await;
    let api = server(&db, &tools, &with("api")).await;
    let run = start(&api.running, &hello()).await;
    completed(&api.running, run).await;
    assert_invariants(&db).await;
}

/// Stands between servers and the database; what listens can be cut off without a word.
struct Between {
    dir: tempfile::TempDir,
    is_cut: watch::Sender<bool>,
}

impl Between {
    fn start(db: &TestDb) -> (Self, TestDb) {
        let dir = tempfile::tempdir().unwrap();
        let host = db.url.split("host=").nth(1).unwrap();
        let host: String = url::form_urlencoded::parse(format!("h={host}").as_bytes())
            .next()
            .map(|(_, host)| host.into_owned())
            .unwrap();
        let name = ".s.PGSQL.5432";
        let listener = UnixListener::bind(dir.path().join(name)).unwrap();
        let is_cut = watch::Sender::new(false);
        let (target, cut) = (Path::new(&host).join(name), is_cut.clone());
        #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, target.clone(), cut.subscribe()));
            }
        });
        let path: String =
            url::form_urlencoded::byte_serialize(dir.path().as_os_str().as_encoded_bytes())
                .collect();
        let url = db.url.split("host=").next().unwrap().to_owned() + "host=" + &path;
        (Self { dir, is_cut }, TestDb { url })
    }

    /// Cuts off those who listen now.
    fn cut(&self) {
        assert!(self.dir.path().exists());
        self.is_cut.send_replace(true);
    }
}

/// Passes bytes on; of one who listens, until they are cut off, and then nothing and no end.
async fn pass(mut client: UnixStream, target: PathBuf, mut cut: watch::Receiver<bool>) {
    let mut server = UnixStream::connect(target).await.unwrap();
    let mut first = vec![0; 4096];
    let n = client.read(&mut first).await.unwrap_or(0);
    first.truncate(n);
    server.write_all(&first).await.unwrap();
    let listens = first.windows(18).any(|window| window == b"agentling-listener");
    let copy = tokio::io::copy_bidirectional(&mut client, &mut server);
    // Who comes after the cut is not meant by it.
    if !listens || *cut.borrow() {
        drop(copy.await);
        return;
    }
    let cut = async move { drop(cut.wait_for(|is_cut| *is_cut).await) };
    tokio::select! {
        done = copy => drop(done),
        () = cut => std::future::pending().await,
    }
}

#[tokio::test]
async fn f26_a_listener_whose_connection_is_half_open_finds_out_and_looks_at_what_it_missed() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let (between, through) = Between::start(&db);
    let worker = server(&through, &tools, &with("worker")).await;
    let api = server(&db, &tools, &with("api")).await;
    until(
        &db,
        "SELECT count(*) = 2 FROM pg_stat_activity
                 WHERE datname = current_database()
                   AND application_name = 'agentling-listener' AND query LIKE 'LISTEN%'",
    )
    .await;
    completed(&api.running, start(&api.running, &hello()).await).await;
    between.cut();
    // The hint of this one is lost; ten seconds later the listener is asked whether it lives.
    let run = start(&api.running, &hello()).await;
    completed(&worker.running, run).await;
    completed(&api.running, start(&api.running, &hello()).await).await;
    assert_invariants(&db).await;
}

#[tokio::test]
async fn f28_without_hints_runs_and_cancels_are_found_by_polling() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let quiet = |role| [("AGENTLING_NOTIFY", "off"), ("AGENTLING_ROLE", role)];
    let worker = server(&db, &tools, &quiet("worker")).await;
    let api = server(&db, &tools, &quiet("api")).await;
    let run = start(&api.running, &hello()).await;
    completed(&api.running, run).await;
    tools.hold("a");
    let agent = agent_with(&[calling(&["a"]), saying("Done.")], &[fake(&tools, "a", "pure")]);
    let run = start(&api.running, &agent).await;
    tools.wait_for(1).await;
    api.running.engine.cancel(&TenantId::default(), run).await.unwrap();
    until(&db, "SELECT count(*) = 1 FROM run WHERE status = 'cancelled'").await;
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                     AND application_name IN ('agentling-listener', 'agentling-hints')";
    assert_eq!(count(&db, sessions).await, 0);
    worker.running.stop().await;
    assert_eq!(times(&tools, "a"), 1);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn two_servers_that_both_work_and_answer_share_runs_and_end_all_of_them() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let settings = [("AGENTLING_CONCURRENCY", "3")];
    let apps = [server(&db, &tools, &settings).await, server(&db, &tools, &settings).await];
    let declared = [fake(&tools, "once", "at_most_once")];
    let agent = Arc::new(agent_with(&[calling(&["once"]), saying("Done.")], &declared));
    let mut runs = Vec::new();
    for n in 0..20 {
        runs.push(start(&apps[n % 2].running, &agent).await);
    }
    for (n, run) in runs.into_iter().enumerate() {
        completed(&apps[(n + 1) % 2].running, run).await;
    }
    assert_eq!(times(&tools, "once"), 20);
    assert_invariants(&db).await;
}
