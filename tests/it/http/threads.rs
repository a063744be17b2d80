//! `/v1/threads`.

use serde_json::{Value, json};

use super::{pointers, send_as, speaker, start_endless_run};
use crate::support::{TestApp, mint_key};

#[tokio::test]
async fn a_thread_is_created_read_listed_and_deleted() {
    let app = TestApp::start().await;
    let made = app.post("/v1/threads", &json!({ "metadata": { "user": "7" } })).await;
    let (location, tag) = (made.header("location").to_owned(), made.header("etag").to_owned());
    let thread = made.expect(201);
    assert_eq!((&thread["metadata"], &thread["head_seq"]), (&json!({ "user": "7" }), &json!(0)));
    assert_eq!(thread["framing_policy"], "frames");
    let read = app.get(&location).await;
    assert_eq!(read.header("etag"), tag);
    assert_eq!(read.expect(200), thread);
    let other = app.post("/v1/threads", &json!({})).await.expect(201);
    assert_eq!(app.all("/v1/threads").await, [other, thread]);
    assert_eq!(app.delete(&location).await.status, 204);
    app.get(&location).await.expect_problem(410, "gone");
    assert_eq!(app.delete(&location).await.status, 204, "deleting again changes nothing");
    assert_eq!(app.all("/v1/threads").await.len(), 1);
}

#[tokio::test]
async fn a_thread_goes_with_its_runs_and_its_steps() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let run_path = format!("/v1/runs/{}", run["id"].as_str().unwrap());
    let step = app.all(&format!("{run_path}/steps")).await[0].clone();
    let thread = format!("/v1/threads/{}", run["thread_id"].as_str().unwrap());
    assert_eq!(app.delete(&thread).await.status, 204);
    app.get(&run_path).await.expect_problem(410, "gone");
    app.get(&format!("/v1/steps/{}", step["id"].as_str().unwrap()))
        .await
        .expect_problem(404, "not-found");
}

#[tokio::test]
async fn a_thread_with_an_active_run_stays() {
    let app = TestApp::start().await;
    let run = start_endless_run(&app).await;
    let thread = format!("/v1/threads/{}", run["thread_id"].as_str().unwrap());
    let problem = app.delete(&thread).await.expect_problem(409, "thread-busy");
    assert_eq!(problem["active_run_id"], run["id"]);
    app.get(&thread).await.expect(200);
    let cancel = format!("/v1/runs/{}/cancel", run["id"].as_str().unwrap());
    app.post(&cancel, &json!({ "wait": true })).await.expect(202);
    assert_eq!(app.delete(&thread).await.status, 204);
}

#[tokio::test]
async fn a_bad_thread_is_refused_at_its_place_and_nothing_is_stored() {
    let app = TestApp::start().await;
    let pairs: serde_json::Map<String, Value> =
        (0..51).map(|n| (n.to_string(), json!("x"))).collect();
    let unpaired = json!({ "version": 2, "thread": {}, "steps": [{ "kind": "task" }] });
    for (body, slug, pointer) in [
        (json!({ "metadata": pairs }), "validation-failed", "/metadata"),
        (json!({ "metadata": { "a": 1 } }), "validation-failed", "/metadata/a"),
        (json!({ "metadata": { "a": "x".repeat(513) } }), "validation-failed", "/metadata/a"),
        (json!({ "metadata": [] }), "validation-failed", "/metadata"),
        (json!({ "framing_policy": "none" }), "validation-failed", "/framing_policy"),
        (json!({ "memory": "x" }), "validation-failed", "/memory"),
        (json!({ "id": "x" }), "unknown-field", "/id"),
        (json!({ "metadata": { "a": "\0" } }), "text-not-storable", "/metadata/a"),
        (json!([]), "validation-failed", ""),
        (json!({ "memory": unpaired }), "memory-load-error", "/memory/steps/0/parts"),
        (json!({ "memory": {} }), "memory-load-error", "/memory/steps"),
        (json!({ "memory": { "version": 3 } }), "memory-version-unsupported", "/memory/version"),
    ] {
        let problem = app.post("/v1/threads", &body).await.expect_problem(422, slug);
        assert_eq!(pointers(&problem).first().copied(), Some(pointer), "{problem}");
    }
    assert_eq!(app.all("/v1/threads").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_thread_starts_from_a_memory_document() {
    let app = TestApp::start().await;
    let steps = concat!(
        r#"[{"kind":"task","parts":[{"part_kind":"text","text":"hi"}]},"#,
        r#"{"kind":"final","answer":"{}","output":{"z":1,"a":[2]}}]"#
    );
    let body = format!(
        r#"{{"memory":{{"version":2,"thread":{{"metadata":{{"user":"7"}}}},"steps":{steps}}}}}"#
    );
    let request = app.request("POST", "/v1/threads").header("content-type", "application/json");
    let thread = app.send(request.body(body)).await.expect(201);
    assert_eq!((&thread["head_seq"], &thread["memory_from"]), (&json!(2), &json!(1)));
    assert_eq!(thread["metadata"], json!({ "user": "7" }));
    let path = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    assert_eq!(app.get(&path).await.expect(200), thread);
    let listed = app.all(&format!("{path}/steps")).await;
    assert_eq!((&listed[1]["kind"], &listed[1]["run_id"]), (&json!("final"), &Value::Null));
    let run =
        json!({ "agent": speaker("a", "Hello."), "thread_id": thread["id"], "input": "more" });
    app.run_body(&run).await;
    assert_eq!(app.all(&format!("{path}/steps")).await.len(), 5);
}

#[tokio::test]
async fn labels_of_the_request_win_over_those_of_the_document() {
    let app = TestApp::start().await;
    let memory = json!({ "version": 2, "thread": { "metadata": { "a": "1" } }, "steps": [] });
    let body = json!({ "metadata": { "b": "2" }, "memory": memory, "framing_policy": "frames" });
    let thread = app.post("/v1/threads", &body).await.expect(201);
    assert_eq!(thread["metadata"], json!({ "b": "2" }));
}

#[tokio::test]
async fn a_thread_of_another_tenant_is_as_absent_as_one_that_never_was() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let key = mint_key(&app, "other", &["memory:read", "memory:write"]).await;
    let memory = json!({ "version": 2, "thread": {}, "steps": [] }).to_string();
    let mine = thread["id"].as_str().unwrap();
    for id in
        [mine, "thr_0198f2c4a1b27cde8f00112233445566", "run_0198f2c4a1b27cde8f00112233445566", "x"]
    {
        for (method, rest) in [
            ("GET", ""),
            ("DELETE", ""),
            ("GET", "/steps"),
            ("GET", "/memory"),
            ("PUT", "/memory"),
            ("DELETE", "/memory"),
        ] {
            let path = format!("/v1/threads/{id}{rest}");
            let answer = send_as(&app, &key, (method, &path), &memory).await;
            assert_eq!(
                answer.expect_problem(404, "not-found")["detail"],
                "nothing is found under this id"
            );
        }
    }
    let ours = mint_key(&app, "default", &["memory:read"]).await;
    let kept = app.with_key(&ours).get(&format!("/v1/threads/{mine}")).await;
    assert_eq!(kept.expect(200), thread);
}

#[tokio::test]
async fn each_operation_needs_its_scope() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let path = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    let reader = mint_key(&app, "default", &["memory:read"]).await;
    let writer = mint_key(&app, "default", &["memory:write"]).await;
    let (steps, memory) = (format!("{path}/steps"), format!("{path}/memory"));
    for (key, method, path, required) in [
        (&writer, "GET", "/v1/threads", "memory:read"),
        (&writer, "GET", &path, "memory:read"),
        (&writer, "GET", &steps, "memory:read"),
        (&writer, "GET", &memory, "memory:read"),
        (&reader, "POST", "/v1/threads", "memory:write"),
        (&reader, "DELETE", &path, "memory:write"),
        (&reader, "PUT", &memory, "memory:write"),
        (&reader, "DELETE", &memory, "memory:write"),
    ] {
        let answer = send_as(&app, key, (method, path), "{}").await;
        assert_eq!(answer.expect_problem(403, "insufficient-scope")["required"], required);
    }
}
