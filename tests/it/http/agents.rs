//! `/v1/agents`.

use serde_json::{Value, json};

use super::{pointers, send_as, send_text, speaker};
use crate::support::{TestApp, mint_key};

#[tokio::test]
async fn an_agent_is_read_by_id_and_name_changed_and_archived() {
    let app = TestApp::start().await;
    let made = app.post("/v1/agents", &speaker("a", "one")).await;
    assert_eq!((made.status, made.header("etag")), (201, "\"1\""));
    let location = made.header("location").to_owned();
    let agent = made.json();
    assert_eq!(location, format!("/v1/agents/{}", agent["id"].as_str().unwrap()));
    assert_eq!((&agent["version"], &agent["max_steps"]), (&json!(1), &json!(15)));
    assert_eq!(app.get(&location).await.expect(200), agent);
    assert_eq!(app.get("/v1/agents/a").await.expect(200), agent);

    let changed = app.put("/v1/agents/a", &speaker("b", "two")).await;
    assert_eq!(changed.header("etag"), "\"2\"");
    let changed = changed.expect(200);
    assert_eq!((&changed["id"], &changed["version"]), (&agent["id"], &json!(2)));
    assert_eq!(changed["created_at"], agent["created_at"]);
    app.get("/v1/agents/a").await.expect_problem(404, "not-found");
    assert_eq!(app.get("/v1/agents/b").await.expect(200), changed);
    assert_eq!(app.get("/v1/agents/b?version=1").await.expect(200)["name"], "a");
    app.get("/v1/agents/b?version=3").await.expect_problem(404, "not-found");
    assert_eq!(app.all("/v1/agents/b/versions").await.len(), 2);

    assert_eq!(app.delete("/v1/agents/b").await.status, 204);
    assert_eq!(app.delete(&location).await.status, 204);
    app.get("/v1/agents/b").await.expect_problem(404, "not-found");
    assert!(app.get(&location).await.expect(200)["archived_at"].is_string());
    app.put(&location, &speaker("b", "three")).await.expect_problem(410, "gone");
    assert_eq!(app.all("/v1/agents").await, Vec::<Value>::new());
    let run = json!({ "agent_id": agent["id"], "input": "hi" });
    app.post("/v1/runs", &run).await.expect_problem(410, "gone");
    app.create_agent(&speaker("b", "another")).await;
}

#[tokio::test]
async fn what_is_read_can_be_sent_back_and_changes_nothing() {
    let app = TestApp::start().await;
    let mut agent = speaker("a", "one");
    agent["framing_policy"] = json!("frames_and_notes");
    agent["announce"] = json!("always");
    agent["context_strategy"] = json!("summarize");
    agent["model"]["profile"] = json!({ "native_system": false, "context_window": 4_096 });
    agent["redact_errors"] = json!(true);
    let made = app.create_agent(&agent).await;
    for (member, value) in agent.as_object().unwrap() {
        assert_eq!(&made[member], value, "{member}");
    }
    let mut back = made.clone();
    for ours in ["id", "version", "created_at", "updated_at"] {
        back.as_object_mut().unwrap().remove(ours);
    }
    let mut again = app.put("/v1/agents/a", &back).await.expect(200);
    assert_eq!(again["version"], 2);
    again["version"] = made["version"].clone();
    again["updated_at"] = made["updated_at"].clone();
    assert_eq!(again, made);
}

#[tokio::test]
async fn a_run_keeps_the_version_it_was_started_with() {
    let app = TestApp::start().await;
    app.create_agent(&speaker("a", "one")).await;
    let first = app.run_body(&json!({ "agent_id": "a", "input": "hi" })).await;
    app.put("/v1/agents/a", &speaker("a", "two")).await.expect(200);
    let second = app.run_body(&json!({ "agent_id": "a", "input": "hi" })).await;
    let pinned = app.run_body(&json!({ "agent_id": "a", "agent_version": 1, "input": "hi" })).await;
    for (run, version, answer) in [(&first, 1, "one"), (&second, 2, "two"), (&pinned, 1, "one")] {
        assert_eq!((&run["agent_version"], &run["answer"]), (&json!(version), &json!(answer)));
    }
}

#[tokio::test]
async fn a_change_that_names_another_state_is_refused() {
    let app = TestApp::start().await;
    app.create_agent(&speaker("a", "one")).await;
    let two = speaker("a", "two").to_string();
    for stale in ["\"2\"", "1", "W/\"1\"", "nonsense"] {
        let answer = send_text(&app, ("PUT", "/v1/agents/a"), stale, &two).await;
        answer.expect_problem(412, "precondition-failed");
        let answer = send_text(&app, ("DELETE", "/v1/agents/a"), stale, "").await;
        answer.expect_problem(412, "precondition-failed");
    }
    assert_eq!(app.get("/v1/agents/a").await.expect(200)["version"], 1);
    for current in ["\"1\"", "\"9\", \"2\"", "*"] {
        send_text(&app, ("PUT", "/v1/agents/a"), current, &two).await.expect(200);
    }
    assert_eq!(app.get("/v1/agents/a").await.expect(200)["version"], 4);
}

#[tokio::test]
async fn of_changes_that_name_the_same_state_one_wins() {
    let app = TestApp::start().await;
    app.create_agent(&speaker("a", "one")).await;
    let two = speaker("a", "two").to_string();
    let tries = (0..8).map(|_| send_text(&app, ("PUT", "/v1/agents/a"), "\"1\"", &two));
    let mut statuses: Vec<u16> =
        futures::future::join_all(tries).await.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412, 412, 412, 412, 412, 412]);
    assert_eq!(app.all("/v1/agents/a/versions").await.len(), 2);
}

#[tokio::test]
async fn a_name_belongs_to_one_agent_of_a_tenant() {
    let app = TestApp::start().await;
    app.create_agent(&speaker("a", "one")).await;
    app.create_agent(&speaker("b", "one")).await;
    app.post("/v1/agents", &speaker("a", "two")).await.expect_problem(409, "id-conflict");
    app.put("/v1/agents/b", &speaker("a", "two")).await.expect_problem(409, "id-conflict");
    assert_eq!(app.get("/v1/agents/b").await.expect(200)["version"], 1);
    let key = mint_key(&app, "other", &["agents:write"]).await;
    let body = speaker("a", "two").to_string();
    send_as(&app, &key, ("POST", "/v1/agents"), &body).await.expect(201);
}

fn http_tool(change: impl FnOnce(&mut Value)) -> Value {
    let mut tool = json!({ "kind": "http", "name": "t", "url": "https://example.com/x",
                           "parameters": { "type": "object", "properties": {} } });
    change(&mut tool);
    tool
}

fn with_tool(change: impl FnOnce(&mut Value)) -> Value {
    with("/tools", &json!([http_tool(change)]))
}

/// A sound agent with another value at a pointer.
fn with(pointer: &str, value: &Value) -> Value {
    let mut spec = speaker("a", "one");
    let mut place = &mut spec;
    for segment in pointer.split('/').skip(1) {
        place = match segment.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[segment],
        };
    }
    *place = value.clone();
    spec
}

/// What is wrong, the agent, and what it gets: status, slug, pointer of the first error.
type Row = (&'static str, Value, u16, &'static str, &'static str);

const INVALID: &str = "validation-failed";

fn values() -> Vec<Row> {
    let at = |pointer: &'static str, value: Value| {
        (pointer, with(pointer, &value), 422, INVALID, pointer)
    };
    let many: Vec<Value> =
        (0..129).map(|n| http_tool(|t| t["name"] = json!(format!("t{n}")))).collect();
    let pairs: serde_json::Map<String, Value> =
        (0..51).map(|n| (n.to_string(), json!("x"))).collect();
    vec![
        at("/name", json!("A b")),
        at("/name", json!("")),
        at("/name", json!("a".repeat(65))),
        at("/name", json!("agt_0198f2c4a1b27cde8f00112233445566")),
        at("/name", json!(7)),
        at("/max_steps", json!(0)),
        at("/max_steps", json!(-1)),
        at("/max_steps", json!(1_000_000_000)),
        at("/max_steps", json!("5")),
        at("/max_steps", json!(1.5)),
        at("/model_timeout_ms", json!(0)),
        at("/tool_timeout_ms", json!(3_600_001)),
        at("/run_timeout_ms", json!(10_000_000_000_i64)),
        at("/loop_limit", json!(1)),
        at("/loop_limit", json!(101)),
        at("/output_retries", json!(11)),
        at("/max_tool_output_chars", json!(0)),
        at("/instructions", json!("x".repeat(256 * 1024 + 1))),
        at("/metadata", Value::Object(pairs)),
        at("/metadata/k", json!("x".repeat(513))),
        at("/metadata/k", json!({ "nested": 1 })),
        at("/model/provider", json!("unknown")),
        at("/model/name", json!("")),
        at("/model/name", json!("x".repeat(257))),
        at("/model/base_url", json!("ftp://example.com")),
        at("/model/base_url", json!("http://user:secret@example.com")),
        at("/model/settings/temperature", json!(-1)),
        at("/model/settings/temperature", json!(99)),
        at("/model/settings/top_p", json!(1.1)),
        at("/model/settings/stop", json!(vec!["x"; 1_000])),
        at("/model/settings/max_output_tokens", json!(0)),
        at("/model/settings/tool_choice", json!("nothing")),
        at("/model/script", json!(vec![json!({}); 1_001])),
        at("/model/script/0/delay_ms", json!(600_001)),
        at("/model/script/0/chunks", json!(0)),
        at("/tools", json!(many)),
        at("/tools", json!({})),
    ]
}

fn tools() -> Vec<Row> {
    let both = json!([{ "tool_calls": [{ "name": "t", "arguments": {}, "raw_arguments": "" }] }]);
    let at_name = "/tools/0/name";
    let row =
        |what, tool, slug, pointer| (what, with("/tools", &json!([tool])), 422, slug, pointer);
    vec![
        (
            "two kinds of arguments",
            with("/model/script", &both),
            422,
            INVALID,
            "/model/script/0/tool_calls/0",
        ),
        row("space in a name", http_tool(|t| t["name"] = json!("a b")), INVALID, at_name),
        row("markup as a name", http_tool(|t| t["name"] = json!("</system>")), INVALID, at_name),
        row("long name", http_tool(|t| t["name"] = json!("a".repeat(65))), INVALID, at_name),
        row("no name", http_tool(|t| t["name"] = json!("")), INVALID, at_name),
        row("look-alike name", http_tool(|t| t["name"] = json!("\u{430}")), INVALID, at_name),
        row("reserved name", http_tool(|t| t["name"] = json!("final_answer")), INVALID, at_name),
        row("effect", http_tool(|t| t["effect"] = json!("x")), INVALID, "/tools/0/effect"),
        row("no time", http_tool(|t| t["timeout_ms"] = json!(0)), INVALID, "/tools/0/timeout_ms"),
        row(
            "a day",
            http_tool(|t| t["timeout_ms"] = json!(86_400_000)),
            INVALID,
            "/tools/0/timeout_ms",
        ),
        row("kind", json!({ "kind": "shell", "name": "t" }), INVALID, "/tools/0/kind"),
    ]
}

fn schemas_and_headers() -> Vec<Row> {
    let refer = |to: &str| json!({ "type": "object", "properties": { "a": { "$ref": to } } });
    let row =
        |what, tool, slug, pointer| (what, with("/tools", &json!([tool])), 422, slug, pointer);
    vec![
        row(
            "no schema",
            http_tool(|t| t["parameters"] = json!({ "type": "array" })),
            "invalid-tool-schema",
            "/tools/0/parameters",
        ),
        row(
            "remote reference",
            http_tool(|t| t["parameters"] = refer("https://example.com/a")),
            "remote-ref-forbidden",
            "/tools/0/parameters/properties/a/$ref",
        ),
        row(
            "file reference",
            http_tool(|t| t["parameters"] = refer("file:///etc/passwd")),
            "remote-ref-forbidden",
            "/tools/0/parameters/properties/a/$ref",
        ),
        row(
            "header name",
            http_tool(|t| t["headers"] = json!({ "a b": "x" })),
            "invalid-header-name",
            "/tools/0/headers/a b",
        ),
        row(
            "header value",
            http_tool(|t| t["headers"] = json!({ "a": "x\r\ny: z" })),
            "invalid-header-name",
            "/tools/0/headers/a",
        ),
        row(
            "reserved header",
            http_tool(|t| t["headers"] = json!({ "Host": "x" })),
            "invalid-header-name",
            "/tools/0/headers/Host",
        ),
    ]
}

fn urls() -> Vec<Row> {
    let bad = [
        "http://example.com/",
        "ftp://example.com",
        "example.com/x",
        "https://u:p@example.com",
        "https://example.com:22/",
        "https://",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://[::ffff:127.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://localhost./",
        "https://169.254.169.254/latest",
        "https://10.0.0.1/",
        "file:///etc/passwd",
    ];
    bad.iter()
        .map(|url| {
            (*url, with_tool(|t| t["url"] = json!(url)), 422, "egress-denied", "/tools/0/url")
        })
        .collect()
}

fn documents() -> Vec<Row> {
    let conflict = json!([http_tool(|_| ()), http_tool(|_| ())]);
    vec![
        ("top unknown", with("/colour", &json!(1)), 422, "unknown-field", "/colour"),
        ("nested unknown", with("/model/colour", &json!(1)), 422, "unknown-field", "/model/colour"),
        ("read-only", with("/tenant_id", &json!("x")), 422, "unknown-field", "/tenant_id"),
        ("version", with("/version", &json!(3)), 422, "unknown-field", "/version"),
        ("NUL", with("/instructions", &json!("a\0b")), 422, "text-not-storable", "/instructions"),
        ("array", json!([]), 422, INVALID, ""),
        ("no model", json!({ "name": "a" }), 422, INVALID, "/model"),
        ("one name twice", with("/tools", &conflict), 409, "tool-name-conflict", ""),
    ]
}

#[tokio::test]
async fn a_bad_agent_is_refused_at_its_place_and_changes_nothing() {
    let app = TestApp::start().await;
    let kept = app.create_agent(&speaker("kept", "one")).await;
    for (what, spec, status, slug, pointer) in
        [values(), tools(), schemas_and_headers(), urls(), documents()].into_iter().flatten()
    {
        for answer in [app.post("/v1/agents", &spec).await, app.put("/v1/agents/kept", &spec).await]
        {
            assert_eq!(
                (answer.status, answer.slug().as_str()),
                (status, slug),
                "{what}: {}",
                answer.text
            );
            let problem = answer.json();
            let first = pointers(&problem).first().copied().unwrap_or_default().to_owned();
            assert_eq!(first, pointer, "{what}: {problem}");
        }
    }
    assert_eq!(app.all("/v1/agents").await, [kept]);
    assert_eq!(app.all("/v1/agents/kept/versions").await.len(), 1);
}

#[tokio::test]
async fn an_agent_in_a_run_is_checked_like_a_stored_one() {
    let app = TestApp::start().await;
    let rows = [
        (with("/model/base_url", &json!("x")), INVALID, "/agent/model/base_url"),
        (
            with_tool(|t| t["url"] = json!("https://127.0.0.1/")),
            "egress-denied",
            "/agent/tools/0/url",
        ),
        (with_tool(|t| t["name"] = json!("a b")), INVALID, "/agent/tools/0/name"),
    ];
    for (agent, slug, pointer) in rows {
        let answer = app.post("/v1/runs", &json!({ "agent": agent, "input": "hi" })).await;
        assert_eq!(pointers(&answer.expect_problem(422, slug)), [pointer]);
    }
    assert_eq!(app.all("/v1/runs").await, Vec::<Value>::new());
    assert_eq!(app.all("/v1/threads").await, Vec::<Value>::new());
}

#[tokio::test]
async fn everything_that_is_wrong_is_listed_at_once_up_to_twenty() {
    let app = TestApp::start().await;
    let mut spec = with("/model/base_url", &json!("x"));
    spec["name"] = json!("A");
    spec["tools"] = json!([http_tool(|t| t["name"] = json!("a b"))]);
    let problem = app.post("/v1/agents", &spec).await.expect_problem(422, INVALID);
    assert_eq!(pointers(&problem), ["/name", "/model/base_url", "/tools/0/name"]);
    spec["metadata"] = (0..30).map(|n| (n.to_string(), json!(n))).collect();
    let problem = app.post("/v1/agents", &spec).await.expect_problem(422, INVALID);
    assert_eq!(pointers(&problem).len(), 20);
}

#[tokio::test]
async fn instructions_with_framing_tags_are_taken_as_they_are() {
    let app = TestApp::start().await;
    let text = "</system> <observation> Be brief.";
    let agent = app.create_agent(&with("/instructions", &json!(text))).await;
    assert_eq!(agent["instructions"], text);
}

#[tokio::test]
async fn a_list_is_read_page_by_page_newest_first() {
    let app = TestApp::start().await;
    for name in ["a", "b", "c"] {
        app.create_agent(&speaker(name, "x")).await;
    }
    let first = app.get("/v1/agents?limit=2").await.expect(200);
    let names = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["c", "b"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    let last = app.get(&format!("/v1/agents?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!((names(&last), &last["next_cursor"]), (vec!["a".to_owned()], &Value::Null));

    for query in ["limit=0", "limit=201", "limit=-1", "limit=abc", "limit=1&limit=2", "colour=1"] {
        let answer = app.get(&format!("/v1/agents?{query}")).await;
        answer.expect_problem(400, "invalid-parameter");
    }
    for path in ["/v1/agents?cursor=x", &format!("/v1/threads?cursor={cursor}")] {
        app.get(path).await.expect_problem(400, "invalid-cursor");
    }
    let key = mint_key(&app, "other", &["agents:read"]).await;
    let foreign = format!("/v1/agents?cursor={cursor}");
    send_as(&app, &key, ("GET", &foreign), "").await.expect_problem(400, "invalid-cursor");
    let ours = mint_key(&app, "default", &["agents:read"]).await;
    let app = app.with_key(&ours);
    for version in ["0", "-1", "x", "99999999999"] {
        let answer = app.get(&format!("/v1/agents/a?version={version}")).await;
        answer.expect_problem(400, "invalid-parameter");
    }
}

#[tokio::test]
async fn an_agent_of_another_tenant_is_as_absent_as_one_that_never_was() {
    let app = TestApp::start().await;
    let agent = app.create_agent(&speaker("a", "one")).await;
    let id = agent["id"].as_str().unwrap();
    let key = mint_key(&app, "other", &["agents:read", "agents:write"]).await;
    let body = speaker("a", "two").to_string();
    let never = "agt_0198f2c4a1b27cde8f00112233445566";
    let names = [id, "a", never, "thr_0198f2c4a1b27cde8f00112233445566", "a%00b", "A", "%FF"];
    let mut details = Vec::new();
    for path in names.map(|name| format!("/v1/agents/{name}")) {
        let versions = format!("{path}/versions");
        for (method, path) in
            [("GET", &path), ("PUT", &path), ("DELETE", &path), ("GET", &versions)]
        {
            let answer = send_as(&app, &key, (method, path), &body).await;
            details.push(answer.expect_problem(404, "not-found")["detail"].clone());
        }
    }
    assert!(details.iter().all(|detail| detail == &details[0]), "{details:?}");
    let ours = mint_key(&app, "default", &["agents:read"]).await;
    let kept = app.with_key(&ours).get(&format!("/v1/agents/{id}")).await;
    assert_eq!(kept.expect(200), agent);
}

#[tokio::test]
async fn each_operation_needs_its_scope() {
    let app = TestApp::start().await;
    app.create_agent(&speaker("a", "one")).await;
    let reader = mint_key(&app, "default", &["agents:read"]).await;
    let writer = mint_key(&app, "default", &["agents:write"]).await;
    let body = speaker("b", "one").to_string();
    for (key, request, required) in [
        (&writer, ("GET", "/v1/agents"), "agents:read"),
        (&writer, ("GET", "/v1/agents/a"), "agents:read"),
        (&writer, ("GET", "/v1/agents/a/versions"), "agents:read"),
        (&reader, ("POST", "/v1/agents"), "agents:write"),
        (&reader, ("PUT", "/v1/agents/a"), "agents:write"),
        (&reader, ("DELETE", "/v1/agents/a"), "agents:write"),
    ] {
        let body = if request.0.starts_with('P') { body.as_str() } else { "" };
        let problem = send_as(&app, key, request, body).await;
        assert_eq!(problem.expect_problem(403, "insufficient-scope")["required"], required);
    }
}
