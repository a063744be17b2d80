//! Secrets on their way out, and what becomes of them when they come back.

use serde_json::{Value, json};

use super::secrets::{SEALING, VALUE, agent, keep};
use super::send_as;
use crate::support::{
    FakeModel, ModelReply, SseReader, TestApp, client_tool, execute, mint_key, picture_everything,
    tool,
};

/// A model that calls `t` once and then says that it is done.
fn calls() -> Value {
    json!({ "provider": "scripted", "name": "m", "script": [
        { "tool_calls": [{ "name": "t", "arguments": {} }] }, { "text": "done" }] })
}

/// Whether a text holds the value, as it is or as Postgres shows bytes.
fn leaks(text: &str) -> bool {
    let hex = VALUE.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    text.contains("canary") || text.contains(&hex)
}

/// Everything that callers can read of a run, and every row there is.
async fn seen(app: &TestApp, run: &Value) -> String {
    let (id, thread) = (run["id"].as_str().unwrap(), run["thread_id"].as_str().unwrap());
    let mut all = run.to_string();
    for path in [
        format!("/v1/runs/{id}"),
        format!("/v1/runs/{id}/steps"),
        format!("/v1/runs/{id}/events"),
        format!("/v1/runs/{id}/requests"),
        format!("/v1/threads/{thread}/memory"),
        "/v1/agents".to_owned(),
        "/v1/secrets".to_owned(),
    ] {
        all.push_str(&app.get(&path).await.expect(200).to_string());
    }
    for request in app.all(&format!("/v1/runs/{id}/requests")).await {
        let id = request["id"].as_str().unwrap();
        for what in ["body", "response", "spans"] {
            all.push_str(&app.get(&format!("/v1/requests/{id}/{what}")).await.text);
        }
    }
    let events = SseReader::of(app.stream(id, None).await).rest().await;
    all.extend(events.iter().map(|event| event.data.to_string()));
    all + &picture_everything(&app.db).await
}

async fn outcome(app: &TestApp) -> (Value, Value) {
    let run = app.run(&agent(app, &calls()), "go").await;
    let outcome = app.outcomes(&run).await[0].clone();
    (run, outcome)
}

#[tokio::test]
async fn a_tool_is_sent_the_secret_and_what_it_echoes_is_masked() {
    let app = TestApp::with(&[SEALING]).await;
    keep(&app, "key", VALUE).await;
    app.tools.answer("t", |seen| (200, json!(seen.headers)));
    let (run, outcome) = outcome(&app).await;
    let sent = &app.tools.seen()[0].headers["authorization"];
    assert_eq!(sent, &format!("Bearer {VALUE}"));
    assert_eq!(outcome["output"]["json"]["authorization"], "Bearer [redacted:secret:key]");
    assert!(!leaks(&seen(&app, &run).await));
    let used = app.get("/v1/secrets/key").await.expect(200);
    assert!(used["last_used_at"].is_string(), "{used}");
}

#[tokio::test]
async fn a_key_that_may_only_start_runs_finds_no_new_uses_for_what_is_kept() {
    let app = TestApp::with(&[SEALING]).await;
    keep(&app, "key", VALUE).await;
    let (runs, agents) = (["runs:write"].as_slice(), ["runs:write", "agents:write"].as_slice());
    let keys = [mint_key(&app, "default", runs).await, mint_key(&app, "default", agents).await];
    let with = |members: &Value| {
        let mut agent = agent(&app, &json!({"provider": "scripted", "name": "m"}));
        agent.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        agent
    };
    let model = json!({"provider": "openai", "name": "m", "api_key": {"secret": "key"}});
    let uses = [
        with(&json!({})),
        with(&json!({"tools": [], "model": model})),
        with(
            &json!({"tools": [], "model": {"provider": "openai", "name": "m", "fallbacks": [model]}}),
        ),
        with(&json!({"tools": [{"kind": "mcp", "server": "kept"}]})),
        with(&json!({"tools": [{"kind": "builtin", "name": "memory_get", "namespace": ["a"]}]})),
    ];
    for agent in uses {
        let body = json!({"agent": agent, "input": "go"}).to_string();
        for path in ["/v1/runs", "/v1/runs/stream"] {
            let refused = send_as(&app, &keys[0], ("POST", path), &body).await;
            let problem = refused.expect_problem(403, "insufficient-scope");
            assert_eq!(problem["required"], "agents:write", "{body}");
            let taken = send_as(&app, &keys[1], ("POST", path), &body).await;
            assert_ne!(taken.status, 403, "{body}");
        }
    }
    let plain = with(&json!({"tools": []}));
    let body = json!({"agent": plain, "input": "go"}).to_string();
    send_as(&app, &keys[0], ("POST", "/v1/runs"), &body).await.expect(201);
}

#[tokio::test]
async fn an_error_and_a_file_that_echo_the_secret_are_masked() {
    let app = TestApp::with(&[SEALING]).await;
    keep(&app, "key", VALUE).await;
    app.tools.answer("t", |seen| (500, json!({ "you sent": seen.headers })));
    let (run, failed) = outcome(&app).await;
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("Bearer [redacted:secret:key]"), "{failed}");
    assert!(!leaks(&seen(&app, &run).await));
    let disposition = format!("attachment; filename=\"{VALUE}.bin\"");
    let headers =
        [("content-type", "application/octet-stream"), ("content-disposition", &*disposition)];
    let body = [b"\xff\xfe".as_slice(), VALUE.as_bytes(), b"\xff"].concat();
    app.tools.answer_bytes("t", &headers, &body);
    let (run, file) = outcome(&app).await;
    assert_eq!(file["files"].as_array().map(Vec::len), Some(1), "{file}");
    assert!(!leaks(&seen(&app, &run).await), "{file}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_had_keeps_the_call_from_being_sent_and_the_run_goes_on() {
    let app = TestApp::with(&[SEALING]).await;
    keep(&app, "key", VALUE).await;
    keep(&app, "other", "another-value").await;
    app.create_agent(&agent(&app, &calls())).await;
    let elsewhere = json!({ "value": VALUE, "origins": ["https://example.com"] });
    for (what, why) in [
        ("rebound", "it is not bound to this origin"),
        ("tampered", "it cannot be opened"),
        ("plain", "it cannot be opened"),
        ("moved", "it cannot be opened"),
        ("unknown key", "it cannot be opened"),
        ("gone", "it does not exist"),
    ] {
        keep(&app, "key", &format!("value of {what}")).await;
        let changed = match what {
            "rebound" => {
                app.put("/v1/secrets/key", &elsewhere).await.expect(200);
                1
            }
            "tampered" => execute(&app.db, TAMPERED).await,
            "plain" => execute(&app.db, PLAIN).await,
            "moved" => execute(&app.db, MOVED).await,
            "unknown key" => execute(&app.db, UNKNOWN_KEY).await,
            _ => {
                assert_eq!(app.delete("/v1/secrets/key?force=true").await.status, 204);
                1
            }
        };
        assert_eq!(changed, 1, "{what}");
        let run = app.run_body(&json!({ "agent_id": "a", "input": "go" })).await;
        assert_eq!(run["status"], "completed", "{what}: {run}");
        let outcome = app.outcomes(&run).await[0].clone();
        assert_eq!(outcome["error"]["type"], "SecretUnavailable", "{what}: {outcome}");
        let message = outcome["error"]["message"].as_str().unwrap();
        assert!(message.contains("'key'") && message.contains(why), "{what}: {message}");
        assert!(app.tools.seen().is_empty(), "{what}");
    }
}

const TAMPERED: &str =
    "UPDATE secret SET sealed = set_byte(sealed, 3, 255 - get_byte(sealed, 3)) WHERE name = 'key'";
const PLAIN: &str = "UPDATE secret SET sealed = 'canary-in-plain' WHERE name = 'key'";
const MOVED: &str = "UPDATE secret AS s
                        SET sealed = o.sealed, wrapped_key = o.wrapped_key, version = o.version
                       FROM secret AS o
                      WHERE s.name = 'key' AND o.name = 'other'";
const UNKNOWN_KEY: &str = "UPDATE secret SET kek_id = 'lost' WHERE name = 'key'";

/// An agent that names the secret for one tool, and calls only others.
fn others(app: &TestApp, calls: &[&str], tools: &[Value]) -> Value {
    let called = |name: &&str| json!({ "tool_calls": [{ "name": name, "arguments": {} }] });
    let script: Vec<Value> = calls.iter().map(called).chain([json!({ "text": "done" })]).collect();
    let mut agent = agent(app, &json!({ "provider": "scripted", "name": "m", "script": script }));
    agent["tools"].as_array_mut().unwrap().extend(tools.to_vec());
    agent
}

#[tokio::test]
async fn a_secret_that_is_sent_back_by_somebody_else_than_it_was_sent_to_is_masked() {
    let app = TestApp::with(&[SEALING]).await;
    keep(&app, "key", VALUE).await;
    let leak = json!({ "leak": VALUE });
    let answer = leak.clone();
    app.tools.answer("u", move |_| (200, answer.clone()));
    app.tools.answer("broken", |_| (500, json!(VALUE)));
    app.tools.hold("lost");
    let none = json!({ "type": "object", "properties": {} });
    let mut lost = tool(&app.tools, "lost", "at_most_once", &none);
    lost["timeout_ms"] = json!(200);
    lost["on_in_doubt"] = json!("hold");
    let of = |name: &str| tool(&app.tools, name, "pure", &none);
    let tools = [of("u"), of("broken"), client_tool("pick"), lost];
    let agent = others(&app, &["t", "u", "broken", "pick", "lost"], &tools);
    let run = app.parked(&json!({ "agent": agent, "input": "go" })).await;
    let call_of = |run: &Value| {
        run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap().to_owned()
    };
    for _ in 0..2 {
        app.give_result(&run, &call_of(&run), &leak).await.expect(200);
    }
    let run = app.rested(&run).await;
    assert_eq!(run["requires_action"]["reason"], "in_doubt", "{run}");
    let resolution = json!({ "outcome": "succeeded", "output": leak });
    app.resolve(&run, &call_of(&run), &resolution).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!(run["status"], "completed", "{run}");
    let outcomes = app.outcomes(&run).await;
    let shown = json!({ "leak": "[redacted:secret:key]" });
    for place in [1, 3, 4] {
        assert_eq!(outcomes[place]["output"]["json"], shown, "{}", outcomes[place]);
    }
    let message = outcomes[2]["error"]["message"].as_str().unwrap();
    assert!(message.contains("[redacted:secret:key]"), "{message}");
    assert!(!leaks(&seen(&app, &run).await));
}

#[tokio::test]
async fn a_secret_of_a_skill_or_of_a_caller_of_agents_is_masked_as_well() {
    let app = TestApp::with(&[SEALING]).await;
    keep(&app, "key", VALUE).await;
    app.tools.answer("u", |_| (200, json!(VALUE)));
    let none = json!({ "type": "object", "properties": {} });
    let plain = tool(&app.tools, "u", "pure", &none);
    let with_key = agent(&app, &calls())["tools"].clone();
    let skill = json!({ "name": "s", "description": "d", "instructions": "i", "tools": with_key });
    app.post("/v1/skills", &skill).await.expect(201);
    let script = json!([{ "tool_calls": [{ "name": "u", "arguments": {} }] }, { "text": "done" }]);
    let model = json!({ "provider": "scripted", "name": "m", "script": script });
    let spec = json!({ "name": "a", "model": model, "tools": [plain], "skills": ["s"] });
    let run = app.run(&spec, "go").await;
    assert_eq!(app.outcomes(&run).await[0]["output"]["json"], "[redacted:secret:key]");
    assert!(!leaks(&seen(&app, &run).await));
    // The agent that is called knows of no secret, and says it.
    let says = json!({ "provider": "scripted", "name": "m", "script": [{ "text": VALUE }] });
    app.create_agent(&json!({ "name": "teller", "model": says })).await;
    let ask = json!({ "kind": "agent", "name": "ask", "description": "asks", "agent": "teller" });
    let mut caller = others(&app, &[], &[ask]);
    caller["model"]["script"] = json!([
        { "tool_calls": [{ "name": "ask", "arguments": { "task": "tell" } }] }, { "text": "done" }]);
    let run = app.run(&caller, "go").await;
    assert_eq!(app.outcomes(&run).await[0]["output"]["text"], "[redacted:secret:key]", "{run}");
}

#[tokio::test]
async fn a_secret_that_cannot_be_opened_costs_only_the_calls_that_need_it() {
    let app = TestApp::with(&[SEALING]).await;
    keep(&app, "key", VALUE).await;
    let none = json!({ "type": "object", "properties": {} });
    let agent = others(&app, &["t", "u"], &[tool(&app.tools, "u", "pure", &none)]);
    app.create_agent(&agent).await;
    assert_eq!(execute(&app.db, UNKNOWN_KEY).await, 1);
    let run = app.run_body(&json!({ "agent_id": "a", "input": "go" })).await;
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[0]["error"]["type"], "SecretUnavailable", "{outcomes:?}");
    assert_eq!(outcomes[1]["kind"], "success", "{outcomes:?}");
}

/// A model of a tenant's, with a key of its own.
async fn keyed(app: &TestApp, model: &FakeModel, stream: bool) -> Value {
    let body = json!({ "value": VALUE, "origins": [model.origin] });
    app.put("/v1/secrets/model", &body).await.expect(200);
    let mut spec = model.spec(stream);
    spec["api_key"] = json!({ "secret": "model" });
    spec
}

/// A server that may call a model, with a key of the operator's that goes there as well.
async fn serving(model: &FakeModel) -> TestApp {
    let tools = crate::support::FakeTools::start().await;
    let db = crate::support::TestDb::new().await;
    let allow = format!("{},{}", tools.host, model.origin.strip_prefix("http://").unwrap());
    let settings = [
        SEALING,
        ("OPENAI_API_KEY", "sk-of-the-operator-0123456789"),
        ("AGENTLING_OPENAI_ORIGINS", model.origin.as_str()),
        ("AGENTLING_EGRESS_ALLOW", allow.as_str()),
    ];
    TestApp::on(db, tools, &settings, agentling::app::Surroundings::default()).await
}

#[tokio::test]
async fn a_model_is_asked_with_its_own_key_and_a_reply_that_echoes_it_is_masked() {
    let call = ModelReply::call("t", &json!({ "key": VALUE }).to_string());
    let text = ModelReply::text(&format!("Your key is {VALUE}, is it not?"));
    for stream in [true, false] {
        let model = FakeModel::start([call.clone(), text.clone()]).await;
        let app = serving(&model).await;
        let spec = keyed(&app, &model, stream).await;
        let parameters = json!({ "type": "object", "additionalProperties": true });
        let tools = [tool(&app.tools, "t", "pure", &parameters)];
        let agent = json!({ "name": "a", "model": spec, "tools": tools });
        let run = app.run(&agent, "go").await;
        assert_eq!(run["answer"], "Your key is [redacted:secret:model], is it not?", "{run}");
        let requests = model.requests();
        let bearer = format!("Bearer {VALUE}");
        assert!(requests.iter().all(|request| request.authorization.as_ref() == Some(&bearer)));
        assert!(requests.iter().all(|request| !leaks(&request.body)));
        assert_eq!(app.tools.seen()[0].body, json!({ "key": "[redacted:secret:model]" }));
        assert!(!leaks(&seen(&app, &run).await), "stream: {stream}");
    }
}

/// A stream that ends with these bytes and without its end.
fn breaks_off(events: &str) -> ModelReply {
    ModelReply::Status(200, "text/event-stream", events.to_owned())
}

#[tokio::test]
async fn a_reply_that_breaks_off_within_the_key_leaves_no_beginning_of_it() {
    let (begun, rest) = VALUE.split_at(14);
    let says = |text: &str| {
        let delta = json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
        format!("data: {delta}\n\n")
    };
    let within = says("It is ") + says(begun).split(begun).next().unwrap() + begun;
    let (few, more) = begun.split_at(3);
    let across = says(few) + says(more).split(more).next().unwrap() + more;
    let whole = json!({ "choices": [{ "message": { "content": format!("It is {begun}") },
                                      "finish_reason": "length" }] });
    for (reply, stream) in [
        (ModelReply::Cut(format!("It is {begun}")), true),
        (breaks_off(&within), true),
        (breaks_off(&across), true),
        (ModelReply::Status(200, "application/json", whole.to_string()), false),
        (
            ModelReply::Says { text: format!("It is {begun}"), calls: vec![], finish: "length" },
            true,
        ),
    ] {
        let model = FakeModel::start([reply.clone(), ModelReply::text("done")]).await;
        let app = serving(&model).await;
        let spec = keyed(&app, &model, stream).await;
        let run = app.run(&json!({ "name": "a", "model": spec }), "go").await;
        assert_eq!(run["status"], "completed", "{run}");
        let seen = seen(&app, &run).await;
        let hex = |text: &str| text.bytes().fold(String::new(), |hex, b| hex + &format!("{b:02x}"));
        for part in [VALUE.split_at(4).0, rest.split_at(4).0, more] {
            assert!(!seen.contains(part) && !seen.contains(&hex(part)), "{part} of {reply:?}");
        }
        assert_eq!(model.requests().len(), if run["answer"] == "done" { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_provider_that_quotes_the_key_it_refuses_leaves_it_nowhere() {
    let body =
        json!({ "error": { "message": format!("Incorrect API key: {VALUE}"), "code": VALUE } });
    let model = FakeModel::start([ModelReply::Status(401, "application/json", body.to_string())]);
    let model = model.await;
    let app = serving(&model).await;
    let spec = keyed(&app, &model, true).await;
    let run = app.run(&json!({ "name": "a", "model": spec }), "go").await;
    assert_eq!(run["error"]["kind"], "auth", "{run}");
    assert!(!leaks(&seen(&app, &run).await));
}

#[tokio::test]
async fn a_run_whose_models_key_cannot_be_had_fails_and_nobody_elses_key_is_shown() {
    let model = FakeModel::start([ModelReply::text("hi")]).await;
    let app = serving(&model).await;
    let spec = keyed(&app, &model, true).await;
    app.create_agent(&json!({ "name": "a", "model": spec })).await;
    assert_eq!(execute(&app.db, "UPDATE secret SET kek_id = 'lost'").await, 1);
    let body = json!({ "agent_id": "a", "input": "go" });
    for why in ["sealed", "gone"] {
        let run = app.run_body(&body).await;
        assert_eq!(run["error"]["type"], "/problems/secret-unavailable", "{why}: {run}");
        assert_eq!(run["error"]["kind"], "secret_unavailable", "{why}: {run}");
        assert_eq!(model.requests().len(), 0, "{why}");
        app.delete("/v1/secrets/model?force=true").await;
    }
}
