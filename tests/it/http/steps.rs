//! `/v1/steps`.

use serde_json::{Value, json};

use super::{send_as, speaker};
use crate::support::{TestApp, mint_key};

#[tokio::test]
async fn a_step_is_read_by_its_id_as_the_lists_show_it() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let of_thread = format!("/v1/threads/{}/steps", run["thread_id"].as_str().unwrap());
    let steps = app.all(&of_thread).await;
    let of_run = app.all(&format!("/v1/runs/{}/steps", run["id"].as_str().unwrap())).await;
    assert_eq!(steps, of_run);
    let kinds: Vec<&str> = steps.iter().map(|step| step["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["task", "action", "final"]);
    for (step, seq) in steps.iter().zip(1..) {
        assert_eq!((&step["seq"], &step["run_id"]), (&json!(seq), &run["id"]));
        let read = app.get(&format!("/v1/steps/{}", step["id"].as_str().unwrap())).await;
        assert_eq!(&read.expect(200), step);
    }
    assert_eq!(steps[0]["parts"], json!([{ "part_kind": "text", "text": "hi" }]));
    assert_eq!(steps[1]["reply"]["parts"][0]["text"], "Hello.");
    assert_eq!(steps[1]["usage"], steps[1]["reply"]["usage"]);
    assert_eq!((&steps[2]["answer"], &steps[2]["stop_reason"]), (&json!("Hello."), &json!("text")));
}

#[tokio::test]
async fn a_step_of_another_tenant_is_not_there() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let path = format!("/v1/runs/{}/steps", run["id"].as_str().unwrap());
    let id = app.all(&path).await[0]["id"].as_str().unwrap().to_owned();
    let key = mint_key(&app, "other", &["runs:read", "memory:read"]).await;
    for id in [id.as_str(), "stp_0198f2c4a1b27cde8f00112233445566", "x"] {
        let answer = send_as(&app, &key, ("GET", &format!("/v1/steps/{id}")), "").await;
        answer.expect_problem(404, "not-found");
    }
    let blind = mint_key(&app, "default", &["runs:write"]).await;
    let answer = send_as(&app, &blind, ("GET", &format!("/v1/steps/{id}")), "").await;
    assert_eq!(answer.expect_problem(403, "insufficient-scope")["required"], "runs:read");
}

#[tokio::test]
async fn the_steps_of_a_thread_come_page_by_page_in_order() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let path = format!("/v1/threads/{}/steps", run["thread_id"].as_str().unwrap());
    let mut seqs = Vec::new();
    let mut next = format!("{path}?limit=1");
    loop {
        let page = app.get(&next).await.expect(200);
        seqs.extend(page["items"].as_array().unwrap().iter().map(|step| step["seq"].clone()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        next = format!("{path}?limit=1&cursor={cursor}");
    }
    assert_eq!(Value::from(seqs), json!([1, 2, 3]));
    app.get("/v1/threads/thr_0198f2c4a1b27cde8f00112233445566/steps")
        .await
        .expect_problem(404, "not-found");
}
