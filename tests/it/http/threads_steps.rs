//! `POST /v1/threads/{thread_id}/steps`: what an operator says to the model between runs.

use serde_json::{Value, json};

use super::{pointers, send_as, send_text, speaker, start_endless_run};
use crate::support::{FakeModel, ModelReply, TestApp, mint_key};

fn system(text: &str) -> Value {
    json!({ "kind": "system", "text": text })
}

async fn empty_thread(app: &TestApp) -> String {
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    format!("/v1/threads/{}", thread["id"].as_str().unwrap())
}

#[tokio::test]
async fn what_an_operator_says_is_a_step_of_no_run_and_the_next_run_reads_it() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("Hello."), ModelReply::text("Bye.")]).await;
    let agent = json!({ "name": "a", "model": model.spec(true), "instructions": "Be kind." });
    let run = app.run(&agent, "hi").await;
    let thread = format!("/v1/threads/{}", run["thread_id"].as_str().unwrap());
    let before = app.get(&thread).await;

    let said = "Closing time. <system>\u{e9}</system> <b>";
    let made = app.post(&format!("{thread}/steps"), &system(said)).await;
    let location = made.header("location").to_owned();
    let step = made.expect(201);
    assert_eq!((&step["kind"], &step["text"]), (&json!("system"), &json!(said)));
    assert_eq!(
        (&step["seq"], &step["run_id"], &step["turn"]),
        (&json!(4), &Value::Null, &json!(0))
    );
    assert_eq!(app.get(&location).await.expect(200), step);
    assert_eq!(app.all(&format!("{thread}/steps")).await.last(), Some(&step));
    assert_eq!(app.steps(run["id"].as_str().unwrap()).await.len(), 3);
    let after = app.get(&thread).await;
    assert_ne!(after.header("etag"), before.header("etag"));
    assert_eq!(after.json()["head_seq"], 4);

    let body = json!({ "agent": agent, "thread_id": run["thread_id"], "input": "more" });
    assert_eq!(app.run_body(&body).await["answer"], "Bye.");
    let requests = model.requests();
    let messages = requests[1].messages();
    let roles: Vec<&str> = messages.iter().map(|it| it["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "user"]);
    assert_eq!(messages[..2], requests[0].messages()[..2]);
    // This model has no entry of its own for it, so it is framed; only the frame's own tag is escaped.
    let framed = "<system>Closing time. &lt;system>\u{e9}&lt;/system> <b></system>";
    assert_eq!(messages[3]["content"], framed);
    assert_eq!(messages[4]["content"], "more");
    let events = app.events(run["id"].as_str().unwrap()).await;
    assert_eq!(events.last().unwrap()["event"], "run.completed");
}

#[tokio::test]
async fn what_is_said_before_the_first_task_comes_before_it() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("Hello.")]).await;
    let thread = empty_thread(&app).await;
    let step = app.post(&format!("{thread}/steps"), &system("Be brief.")).await.expect(201);
    let agent = json!({ "name": "a", "model": model.spec(false) });
    app.run_body(&json!({ "agent": agent, "thread_id": step["thread_id"], "input": "hi" })).await;
    assert_eq!(model.requests()[0].said_by("user"), ["<system>Be brief.</system>", "hi"]);
}

#[tokio::test]
async fn nothing_is_said_into_an_active_run() {
    let app = TestApp::start().await;
    let run = start_endless_run(&app).await;
    let thread = format!("/v1/threads/{}", run["thread_id"].as_str().unwrap());
    let steps = format!("{thread}/steps");
    let problem = app.post(&steps, &system("x")).await.expect_problem(409, "thread-busy");
    assert_eq!(problem["active_run_id"], run["id"]);
    assert_eq!(app.all(&steps).await.len(), 1);
    let interrupt = format!("/v1/runs/{}/interrupt", run["id"].as_str().unwrap());
    app.post(&interrupt, &json!({})).await.expect(202);
    assert_eq!(app.ended(run["id"].as_str().unwrap()).await["status"], "interrupted");
    app.post(&steps, &system("x")).await.expect(201);
    // The run would go on from a history that is no longer the thread's.
    let resume = format!("/v1/runs/{}/resume", run["id"].as_str().unwrap());
    app.post(&resume, &json!({})).await.expect_problem(409, "version-conflict");
}

#[tokio::test]
async fn a_bad_step_is_refused_at_its_place_and_nothing_is_stored() {
    let app = TestApp::start().await;
    let thread = empty_thread(&app).await;
    let steps = format!("{thread}/steps");
    let before = app.get(&thread).await;
    for (body, slug, pointer) in [
        (json!({}), "validation-failed", "/kind"),
        (json!([]), "validation-failed", ""),
        (json!({ "kind": "task", "text": "x" }), "validation-failed", "/kind"),
        (json!({ "kind": 1, "text": "x" }), "validation-failed", "/kind"),
        (json!({ "kind": "system" }), "validation-failed", "/text"),
        (json!({ "kind": "system", "text": null }), "validation-failed", "/text"),
        (json!({ "kind": "system", "text": "" }), "validation-failed", "/text"),
        (json!({ "kind": "system", "text": " \n\t" }), "validation-failed", "/text"),
        (json!({ "kind": "system", "text": "a\0" }), "text-not-storable", "/text"),
        (json!({ "kind": "system", "text": "x", "id": "y" }), "unknown-field", "/id"),
    ] {
        let problem = app.post(&steps, &body).await.expect_problem(422, slug);
        assert_eq!(pointers(&problem).first().copied(), Some(pointer), "{problem}");
    }
    send_text(&app, ("POST", &steps), "", "{").await.expect_problem(400, "malformed-json");
    let large = system(&"x".repeat(1 << 20));
    app.post(&steps, &large).await.expect_problem(413, "body-too-large");
    assert_eq!(app.all(&steps).await, Vec::<Value>::new());
    assert_eq!(app.get(&thread).await.header("etag"), before.header("etag"));
}

#[tokio::test]
async fn a_step_for_another_state_of_the_thread_is_refused() {
    let app = TestApp::start().await;
    let thread = empty_thread(&app).await;
    let (steps, body) = (format!("{thread}/steps"), system("x").to_string());
    let seen = app.get(&thread).await.header("etag").to_owned();
    send_text(&app, ("POST", &steps), &seen, &body).await.expect(201);
    let stale = send_text(&app, ("POST", &steps), &seen, &body).await;
    stale.expect_problem(412, "precondition-failed");
    let racing = app.get(&thread).await.header("etag").to_owned();
    let tries = (0..6).map(|_| send_text(&app, ("POST", &steps), &racing, &body));
    let mut statuses: Vec<u16> =
        futures::future::join_all(tries).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 412, 412, 412, 412, 412]);
    let freely = (0..6).map(|_| send_text(&app, ("POST", &steps), "", &body));
    assert!(futures::future::join_all(freely).await.iter().all(|answer| answer.status == 201));
    let seqs: Vec<Value> = app.all(&steps).await.iter().map(|step| step["seq"].clone()).collect();
    assert_eq!(json!(seqs), json!([1, 2, 3, 4, 5, 6, 7, 8]));
}

#[tokio::test]
async fn the_system_voice_takes_a_scope_of_its_own_and_a_thread_of_the_tenant() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let steps = format!("/v1/threads/{}/steps", run["thread_id"].as_str().unwrap());
    let body = system("x").to_string();
    let writer = mint_key(&app, "default", &["memory:write", "memory:read"]).await;
    let answer = send_as(&app, &writer, ("POST", &steps), &body).await;
    assert_eq!(answer.expect_problem(403, "insufficient-scope")["required"], "memory:system");
    let stranger = mint_key(&app, "other", &["memory:system"]).await;
    for path in [steps.as_str(), "/v1/threads/thr_0198f2c4a1b27cde8f00112233445566/steps"] {
        let answer = send_as(&app, &stranger, ("POST", path), &body).await;
        answer.expect_problem(404, "not-found");
    }
    let operator = mint_key(&app, "default", &["memory:system"]).await;
    send_as(&app, &operator, ("POST", &steps), &body).await.expect(201);
}
