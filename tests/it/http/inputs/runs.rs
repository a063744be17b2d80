//! Runs: their files, their results, and how they are cancelled.

use base64::Engine as _;
use serde_json::{Value, json};

use super::super::bad_input::{INVALID, Row, check};
use super::super::{speaker, start_endless_run};
use crate::support::{TestApp, client_tool, run_path};

fn file(media_type: &str, source: &Value) -> Value {
    json!({ "agent": speaker("a", "x"), "input": [
        { "part_kind": "text", "text": "Look." },
        { "part_kind": "file", "id": "f", "media_type": media_type, "source": source },
    ] })
}

#[tokio::test]
async fn b41_b42_a_bad_file_is_refused_at_its_place() {
    let app = TestApp::start().await;
    let url = |url: &str| json!({ "source_kind": "url", "url": url });
    let base64 = |base64: &str| json!({ "source_kind": "base64", "base64": base64 });
    let large = base64::engine::general_purpose::STANDARD.encode(vec![0; 1024 * 1024]);
    let denied = (422, "egress-denied");
    let invalid = (422, INVALID);
    let (at_url, at_bytes) = ("/input/1/source/url", "/input/1/source/base64");
    let rows = [
        ("B-41 link-local", "image/png", url("https://169.254.169.254/a.png"), denied, at_url),
        ("B-41 http", "image/png", url("http://169.254.169.254/a.png"), denied, at_url),
        ("B-41 file", "image/png", url("file:///etc/passwd"), denied, at_url),
        ("B-41 too large", "image/png", base64(&large), (413, "body-too-large"), ""),
        ("B-41 svg", "image/svg+xml", base64("PHN2Zy8+"), invalid, "/input/1/media_type"),
        ("B-42 no base64", "image/png", base64("###"), invalid, at_bytes),
        ("B-42 another type", "image/png", base64("QUJD"), invalid, "/input/1/media_type"),
        ("B-42 another type", "image/jpeg", base64("iVBORw=="), invalid, "/input/1/media_type"),
        ("B-42 no bytes", "image/png", base64(""), invalid, at_bytes),
    ]
    .into_iter()
    .flat_map(|(id, media_type, source, expect, at)| {
        let body = file(media_type, &source);
        ["/v1/runs", "/v1/runs/stream"]
            .map(|path| Row::new(id, ("POST", path), expect).json(&body).at_any(at))
    });
    check(&app, rows.collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn b51_a_cancel_may_be_repeated_and_must_be_well_formed() {
    let app = TestApp::start().await;
    let run = start_endless_run(&app).await;
    let cancel = run_path(&run, "cancel");
    let garbage = app.request("POST", &cancel).header("content-type", "application/json");
    app.send(garbage.body("{x")).await.expect_problem(400, "malformed-json");
    let never = "/v1/runs/run_0198f2c4a1b27cde8f00112233445566/cancel";
    app.post(never, &json!({})).await.expect_problem(404, "not-found");
    app.post(&cancel, &json!({})).await.expect(202);
    app.post(&cancel, &json!({})).await.expect(202);
    assert_eq!(app.rested(&run).await["status"], "cancelled");
    // What was asked for has happened, so asking again is no conflict.
    assert_eq!(app.post(&cancel, &json!({})).await.expect(202)["status"], "cancelled");
}

#[tokio::test]
async fn b55_b56_a_bad_result_is_refused_at_its_place() {
    let app = TestApp::start().await;
    let agent = json!({ "name": "a", "tools": [client_tool("ask")],
        "model": { "provider": "scripted", "name": "m", "script": [
            { "tool_calls": [{ "name": "ask", "arguments": {} }] }, { "text": "Done." } ] } });
    let run = app.parked(&json!({ "agent": agent, "input": "go" })).await;
    let call = run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    let path = run_path(&run, "tool-results");
    let result =
        |members: &str| format!(r#"{{"results":[{{"tool_call_id":"{call}",{members}}}]}}"#);
    let deep = format!(r#""output":{}{}"#, "[".repeat(65), "]".repeat(65));
    let rows = [
        ("B-55 depth", deep.as_str(), (400, "json-too-deep"), ""),
        ("B-55 NUL", r#""output":"a\u0000""#, (422, "text-not-storable"), "/results/0/output"),
        ("B-56 kind", r#""error":{"kind":"x"}"#, (422, INVALID), "/results/0/error"),
        ("B-56 kind", r#""kind":"denied","error":"x""#, (422, "unknown-field"), "/results/0/kind"),
        ("B-56", r#""is_error":true,"output":1"#, (422, "unknown-field"), "/results/0/is_error"),
    ]
    .map(|(id, members, expect, at)| {
        let row = Row::new(id, ("POST", &path), expect).json(&result(members));
        if at.is_empty() { row } else { row.at(at) }
    });
    check(&app, rows).await;
}
