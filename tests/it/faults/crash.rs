//! A process that is killed, at each of the published points and at some more.

use std::os::unix::process::ExitStatusExt as _;

use agentling::app::Surroundings;
use agentling::domain::run::RunStatus;
use futures::StreamExt as _;
use serde_json::{Value, json};

use super::kill_points::{Death, KILL_POINTS, KillPoint};
use crate::engine::crash::{accept, ended};
use crate::support::{
    Child, FakeTools, Harm, HeldModel, PgProxy, Piece, TestApp, TestDb, agent_with, assert_called,
    assert_invariants, calling, count, history, saying, tool, until, with_json,
};

const SIGABRT: i32 = 6;
const IS_RUNNING: &str = "SELECT count(*) = 1 FROM run WHERE status = 'running'";
const N_RUNS: &str = "SELECT count(*) FROM run";

fn agent(model: &HeldModel, tools: &FakeTools, effect: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    json!({"name": "a", "model": model.spec(), "tools": [tool(tools, "a", effect, &parameters)]})
}

/// What the model says: the call as often as the first turn is asked for, and then the answer. The
/// first time it stops half way, where that is when the process dies.
async fn model_of(asked: [usize; 2], death: Option<&Death>) -> HeldModel {
    let call = Piece::Call("a", json!({"n": 1}));
    let mut replies = vec![vec![Piece::Text("Let me see."), call]; asked[0]];
    if death == Some(&Death::Streaming) {
        replies[0].insert(1, Piece::Hold);
    }
    HeldModel::saying(replies).await
}

/// A server that takes over and keeps what it has, however busy the machine is.
async fn survivor(db: &TestDb, tools: &FakeTools) -> TestApp {
    let settings = [
        ("AGENTLING_LEASE_MS", "60000"),
        ("AGENTLING_SWEEP_MS", "50"),
        ("AGENTLING_POLL_MS", "50"),
    ];
    TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await
}

/// The history of a run to which nothing happens.
async fn undisturbed(effect: &str) -> Vec<String> {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let model = model_of([1, 1], None).await;
    let run = accept(&db, &tools, &agent(&model, &tools, effect)).await;
    let app = survivor(&db, &tools).await;
    assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Completed);
    app.running.stop().await;
    history_with(&db, &model).await
}

/// The history, whatever port the model had.
async fn history_with(db: &TestDb, model: &HeldModel) -> Vec<String> {
    let base_url = model.spec()["base_url"].as_str().unwrap().to_owned();
    let host = base_url.trim_start_matches("http://").trim_end_matches("/v1");
    history(db).await.iter().map(|line| line.replace(host, "the model")).collect()
}

/// Starts a process on the run and sees it die.
async fn lose(db: &TestDb, tools: &FakeTools, model: &HeldModel, death: &Death) {
    match death {
        Death::Append(point, n) => {
            let child = Child::steady(&db.url, &tools.host, Some((*point, *n)));
            assert_eq!(child.died().await.signal(), Some(SIGABRT));
        }
        Death::Statement(text, harm) => {
            let proxy = PgProxy::to(&db.url).await;
            proxy.trap(text, harm.clone(), 1);
            let child = Child::steady(&proxy.url, &tools.host, None);
            proxy.sprung(1).await;
            until(db, IS_RUNNING).await;
            child.kill().await;
        }
        Death::Streaming => {
            let child = Child::steady(&db.url, &tools.host, None);
            model.asked(1).await;
            child.kill().await;
        }
        Death::InCall => {
            tools.hold("a");
            let child = Child::steady(&db.url, &tools.host, None);
            tools.wait_for(1).await;
            child.kill().await;
            tools.release("a");
        }
    }
}

async fn survive(point: &KillPoint) {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let model = model_of(point.asked, Some(&point.death)).await;
    let run = accept(&db, &tools, &agent(&model, &tools, point.effect)).await;
    lose(&db, &tools, &model, &point.death).await;
    assert_invariants(&db).await;
    let app = survivor(&db, &tools).await;
    let run = ended(&app, run.id).await;
    app.running.stop().await;
    assert_eq!(run.facts.status, RunStatus::Completed, "{point:?}");
    assert_as_published(point, &db, &tools, &model).await;
    assert_same_story(point, &history_with(&db, &model).await).await;
}

/// The history is that of a run to which nothing happens, whatever became of the call.
async fn assert_same_story(point: &KillPoint, history: &[String]) {
    let expected = undisturbed(point.effect).await;
    assert_eq!(history.len(), expected.len(), "{point:?}");
    assert!(point.outcome != "success" || history == expected, "{point:?}: {history:?}");
}

/// What the world outside saw, and how the call ended.
async fn assert_as_published(point: &KillPoint, db: &TestDb, tools: &FakeTools, model: &HeldModel) {
    assert_invariants(db).await;
    assert_called(db, tools).await;
    let asked: usize = point.asked.iter().sum();
    assert_eq!(model.requests().len(), asked, "{point:?}");
    let seen = tools.seen();
    assert_eq!(seen.len(), point.called, "{point:?}");
    assert!(seen.iter().all(|call| call.key == seen[0].key), "one key: {point:?}");
    let ends =
        format!("SELECT count(*) FROM tool_call WHERE outcome->>'kind' = '{}'", point.outcome);
    assert_eq!(count(db, Box::leak(ends.into_boxed_str())).await, 1, "{point:?}");
}

/// Kills a process at every point of a case.
async fn hold_to(case: &str) {
    let points: Vec<&KillPoint> = KILL_POINTS.iter().filter(|point| point.case == case).collect();
    assert!(!points.is_empty(), "{case} has points");
    futures::stream::iter(points).for_each_concurrent(2, survive).await;
}

#[tokio::test]
async fn f03_killed_after_the_claim() {
    hold_to("F-03").await;
}

#[tokio::test]
async fn f04_killed_while_the_model_streams() {
    hold_to("F-04").await;
}

#[tokio::test]
async fn f05_killed_before_the_reply_is_recorded() {
    hold_to("F-05").await;
}

#[tokio::test]
async fn f06_killed_before_the_tool_is_called() {
    hold_to("F-06").await;
}

#[tokio::test]
async fn f07_killed_while_an_idempotent_tool_works() {
    hold_to("F-07").await;
}

#[tokio::test]
async fn f08_killed_around_a_call_that_must_not_run_twice() {
    hold_to("F-08").await;
}

#[tokio::test]
async fn f09_killed_while_a_pure_tool_works() {
    hold_to("F-09").await;
}

#[tokio::test]
async fn f10_killed_around_the_outcome_of_a_tool() {
    hold_to("F-10").await;
}

#[tokio::test]
async fn f12_killed_around_the_end() {
    hold_to("F-12").await;
}

#[test]
fn every_kill_point_is_of_a_case_that_is_tested() {
    let source = include_str!("crash.rs");
    for point in KILL_POINTS {
        assert!(source.contains(&format!("hold_to(\"{}\")", point.case)), "{}", point.case);
    }
}

/// Posts a run under a key to a process that dies of it, and then to one that does not.
async fn post_twice(harm: Harm, n_there: i64) {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let model = model_of([1, 1], None).await;
    let body = json!({"agent": agent(&model, &tools, "at_most_once"), "input": "go"});
    let (proxy, app) = (PgProxy::to(&db.url).await, survivor(&db, &tools).await);
    let mut child = Child::steady(&proxy.url, &tools.host, None);
    let address = child.address().await;
    proxy.trap("COMMIT", harm, 1);
    let post = app.client().post(format!("http://{address}/v1/runs"));
    let post = with_json(post, &body);
    let (lost, ()) = tokio::join!(post.header("idempotency-key", "k").send(), async {
        proxy.sprung(1).await;
        if n_there > 0 {
            until(&db, "SELECT count(*) = 1 FROM run").await;
        }
        child.kill().await;
        proxy.cut();
    });
    assert!(lost.is_err(), "the caller hears nothing");
    assert_eq!(count(&db, N_RUNS).await, n_there);
    assert_eq!(post_again(&app, &body).await, n_there > 0);
    app.running.stop().await;
}

/// Posts the same once more and sees the one run end; whether it was there before.
async fn post_again(app: &TestApp, body: &Value) -> bool {
    let again = with_json(app.request("POST", "/v1/runs"), body);
    let again = app.send(again.header("idempotency-key", "k")).await;
    let is_replayed = again.header("idempotency-replayed") == "true";
    let run = again.expect(201)["id"].as_str().unwrap().to_owned();
    assert_eq!(app.ended(&run).await["status"], "completed");
    assert_eq!(count(&app.db, N_RUNS).await, 1);
    assert!(app.tools.seen().len() <= 1);
    assert_invariants(&app.db).await;
    assert_called(&app.db, &app.tools).await;
    is_replayed
}

#[tokio::test]
async fn f01_killed_before_a_run_is_accepted() {
    post_twice(Harm::Hold, 0).await;
}

#[tokio::test]
async fn f02_killed_after_a_run_is_accepted_and_before_the_answer() {
    post_twice(Harm::Mute, 1).await;
}

#[tokio::test]
async fn f11_killed_after_one_of_three_results() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let effects = ["pure", "idempotent", "at_most_once"];
    for (at, recorded) in effects.iter().enumerate() {
        let db = if at == 0 { db.clone() } else { TestDb::new().await };
        let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let declared = effects.map(|effect| tool(&tools, effect, effect, &parameters));
        let agent = agent_with(&[calling(&effects), saying("Done.")], &declared);
        let (before, others) = (tools.seen().len(), effects.iter().filter(|e| *e != recorded));
        others.clone().for_each(|effect| tools.hold(effect));
        let run = accept(&db, &tools, &agent).await;
        let child = Child::steady(&db.url, &tools.host, None);
        tools.wait_for(before + 3).await;
        until(&db, "SELECT count(*) = 1 FROM tool_call WHERE state = 'ended'").await;
        child.kill().await;
        others.for_each(|effect| tools.release(effect));
        let app = survivor(&db, &tools).await;
        assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Completed);
        assert_invariants(&db).await;
        let calls = &tools.seen()[before..];
        let times = |name: &str| calls.iter().filter(|call| call.tool == name).count();
        for effect in effects {
            let again = effect != *recorded && effect != "at_most_once";
            assert_eq!(times(effect), 1 + usize::from(again), "{effect} with {recorded} recorded");
        }
        app.running.stop().await;
    }
}
