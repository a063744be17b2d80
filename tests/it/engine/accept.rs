//! A process that dies while it accepts a run: a client that asks again with its key has one run.

use std::sync::Arc;

use reqwest::{Client, RequestBuilder};
use rustix::process::Signal;
use serde_json::{Value, json};
use sqlx::Connection as _;

use super::crash::{ended, healthy};
use crate::support::{
    Child, FakeTools, TestApp, TestDb, agent_with, assert_invariants, count, saying, until,
};

const KEY: &str = "the-key-of-the-client";
const RUNS: &str = "SELECT count(*) FROM run";

fn body() -> Value {
    json!({"agent": agent_with(&[saying("Hello.")], &[]), "input": "go on"})
}

fn post(url: &str) -> RequestBuilder {
    // The constructor of a server sets up the TLS that the client asks for and does not use.
    let client = Client::builder().no_proxy().build().unwrap();
    client
        .post(url)
        .header("content-type", "application/json")
        .header("idempotency-key", KEY)
        .body(body().to_string())
}

async fn retried(app: &TestApp) -> (Value, bool) {
    let answer = app.send(post(&app.url("/v1/runs"))).await;
    let replayed = answer.header("idempotency-replayed") == "true";
    assert!([200, 201, 202].contains(&answer.status), "{}", answer.text);
    (answer.json(), replayed)
}

#[tokio::test]
async fn a_crash_before_a_run_is_accepted_leaves_nothing() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    // A server of this process, which is not asked yet, sets up what the client needs.
    let app = healthy(&db, &tools).await;
    let mut child = Child::start(&db.url, &tools.host, None);
    let address = child.address().await;
    let mut blocker = db.connect().await;
    let mut lock = blocker.begin().await.unwrap();
    // The key is taken and the thread is there, but the run cannot be written: the commit is held.
    sqlx::query("LOCK TABLE step IN SHARE MODE").execute(&mut *lock).await.unwrap();
    let request = post(&format!("http://{address}/v1/runs")).send();
    let (answer, ()) = tokio::join!(request, async {
        until(
            &db,
            "SELECT count(*) > 0 FROM pg_stat_activity
              WHERE datname = current_database() AND application_name = 'agentling-api'
                AND wait_event_type = 'Lock'",
        )
        .await;
        child.signal(Signal::KILL);
    });
    assert!(answer.is_err(), "nothing was acknowledged");
    child.died().await;
    drop(lock);
    blocker.close().await.unwrap();
    let (run, replayed) = retried(&app).await;
    assert!(!replayed);
    ended(&app, run["id"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(count(&db, RUNS).await, 1);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_run_that_was_accepted_is_found_again_by_its_key() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let app = healthy(&db, &tools).await;
    let mut child = Child::start(&db.url, &tools.host, None);
    let address = child.address().await;
    // The answer is lost on its way.
    drop(post(&format!("http://{address}/v1/runs")).send().await.unwrap());
    child.kill().await;
    let (run, replayed) = retried(&app).await;
    assert!(replayed);
    let run = ended(&app, run["id"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!(run.facts.answer.as_deref(), Some("Hello."));
    assert_eq!(count(&db, RUNS).await, 1);
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_hundred_requests_with_one_key_start_one_run() {
    let app = Arc::new(TestApp::start().await);
    let requests = (0..100).map(|_| async { retried(&app).await });
    // No more at a time than the database has connections for: who waits longer is told to come again.
    let answers: Vec<(Value, bool)> = {
        use futures::StreamExt as _;
        futures::stream::iter(requests).buffer_unordered(4).collect().await
    };
    let first = answers.first().unwrap().0["id"].clone();
    assert!(answers.iter().all(|(run, _)| run["id"] == first));
    assert_eq!(answers.iter().filter(|(_, replayed)| !replayed).count(), 1);
    assert_eq!(count(&app.db, RUNS).await, 1);
}
