//! One call of a tool, tried out.

use serde_json::{Value, json};

use crate::http::{pointers, send_as, without_ids};
use crate::support::{Answer, FakeMcp, TestApp, mint_key, tool, tool_listed, with_json};

const PATH: &str = "/v1/tools/test";

fn body(app: &TestApp, name: &str, arguments: &Value) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    json!({"tool": tool(&app.tools, name, "pure", &parameters), "arguments": arguments})
}

async fn try_out(app: &TestApp, body: &Value, key: &str) -> Answer {
    app.send(with_json(app.request("POST", PATH), body).header("idempotency-key", key)).await
}

#[tokio::test]
async fn a_tool_is_called_once_and_its_outcome_is_shown() {
    let app = TestApp::start().await;
    app.tools.answer("double", |call| (200, json!({"doubled": call.body["n"]})));
    let shown = app.post(PATH, &body(&app, "double", &json!({"n": 7}))).await.expect(200);
    let outcome = &shown["outcome"];
    assert_eq!(outcome["kind"], "success", "{shown}");
    assert_eq!(outcome["output"], json!({"output_kind": "json", "json": {"doubled": 7}}));
    assert_eq!((&outcome["name"], &outcome["attempts"]), (&json!("double"), &json!(1)));
    assert!(outcome["started_at"].is_string() && outcome["finished_at"].is_string(), "{shown}");
    let [seen] = app.tools.seen().try_into().unwrap();
    assert_eq!((seen.text.as_str(), seen.fence.as_str()), (r#"{"n":7}"#, "0"));
    assert_eq!(outcome["tool_call_id"], seen.key);
}

#[tokio::test]
async fn a_call_that_fails_is_a_problem_here_and_only_here() {
    let app = TestApp::start().await;
    app.tools.answer("broken", |_| (500, json!({"why": "tired"})));
    let problem = app
        .post(PATH, &body(&app, "broken", &json!({})))
        .await
        .expect_problem(422, "tool-call-error");
    let outcome = &problem["outcome"];
    let error = json!({"type": "HttpStatus",
                       "message": r#"the tool answered with status 500: {"why":"tired"}"#});
    assert_eq!((&outcome["kind"], &outcome["error"]), (&json!("execution"), &error));
    assert_eq!(outcome["is_error"], true);
    assert_eq!(outcome["tool_call_id"], app.tools.seen()[0].key);
    let problem = app.post(PATH, &body(&app, "broken", &json!({"n": "x", "m": 1}))).await;
    let problem = problem.expect_problem(422, "tool-call-error");
    assert_eq!(problem["outcome"]["kind"], "invalid_arguments", "{problem}");
    assert_eq!(app.tools.seen().len(), 1, "what does not fit is not sent");
    let mut slow = body(&app, "slow", &json!({}));
    app.tools.hold("slow");
    slow["tool"]["timeout_ms"] = json!(30);
    let problem = app.post(PATH, &slow).await.expect_problem(422, "tool-call-error");
    assert_eq!(problem["outcome"]["kind"], "timeout", "{problem}");
    // The same tool in a run: the model is told, and the run goes on to its end.
    let agent = json!({"name": "a", "tools": [body(&app, "broken", &json!({}))["tool"]],
        "model": {"provider": "scripted", "name": "m", "script": [
            {"tool_calls": [{"name": "broken", "arguments": {}}]}, {"text": "So be it."}]}});
    let run = app.run(&agent, "go").await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("So be it.")));
    assert_eq!(app.outcomes(&run).await[0]["error"], error);
}

#[tokio::test]
async fn only_what_an_agent_could_declare_and_the_server_calls_is_tried_out() {
    let app = TestApp::start().await;
    let good = body(&app, "t", &json!({}));
    let changed = |pointer: &str, value: Value| {
        let mut body = good.clone();
        body["tool"][pointer] = value;
        body
    };
    let client = json!({"kind": "client", "name": "t", "parameters": {"type": "object"}});
    for (body, slug, pointer) in [
        (json!({"tool": client}), "validation-failed", "/tool/kind"),
        (
            json!({"tool": {"kind": "builtin", "name": "final_answer"}}),
            "validation-failed",
            "/tool/kind",
        ),
        (changed("url", json!("https://127.0.0.1/")), "egress-denied", "/tool/url"),
        (changed("url", json!("https://{n}/")), "validation-failed", "/tool/url"),
        (changed("name", json!("a b")), "validation-failed", "/tool/name"),
        (changed("headers", json!({"Host": "x"})), "invalid-header-name", "/tool/headers/Host"),
        (
            changed("parameters", json!({"type": "object", "$ref": "https://x.example/"})),
            "remote-ref-forbidden",
            "/tool/parameters/$ref",
        ),
    ] {
        let problem = app.post(PATH, &body).await.expect_problem(422, slug);
        assert_eq!(pointers(&problem), [pointer], "{problem}");
    }
    assert_eq!(app.tools.seen(), []);
}

#[tokio::test]
async fn requests_with_one_key_are_one_call_to_the_tool_and_other_tenants_keys_are_others() {
    let app = TestApp::start().await;
    let body = body(&app, "t", &json!({}));
    let (ann, bob) = (
        mint_key(&app, "ann", &["tools:write"]).await,
        mint_key(&app, "bob", &["tools:write"]).await,
    );
    let app = app.with_key(&ann);
    for _ in 0..2 {
        try_out(&app, &body, "same").await.expect(200);
    }
    try_out(&app, &body, "other").await.expect(200);
    app.post(PATH, &body).await.expect(200);
    let app = app.with_key(&bob);
    try_out(&app, &body, "same").await.expect(200);
    let keys: Vec<String> = app.tools.seen().into_iter().map(|call| call.key).collect();
    assert_eq!(keys[0], keys[1]);
    let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(distinct.len(), 4, "{keys:?}");
    assert!(keys.iter().all(|key| !key.contains("same")), "{keys:?}");
}

#[tokio::test]
async fn trying_out_takes_its_own_scope_and_stores_nothing() {
    let app = TestApp::start().await;
    let body = body(&app, "t", &json!({})).to_string();
    let others = mint_key(&app, "ann", &["agents:write", "runs:write", "memory:write"]).await;
    let problem = send_as(&app, &others, ("POST", PATH), &body).await;
    let problem = without_ids(problem.expect_problem(403, "insufficient-scope"));
    assert_eq!(problem["required"], "tools:write");
    let key = mint_key(&app, "ann", &["tools:write", "runs:read"]).await;
    send_as(&app, &key, ("POST", PATH), &body).await.expect(200);
    let runs = send_as(&app, &key, ("GET", "/v1/runs"), "").await.expect(200);
    assert_eq!(runs["items"], json!([]));
    assert_eq!(app.tools.seen().len(), 1);
}

#[tokio::test]
async fn a_tool_of_an_mcp_server_is_tried_out_as_well() {
    let server =
        FakeMcp::start(json!([tool_listed("look", "Looks."), tool_listed("send", "Sends.")])).await;
    let app = TestApp::reaching(&[server.port], &[]).await;
    app.register("s", &server.url(), &json!({})).await;
    let of = |server: &str, tools: Value| json!({"tool": {"kind": "mcp", "server": server, "tools": tools}});
    let shown = app.post(PATH, &of("s", json!(["look"]))).await.expect(200);
    let outcome = &shown["outcome"];
    assert_eq!((&outcome["kind"], &outcome["name"]), (&json!("success"), &json!("look")));
    assert_eq!(outcome["output"]["text"], "look", "{shown}");
    assert_eq!(server.seen("tools/call").len(), 1);
    for tools in [json!(["look", "send"]), json!(["none"]), Value::Null] {
        let problem = app.post(PATH, &of("s", tools)).await;
        let problem = problem.expect_problem(422, "validation-failed");
        assert_eq!(pointers(&problem), ["/tool/tools"], "{problem}");
    }
    app.post(PATH, &of("none", json!(["look"]))).await.expect_problem(502, "mcp-unavailable");
    assert_eq!(server.seen("tools/call").len(), 1);
}
