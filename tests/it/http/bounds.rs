//! What a tenant may hold at once, and what a server that stops says meanwhile.

use serde_json::{Value, json};

use crate::support::{TestApp, execute, tool, with_json};

fn held_agent(app: &TestApp) -> Value {
    app.tools.hold("slow");
    let call = json!({"name": "slow", "arguments": {}});
    json!({
        "name": "slow",
        "model": {"provider": "scripted", "name": "m",
            "script": [{"tool_calls": [call]}, {"text": "Done."}]},
        "tools": [tool(&app.tools, "slow", "pure", &json!({"type": "object"}))],
    })
}

#[tokio::test]
async fn the_hundred_and_first_stream_of_a_tenant_is_refused() {
    let app = TestApp::start().await;
    let body = json!({"agent": held_agent(&app), "input": "Go."});
    let run = app.post("/v1/runs", &body).await.expect(201);
    let path = format!("/v1/runs/{}/stream", run["id"].as_str().unwrap());
    let mut streams = Vec::new();
    for _ in 0..100 {
        let response = app.request("GET", &path).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        streams.push(response);
    }
    let refused = app.get(&path).await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.expect_problem(429, "too-many-streams");
    app.post("/v1/runs/stream", &body).await.expect_problem(429, "too-many-streams");
    app.tools.release("slow");
    for stream in streams {
        assert!(stream.text().await.unwrap().contains("run.completed"));
    }
    app.get(&path).await.expect(200);
}

#[tokio::test]
async fn a_tenant_with_a_thousand_runs_waiting_is_told_to_come_back() {
    let app = TestApp::start().await;
    execute(
        &app.db,
        "INSERT INTO thread (tenant_id, thread_id, framing_policy, metadata, created_at, updated_at)
         SELECT 'default', gen_random_uuid(), 'frames', '{}', now(), now()
           FROM generate_series(1, 999)",
    )
    .await;
    execute(
        &app.db,
        "INSERT INTO run (tenant_id, run_id, thread_id, inline_agent, status, next_seq,
                          next_event_seq, available_at, op_id, metadata, created_at)
         SELECT tenant_id, gen_random_uuid(), thread_id, '{}', 'queued', 2, 3,
                now() + interval '1 day', gen_random_uuid(), '{}', now()
           FROM thread",
    )
    .await;
    let body = json!({"agent": held_agent(&app), "input": "Go."});
    // The thousandth is accepted and leaves the queue at once; another takes its place in it.
    let run = app.post("/v1/runs", &body).await.expect(201);
    app.tools.wait_for(1).await;
    execute(
        &app.db,
        "INSERT INTO thread (tenant_id, thread_id, framing_policy, metadata, created_at, updated_at)
         VALUES ('default', '00000000-0000-0000-0000-000000000001', 'frames', '{}', now(), now())",
    )
    .await;
    execute(
        &app.db,
        "INSERT INTO run (tenant_id, run_id, thread_id, inline_agent, status, next_seq,
                          next_event_seq, available_at, op_id, metadata, created_at)
         VALUES ('default', gen_random_uuid(), '00000000-0000-0000-0000-000000000001', '{}', 'queued',
                 2, 3, now() + interval '1 day', gen_random_uuid(), '{}', now())",
    )
    .await;
    let refused = app.post("/v1/runs", &body).await;
    assert_eq!(refused.header("retry-after"), "1");
    refused.expect_problem(429, "tenant-queue-full");
    // What runs already is none of the queue's business.
    app.tools.release("slow");
    let path = format!("/v1/runs/{}?wait=60", run["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.expect(200)["status"], "completed");
}

#[tokio::test]
async fn a_server_that_stops_says_so_and_keeps_no_caller_waiting() {
    let app = TestApp::start().await;
    let body = json!({"agent": held_agent(&app), "input": "Go."});
    let waiting = with_json(app.request("POST", "/v1/runs"), &body).header("prefer", "wait=60");
    let engine = app.running.engine.clone();
    let stopping = async {
        app.tools.wait_for(1).await;
        engine.shut_down().await;
    };
    let meanwhile = async {
        app.tools.wait_for(1).await;
        while app.running.engine.admit().is_ok() {
            tokio::task::yield_now().await;
        }
        app.get("/readyz").await.expect_problem(503, "draining");
        app.post("/v1/runs", &body).await.expect_problem(503, "draining");
        app.tools.release("slow");
    };
    let (answer, (), ()) = tokio::join!(app.send(waiting), stopping, meanwhile);
    let run = answer.expect(202);
    let path = format!("/v1/runs/{}", run["id"].as_str().unwrap());
    let status = app.get(&path).await.expect(200)["status"].clone();
    // The call in flight was waited for and recorded; then the run was given back.
    assert_eq!(status, "queued");
}
