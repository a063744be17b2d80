//! Ids, pages, and what is read for them.

use serde_json::json;

use super::super::{send_as, speaker, without_ids};
use crate::support::{TestApp, execute, mint_key};

#[tokio::test]
async fn b46_whatever_is_wrong_with_an_id_the_answer_is_the_same() {
    let app = TestApp::start().await;
    let foreign = mint_key(&app, "other", &["admin"]).await;
    let theirs = send_as(&app, &foreign, ("POST", "/v1/threads"), "{}").await.expect(201);
    let body = json!({ "agent": speaker("a", "x"), "input": "hi" }).to_string();
    let run = send_as(&app, &foreign, ("POST", "/v1/runs"), &body).await.expect(201);
    let key = mint_key(&app, "default", &["admin"]).await;
    let app = app.with_key(&key);
    let uuid = "0198f2c4a1b27cde8f00112233445566";
    for (kind, prefix, id) in [("threads", "thr", &theirs["id"]), ("runs", "run", &run["id"])] {
        let foreign = id.as_str().unwrap().to_owned();
        let never = format!("{prefix}_{uuid}");
        let other = format!("agt_{uuid}");
        let short = format!("{prefix}_1");
        let mut answers = Vec::new();
        for id in [foreign, never, other, short, "x".to_owned(), "%00".to_owned()] {
            let answer = app.get(&format!("/v1/{kind}/{id}")).await;
            answers.push(without_ids(answer.expect_problem(404, "not-found")));
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
}

#[tokio::test]
async fn b47_a_cursor_of_another_tenant_is_none() {
    let app = TestApp::start().await;
    let foreign = mint_key(&app, "other", &["admin"]).await;
    for _ in 0..2 {
        send_as(&app, &foreign, ("POST", "/v1/threads"), "{}").await.expect(201);
    }
    let page = send_as(&app, &foreign, ("GET", "/v1/threads?limit=1"), "").await.expect(200);
    let key = mint_key(&app, "default", &["admin"]).await;
    let app = app.with_key(&key);
    let path = format!("/v1/threads?cursor={}", page["next_cursor"].as_str().unwrap());
    app.get(&path).await.expect_problem(400, "invalid-cursor");
}

/// Steps that cannot be read show that none is.
#[tokio::test]
async fn b50_a_page_of_long_runs_reads_none_of_their_steps() {
    let app = TestApp::start().await;
    app.falsifies_its_record();
    execute(
        &app.db,
        "INSERT INTO thread (tenant_id, thread_id, framing_policy, metadata, created_at, updated_at)
         SELECT 'default', gen_random_uuid(), 'frames', '{}', now(), now()
           FROM generate_series(1, 200)",
    )
    .await;
    execute(
        &app.db,
        "INSERT INTO run (tenant_id, run_id, thread_id, inline_agent, status, stop_reason, answer,
                          next_seq, next_event_seq, available_at, op_id, metadata, created_at,
                          n_steps, finished_at)
         SELECT tenant_id, gen_random_uuid(), thread_id, '{}', 'completed', 'final_answer', 'x',
                1001, 3, now(), gen_random_uuid(), '{}', now(), 1000, now()
           FROM thread",
    )
    .await;
    execute(
        &app.db,
        "INSERT INTO step (tenant_id, thread_id, seq, step_id, run_id, turn, attempt, kind, op_id,
                           epoch, content, created_at)
         SELECT tenant_id, thread_id, seq, gen_random_uuid(), run_id, 0, 0, 'action',
                gen_random_uuid(), 0, '\"unreadable\"', now()
           FROM run, generate_series(1, 1000) AS seq",
    )
    .await;
    let page = app.get("/v1/runs?limit=200").await.expect(200);
    let runs = page["items"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["steps"]), (200, &json!(1000)), "{}", runs[0]);
}
