//! `Idempotency-Key`: which operations take it, and that what is asked for under a key is done once.
//!
//! A new `POST` needs a line in [`POSTS`].

use std::collections::BTreeMap;

use agentling::http::openapi_document;
use serde_json::{Value, json};

use super::speaker;
use crate::support::{
    Answer, TestApp, agent_with, assert_invariants, client_tool, run_path, saying, until, with_json,
};

/// What a repeated request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeated {
    /// With the same key, nothing: it is answered as the first one was.
    Once,
    /// What the description of the operation says.
    Told,
}

use Repeated::{Once, Told};

/// Every operation that is a `POST`.
const POSTS: &[(&str, Repeated)] = &[
    ("agents_create", Once),
    ("keys_create", Once),
    ("keys_rotate", Once),
    ("mcp_servers_create", Once),
    ("mcp_servers_test", Told),
    ("memory_items_redact", Told),
    ("memory_search", Told),
    ("memory_validate", Told),
    ("prompts_render", Told),
    ("redaction_selftest", Told),
    ("runs_cancel", Told),
    ("runs_create", Once),
    ("runs_create_stream", Once),
    ("runs_decide", Told),
    ("runs_interrupt", Told),
    ("runs_post_tool_results", Told),
    ("runs_replay", Told),
    ("runs_resolve", Told),
    ("runs_resume", Told),
    ("runs_say", Once),
    ("schedules_create", Once),
    ("skills_create", Once),
    ("threads_append", Once),
    ("threads_compact", Once),
    ("threads_create", Once),
    ("threads_fork", Once),
    ("tools_test", Once),
    ("webhooks_create", Once),
    ("webhooks_redeliver", Once),
    ("webhooks_rotate", Once),
];

#[test]
fn every_post_takes_a_key_or_says_what_a_repeated_request_does() {
    let document = openapi_document();
    let paths = document["paths"].as_object().unwrap().values();
    let posts = paths.filter_map(|path| path.get("post"));
    let found: BTreeMap<&str, Repeated> = posts
        .map(|post| {
            let parameters = post["parameters"].as_array().into_iter().flatten();
            let mut names = parameters.map(|parameter| &parameter["name"]);
            let id = post["operationId"].as_str().unwrap();
            let says = post["description"].as_str().unwrap_or_default();
            if names.any(|name| name == "Idempotency-Key") {
                return (id, Once);
            }
            let is_told = says.replace('\n', " ").contains("repeated request");
            assert!(is_told, "`{id}` takes no key and says nothing of a repeated request");
            (id, Told)
        })
        .collect();
    assert_eq!(found, POSTS.iter().copied().collect());
}

async fn keyed(app: &TestApp, path: &str, body: &Value) -> Answer {
    let request = with_json(app.request("POST", path), body);
    app.send(request.header("idempotency-key", "k")).await
}

/// Asks twice under one key and then for something else.
async fn assert_once(app: &TestApp, path: &str, body: &Value, (elsewhere, other): (&str, &Value)) {
    let first = keyed(app, path, body).await;
    assert!((200..300).contains(&first.status), "{path}: {}", first.text);
    assert!(first.headers.get("idempotency-replayed").is_none(), "{path}");
    let again = keyed(app, path, body).await;
    assert_eq!(again.header("idempotency-replayed"), "true", "{path}");
    assert_eq!((again.status, &again.text), (first.status, &first.text), "{path}");
    assert_eq!(again.headers.get("location"), first.headers.get("location"), "{path}");
    assert_eq!(again.headers.get("etag"), first.headers.get("etag"), "{path}");
    let other = keyed(app, elsewhere, other).await;
    other.expect_problem(422, "idempotency-key-reused");
}

#[tokio::test]
async fn what_is_made_under_a_key_is_made_once() {
    let app = TestApp::start().await;
    app.create_agent(&speaker("a", "Hello.")).await;
    let hook = app.tools.url("hook");
    for (path, body, other) in [
        ("/v1/agents", speaker("b", "Hi."), speaker("b", "Ho.")),
        ("/v1/threads", json!({"metadata": {"n": "1"}}), json!({})),
        (
            "/v1/mcp-servers",
            json!({"name": "s", "url": "https://example.com/mcp"}),
            json!({"name": "t", "url": "https://example.com/mcp"}),
        ),
        (
            "/v1/skills",
            json!({"name": "b", "description": "d", "instructions": "i"}),
            json!({"name": "b", "description": "d", "instructions": "j"}),
        ),
        ("/v1/webhooks", json!({"url": hook}), json!({"url": hook, "all_runs": false})),
        (
            "/v1/schedules",
            json!({"cron": "0 0 1 1 *", "agent_id": "a", "input": "hi"}),
            json!({"cron": "0 0 1 1 *", "agent_id": "a", "input": "ho"}),
        ),
    ] {
        let before = app.all(path).await.len();
        assert_once(&app, path, &body, (path, &other)).await;
        assert_eq!(app.all(path).await.len(), before + 1, "{path}");
    }
    // Spelling and order do not count, and a key is one of its own in every place.
    let spelt = r#"{ "metadata" : {"n": "\u0031"} }"#;
    let request = app.request("POST", "/v1/threads").header("idempotency-key", "k");
    let request = request.header("content-type", "application/json").body(spelt);
    assert_eq!(app.send(request).await.header("idempotency-replayed"), "true");
}

#[tokio::test]
async fn what_was_made_under_a_key_is_told_as_it_was_though_it_was_changed_or_is_gone() {
    let app = TestApp::start().await;
    let first = keyed(&app, "/v1/agents", &speaker("b", "Hi.")).await;
    let made: Value = serde_json::from_str(&first.text).unwrap();
    let path = format!("/v1/agents/{}", made["id"].as_str().unwrap());
    app.put(&path, &speaker("b", "Ho.")).await.expect(200);
    let again = keyed(&app, "/v1/agents", &speaker("b", "Hi.")).await;
    assert_eq!(again.text, first.text);
    let thread = keyed(&app, "/v1/threads", &json!({})).await.expect(201);
    let path = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    assert_eq!(app.delete(&path).await.status, 204);
    // With what it led to the key is forgotten.
    let other = keyed(&app, "/v1/threads", &json!({})).await.expect(201);
    assert_ne!(other["id"], thread["id"]);
}

#[tokio::test]
async fn what_is_moved_on_under_a_key_is_moved_once() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let thread = format!("/v1/threads/{}", run["thread_id"].as_str().unwrap());
    let hurry = |text: &str| json!({"kind": "system", "text": text});
    let steps = format!("{thread}/steps");
    assert_once(&app, &steps, &hurry("Hurry."), (&steps, &hurry("Wait."))).await;
    let fork = format!("{thread}/fork");
    assert_once(&app, &fork, &json!({"at_seq": 1}), (&fork, &json!({"at_seq": 2}))).await;
    let compact = format!("{thread}/compact");
    let summary = |text: &str| json!({"strategy": "summarize", "summary": text});
    assert_once(&app, &compact, &summary("They met."), (&compact, &summary("No."))).await;
    let n_steps = app.get(&steps).await.expect(200)["items"].as_array().unwrap().len();
    assert_eq!(json!(n_steps), json!(run["steps"].as_u64().unwrap() + 2));

    let call = json!({"tool_calls": [{"name": "pick", "arguments": {"n": 1}}]});
    let agent = agent_with(&[call, saying("Done.")], &[client_tool("pick")]);
    let run = app.parked(&json!({"agent": agent, "input": "Go."})).await;
    let messages = run_path(&run, "messages");
    let text = |text: &str| json!({"text": text});
    assert_once(&app, &messages, &text("Hurry."), (&messages, &text("Wait."))).await;
    until(&app.db, "SELECT bool_and(n_messages <= 1) AND max(n_messages) = 1 FROM run").await;
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_endpoint_is_given_one_secret_and_told_once_more_under_a_key() {
    let app = TestApp::start().await;
    let hook = json!({"url": app.tools.url("hook"), "all_runs": true});
    let path = |webhook: &Value| format!("/v1/webhooks/{}", webhook["id"].as_str().unwrap());
    let [one, two] = [
        app.post("/v1/webhooks", &hook).await.expect(201),
        app.post("/v1/webhooks", &hook).await.expect(201),
    ];
    let [rotate, other] = [&one, &two].map(|webhook| format!("{}/rotate", path(webhook)));
    assert_once(&app, &rotate, &json!({}), (&other, &json!({}))).await;
    app.run(&speaker("a", "Hello."), "hi").await;
    until(&app.db, "SELECT count(*) = 2 FROM webhook_delivery WHERE state = 'delivered'").await;
    let mut again = Vec::new();
    for webhook in [&one, &two] {
        let page = app.get(&format!("{}/deliveries", path(webhook))).await.expect(200);
        let id = page["items"][0]["id"].as_str().unwrap().to_owned();
        again.push(format!("{}/deliveries/{id}/redeliver", path(webhook)));
    }
    keyed(&app, &again[0], &json!({})).await.expect(202);
    app.tools.wait_for(3).await;
    until(&app.db, "SELECT count(*) = 2 FROM webhook_delivery WHERE state = 'delivered'").await;
    let replayed = keyed(&app, &again[0], &json!({})).await;
    assert_eq!((replayed.status, replayed.header("idempotency-replayed")), (202, "true"));
    assert_eq!(replayed.expect(202)["state"], "delivered");
    keyed(&app, &again[1], &json!({})).await.expect_problem(422, "idempotency-key-reused");
}
