//! `DELETE /v1/runs/{run_id}`.

use serde_json::{Value, json};

use crate::http::{speaker, start_endless_run};
use crate::support::{
    FakeModel, ModelReply, TestApp, assert_invariants, count, execute, mint_key, with_json,
};

fn path(run: &Value) -> String {
    format!("/v1/runs/{}", run["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_run_that_has_ended_is_erased_and_gone_for_good() {
    let app = TestApp::start().await;
    let body = json!({ "agent": speaker("a", "Hello."), "input": "hi" });
    let ask = || with_json(app.request("POST", "/v1/runs"), &body).header("idempotency-key", "k");
    let run = app.send(ask().header("prefer", "wait=60")).await.expect(200);
    let step = app.steps(run["id"].as_str().unwrap()).await[0].clone();
    assert_eq!(app.delete(&path(&run)).await.status, 204);
    for rest in ["", "/events", "/steps", "/requests", "/stream"] {
        let gone = app.get(&format!("{}{rest}", path(&run))).await;
        assert_eq!(gone.expect_problem(410, "gone")["detail"], "the run is gone");
    }
    app.post(&format!("{}/cancel", path(&run)), &json!({})).await.expect_problem(410, "gone");
    let step = format!("/v1/steps/{}", step["id"].as_str().unwrap());
    app.get(&step).await.expect_problem(404, "not-found");
    assert_eq!(app.delete(&path(&run)).await.status, 204, "deleting again changes nothing");
    assert_eq!(app.all("/v1/runs").await, Vec::<Value>::new());
    for table in [
        "SELECT count(*) FROM step",
        "SELECT count(*) FROM run_event",
        "SELECT count(*) FROM model_request",
        "SELECT count(*) FROM idempotency",
    ] {
        assert_eq!(count(&app.db, table).await, 0, "{table}");
    }
    let again = json!({ "agent": speaker("a", "Hello."), "input": "hi", "id": run["id"] });
    app.post("/v1/runs", &again).await.expect_problem(409, "id-conflict");
    assert_ne!(app.send(ask()).await.expect(201)["id"], run["id"], "its key leads nowhere");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn the_other_runs_of_a_thread_outlive_one_that_is_erased() {
    let app = TestApp::start().await;
    let says = ["One.", "Two.", "Three.", "Four.", "Five."].map(ModelReply::text);
    let model = FakeModel::start(says).await;
    let agent = json!({ "name": "a", "model": model.spec(false) });
    let first = app.run(&agent, "first words").await;
    let next = |input: &str, reset: bool| json!({ "agent": agent, "thread_id": first["thread_id"], "input": input, "reset": reset });
    let second = app.run_body(&next("second words", false)).await;
    assert_eq!(app.delete(&path(&first)).await.status, 204);

    // What was sent for the second run repeats the first one, so it is not kept; that it was sent is.
    assert_eq!(app.all(&format!("{}/requests", path(&second))).await.len(), 1);
    let bodies = "SELECT count(*) FROM model_request WHERE head IS NOT NULL OR base_id IS NOT NULL";
    assert_eq!(count(&app.db, bodies).await, 0);
    let third = app.run_body(&next("third words", false)).await;
    assert_eq!(third["answer"], "Three.");
    assert_eq!(model.requests()[2].said_by("user"), ["second words", "third words"]);
    assert_invariants(&app.db).await;

    // A memory that began with a run begins with the next one when that run is erased.
    let fourth = app.run_body(&next("fourth words", true)).await;
    assert_eq!(app.delete(&path(&fourth)).await.status, 204);
    app.run_body(&next("fifth words", false)).await;
    assert_eq!(model.requests()[4].said_by("user"), ["fifth words"]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_that_is_active_stays() {
    let app = TestApp::start().await;
    let run = start_endless_run(&app).await;
    let problem = app.delete(&path(&run)).await.expect_problem(409, "thread-busy");
    assert_eq!(problem["active_run_id"], run["id"]);
    app.get(&path(&run)).await.expect(200);
}

#[tokio::test]
async fn what_was_erased_is_gone_for_its_tenant_and_never_was_for_others() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    assert_eq!(app.delete(&path(&run)).await.status, 204);
    let (ours, theirs) =
        (mint_key(&app, "default", &["admin"]).await, mint_key(&app, "other", &["admin"]).await);
    let as_us = app.with_key(&ours);
    as_us.get(&path(&run)).await.expect_problem(410, "gone");
    let as_them = as_us.with_key(&theirs);
    as_them.get(&path(&run)).await.expect_problem(404, "not-found");
    as_them.delete(&path(&run)).await.expect_problem(404, "not-found");
}

#[tokio::test]
async fn a_run_that_never_asked_a_model_leaves_no_word_in_the_bodies_of_later_ones() {
    let app = TestApp::start().await;
    let model = FakeModel::start(["One.", "Two."].map(ModelReply::text)).await;
    let agent = json!({ "name": "a", "model": model.spec(false) });
    let first = app.run(&agent, "first words").await;
    // As if it had been cancelled before its turn.
    execute(&app.db, "DELETE FROM model_request").await;
    let next = json!({ "agent": agent, "thread_id": first["thread_id"], "input": "second words" });
    app.run_body(&next).await;
    let bodies =
        "SELECT count(*) FROM model_request WHERE head IS NOT NULL OR conversation IS NOT NULL";
    assert_eq!(count(&app.db, bodies).await, 1);
    assert_eq!(app.delete(&path(&first)).await.status, 204);
    assert_eq!(count(&app.db, bodies).await, 0);
}
