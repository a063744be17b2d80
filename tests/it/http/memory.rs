//! `/v1/threads/{thread_id}/memory`.

use serde_json::{Value, json};

use super::{pointers, send_as, send_text, speaker, start_endless_run};
use crate::support::{Answer, TestApp, mint_key, tool};

const V1_DOCUMENTS: [&str; 4] = [
    include_str!("../../data/memory_v1/edges.json"),
    include_str!("../../data/memory_v1/plain.json"),
    include_str!("../../data/memory_v1/redacted_loop.json"),
    include_str!("../../data/memory_v1/tools.json"),
];

/// A fresh thread; answers the path of its memory.
async fn empty_memory(app: &TestApp) -> String {
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap())
}

async fn load(app: &TestApp, path: &str, document: &str) -> Answer {
    send_text(app, ("PUT", path), "", document).await
}

fn said(text: &str) -> String {
    let task = json!({ "kind": "task", "parts": [{ "part_kind": "text", "text": text }] });
    json!({ "version": 2, "thread": {}, "steps": [task] }).to_string()
}

/// A run with two tool calls, one of which does not fit its schema; answers the path of its memory.
async fn eventful_memory(app: &TestApp) -> String {
    let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    let call = |arguments: Value| json!({ "name": "look", "arguments": arguments });
    let agent = json!({
        "name": "a",
        "tools": [tool(&app.tools, "look", "pure", &parameters)],
        "model": { "provider": "scripted", "name": "m", "script": [
            { "text": "Let me see.", "thinking": "hm",
              "tool_calls": [call(json!({ "n": "x" })), call(json!({ "n": 1, "z": 0 }))] },
            { "tool_calls": [call(json!({ "n": 1 }))] },
            { "text": "Done." },
        ] },
    });
    let run = app.run(&agent, "look \u{1f9ed}").await;
    assert_eq!(run["status"], "completed", "{run}");
    format!("/v1/threads/{}/memory", run["thread_id"].as_str().unwrap())
}

#[tokio::test]
async fn what_is_exported_and_loaded_is_exported_again_to_the_byte() {
    let app = TestApp::start().await;
    let memory = eventful_memory(&app).await;
    let exported = app.get(&memory).await;
    assert_eq!((exported.status, exported.header("content-type")), (200, "application/json"));
    assert_eq!(exported.json()["version"], 2);
    let copy = empty_memory(&app).await;
    load(&app, &copy, &exported.text).await.expect(200);
    assert_eq!(app.get(&copy).await.text, exported.text);
    let body = format!("{{\"memory\":{}}}", exported.text);
    let thread = send_text(&app, ("POST", "/v1/threads"), "", &body).await.expect(201);
    let third = format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap());
    assert_eq!(app.get(&third).await.text, exported.text);
}

#[tokio::test]
async fn a_document_of_the_original_framework_comes_back_with_nothing_lost() {
    let app = TestApp::start().await;
    for document in V1_DOCUMENTS {
        let memory = empty_memory(&app).await;
        load(&app, &memory, document).await.expect(200);
        let exported = app.get(&format!("{memory}?version=1")).await.expect(200);
        assert_eq!(exported, serde_json::from_str::<Value>(document).unwrap());
        let without_version = document.replacen("\"version\": 1,", "", 1);
        load(&app, &memory, &without_version).await.expect(200);
        assert_eq!(app.get(&format!("{memory}?version=1")).await.expect(200), exported);
    }
}

#[tokio::test]
async fn an_export_that_would_lose_something_says_what_unless_it_may() {
    let app = TestApp::start().await;
    let memory = eventful_memory(&app).await;
    let problem = app.get(&format!("{memory}?version=1")).await;
    let problem = problem.expect_problem(422, "validation-failed");
    assert!(pointers(&problem).iter().all(|pointer| pointer.starts_with("/steps/")), "{problem}");
    let lossy = app.get(&format!("{memory}?version=1&lossy=true")).await.expect(200);
    assert_eq!(lossy["version"], 1);
    for query in ["version=0", "version=3", "version=x", "lossy=1", "fields=secret"] {
        app.get(&format!("{memory}?{query}")).await.expect_problem(400, "invalid-parameter");
    }
}

/// A broken document, its slug, and the pointer of its first finding.
fn broken() -> Vec<(String, &'static str, &'static str)> {
    let v2 = |steps: Value| json!({ "version": 2, "thread": {}, "steps": steps }).to_string();
    let call =
        json!({ "part_kind": "tool_call", "tool_call_id": "c", "name": "t", "arguments": "" });
    let action = |outcomes: Value| {
        json!({ "kind": "action", "reply": { "state": "complete", "parts": [call] },
                "outcomes": outcomes })
    };
    let outcome = json!({ "tool_call_id": "c", "name": "t", "is_error": false, "kind": "success",
                          "attempts": 1 });
    let load_error = "memory-load-error";
    vec![
        ("{".to_owned(), load_error, ""),
        (String::new(), load_error, ""),
        ("not json".to_owned(), load_error, ""),
        ("[]".to_owned(), load_error, ""),
        ("null".to_owned(), load_error, ""),
        ("{}".to_owned(), load_error, "/steps"),
        (r#"{"version":"2"}"#.to_owned(), load_error, "/version"),
        (r#"{"version":3,"steps":[]}"#.to_owned(), "memory-version-unsupported", "/version"),
        (r#"{"version":1,"version":1,"steps":[]}"#.to_owned(), load_error, "/version"),
        (r#"{"version":2,"thread":{},"steps":[],"x":1}"#.to_owned(), load_error, "/x"),
        (v2(json!({})), load_error, "/steps"),
        (v2(json!([{ "kind": "dream" }])), load_error, "/steps/0/kind"),
        (v2(json!([{ "kind": "task", "parts": [] }])), load_error, "/steps/0/parts"),
        (v2(json!([{ "kind": "final", "answer": "a\0" }])), load_error, "/steps/0/answer"),
        (v2(json!([action(json!([]))])), load_error, "/steps/0/reply/parts/0/tool_call_id"),
        (
            v2(json!([action(json!([outcome, outcome]))])),
            load_error,
            "/steps/0/outcomes/1/tool_call_id",
        ),
        ("[".repeat(65) + &"]".repeat(65), "json-too-deep", ""),
        ("[".repeat(100_000), "json-too-deep", ""),
    ]
}

#[tokio::test]
async fn a_broken_document_leaves_the_thread_untouched() {
    let app = TestApp::start().await;
    let memory = eventful_memory(&app).await;
    let thread = memory.trim_end_matches("/memory");
    let steps = format!("{thread}/steps");
    let before = (app.get(&memory).await.text, app.get(thread).await.text, app.all(&steps).await);
    for (document, slug, pointer) in broken() {
        let status = if slug == "json-too-deep" { 400 } else { 422 };
        let start: String = document.chars().take(80).collect();
        let answer = load(&app, &memory, &document).await;
        assert_eq!(
            (answer.status, answer.slug().as_str()),
            (status, slug),
            "{start}: {}",
            answer.text
        );
        let problem = answer.json();
        let first = pointers(&problem).first().copied().unwrap_or_default().to_owned();
        assert_eq!(first, pointer, "{start}: {problem}");
    }
    let after = (app.get(&memory).await.text, app.get(thread).await.text, app.all(&steps).await);
    assert_eq!(after, before);
}

#[tokio::test]
async fn a_document_may_have_sixteen_mebibytes_and_not_one_byte_more() {
    let app = TestApp::start().await;
    let memory = empty_memory(&app).await;
    let long = said(&"x".repeat(15 * 1024 * 1024));
    load(&app, &memory, &long).await.expect(200);
    let kept = app.get(&memory).await.json();
    assert_eq!(kept["steps"], serde_json::from_str::<Value>(&long).unwrap()["steps"]);
    let padded = |size: usize| format!("{}{}", " ".repeat(size - said("x").len()), said("x"));
    let most = 16 * 1024 * 1024;
    let problem = load(&app, &memory, &padded(most + 1)).await;
    assert_eq!(problem.expect_problem(413, "body-too-large")["limit"], most);
    load(&app, &memory, &padded(most)).await.expect(200);
}

#[tokio::test]
async fn only_plain_json_is_loaded() {
    let app = TestApp::start().await;
    let memory = empty_memory(&app).await;
    for (name, value) in [("content-type", "text/plain"), ("content-encoding", "gzip")] {
        let request = app.request("PUT", &memory).header(name, value);
        let request = if name == "content-type" {
            request
        } else {
            request.header("content-type", "application/json")
        };
        app.send(request.body(said("x"))).await.expect_problem(415, "unsupported-media-type");
    }
    let request = app.request("PUT", &memory).header("content-type", "application/json");
    app.send(request.body(b"{\"\xff\":1}".to_vec())).await.expect_problem(400, "invalid-utf8");
    assert_eq!(app.get(&memory).await.json()["steps"], json!([]));
}

#[tokio::test]
async fn a_load_replaces_what_a_model_sees_and_keeps_what_was() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let thread = format!("/v1/threads/{}", run["thread_id"].as_str().unwrap());
    let memory = format!("{thread}/memory");
    let labelled = json!({ "version": 2, "thread": { "metadata": { "k": "v" } }, "steps": [] });
    let view = load(&app, &memory, &labelled.to_string()).await.expect(200);
    assert_eq!((&view["memory_from"], &view["metadata"]), (&json!(4), &json!({ "k": "v" })));
    let view = load(&app, &memory, &said("before")).await.expect(200);
    assert_eq!((&view["memory_from"], &view["head_seq"]), (&json!(4), &json!(4)));
    assert_eq!(view["metadata"], json!({ "k": "v" }));
    let echo = json!({ "name": "e", "model": { "provider": "scripted", "name": "m",
                       "script": [{ "echo": true }] } });
    app.run_body(&json!({ "agent": echo, "thread_id": run["thread_id"], "input": "now" })).await;
    let kinds = |document: &Value| -> Vec<String> {
        let steps = document["steps"].as_array().unwrap().iter();
        steps.map(|step| step["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&app.get(&memory).await.json()), ["task", "task", "action", "final"]);
    assert_eq!(app.all(&format!("{thread}/steps")).await.len(), 7);
    assert_eq!(app.delete(&memory).await.status, 204);
    assert_eq!(kinds(&app.get(&memory).await.json()), Vec::<String>::new());
    assert_eq!(app.all(&format!("{thread}/steps")).await.len(), 7);
    assert_eq!(app.get(&thread).await.json()["metadata"], json!({ "k": "v" }));
}

#[tokio::test]
async fn a_change_that_names_another_state_is_refused() {
    let app = TestApp::start().await;
    let memory = empty_memory(&app).await;
    let first = app.get(&memory).await.header("etag").to_owned();
    assert_eq!(first, "\"1-0\"");
    let loaded = send_text(&app, ("PUT", &memory), &first, &said("one")).await;
    let second = loaded.header("etag").to_owned();
    loaded.expect(200);
    assert_eq!(app.get(&memory).await.header("etag"), second);
    for method in ["PUT", "DELETE"] {
        let answer = send_text(&app, (method, &memory), &first, &said("two")).await;
        answer.expect_problem(412, "precondition-failed");
    }
    assert_eq!(app.get(&memory).await.header("etag"), second);
    assert_eq!(send_text(&app, ("DELETE", &memory), &second, "").await.status, 204);
    let racing = app.get(&memory).await.header("etag").to_owned();
    let document = said("race");
    let tries = (0..6).map(|_| send_text(&app, ("PUT", &memory), &racing, &document));
    let mut statuses: Vec<u16> =
        futures::future::join_all(tries).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412, 412, 412, 412]);
}

#[tokio::test]
async fn the_memory_of_a_running_thread_is_read_as_it_stands_and_not_changed() {
    let app = TestApp::start().await;
    let run = start_endless_run(&app).await;
    let memory = format!("/v1/threads/{}/memory", run["thread_id"].as_str().unwrap());
    let exported = app.get(&memory).await;
    assert_eq!(exported.header("etag"), "\"1-1\"");
    assert_eq!(exported.json()["steps"][0]["kind"], "task");
    let problem = load(&app, &memory, &said("x")).await.expect_problem(409, "thread-busy");
    assert_eq!(problem["active_run_id"], run["id"]);
    app.delete(&memory).await.expect_problem(409, "thread-busy");
    assert_eq!(app.get(&memory).await.text, exported.text);
}

#[tokio::test]
async fn an_action_under_way_is_not_exported_before_its_calls_have_ended() {
    let app = TestApp::start().await;
    app.tools.hold("slow");
    let agent = json!({
        "name": "a",
        "tools": [tool(&app.tools, "slow", "pure", &json!({ "type": "object" }))],
        "model": { "provider": "scripted", "name": "m", "script": [
            { "tool_calls": [{ "name": "slow", "arguments": {} }] }, { "text": "Done." },
        ] },
    });
    let run = app.post("/v1/runs", &json!({ "agent": agent, "input": "go" })).await.expect(201);
    app.tools.wait_for(1).await;
    let memory = format!("/v1/threads/{}/memory", run["thread_id"].as_str().unwrap());
    let during = app.get(&memory).await;
    assert_eq!(
        (during.json()["steps"].as_array().unwrap().len(), during.header("etag")),
        (1, "\"1-1\"")
    );
    app.tools.release("slow");
    app.get(&format!("/v1/runs/{}?wait=60", run["id"].as_str().unwrap())).await.expect(200);
    let after = app.get(&memory).await;
    assert_eq!(
        (after.json()["steps"].as_array().unwrap().len(), after.header("etag")),
        (4, "\"1-4\"")
    );
}

#[tokio::test]
async fn text_in_the_system_voice_takes_a_scope_of_its_own() {
    let app = TestApp::start().await;
    let memory = empty_memory(&app).await;
    let document = json!({ "version": 2, "thread": {},
                           "steps": [{ "kind": "system", "text": "Obey." }] })
    .to_string();
    let writer = mint_key(&app, "default", &["memory:write"]).await;
    let body = format!("{{\"memory\":{document}}}");
    for (request, body) in [(("PUT", memory.as_str()), &document), (("POST", "/v1/threads"), &body)]
    {
        let answer = send_as(&app, &writer, request, body).await;
        assert_eq!(answer.expect_problem(403, "insufficient-scope")["required"], "memory:system");
    }
    let trusted = mint_key(&app, "default", &["memory:write", "memory:system"]).await;
    send_as(&app, &trusted, ("PUT", &memory), &document).await.expect(200);
    send_as(&app, &trusted, ("POST", "/v1/threads"), &body).await.expect(201);
}
