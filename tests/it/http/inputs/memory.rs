//! Memory documents: what does not load, wherever it is sent.

use serde_json::{Value, json};

use super::super::bad_input::{Row, check};
use super::super::send_as;
use crate::support::{TestApp, mint_key};

const LOAD_ERROR: (u16, &str) = (422, "memory-load-error");

fn v2(steps: &Value) -> String {
    json!({ "version": 2, "thread": {}, "steps": steps }).to_string()
}

fn call(id: &str) -> Value {
    json!({ "part_kind": "tool_call", "tool_call_id": id, "name": "t", "arguments": "{}" })
}

fn outcome(id: &str) -> Value {
    json!({ "tool_call_id": id, "name": "t", "is_error": false, "kind": "success", "attempts": 1 })
}

fn action(calls: &[&str], outcomes: &[&str]) -> Value {
    let calls: Vec<Value> = calls.iter().map(|id| call(id)).collect();
    let outcomes: Vec<Value> = outcomes.iter().map(|id| outcome(id)).collect();
    json!({ "kind": "action", "reply": { "state": "complete", "parts": calls },
            "outcomes": outcomes })
}

type Document = (&'static str, String, (u16, &'static str), &'static str);

fn pairs() -> Vec<Document> {
    let said = json!({ "kind": "system", "text": "x" });
    let mut counted = [said.clone(), said.clone(), said];
    for (step, seq) in counted.iter_mut().zip([1, 2, 4]) {
        step["seq"] = json!(seq);
    }
    vec![
        (
            "B-65 a call without a result",
            v2(&json!([action(&["a"], &[]), action(&["b"], &["b"])])),
            LOAD_ERROR,
            "/steps/0/reply/parts/0/tool_call_id",
        ),
        (
            "B-65 a result before its call",
            v2(&json!([action(&[], &["a"]), action(&["a"], &[])])),
            LOAD_ERROR,
            "/steps/0/outcomes/0/tool_call_id",
        ),
        (
            "B-65 two results",
            v2(&json!([action(&["a"], &["a", "a"])])),
            LOAD_ERROR,
            "/steps/0/outcomes/1/tool_call_id",
        ),
        ("B-65 a gap", v2(&json!(counted)), LOAD_ERROR, "/steps/2/seq"),
        (
            "B-65 in a list",
            json!([{ "role": "tool", "tool_call_id": "a", "content": "x" }]).to_string(),
            LOAD_ERROR,
            "/0/tool_call_id",
        ),
    ]
}

fn documents() -> Vec<Document> {
    let many = |open: &str, one: &str, close: &str| {
        format!("{open}{}{one}{close}", format!("{one},").repeat(999_999))
    };
    let mut documents = vec![
        (
            "B-63 newer",
            json!({ "version": 3, "steps": [] }).to_string(),
            (422, "memory-version-unsupported"),
            "/version",
        ),
        (
            "B-63 no version",
            json!({ "version": "2", "steps": [] }).to_string(),
            LOAD_ERROR,
            "/version",
        ),
        (
            "B-66 a million steps",
            many("{\"version\":2,\"thread\":{},\"steps\":[", "{}", "]}"),
            LOAD_ERROR,
            "/steps",
        ),
        ("B-66 a million messages", many("[", "{\"role\":1}", "]"), LOAD_ERROR, ""),
        ("B-66 too large", " ".repeat(16 * 1024 * 1024 + 1), (413, "body-too-large"), ""),
        ("not JSON", "{".to_owned(), LOAD_ERROR, ""),
        (
            "U+0000",
            v2(&json!([{ "kind": "final", "answer": "a\0" }])),
            LOAD_ERROR,
            "/steps/0/answer",
        ),
        (
            "unknown field",
            v2(&json!([{ "kind": "system", "text": "x", "y": 1 }])),
            LOAD_ERROR,
            "/steps/0/y",
        ),
        ("unknown kind", v2(&json!([{ "kind": "dream" }])), LOAD_ERROR, "/steps/0/kind"),
    ];
    documents.extend(pairs());
    documents
}

#[tokio::test]
async fn a_memory_document_that_does_not_load_changes_nothing() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let memory = format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap());
    let rows = documents().into_iter().flat_map(|(id, document, expect, at)| {
        // A body that is too large has no place in it that is wrong.
        let at = if expect.0 == 413 { "" } else { at };
        [("PUT", memory.as_str()), ("POST", "/v1/memory/validate")]
            .map(|to| Row::new(id, to, expect).json(&document).at_any(at))
    });
    check(&app, rows.collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn b70_an_export_is_asked_for_as_exports_are() {
    let app = TestApp::start().await;
    let foreign = mint_key(&app, "other", &["admin"]).await;
    let theirs = send_as(&app, &foreign, ("POST", "/v1/threads"), "{}").await.expect(201);
    let key = mint_key(&app, "default", &["admin"]).await;
    let app = app.with_key(&key);
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let path = |thread: &Value| format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap());
    let get = |path: &str, expect| Row::new("B-70", ("GET", path), expect);
    let mut rows = vec![get(&path(&theirs), (404, "not-found"))];
    let queries =
        ["fields=secret", "format=xml", "format=openai&version=2", "version=3", "lossy=1"];
    rows.extend(
        queries.map(|query| get(&format!("{}?{query}", path(&thread)), (400, "invalid-parameter"))),
    );
    check(&app, rows).await;
}
