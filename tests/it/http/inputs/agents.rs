//! Agents, their tools and models, and the servers and endpoints that a tenant names.

use serde_json::{Value, json};

use super::super::bad_input::{INVALID, JSON, Row, check};
use super::super::speaker;
use crate::support::TestApp;

type Case = (String, Value, (u16, &'static str), &'static str);

fn agent(id: &str, change: impl FnOnce(&mut Value), slug: &'static str, at: &'static str) -> Case {
    let mut spec = speaker("bad", "x");
    change(&mut spec);
    let status = if slug == "tool-name-conflict" { 409 } else { 422 };
    (id.to_owned(), spec, (status, slug), at)
}

fn rows(path: &'static str, cases: Vec<Case>) -> Vec<Row> {
    let row = |(id, body, expect, at): Case| {
        let row = Row::new(&id, ("POST", path), expect).json(&body);
        if at.is_empty() { row } else { row.at(at) }
    };
    cases.into_iter().map(row).collect()
}

fn tool(name: &str) -> Value {
    json!({ "kind": "http", "name": name, "url": "https://tools.example/x", "effect": "pure",
            "parameters": { "type": "object" } })
}

fn with_tool(id: &str, member: &str, value: Value, slug: &'static str, at: &'static str) -> Case {
    let mut tool = tool("t");
    tool[member] = value;
    agent(id, |spec| spec["tools"] = json!([tool]), slug, at)
}

fn names() -> Vec<Case> {
    let long = "x".repeat(65);
    let bad = ["a b", "</system>", &long, "", "t\u{43e}ol", "load_skill", "final_answer"];
    let named = bad.map(|name| {
        let id = format!("B-44, B-73 {name:?}");
        agent(&id, |spec| spec["tools"] = json!([tool(name)]), INVALID, "/tools/0/name")
    });
    let many: Vec<Value> = (0..129).map(|n| tool(&format!("t{n}"))).collect();
    let twice = json!([tool("t"), tool("t")]);
    let mut cases = named.to_vec();
    cases.push(agent("B-44 twice", |spec| spec["tools"] = twice, "tool-name-conflict", ""));
    cases.push(agent("B-44 129 tools", |spec| spec["tools"] = json!(many), INVALID, "/tools"));
    cases
}

fn headers() -> Vec<Case> {
    let header = |name: &str, value: &str, slug, at| {
        let id = format!("B-74 {name:?} {value:?}");
        with_tool(&id, "headers", json!({ name: value }), slug, at)
    };
    let slug = "invalid-header-name";
    vec![
        header("a b", "x", slug, "/tools/0/headers/a b"),
        header("a:b", "x", slug, "/tools/0/headers/a:b"),
        header("a\r\nb", "x", slug, "/tools/0/headers/a\r\nb"),
        header("x", "a\r\nb", slug, "/tools/0/headers/x"),
        header("x", "a\0b", "text-not-storable", "/tools/0/headers/x"),
        header("Host", "x", slug, "/tools/0/headers/Host"),
        header("Transfer-Encoding", "x", slug, "/tools/0/headers/Transfer-Encoding"),
        header("Idempotency-Key", "x", slug, "/tools/0/headers/Idempotency-Key"),
    ]
}

#[tokio::test]
async fn agents_with_bad_tools_are_refused_at_their_place() {
    let app = TestApp::start().await;
    let times = [json!(0), json!(1), json!(86_400_000), json!(-1), json!("5")].map(|ms| {
        with_tool(&format!("B-78 {ms}"), "timeout_ms", ms, INVALID, "/tools/0/timeout_ms")
    });
    let effect = with_tool("B-76", "effect", json!("sometimes"), INVALID, "/tools/0/effect");
    let mut cases = names();
    cases.extend(headers());
    cases.extend(times);
    cases.push(effect);
    check(&app, rows("/v1/agents", cases)).await;
}

#[tokio::test]
async fn agents_that_cannot_be_are_refused_at_their_place() {
    let app = TestApp::start().await;
    let set = |member: &str, value: Value, at| {
        let settings = json!({ member: value });
        let change = |spec: &mut Value| spec["model"]["settings"] = settings;
        agent(&format!("B-87 {member}"), change, INVALID, at)
    };
    let cases = vec![
        set("temperature", json!(-1), "/model/settings/temperature"),
        set("temperature", json!(99), "/model/settings/temperature"),
        set("stop", json!(vec!["x"; 1_000]), "/model/settings/stop"),
        agent(
            "B-87",
            |spec| spec["model"]["provider"] = json!("nobody"),
            INVALID,
            "/model/provider",
        ),
        agent(
            "B-88 NUL",
            |spec| spec["instructions"] = json!("a\0b"),
            "text-not-storable",
            "/instructions",
        ),
    ];
    check(&app, rows("/v1/agents", cases)).await;
    let not_a_number =
        r#"{"name":"x","model":{"provider":"scripted","name":"m","settings":{"temperature":NaN}}}"#;
    let mut large = speaker("x", "x");
    large["instructions"] = json!("x".repeat(1024 * 1024));
    let both = json!({ "agent_id": "a", "agent": speaker("b", "x"), "input": "x" });
    check(
        &app,
        [
            Row::new("B-87 NaN", ("POST", "/v1/agents"), (400, "malformed-json"))
                .json(not_a_number),
            Row::new("B-88 too long", ("POST", "/v1/agents"), (413, "body-too-large")).json(&large),
            Row::new("B-87 both", ("POST", "/v1/runs"), (422, INVALID)).json(&both).at("/agent_id"),
        ],
    )
    .await;
}

const CLOSED: [&str; 15] = [
    "http://tools.example/",
    "ftp://tools.example/",
    "tools.example",
    "https://u:p@tools.example/",
    "https://tools.example:22/",
    "https:///",
    "http://0x7f000001",
    "https://0x7f000001",
    "https://2130706433",
    "http://2130706433",
    "https://[::ffff:127.0.0.1]/",
    "https://[64:ff9b::7f00:1]/",
    "https://localhost./",
    "https://127.0.0.1/",
    "https://169.254.169.254/",
];

#[tokio::test]
async fn b72_an_address_that_is_closed_is_refused_wherever_it_stands() {
    let app = TestApp::start().await;
    let long = format!("https://{}/", "a".repeat(300));
    let own = app.url("/");
    let urls: Vec<&str> = CLOSED.into_iter().chain([long.as_str(), own.as_str()]).collect();
    let rows = urls.into_iter().flat_map(|url| {
        let mut spec = speaker("bad", "x");
        let mut called = tool("t");
        called["url"] = json!(url);
        spec["tools"] = json!([called]);
        let row = |path, body: Value, at| {
            Row::new(&format!("B-72 {url}"), ("POST", path), (422, "egress-denied"))
                .json(&body)
                .at(at)
        };
        let hook = row("/v1/webhooks", json!({ "url": url }), "/url");
        [row("/v1/agents", spec, "/tools/0/url"), hook]
    });
    check(&app, rows.collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn b79_a_program_is_the_operators_to_start() {
    let app = TestApp::start().await;
    let rows = [json!({ "name": "s", "command": "sh" }), json!({ "name": "s", "command": ["sh"] })]
        .map(|body| {
            let row = Row::new("B-79", ("POST", "/v1/mcp-servers"), (422, "unknown-field"));
            row.json(&body).at("/command")
        });
    check(&app, rows).await;
}

#[tokio::test]
async fn b83_a_model_elsewhere_is_refused_at_its_place() {
    let app = TestApp::with(&[("AGENTLING_EGRESS_ANY_MODEL", "false")]).await;
    let urls = ["http://models.example/v1", "https://10.0.0.1/v1", "http://127.0.0.1:1/v1"];
    let cases = urls.map(|url| {
        let model = json!({ "provider": "openai", "name": "m", "base_url": url });
        let change = |spec: &mut Value| spec["model"] = model;
        agent(&format!("B-83 {url}"), change, "egress-denied", "/model/base_url")
    });
    check(&app, rows("/v1/agents", cases.to_vec())).await;
}

#[tokio::test]
async fn b85_a_variable_of_the_server_is_no_secret() {
    let app = TestApp::start().await;
    let keyed = |key: Value, at| {
        let model = json!({ "provider": "openai", "name": "m", "api_key": key });
        agent("B-85", |spec| spec["model"] = model, INVALID, at)
    };
    let cases = vec![
        keyed(json!("env:DATABASE_URL"), "/model/api_key"),
        keyed(json!({ "secret": "env:DATABASE_URL" }), "/model/api_key/secret"),
    ];
    check(&app, rows("/v1/agents", cases)).await;
}

#[tokio::test]
async fn b89_b91_conditions_hold_or_are_ignored() {
    let app = TestApp::start().await;
    app.create_agent(&speaker("a", "Hello.")).await;
    let change = speaker("a", "Other.");
    let stale = Row::new("B-89", ("PUT", "/v1/agents/a"), (412, "precondition-failed"));
    let versioned = json!({ "name": "a", "model": change["model"], "version": 9 });
    let named = Row::new("B-89", ("PUT", "/v1/agents/a"), (422, "unknown-field"));
    check(
        &app,
        [
            stale.header(("if-match", b"\"99\"")).json(&change),
            named.json(&versioned).at("/version"),
        ],
    )
    .await;
    for tag in ["garbage", "\"", "W/", "\"a\" \"b\"", "*,"] {
        let request = app.request("GET", "/v1/agents/a").header("if-none-match", tag);
        assert_eq!(app.send(request.header(JSON.0, "application/json")).await.status, 200, "{tag}");
    }
}
