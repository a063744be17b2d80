//! What a memory document would become, what is mended in one, and exports as chat messages.

use serde_json::{Value, json};

use super::{pointers, send_as, send_text};
use crate::support::{Answer, TestApp, mint_key, stored};

const TOOLS: &str = include_str!("../../data/memory_v1/tools.json");
const PYDANTIC: &str = include_str!("../../data/memory_pydantic/tools.json");

async fn empty_memory(app: &TestApp) -> String {
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap())
}

async fn validate(app: &TestApp, query: &str, document: &str) -> Answer {
    let path = format!("/v1/memory/validate{query}");
    send_text(app, ("POST", &path), "", document).await
}

/// An action of one reply with these calls, and the outcomes of these.
fn action(calls: &[&str], outcomes: &[&str]) -> Value {
    let call = |id: &&str| json!({ "part_kind": "tool_call", "tool_call_id": id, "name": "t", "arguments": "" });
    let outcome = |id: &&str| json!({ "tool_call_id": id, "name": "t", "is_error": false, "kind": "success", "attempts": 1 });
    json!({ "kind": "action",
            "reply": { "state": "complete", "parts": calls.iter().map(call).collect::<Vec<_>>() },
            "outcomes": outcomes.iter().map(outcome).collect::<Vec<_>>() })
}

/// A document with everything that can be mended.
fn broken() -> String {
    let mut last = action(&["d", "e"], &["e", "d", "d"]);
    last["seq"] = json!(7);
    json!({ "version": 2, "thread": {}, "steps": [
        { "kind": "task", "parts": [{ "part_kind": "text", "text": "Go." }] },
        action(&["a", "b"], &["b"]),
        action(&[], &["c"]),
        last,
        { "kind": "summary", "replaces": "tool_output", "through_seq": 7 },
    ] })
    .to_string()
}

fn codes(notes: &Value) -> Vec<(&str, &str)> {
    let items = notes["items"].as_array().unwrap().iter();
    items.map(|it| (it["code"].as_str().unwrap(), it["pointer"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn what_can_be_mended_loads_where_that_is_asked_for_and_is_listed() {
    let app = TestApp::start().await;
    let memory = empty_memory(&app).await;
    let refused = send_text(&app, ("PUT", &memory), "", &broken()).await;
    let problem = refused.expect_problem(422, "memory-load-error");
    assert_eq!(pointers(&problem)[0], "/steps/1/reply/parts/0/tool_call_id", "{problem}");
    let mended = [
        ("unanswered_call", "/steps/1/reply/parts/0/tool_call_id"),
        ("orphan_outcome", "/steps/2/outcomes/0/tool_call_id"),
        ("seq_gap", "/steps/3/seq"),
        ("duplicate_outcome", "/steps/3/outcomes/2/tool_call_id"),
        ("misplaced_outcome", "/steps/3/outcomes/0/tool_call_id"),
    ];
    let before = stored(&app.db).await;
    let would = validate(&app, "?repair=true", &broken()).await.expect(200);
    assert_eq!((&would["steps"], codes(&would["repairs"])), (&json!(5), mended.to_vec()));
    assert_eq!(stored(&app.db).await, before);
    let path = format!("{memory}?repair=true");
    let thread = send_text(&app, ("PUT", &path), "", &broken()).await.expect(200);
    assert_eq!((&thread["repairs"], &thread["head_seq"]), (&would["repairs"], &json!(5)));
    let exported = app.get(&memory).await;
    let steps = &exported.json()["steps"];
    let kinds: Vec<&Value> =
        steps[1]["outcomes"].as_array().unwrap().iter().map(|o| &o["kind"]).collect();
    assert_eq!(kinds, ["interrupted", "success"]);
    assert_eq!((&steps[2]["outcomes"], &steps[4]["through_seq"]), (&json!([]), &json!(4)));
    // What was mended once needs it no more, and nothing is said of what was not asked for.
    let thread = send_text(&app, ("PUT", &path), "", &exported.text).await.expect(200);
    assert_eq!(thread["repairs"], json!({ "total": 0, "items": [] }));
    let thread = send_text(&app, ("PUT", &memory), "", &exported.text).await.expect(200);
    assert_eq!(thread["repairs"], Value::Null);
    assert_eq!(app.get(&memory).await.text, exported.text);
}

#[tokio::test]
async fn a_document_of_every_format_is_told_what_it_would_become() {
    let app = TestApp::start().await;
    let chat = json!([
        { "role": "user", "content": "Hello?" },
        { "role": "assistant", "content": "Hi.", "audio": null, "annotations": [] },
    ]);
    let native = json!({ "version": 2, "thread": {}, "steps": [
        { "kind": "final", "answer": "x", "stop_reason": "final_answer" }] });
    let before = stored(&app.db).await;
    for (document, format, steps, losses) in [
        (native.to_string(), "version_2", 1, 0),
        (TOOLS.to_owned(), "version_1", 4, 0),
        (TOOLS.replacen("\"version\": 1,", "", 1), "version_1", 4, 0),
        (chat.to_string(), "openai_chat", 2, 1),
    ] {
        let would = validate(&app, "", &document).await.expect(200);
        assert_eq!(would["format"], format);
        assert_eq!(would["losses"]["total"], losses, "{would}");
        assert_eq!(would["repairs"], json!({ "total": 0, "items": [] }));
        if format != "version_1" {
            assert_eq!(would["steps"], steps, "{would}");
        }
    }
    let would = validate(&app, "", PYDANTIC).await.expect(200);
    assert_eq!(would["format"], "pydantic_ai");
    assert!(codes(&would["losses"]).iter().all(|(code, _)| *code == "not_kept"), "{would}");
    let would = validate(&app, "", &native.to_string()).await.expect(200);
    assert_eq!(would["version_1_losses"][0]["pointer"], "/steps/0/stop_reason");
    assert_eq!(would["openai_losses"][0]["pointer"], "/steps/0");
    let many = json!({ "version": 2, "thread": {}, "steps": vec![json!({ "kind": "dream" }); 30] });
    let refused = validate(&app, "", &many.to_string()).await;
    assert_eq!(pointers(&refused.expect_problem(422, "memory-load-error")).len(), 20);
    assert_eq!(stored(&app.db).await, before);
    // What the caller could not load is refused as it would be there.
    let writer = mint_key(&app, "default", &["memory:write"]).await;
    let system = json!([{ "role": "system", "content": "Obey." }]).to_string();
    let answer = send_as(&app, &writer, ("POST", "/v1/memory/validate"), &system).await;
    assert_eq!(answer.expect_problem(403, "insufficient-scope")["required"], "memory:system");
}

fn conversation() -> Value {
    json!([
        { "role": "system", "content": "You know every harbour." },
        { "role": "user", "content": [
            { "type": "text", "text": "Where is this?" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw==" } } ] },
        { "role": "assistant", "reasoning_content": "A chart.", "content": "Let me look.", "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "chart", "arguments": "{ \"z\":1.50 }" } } ] },
        { "role": "tool", "tool_call_id": "c1", "content": "Brest" },
        { "role": "assistant", "content": null, "refusal": "I may not say." },
    ])
}

#[tokio::test]
async fn chat_messages_come_back_as_they_were_and_a_run_is_told_as_far_as_it_can_be() {
    let app = TestApp::start().await;
    let memory = empty_memory(&app).await;
    send_text(&app, ("PUT", &memory), "", &conversation().to_string()).await.expect(200);
    let strict = format!("{memory}?format=openai&lossy=false");
    let exported = app.get(&strict).await;
    assert_eq!(exported.header("content-type"), "application/json");
    assert_eq!(exported.header("etag"), app.get(&memory).await.header("etag"));
    assert_eq!(exported.json(), conversation());
    let copy = empty_memory(&app).await;
    send_text(&app, ("PUT", &copy), "", &exported.text).await.expect(200);
    let again = app.get(&format!("{copy}?format=openai")).await;
    assert_eq!(again.text, exported.text);

    let run = app.run(&super::speaker("a", "Hello."), "hi").await;
    let memory = format!("/v1/threads/{}/memory", run["thread_id"].as_str().unwrap());
    let problem = app.get(&format!("{memory}?format=openai&lossy=false")).await;
    let problem = problem.expect_problem(422, "validation-failed");
    assert!(pointers(&problem).contains(&"/steps/1/reply/provider"), "{problem}");
    assert_eq!(
        app.get(&format!("{memory}?format=openai")).await.expect(200),
        json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "Hello." }])
    );
}
