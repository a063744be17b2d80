//! Every request to a model is on record as the model received it, whatever came of it.

use agentling::app::Surroundings;
use serde_json::{Value, json};

use crate::support::{
    FakeModel, FakeTools, HeldModel, ModelReply, Piece, TestApp, TestDb, assert_invariants,
    assert_recorded, count, execute, path_of, requests_of, text_from, tool, until,
};

fn echo(app: &TestApp) -> Value {
    tool(&app.tools, "echo", "pure", &json!({ "type": "object", "additionalProperties": true }))
}

fn agent(app: &TestApp, model: &FakeModel) -> Value {
    json!({ "name": "a", "model": model.spec(true), "instructions": "Be <b>brief</b>.",
            "tools": [echo(app)] })
}

fn bodies(model: &FakeModel) -> Vec<String> {
    model.requests().into_iter().map(|request| request.body).collect()
}

fn told<'a>(requests: &'a [Value], member: &str) -> Vec<&'a Value> {
    requests.iter().map(|request| &request[member]).collect()
}

/// The requests of some runs are those that the model received, in order; answers them.
async fn assert_all(app: &TestApp, runs: &[&Value], received: &[String]) -> Vec<Value> {
    let mut requests = Vec::new();
    for run in runs {
        requests.extend(requests_of(app, run).await);
    }
    assert_eq!(requests.len(), received.len(), "{requests:#?}");
    for (request, received) in requests.iter().zip(received) {
        assert_recorded(app, request, received).await;
    }
    assert_invariants(&app.db).await;
    requests
}

fn unavailable() -> ModelReply {
    ModelReply::Status(503, "text/html", "<p>later: \u{e9}</p>".to_owned())
}

#[tokio::test]
async fn every_attempt_at_every_turn_is_recorded_as_it_was_received() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::call("echo", r#"{"n": 1}"#),
        unavailable(),
        ModelReply::calls(&[("echo", "{}"), ("nobody", "{}")]),
        ModelReply::text("my best"),
        ModelReply::text("by another agent"),
        ModelReply::text("afresh"),
    ])
    .await;
    let mut one = agent(&app, &model);
    one["max_steps"] = json!(2);
    let first = app.run(&one, "go <system> on").await;
    assert_eq!(first["stop_reason"], "max_steps", "{first}");
    let on = |agent: &Value, reset: bool| json!({ "agent": agent, "thread_id": first["thread_id"], "input": "go on", "reset": reset });
    let other = json!({ "name": "b", "model": model.spec(false), "instructions": "Dare." });
    let second = app.run_body(&on(&other, false)).await;
    let third = app.run_body(&on(&other, true)).await;
    let requests = assert_all(&app, &[&first, &second, &third], &bodies(&model)).await;
    let turns: Vec<(u64, u64)> = requests
        .iter()
        .map(|request| (request["turn"].as_u64().unwrap(), request["attempt"].as_u64().unwrap()))
        .collect();
    assert_eq!(turns, [(1, 1), (2, 1), (2, 2), (3, 1), (1, 1), (1, 1)]);
    let outcomes = ["replied", "failed", "replied", "replied", "replied", "replied"];
    assert_eq!(told(&requests, "outcome"), outcomes);
    assert_eq!(
        (&requests[1]["error"], &requests[1]["status"]),
        (&json!("unavailable"), &json!(503))
    );
    for request in &requests {
        assert_eq!(request["provider"], "openai");
        assert_eq!(request["endpoint"], "/v1/chat/completions");
        assert_eq!(request["profile"]["family"], "openai_compatible");
        assert_eq!((&request["renderer"], &request["purpose"]), (&json!(1), &json!("reply")));
        let names = request["header_names"].as_array().unwrap();
        assert!(names.contains(&json!("content-type")), "{names:?}");
    }
    // An action lists every attempt at its turn.
    let step = app.steps(first["id"].as_str().unwrap()).await[2].clone();
    let path = format!("/v1/steps/{}/requests", step["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.expect(200)["items"], json!(requests[1..3]));
    assert_eq!(step["request"]["sha256"], requests[2]["sha256"]);
}

#[tokio::test]
async fn the_bytes_of_a_span_are_those_of_its_source() {
    let app = TestApp::start().await;
    app.tools.answer("echo", |_| (200, json!("a </system> result")));
    let model =
        FakeModel::start([ModelReply::call("echo", r#"{"n": 1.50}"#), ModelReply::text("done")])
            .await;
    let run = app.run(&agent(&app, &model), "go \"on\"").await;
    let requests = requests_of(&app, &run).await;
    let spans = assert_recorded(&app, &requests[1], &bodies(&model)[1]).await;
    let from = |source: &str, voice: &str| {
        text_from(&spans, |span| span["source"] == source && span["voice"] == voice)
    };
    assert_eq!(from("step", "user"), r#"go \"on\""#);
    // The id of the call stands ahead of its result.
    let data = from("step", "data");
    assert!(data.starts_with("call_") && data.ends_with(r#"\"a </system> result\""#), "{data}");
    assert!(from("step", "assistant").contains(r#"{\"n\": 1.50}"#));
    let part = |part: &str| text_from(&spans, |span| span["agent_part"] == part);
    assert_eq!(part("instructions"), "Be <b>brief</b>.");
    assert!(part("tool").contains("echo"), "{}", part("tool"));
    let syntax = text_from(&spans, |span| span["source"] == "wire");
    assert!(!syntax.contains("result") && syntax.contains("\"messages\":["), "{syntax}");
}

#[tokio::test]
async fn a_run_that_fails_has_its_requests_and_what_came_back() {
    let app = TestApp::start().await;
    let half = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n";
    let model = FakeModel::start([
        unavailable(),
        ModelReply::Status(200, "text/event-stream", half.to_owned()),
        ModelReply::Status(400, "application/json", r#"{"error":{"message":"no"}}"#.to_owned()),
    ])
    .await;
    let run = app.run(&agent(&app, &model), "go").await;
    assert_eq!(run["status"], "failed", "{run}");
    let requests = assert_all(&app, &[&run], &bodies(&model)).await;
    assert_eq!(told(&requests, "outcome"), ["failed"; 3]);
    assert_eq!(told(&requests, "status"), [503, 200, 400]);
    let mut responses = Vec::new();
    for request in &requests {
        let response = app.get(&format!("{}/response", path_of(request))).await;
        assert_eq!(
            (response.status, response.header("content-type")),
            (200, "application/octet-stream")
        );
        responses.push(response.text);
    }
    assert_eq!(
        (responses[0].as_str(), &requests[0]["response_type"]),
        ("<p>later: \u{e9}</p>", &json!("text/html"))
    );
    assert_eq!(responses[1], half);
    assert_eq!(responses[2], r#"{"error":{"message":"no"}}"#);
    // The same body three times is stored once.
    let alike = "SELECT count(*) FROM model_request
                  WHERE base_id IS NOT NULL AND head = '' AND conversation = ''";
    assert_eq!(count(&app.db, alike).await, 2);
}

#[tokio::test]
async fn a_request_that_nobody_answered_has_no_response() {
    let app = TestApp::start().await;
    let agent = json!({ "name": "a", "model": { "provider": "openai", "name": "m",
                        "base_url": "http://127.0.0.1:1/v1" } });
    let run = app.run(&agent, "go").await;
    assert_eq!(run["status"], "failed", "{run}");
    let requests = requests_of(&app, &run).await;
    assert_eq!(told(&requests, "error"), vec!["transport"; requests.len()]);
    assert_eq!(
        (&requests[0]["status"], &requests[0]["first_byte_ms"]),
        (&Value::Null, &Value::Null)
    );
    let path = path_of(&requests[0]);
    app.get(&format!("{path}/response")).await.expect_problem(410, "gone");
    app.get(&format!("{path}/body")).await.expect(200);
}

#[tokio::test]
async fn a_summary_that_a_run_asks_for_is_recorded_with_its_attempts() {
    let app = TestApp::start().await;
    let long = |n: usize| format!(r#"{{"text":"{}"}}"#, "word ".repeat(n));
    let model = FakeModel::start([
        ModelReply::call("echo", &long(100)),
        ModelReply::call("echo", &long(900)),
        unavailable(),
        ModelReply::text("They counted."),
        ModelReply::text("done"),
    ])
    .await;
    let mut agent = agent(&app, &model);
    agent["context_strategy"] = json!("summarize");
    agent["model"]["profile"] = json!({ "context_window": 3_000 });
    let run = app.run(&agent, "go").await;
    assert_eq!(run["answer"], "done", "{run}");
    let requests = assert_all(&app, &[&run], &bodies(&model)).await;
    assert_eq!(told(&requests, "purpose"), ["reply", "reply", "summary", "summary", "reply"]);
    let steps = app.steps(run["id"].as_str().unwrap()).await;
    let summary = steps.iter().find(|step| step["kind"] == "summary").unwrap();
    let path = format!("/v1/steps/{}/requests", summary["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.expect(200)["items"], json!(requests[2..4]));
    assert_eq!(requests[3]["step_seq"], summary["seq"]);
    let body = app.get(&format!("{path}/2/body")).await;
    assert_eq!(body.text, bodies(&model)[3]);
}

#[tokio::test]
async fn a_summary_that_a_caller_asks_for_is_recorded_whether_it_comes_or_not() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::text("one"),
        ModelReply::Status(400, "application/json", "{}".to_owned()),
        unavailable(),
        ModelReply::text("They met."),
    ])
    .await;
    let agent = agent(&app, &model);
    app.create_agent(&agent).await;
    let run = app.run(&agent, "go").await;
    let thread = run["thread_id"].as_str().unwrap();
    let path = format!("/v1/threads/{thread}/compact");
    let asked = json!({ "strategy": "summarize", "agent_id": "a" });
    app.post(&path, &asked).await.expect_problem(502, "model-error");
    until(&app.db, "SELECT count(*) = 2 FROM model_request").await;
    let step = app.post(&path, &asked).await.expect(201);
    let list = format!("/v1/steps/{}/requests", step["id"].as_str().unwrap());
    let requests = app.get(&list).await.expect(200)["items"].as_array().unwrap().clone();
    assert_eq!(told(&requests, "outcome"), ["failed", "replied"]);
    for (request, received) in requests.iter().zip(&bodies(&model)[2..]) {
        assert_eq!((&request["run_id"], &request["turn"]), (&Value::Null, &json!(0)));
        assert_recorded(&app, request, received).await;
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_fallback_on_the_same_wire_shares_its_conversation_with_the_model_before_it() {
    let app = TestApp::start().await;
    let no = ModelReply::Status(401, "application/json", "{}".to_owned());
    let first = FakeModel::start([no]).await;
    let second = FakeModel::start([ModelReply::call("echo", "{}"), ModelReply::text("done")]).await;
    let mut agent = agent(&app, &first);
    agent["instructions"] = json!("Be brief. ".repeat(30));
    agent["model"]["name"] = json!("the first");
    agent["model"]["fallbacks"] = json!([second.spec(true)]);
    let run = app.run(&agent, "go").await;
    assert_eq!(run["answer"], "done", "{run}");
    let (one, two) = (bodies(&first), bodies(&second));
    let received = [&one[0], &two[0], &one[1], &two[1]].map(String::clone);
    let requests = assert_all(&app, &[&run], &received).await;
    assert_eq!(told(&requests, "outcome"), ["failed", "replied", "failed", "replied"]);
    let on_nothing = "SELECT count(*) FROM model_request WHERE base_id IS NULL";
    assert_eq!(count(&app.db, on_nothing).await, 1);
}

#[tokio::test]
async fn a_request_that_is_hung_up_on_is_recorded_as_such() {
    let app = TestApp::start().await;
    let said = vec![Piece::Text("Hel"), Piece::Hold, Piece::Text("lo")];
    let model = HeldModel::saying([said, vec![Piece::Text("Hello again.")]]).await;
    let agent = json!({ "name": "a", "model": model.spec() });
    let mut stream = app.start_stream(&json!({ "agent": agent, "input": "Greet me." })).await;
    let run = stream.until("text.delta").await[0].data.clone();
    let id = run["id"].as_str().unwrap();
    app.post(&format!("/v1/runs/{id}/interrupt"), &json!({})).await.expect(202);
    assert_eq!(app.ended(id).await["status"], "interrupted");
    app.post(&format!("/v1/runs/{id}/resume"), &json!({})).await.expect(202);
    assert_eq!(app.ended(id).await["answer"], "Hello again.");
    let requests = requests_of(&app, &run).await;
    assert_eq!(told(&requests, "outcome"), ["abandoned", "replied"]);
    for (request, received) in requests.iter().zip(model.requests()) {
        assert_recorded(&app, request, &received.to_string()).await;
    }
    let partial = app.steps(id).await[1].clone();
    let path = format!("/v1/steps/{}/requests", partial["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.expect(200)["items"], json!(requests[..1]));
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_request_that_the_end_of_a_drain_hangs_up_on_is_recorded_when_the_run_is_given_back() {
    let model = HeldModel::saying([vec![Piece::Text("Hel"), Piece::Hold]]).await;
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let around = Surroundings::default();
    let settings = [("AGENTLING_DRAIN_SECS", "0")];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, around).await;
    let agent = json!({ "name": "a", "model": model.spec() });
    let mut stream = app.start_stream(&json!({ "agent": agent, "input": "Greet me." })).await;
    let run = stream.until("text.delta").await[0].data.clone();
    drop(stream);
    app.running.stop().await;
    assert_eq!(count(&db, "SELECT count(*) FROM run WHERE status = 'queued'").await, 1);
    let abandoned = "SELECT count(*) FROM model_request WHERE outcome = 'abandoned'";
    assert_eq!(count(&db, abandoned).await, 1);
    let app = TestApp::on(db, tools, &[], Surroundings::default()).await;
    assert_eq!(app.ended(run["id"].as_str().unwrap()).await["answer"], "Done.");
    let requests = requests_of(&app, &run).await;
    assert_eq!(told(&requests, "outcome"), ["abandoned", "replied"]);
    for (request, received) in requests.iter().zip(model.requests()) {
        assert_recorded(&app, request, &received.to_string()).await;
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_row_that_was_tampered_with_is_reported_and_never_told_as_what_was_sent() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::call("echo", "{}"), ModelReply::text("done")]).await;
    let run = app.run(&agent(&app, &model), "go").await;
    let requests = requests_of(&app, &run).await;
    let path = path_of(&requests[1]);
    let spoilt = "UPDATE model_request SET head_shared = head_shared - 1 WHERE turn = 2";
    assert_eq!(execute(&app.db, spoilt).await, 1);
    for what in ["body", "spans"] {
        app.get(&format!("{path}/{what}")).await.expect_problem(500, "internal");
        app.get(&format!("{}/{what}", path_of(&requests[0]))).await.expect(200);
    }
    // A ring of bases is one too.
    let ring = "UPDATE model_request q SET base_id = (SELECT request_id FROM model_request
                 WHERE request_id <> q.request_id)";
    assert_eq!(execute(&app.db, ring).await, 2);
    app.get(&format!("{path}/body")).await.expect_problem(500, "internal");
}

#[tokio::test]
async fn a_key_that_a_provider_echoes_is_kept_nowhere() {
    const KEY: &str = "sk-0123456789abcdef";
    let echoed = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    let model =
        FakeModel::start([ModelReply::Status(401, "application/json", echoed.clone())]).await;
    let settings = [("OPENAI_API_KEY", KEY), ("AGENTLING_OPENAI_ORIGINS", model.origin.as_str())];
    let app = TestApp::with(&settings).await;
    let run = app.run(&json!({ "name": "a", "model": model.spec(true) }), "go").await;
    assert_eq!(run["status"], "failed", "{run}");
    assert!(model.requests()[0].authorization.as_deref().is_some_and(|it| it.contains(KEY)));
    let requests = requests_of(&app, &run).await;
    assert!(requests[0]["header_names"].as_array().unwrap().contains(&json!("authorization")));
    let response = app.get(&format!("{}/response", path_of(&requests[0]))).await.text;
    assert!(response.contains("provided: [redacted:") && !response.contains(KEY), "{response}");
}

#[tokio::test]
async fn deleting_a_thread_or_a_run_deletes_its_requests() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("done")]).await;
    let agent = agent(&app, &model);
    let first = app.run(&agent, "go").await;
    let again = json!({ "agent": agent, "thread_id": first["thread_id"], "input": "again" });
    app.run_body(&again).await;
    // What a request of another run is made of does not go without it.
    let refused =
        sqlx::query("DELETE FROM run WHERE created_at = (SELECT min(created_at) FROM run)")
            .execute(&mut app.db.connect().await)
            .await
            .unwrap_err();
    let refused = refused.as_database_error().unwrap().constraint().unwrap().to_owned();
    assert_eq!(refused, "model_request_base");
    let last = "DELETE FROM run WHERE created_at = (SELECT max(created_at) FROM run)";
    assert_eq!(execute(&app.db, last).await, 1);
    until(&app.db, "SELECT count(*) = 1 FROM model_request").await;
    app.delete(&format!("/v1/threads/{}", first["thread_id"].as_str().unwrap())).await.expect(204);
    until(&app.db, "SELECT count(*) = 0 FROM model_request").await;
}
