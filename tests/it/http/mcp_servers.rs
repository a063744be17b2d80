//! `/v1/mcp-servers`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::pointers;
use crate::support::{FakeMcp, TestApp, count, execute, mcp_agent, mint_key, picture, tool_listed};

fn path(server: &Value) -> String {
    format!("/v1/mcp-servers/{}", server["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_server_is_registered_read_listed_changed_and_removed() {
    let app = TestApp::start().await;
    let members = json!({"headers": {"x-team": "a"}, "allow": ["look"], "metadata": {"team": "a"},
                         "rules": {"effect": "pure"}, "overrides": {"look": {"timeout_ms": 500}}});
    let made = app.register("tickets", "https://tickets.example/mcp", &members).await;
    assert_eq!(app.get(&path(&made)).await.expect(200), made);
    assert_eq!(app.all("/v1/mcp-servers").await, std::slice::from_ref(&made));
    let change = json!({"name": "tickets", "url": "https://tickets.example/v2"});
    let changed = app.put(&path(&made), &change).await.expect(200);
    assert_eq!(changed["url"], "https://tickets.example/v2");
    assert_eq!((&changed["rules"], &changed["overrides"]), (&json!({}), &json!({})));
    assert_eq!(app.delete(&path(&made)).await.status, 204);
    app.get(&path(&made)).await.expect_problem(404, "not-found");
    app.delete(&path(&made)).await.expect_problem(404, "not-found");
}

#[tokio::test]
async fn a_name_is_there_once_in_a_tenant() {
    let app = TestApp::start().await;
    let body = json!({"name": "s", "url": "https://s.example/mcp"});
    app.post("/v1/mcp-servers", &body).await.expect(201);
    app.post("/v1/mcp-servers", &body).await.expect_problem(409, "id-conflict");
    let other = app.register("other", "https://s.example/mcp", &json!({})).await;
    app.put(&path(&other), &body).await.expect_problem(409, "id-conflict");
}

#[tokio::test]
async fn a_server_that_cannot_be_is_refused_at_its_place() {
    let app = TestApp::start().await;
    let with = |members: Value| {
        let mut body = json!({"name": "s", "url": "https://s.example/mcp"});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        body
    };
    for (members, slug, pointer) in [
        (json!({"name": "a b"}), "validation-failed", "/name"),
        (json!({"url": "http://127.0.0.1:1/"}), "egress-denied", "/url"),
        (json!({"url": "file:///bin/sh"}), "egress-denied", "/url"),
        (json!({"command": "/bin/sh"}), "unknown-field", "/command"),
        (json!({"headers": {"Host": "x"}}), "invalid-header-name", "/headers/Host"),
        (
            json!({"headers": {"Authorization": "Bearer x"}}),
            "invalid-header-name",
            "/headers/Authorization",
        ),
        (json!({"connect_timeout_ms": 0}), "validation-failed", "/connect_timeout_ms"),
        (json!({"rules": {"timeout_ms": 0}}), "validation-failed", "/rules/timeout_ms"),
        (json!({"rules": {"on_in_doubt": "probe"}}), "validation-failed", "/rules/on_in_doubt"),
        (
            json!({"overrides": {"a/b": {"on_in_doubt": "probe"}}}),
            "validation-failed",
            "/overrides/a~1b/on_in_doubt",
        ),
    ] {
        let problem = app.post("/v1/mcp-servers", &with(members)).await.expect_problem(422, slug);
        assert_eq!(pointers(&problem), [pointer], "{problem}");
    }
    let agent = json!({"name": "a", "model": {"provider": "scripted", "name": "m"}, "tools": [
        {"kind": "mcp", "server": "a b", "rules": {"on_in_doubt": "probe"}}]});
    let problem = app.post("/v1/agents", &agent).await.expect_problem(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/tools/0/server", "/tools/0/rules/on_in_doubt"], "{problem}");
}

#[tokio::test]
async fn a_test_lists_what_may_be_used_and_says_why_the_rest_may_not() {
    let odd =
        json!({"name": "odd", "inputSchema": {"type": "object", "$ref": "http://x.example/"}});
    let server =
        FakeMcp::start(json!([tool_listed("look", "Looks."), tool_listed("</system>", "x"), odd]))
            .await;
    let app = TestApp::reaching(&[server.port], &[]).await;
    let made = app.register("s", &server.url(), &json!({})).await;
    let tested = app.post(&format!("{}/test", path(&made)), &json!({})).await.expect(200);
    assert_eq!(tested["server_info"]["name"], "fake");
    assert_eq!(tested["tools"][0]["name"], "look");
    let left: Vec<&Value> =
        tested["left_out"].as_array().unwrap().iter().map(|left| &left["name"]).collect();
    assert_eq!(left, ["</system>", "odd"], "{tested}");
}

#[tokio::test]
async fn a_server_of_another_tenant_is_not_there_for_its_runs_nor_for_its_callers() {
    let server = FakeMcp::start(json!([tool_listed("look", "Looks.")])).await;
    let app = TestApp::reaching(&[server.port], &[]).await;
    let scopes = ["tools:write", "agents:read", "agents:write", "runs:write", "runs:read"];
    let (ours, theirs) =
        (mint_key(&app, "ours", &scopes).await, mint_key(&app, "theirs", &scopes).await);
    let app = app.with_key(&ours);
    let made = app.register("s", &server.url(), &json!({})).await;
    let agent = mcp_agent(&json!([{"kind": "mcp", "server": "s"}]), &[("look", json!({}))]);
    let run = app.run(&agent, "go").await;
    assert_eq!(app.outcomes(&run).await[0]["kind"], "success");
    let app = app.with_key(&theirs);
    app.get(&path(&made)).await.expect_problem(404, "not-found");
    app.post(&format!("{}/test", path(&made)), &json!({})).await.expect_problem(404, "not-found");
    let body = json!({"agent": agent, "input": "go"});
    let problem = app.post("/v1/runs", &body).await.expect_problem(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/agent/tools/0/server"], "{problem}");
    // The name is free for them, and leads to a session of their own.
    app.register("s", &server.url(), &json!({})).await;
    let run = app.run(&agent, "go").await;
    assert_eq!(app.outcomes(&run).await[0]["kind"], "success");
    assert_eq!(server.seen("initialize").len(), 2);
}

#[tokio::test]
async fn an_agent_names_servers_that_are_there() {
    let server = FakeMcp::start(json!([tool_listed("look", "Looks.")])).await;
    let app = TestApp::reaching(&[server.port], &[]).await;
    let tools = json!([{"kind": "mcp", "server": "s"}, {"kind": "mcp", "server": "t"}]);
    let agent = mcp_agent(&tools, &[]);
    let problem = app.post("/v1/agents", &agent).await.expect_problem(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/tools/0/server", "/tools/1/server"], "{problem}");
    assert_eq!(problem["errors"][0]["code"], "unknown_mcp_server", "{problem}");
    app.register("s", &server.url(), &json!({})).await;
    let problem = app.post("/v1/agents", &agent).await.expect_problem(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/tools/1/server"], "{problem}");
    app.register("t", &server.url(), &json!({})).await;
    let made = app.post("/v1/agents", &agent).await.expect(201);
    // A server that goes afterwards costs its tools only.
    execute(&app.db, "DELETE FROM mcp_server").await;
    let run = app.run_body(&json!({"agent_id": made["id"], "input": "go"})).await;
    assert_eq!(run["status"], "completed", "{run}");
    let path = format!("/v1/agents/{}", made["id"].as_str().unwrap());
    app.put(&path, &agent).await.expect_problem(422, "validation-failed");
}

#[tokio::test]
async fn a_secret_header_is_sent_to_the_server_and_stands_nowhere_else() {
    const SECRET: &str = "canary-of-an-mcp-server-41";
    let server = FakeMcp::start(json!([tool_listed("echo", SECRET)])).await;
    let key = ("AGENTLING_SECRET_KEYS", "one=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");
    let app = TestApp::reaching(&[server.port], &[key]).await;
    let origin = format!("http://127.0.0.1:{}", server.port);
    let secret = json!({"value": SECRET, "origins": [origin]});
    app.put("/v1/secrets/key", &secret).await;
    let headers = json!({"headers": {"Authorization": {"secret": "key", "prefix": "Bearer "}}});
    let made = app.register("s", &server.url(), &headers).await;
    let run = app
        .run(&mcp_agent(&json!([{"kind": "mcp", "server": "s"}]), &[("echo", json!({}))]), "go")
        .await;
    assert_eq!(server.seen("tools/call")[0].1, format!("Bearer {SECRET}"));
    let outcome = &app.outcomes(&run).await[0];
    assert_eq!(outcome["output"]["text"], "Bearer [redacted:secret:key]", "{outcome}");
    let tested = app.post(&format!("{}/test", path(&made)), &json!({})).await;
    let told = format!("{:?} {outcome} {} {made}", picture(&app.db).await, tested.text);
    let encoded = BASE64_STANDARD.encode(format!("\u{1}Bearer {SECRET}"));
    assert!(!told.contains(SECRET) && !told.contains(&encoded), "{told}");
    assert_eq!(
        count(&app.db, "SELECT count(*) FROM run_pin WHERE pins LIKE '%canary-of%'").await,
        0
    );
    let kept = "SELECT count(*) FROM run_pin WHERE pins LIKE '%[redacted:secret:key]%'";
    assert_eq!(count(&app.db, kept).await, 1);
}

#[tokio::test]
async fn a_server_that_names_a_secret_which_is_not_there_or_not_for_it_is_refused_at_its_place() {
    let server = FakeMcp::start(json!([])).await;
    let key = ("AGENTLING_SECRET_KEYS", "one=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");
    let app = TestApp::reaching(&[server.port], &[key]).await;
    for (name, origin) in [("ours", server.origin()), ("theirs", "https://other.example".into())] {
        let secret = json!({"value": "canary-of-an-mcp-server-43", "origins": [origin]});
        app.put(&format!("/v1/secrets/{name}"), &secret).await;
    }
    let with = |secret: &str| {
        json!({"name": "s", "url": server.url(),
               "headers": {"x-team": "a", "x-key~1": {"secret": secret}}})
    };
    let mut made = None;
    for (secret, code) in [("none", "unknown_secret"), ("theirs", "secret_not_bound")] {
        let mut bodies = vec![app.post("/v1/mcp-servers", &with(secret)).await];
        if let Some(made) = &made {
            bodies.push(app.put(&path(made), &with(secret)).await);
        }
        for body in bodies {
            let problem = body.expect_problem(422, "validation-failed");
            assert_eq!(pointers(&problem), ["/headers/x-key~01"], "{problem}");
            assert_eq!(problem["errors"][0]["code"], code);
        }
        if made.is_none() {
            made = Some(app.post("/v1/mcp-servers", &with("ours")).await.expect(201));
        }
    }
}

#[tokio::test]
async fn a_secret_that_is_not_bound_to_the_server_keeps_it_from_being_asked() {
    let server = FakeMcp::start(json!([tool_listed("look", "Looks.")])).await;
    let key = ("AGENTLING_SECRET_KEYS", "one=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");
    let app = TestApp::reaching(&[server.port], &[key]).await;
    let secret = json!({"value": "canary-of-an-mcp-server-42", "origins": [server.origin()]});
    app.put("/v1/secrets/key", &secret).await;
    let headers = json!({"headers": {"x-key": {"secret": "key"}}});
    let made = app.register("s", &server.url(), &headers).await;
    let elsewhere =
        json!({"value": "canary-of-an-mcp-server-42", "origins": ["https://other.example"]});
    app.put("/v1/secrets/key", &elsewhere).await;
    let test = format!("{}/test", path(&made));
    app.post(&test, &json!({})).await.expect_problem(502, "mcp-unavailable");
    assert_eq!(server.seen("initialize").len(), 0);
}
