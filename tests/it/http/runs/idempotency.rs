//! Repeated requests: keys and ids that a caller chooses.

use serde_json::{Value, json};

use crate::support::{Answer, TestApp, mint_key, with_json};

fn hello() -> Value {
    let model = json!({"provider": "scripted", "name": "m", "script": [{"text": "Hello."}]});
    json!({"agent": {"name": "a", "model": model}, "input": "hi"})
}

async fn post(app: &TestApp, key: &str, body: &Value) -> Answer {
    let request = with_json(app.request("POST", "/v1/runs"), body);
    app.send(request.header("idempotency-key", key)).await
}

async fn n_runs(app: &TestApp) -> usize {
    app.all("/v1/runs").await.len()
}

#[tokio::test]
async fn the_same_key_and_body_answer_with_the_same_run_as_it_was_accepted() {
    let app = TestApp::start().await;
    let first = post(&app, "k-1", &hello()).await;
    assert_eq!(first.header("idempotency-replayed"), "");
    let run = first.clone().expect(201);
    app.ended(run["id"].as_str().unwrap()).await;
    let again = post(&app, "k-1", &hello()).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.header("location"), first.header("location"));
    assert_eq!(again.expect(201), run);
    assert_eq!(n_runs(&app).await, 1);
}

#[tokio::test]
async fn a_body_that_says_the_same_in_another_order_is_the_same_body() {
    let app = TestApp::start().await;
    let run = post(&app, "k", &hello()).await.expect(201);
    let Value::Object(members) = hello() else { panic!("a body is an object") };
    let turned = Value::Object(members.into_iter().rev().collect());
    let again = post(&app, "k", &turned).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.expect(201)["id"], run["id"]);
}

#[tokio::test]
async fn another_body_under_a_used_key_is_refused() {
    let app = TestApp::start().await;
    post(&app, "k", &hello()).await.expect(201);
    let mut other = hello();
    other["input"] = json!("something else");
    post(&app, "k", &other).await.expect_problem(422, "idempotency-key-reused");
    assert_eq!(n_runs(&app).await, 1);
    post(&app, "k2", &other).await.expect(201);
}

#[tokio::test]
async fn a_request_that_was_refused_does_not_use_up_its_key() {
    let app = TestApp::start().await;
    let mut broken = hello();
    broken["input"] = json!(" ");
    post(&app, "k", &broken).await.expect_problem(422, "validation-failed");
    let lost = json!({"agent_id": "nobody", "input": "hi"});
    post(&app, "k", &lost).await.expect_problem(422, "unknown-agent");
    post(&app, "k", &hello()).await.expect(201);
}

#[tokio::test]
async fn keys_that_are_not_visible_ascii_of_the_right_length_are_refused() {
    let app = TestApp::start().await;
    let long = "x".repeat(256);
    for key in ["", "a b", "\t", "k\u{fc}", long.as_str()] {
        post(&app, key, &hello()).await.expect_problem(400, "invalid-idempotency-key");
    }
    let twice = with_json(app.request("POST", "/v1/runs"), &hello());
    let twice = twice.header("idempotency-key", "a").header("idempotency-key", "b");
    app.send(twice).await.expect_problem(400, "invalid-idempotency-key");
    assert_eq!(n_runs(&app).await, 0);
    post(&app, &"x".repeat(255), &hello()).await.expect(201);
}

#[tokio::test]
async fn twenty_requests_at_once_with_one_key_start_one_run() {
    let app = TestApp::start().await;
    let body = hello();
    let answers = futures::future::join_all((0..20).map(|_| post(&app, "k", &body))).await;
    let replayed =
        answers.iter().filter(|answer| answer.header("idempotency-replayed") == "true").count();
    let runs: Vec<Value> = answers.into_iter().map(|answer| answer.expect(201)).collect();
    assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
    assert_eq!(replayed, 19);
    assert_eq!(n_runs(&app).await, 1);
}

#[tokio::test]
async fn a_key_waits_for_the_end_when_the_repetition_prefers_to() {
    let app = TestApp::start().await;
    let run = post(&app, "k", &hello()).await.expect(201);
    let again = with_json(app.request("POST", "/v1/runs"), &hello());
    let again = again.header("idempotency-key", "k").header("prefer", "wait=60");
    let ended = app.send(again).await.expect(200);
    assert_eq!((&ended["id"], &ended["status"]), (&run["id"], &json!("completed")));
}

#[tokio::test]
async fn a_repeated_stream_request_tells_the_same_run_again() {
    let app = TestApp::start().await;
    let mut told = Vec::new();
    for _ in 0..2 {
        let request = with_json(app.request("POST", "/v1/runs/stream"), &hello());
        let answer = app.send(request.header("idempotency-key", "k")).await;
        assert_eq!(answer.status, 200);
        let durable = answer.text.split("\n\n").filter(|block| block.contains("id: "));
        told.push(durable.map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(n_runs(&app).await, 1);
}

#[tokio::test]
async fn the_same_key_of_another_tenant_is_another_key() {
    let app = TestApp::start().await;
    let ours = mint_key(&app, "default", &["admin"]).await;
    let theirs = mint_key(&app, "other", &["admin"]).await;
    let app = app.with_key(&ours);
    let first = post(&app, "k", &hello()).await.expect(201);
    let app = app.with_key(&theirs);
    let second = post(&app, "k", &hello()).await;
    assert_eq!(second.header("idempotency-replayed"), "");
    assert_ne!(second.expect(201)["id"], first["id"]);
    assert_eq!(n_runs(&app).await, 1);
    let path = format!("/v1/runs/{}", first["id"].as_str().unwrap());
    app.get(&path).await.expect_problem(404, "not-found");
}

#[tokio::test]
async fn an_id_that_the_caller_chose_starts_one_run() {
    let app = TestApp::start().await;
    let mut body = hello();
    body["id"] = json!("run_0198f2c4a1b27cde8f00112233445566");
    let run = app.start_run(&body).await;
    assert_eq!(run["id"], body["id"]);
    app.post("/v1/runs", &body).await.expect_problem(409, "id-conflict");
    let ended = app.ended("run_0198f2c4a1b27cde8f00112233445566").await;
    assert_eq!(ended["status"], "completed");
    app.post("/v1/runs", &body).await.expect_problem(409, "id-conflict");
    assert_eq!(n_runs(&app).await, 1);
}

#[tokio::test]
async fn a_request_whose_first_is_still_under_way_is_told_so() {
    let app = TestApp::start().await;
    let mut connection = app.db.connect().await;
    let mut first = sqlx::Connection::begin(&mut connection).await.unwrap();
    sqlx::query(
        "INSERT INTO idempotency (tenant_id, route, key, request_hash, run_id, created_at)
         VALUES ('default', 'POST /v1/runs', 'k', sha256('x'), gen_random_uuid(), now())",
    )
    .execute(&mut *first)
    .await
    .unwrap();
    let agent = json!({"name": "a", "model": {"provider": "scripted", "name": "m"}});
    let answer = post(&app, "k", &json!({"agent": agent, "input": "Go."})).await;
    assert_eq!(answer.header("retry-after"), "1");
    answer.expect_problem(409, "idempotency-in-progress");
}
