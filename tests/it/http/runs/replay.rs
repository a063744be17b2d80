//! `POST /v1/runs/{run_id}/replay`.

use serde_json::{Value, json};

use crate::http::send_as;
use crate::support::{
    FakeModel, HeldModel, ModelReply, Piece, SseReader, TestApp, count, execute, mint_key,
    requests_of, stored, tool, until,
};

async fn replay(app: &TestApp, run: &Value) -> Value {
    let path = format!("/v1/runs/{}/replay", run["id"].as_str().unwrap());
    app.post(&path, &json!({})).await.expect(200)
}

fn same(requests: u64) -> Value {
    json!({ "requests": requests, "matches": requests, "other_renderer": 0, "unknown": 0,
            "unrecorded": 0, "missing": [], "first_divergence": null })
}

fn agent(app: &TestApp, model: &FakeModel) -> Value {
    let open = json!({ "type": "object", "additionalProperties": true });
    json!({ "name": "a", "model": model.spec(true), "instructions": "Be <b>brief</b>.",
            "tools": [tool(&app.tools, "echo", "pure", &open)] })
}

fn unavailable() -> ModelReply {
    ModelReply::Status(503, "text/html", "later".to_owned())
}

#[tokio::test]
async fn a_run_makes_the_requests_again_that_it_made_and_nothing_is_sent_or_written() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::calls(&[("echo", r#"{"n": 1}"#), ("nobody", "{}"), ("echo", "[")]),
        unavailable(),
        ModelReply::text(""),
        ModelReply::text("done"),
    ])
    .await;
    let run = app.run(&agent(&app, &model), "go <system> on").await;
    assert_eq!(run["status"], "completed", "{run}");
    let (before, sent, called) =
        (stored(&app.db).await, model.requests().len(), app.tools.seen().len());
    assert_eq!(replay(&app, &run).await, same(4));
    assert_eq!(stored(&app.db).await, before);
    assert_eq!((model.requests().len(), app.tools.seen().len()), (sent, called));
}

#[tokio::test]
async fn a_run_is_driven_again_from_where_its_memory_began() {
    let app = TestApp::start().await;
    let replies = ["one", "two", "three"].map(ModelReply::text);
    let model = FakeModel::start(replies).await;
    let agent = agent(&app, &model);
    let first = app.run(&agent, "first").await;
    let on = |reset: bool| json!({ "agent": agent, "thread_id": first["thread_id"], "input": "more", "reset": reset });
    let second = app.run_body(&on(false)).await;
    let third = app.run_body(&on(true)).await;
    let memory = format!("/v1/threads/{}/memory", first["thread_id"].as_str().unwrap());
    app.delete(&memory).await.expect(204);
    for run in [&first, &second, &third] {
        assert_eq!(replay(&app, run).await, same(1));
    }
}

#[tokio::test]
async fn an_interrupted_run_is_driven_again_as_far_as_it_went_and_then_to_its_end() {
    let app = TestApp::start().await;
    let model = HeldModel::saying([
        vec![Piece::Text("Once upon"), Piece::Hold, Piece::Text(" a time")],
        vec![Piece::Text("The end.")],
    ])
    .await;
    let agent = json!({ "name": "a", "model": model.spec() });
    let run = app.start_run(&json!({ "agent": agent, "input": "tell" })).await;
    let id = run["id"].as_str().unwrap();
    let mut stream = SseReader::of(app.stream(id, None).await);
    // The piece is told as it arrives, or as what had arrived before the reader came.
    while !["text.delta", "snapshot"].contains(&stream.next().await.unwrap().name.as_str()) {}
    // What is on record goes no further than the turn that began.
    let under_way = replay(&app, &run).await;
    assert_eq!((&under_way["requests"], &under_way["unrecorded"]), (&json!(0), &json!(1)));
    assert_eq!(under_way["first_divergence"], Value::Null);
    let say = json!({ "text": "Hurry." });
    app.post(&format!("/v1/runs/{id}/messages"), &say).await.expect(202);
    app.post(&format!("/v1/runs/{id}/interrupt"), &json!({})).await.expect(202);
    assert_eq!(app.ended(id).await["status"], "interrupted");
    assert_eq!(replay(&app, &run).await, same(1));
    app.post(&format!("/v1/runs/{id}/resume"), &json!({})).await.expect(202);
    assert_eq!(app.ended(id).await["answer"], "The end.");
    assert_eq!(replay(&app, &run).await, same(2));
}

#[tokio::test]
async fn the_first_request_that_parts_is_told_with_where_it_does() {
    let app = TestApp::start().await;
    app.falsifies_its_record();
    let replies =
        [ModelReply::call("echo", r#"{"secret": "Blue Heron"}"#), ModelReply::text("done")];
    let model = FakeModel::start(replies).await;
    let mut agent = agent(&app, &model);
    agent["redaction"] = json!([{ "kind": "value", "name": "codename", "value": "Blue Heron",
                                  "channels": ["api"] }]);
    let run = app.run(&agent, "say Blue Heron or Blue Hero").await;
    let requests = requests_of(&app, &run).await;
    let changed =
        "UPDATE step SET content = replace(content::text, 'or Blue Hero', 'or Blue Cat')::json
                    WHERE kind = 'task'";
    assert_eq!(execute(&app.db, changed).await, 1);
    let replayed = replay(&app, &run).await;
    assert_eq!((&replayed["requests"], &replayed["matches"]), (&json!(2), &json!(0)));
    let parting = &replayed["first_divergence"];
    assert_eq!((&parting["how"], &parting["request_id"]), (&json!("bytes"), &requests[0]["id"]));
    assert_eq!((&parting["turn"], &parting["attempt"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&parting["segment"], &parting["purpose"]),
        (&json!("conversation"), &json!("reply"))
    );
    let body =
        app.get(&format!("/v1/requests/{}/body", requests[0]["id"].as_str().unwrap())).await.text;
    let offset = usize::try_from(parting["offset"].as_u64().unwrap()).unwrap();
    let behind = body.get(offset..).unwrap();
    assert!(behind.starts_with("Hero\""), "{behind}");
    assert_eq!(
        (&parting["expected_span"]["step_seq"], &parting["actual_span"]["step_seq"]),
        (&json!(1), &json!(1))
    );
    let excerpt = |name: &str| parting[name].as_str().unwrap().to_owned();
    assert!(excerpt("expected_excerpt").starts_with("Hero\""), "{parting}");
    assert!(excerpt("actual_excerpt").starts_with("Cat\""), "{parting}");
    assert!(!parting.to_string().contains("Blue Heron"), "{parting}");

    let key = mint_key(&app, "default", &["runs:read"]).await;
    let path = format!("/v1/runs/{}/replay", run["id"].as_str().unwrap());
    let seen = send_as(&app, &key, ("POST", &path), "{}").await.expect(200);
    let parting = &seen["first_divergence"];
    assert_eq!(parting["offset"], offset);
    assert_eq!(
        (&parting["expected_excerpt"], &parting["actual_excerpt"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn what_cannot_be_compared_is_said_and_is_no_divergence() {
    let app = TestApp::start().await;
    app.falsifies_its_record();
    let model = FakeModel::start(["one", "two"].map(ModelReply::text)).await;
    let run = app.run(&agent(&app, &model), "go").await;
    let told = |member: &str, n: u64| {
        let mut told = same(1);
        (told["matches"], told[member]) = (json!(0), json!(n));
        told
    };
    execute(&app.db, "UPDATE model_request SET renderer = 1000").await;
    assert_eq!(replay(&app, &run).await, told("other_renderer", 1));
    let emptied = "UPDATE model_request SET renderer = NULL, sha256 = NULL, head = NULL,
                   head_encoding = NULL, conversation = NULL, conversation_encoding = NULL, spans = NULL";
    execute(&app.db, emptied).await;
    assert_eq!(replay(&app, &run).await, told("unknown", 1));
    execute(&app.db, "DELETE FROM model_request").await;
    let mut missing = same(0);
    (missing["unrecorded"], missing["missing"]) = (json!(1), json!(["requests"]));
    assert_eq!(replay(&app, &run).await, missing);
    execute(&app.db, "DELETE FROM step").await;
    let mut missing = same(0);
    missing["missing"] = json!(["steps"]);
    assert_eq!(replay(&app, &run).await, missing);
}

#[tokio::test]
async fn a_run_that_is_decided_otherwise_than_it_went_parts_from_its_course() {
    let app = TestApp::start().await;
    app.falsifies_its_record();
    let model = FakeModel::start([ModelReply::call("echo", "{}"), ModelReply::text("done")]).await;
    let run = app.run(&agent(&app, &model), "go").await;
    // As if the loop had been stopped by its first turn.
    let other = "UPDATE run SET inline_agent = replace(inline_agent::text, '\"max_steps\":15', '\"max_steps\":1')::json";
    let changed = "SELECT count(*) FROM run WHERE inline_agent->>'max_steps' = '1'";
    execute(&app.db, other).await;
    until(&app.db, "SELECT count(*) = 1 FROM run WHERE inline_agent->>'max_steps' = '1'").await;
    assert_eq!(count(&app.db, changed).await, 1);
    let replayed = replay(&app, &run).await;
    assert_eq!(replayed["first_divergence"]["turn"], 2, "{replayed}");
    assert_eq!(replayed["first_divergence"]["how"], "bytes");
}
