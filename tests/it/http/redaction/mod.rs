//! What rules keep from the model, from callers and from exports, and that it stays stored.

mod selftest;

use agentling::domain::id::{TenantId, ThreadId};
use agentling::domain::page::PageRequest;
use agentling::store::steps;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::pointers;
use crate::support::{FakeModel, HeldModel, ModelReply, Piece, SseReader, TestApp, tool};

/// Holds characters that JSON and URLs write otherwise.
const SECRET: &str = "s3cr3t/\"Vä lue";
const ANYTHING: &str = r#"{"type":"object","additionalProperties":true}"#;

fn quoted() -> String {
    serde_json::to_string(SECRET).unwrap()
}

/// A model that calls the tool `t` and then repeats what it should not.
async fn model() -> FakeModel {
    let call = ModelReply::call("t", &format!("{{\"n\": 1.50, \"key\": {}}}", quoted()));
    FakeModel::start([call, ModelReply::text(&format!("It is {SECRET}."))]).await
}

fn agent(app: &TestApp, model: &Value, rules: &Value) -> Value {
    let parameters: Value = serde_json::from_str(ANYTHING).unwrap();
    let tools = [tool(&app.tools, "t", "pure", &parameters)];
    json!({ "name": "a", "model": model, "tools": tools, "redaction": rules,
            "instructions": format!("Keep {SECRET} to yourself.") })
}

fn value_on(channels: &[&str]) -> Value {
    json!([{ "kind": "value", "name": "key", "value": SECRET, "channels": channels }])
}

/// Whether a text holds the secret in any of its forms.
fn leaks(text: &str) -> bool {
    let encoded = STANDARD.encode(SECRET);
    let quoted = quoted();
    let escaped = quoted.trim_matches('"');
    let twice = serde_json::to_string(escaped).unwrap();
    let forms = [SECRET, escaped, twice.trim_matches('"'), encoded.trim_end_matches('=')];
    forms.iter().any(|form| text.contains(form))
}

/// The placeholders of a text, each once.
fn placeholders(text: &str) -> Vec<String> {
    let mut found: Vec<String> = text
        .split("[redacted:")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(']')?.0.to_owned()))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Everything that callers can read of a run.
async fn shown(app: &TestApp, run: &Value) -> String {
    let (id, thread) = (run["id"].as_str().unwrap(), run["thread_id"].as_str().unwrap());
    let mut all = run.to_string();
    for path in [
        format!("/v1/runs/{id}"),
        "/v1/runs".to_owned(),
        format!("/v1/runs/{id}/steps"),
        format!("/v1/runs/{id}/events"),
        format!("/v1/threads/{thread}/steps"),
    ] {
        all.push_str(&app.get(&path).await.expect(200).to_string());
    }
    for step in app.steps(id).await {
        let path = format!("/v1/steps/{}", step["id"].as_str().unwrap());
        all.push_str(&app.get(&path).await.expect(200).to_string());
    }
    let events = SseReader::of(app.stream(id, None).await).rest().await;
    all + &events.iter().map(|event| event.data.to_string()).collect::<String>()
}

async fn exported(app: &TestApp, run: &Value) -> String {
    let thread = run["thread_id"].as_str().unwrap();
    app.get(&format!("/v1/threads/{thread}/memory")).await.expect(200).to_string()
}

fn sent(model: &FakeModel) -> String {
    model.requests().into_iter().map(|request| request.body).collect()
}

async fn run_with(app: &TestApp, rules: &Value) -> (FakeModel, Value) {
    app.tools.answer("t", |_| (200, json!({ "note": SECRET })));
    let model = model().await;
    let agent = agent(app, &model.spec(true), rules);
    let run = app.run(&agent, &format!("Use {SECRET}.")).await;
    (model, run)
}

#[tokio::test]
async fn a_rule_keeps_a_value_from_its_channels_and_no_other() {
    let app = TestApp::start().await;
    for channels in [vec!["model"], vec!["api"], vec!["export"], vec!["model", "api", "export"]] {
        let (model, run) = run_with(&app, &value_on(&channels)).await;
        assert_eq!(run["status"], "completed");
        let is_on = |channel| channels.contains(&channel);
        assert_ne!(leaks(&sent(&model)), is_on("model"), "{channels:?}: {}", sent(&model));
        let list = app.get("/v1/runs").await.expect(200);
        assert!(list["items"].as_array().is_some_and(|items| !items.is_empty()));
        let path = format!("/v1/runs/{}", run["id"].as_str().unwrap());
        for text in [run.to_string(), app.get(&path).await.text] {
            assert_ne!(leaks(&text), is_on("api"), "{channels:?}: {text}");
        }
        assert_ne!(leaks(&exported(&app, &run).await), is_on("export"), "{channels:?}");
    }
}

#[tokio::test]
async fn with_all_channels_on_a_value_is_in_no_answer_and_no_request() {
    let app = TestApp::start().await;
    let rules = json!([{ "kind": "value", "name": "key", "value": SECRET }]);
    let (model, run) = run_with(&app, &rules).await;
    let all = [sent(&model), shown(&app, &run).await, exported(&app, &run).await].concat();
    assert!(!leaks(&all), "{all}");
    assert_eq!(placeholders(&all).len(), 1, "{all}");
    // The tool is not a reader: it gets what the model asked for.
    assert_eq!(app.tools.seen()[0].body["key"], SECRET);
}

#[tokio::test]
async fn arguments_go_back_to_the_model_as_the_json_they_were() {
    let app = TestApp::start().await;
    let (model, _) = run_with(&app, &value_on(&["model"])).await;
    let told = &model.requests()[1].messages()[2]["tool_calls"][0]["function"]["arguments"];
    let text = told.as_str().unwrap();
    assert!(text.starts_with("{\"n\": 1.50, \"key\": \"[redacted:key:"), "{text}");
    assert!(serde_json::from_str::<Value>(text).is_ok());
}

#[tokio::test]
async fn what_is_stored_is_not_redacted() {
    let app = TestApp::start().await;
    let (_, run) = run_with(&app, &value_on(&["model", "api", "export"])).await;
    let thread: ThreadId = run["thread_id"].as_str().unwrap().parse().unwrap();
    let page = PageRequest { limit: 50, after: None };
    let stored = steps::list(&app.db.store(), &TenantId::default(), (thread, None), &page).await;
    let stored = format!("{:?}", stored.unwrap().items);
    assert!(stored.contains("It is s3cr3t") && !stored.contains("[redacted:"), "{stored}");
}

#[tokio::test]
async fn every_form_in_a_tools_output_becomes_the_same_placeholder() {
    let app = TestApp::start().await;
    app.tools.answer("t", |_| {
        let url = "s3cr3t%2F%22V%C3%A4+lue";
        let unicode = "s3cr3t\\/\\\"V\\u00E4 lue";
        let encoded = [STANDARD.encode(SECRET), STANDARD.encode(format!("a{SECRET}"))];
        (200, json!({ "plain": SECRET, "body": quoted(), "url": url, "u": unicode, "b": encoded }))
    });
    let model = model().await;
    let agent = agent(&app, &model.spec(false), &value_on(&["model"]));
    let run = app.run(&agent, "Go.").await;
    let observation = model.requests()[1].said_by("tool").remove(0);
    assert!(!leaks(&observation), "{observation}");
    assert_eq!(observation.matches("[redacted:key:").count(), 6, "{observation}");
    assert_eq!(placeholders(&observation).len(), 1, "{observation}");
    // The arguments, six in the output, and the answer as it was said and as it was recorded.
    assert_eq!(run["redactions"], json!({ "key": 9 }));
}

#[tokio::test]
async fn a_value_that_is_split_over_pieces_of_a_stream_is_not_shown() {
    let app = TestApp::start().await;
    let reply = vec![
        Piece::Text("It is s3c"),
        Piece::Text("r3t/\"V"),
        Piece::Text("ä lue, or s3"),
        Piece::Hold,
        Piece::Text("cret."),
    ];
    let model = HeldModel::saying([reply]).await;
    let agent = agent(&app, &model.spec(), &value_on(&["api"]));
    let mut stream = app.start_stream(&json!({ "agent": agent, "input": "Go." })).await;
    let mut said = String::new();
    // What may be the beginning of the value is held back with the reply.
    while !said.ends_with(", or ") {
        let event = stream.next().await.expect("the reply is not over");
        if event.name == "text.delta" {
            said.push_str(event.data["text"].as_str().unwrap());
        }
    }
    model.release();
    let events = stream.rest().await;
    let answer = events.last().unwrap().data["answer"].as_str().unwrap();
    assert!(said.starts_with("It is [redacted:key:"), "{said}");
    assert_eq!(answer, format!("{said}s3cret."));
}

#[tokio::test]
async fn members_are_kept_back_in_arguments_outputs_and_live_pieces() {
    let app = TestApp::start().await;
    app.tools.answer("t", |_| (200, json!({ "login": { "PassWord": ["x", 4711] }, "ok": 1.0 })));
    let call = ModelReply::call("t", r#"{"password":"open sesame","n":1}"#);
    let model = FakeModel::start([call, ModelReply::text("Done.")]).await;
    let rules = json!([{ "kind": "field", "name": "pw", "field": "password" }]);
    let agent = agent(&app, &model.spec(true), &rules);
    let mut stream = app.start_stream(&json!({ "agent": agent, "input": "Go." })).await;
    let live: String = stream.rest().await.iter().map(|event| event.data.to_string()).collect();
    let all = live + &sent(&model);
    assert!(!all.contains("sesame") && !all.contains("4711"), "{all}");
    assert_eq!(placeholders(&all).len(), 2, "{all}");
    assert_eq!(app.tools.seen()[0].body["password"], "open sesame");
}

#[tokio::test]
async fn a_secret_has_one_placeholder_in_a_thread_and_another_in_the_next() {
    let app = TestApp::start().await;
    let (_, first) = run_with(&app, &value_on(&["api"])).await;
    let model = model().await;
    let agent = agent(&app, &model.spec(false), &value_on(&["api"]));
    let body = json!({ "agent": agent, "input": SECRET, "thread_id": first["thread_id"] });
    let second = app.run_body(&body).await;
    let (_, elsewhere) = run_with(&app, &value_on(&["api"])).await;
    let of = |run: &Value| placeholders(&run.to_string());
    assert_eq!(of(&first), of(&second));
    assert_ne!(of(&first), of(&elsewhere));
}

#[tokio::test]
async fn the_rules_of_a_run_stay_with_its_steps_in_the_thread() {
    let app = TestApp::start().await;
    let (_, run) = run_with(&app, &value_on(&["api"])).await;
    let plain = FakeModel::start([ModelReply::text("Done.")]).await;
    let agent = agent(&app, &plain.spec(false), &json!([]));
    let body = json!({ "agent": agent, "input": SECRET, "thread_id": run["thread_id"] });
    let other = app.run_body(&body).await;
    assert!(leaks(&other.to_string()), "its agent has no rules");
    let steps = app.all(&format!("/v1/threads/{}/steps", run["thread_id"].as_str().unwrap())).await;
    for step in steps {
        assert_eq!(
            leaks(&step.to_string()),
            step["run_id"] == other["id"] && step["kind"] == "task"
        );
    }
    assert!(leaks(&sent(&plain)), "the model of the other agent reads all");
}

#[tokio::test]
async fn an_error_that_is_not_withheld_is_redacted_all_the_same() {
    for is_withheld in [false, true] {
        let app = TestApp::start().await;
        app.tools.answer("t", |_| (500, json!({ "why": SECRET })));
        let model = model().await;
        let mut agent = agent(&app, &model.spec(false), &value_on(&["model", "api"]));
        agent["redact_errors"] = json!(is_withheld);
        let run = app.run(&agent, "Go.").await;
        let steps = app.steps(run["id"].as_str().unwrap()).await;
        let error = &steps[1]["outcomes"][0]["error"];
        let message = error["message"].as_str().unwrap();
        assert_eq!(message.is_empty(), is_withheld, "{error}");
        assert_eq!(message.contains("[redacted:key:"), !is_withheld, "{error}");
        assert!(!leaks(&sent(&model)));
    }
}

#[tokio::test]
async fn rules_of_the_operator_hold_for_everyone_and_for_problems() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.json");
    let rules = json!([{ "kind": "value", "name": "partner", "value_env": "PARTNER_KEY" },
                       { "kind": "pattern", "name": "card", "pattern": "[0-9]{16}" }]);
    std::fs::write(&file, rules.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let app = TestApp::with(&[("AGENTLING_REDACTION_FILE", file), ("PARTNER_KEY", SECRET)]).await;
    let (model, run) = run_with(&app, &json!([])).await;
    let all = [sent(&model), shown(&app, &run).await, exported(&app, &run).await].concat();
    assert!(!leaks(&all), "{all}");
    assert!(placeholders(&all).iter().all(|held| held.starts_with("partner:")), "{all}");
    let refused = app.post("/v1/runs", &json!({ SECRET: 1, "agent_id": "4111111111111111" })).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert!(!leaks(&refused.text) && !refused.text.contains("41111111"), "{}", refused.text);
}

#[tokio::test]
async fn signed_thinking_of_a_loaded_memory_is_dropped_when_it_holds_a_secret() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", "canary-0123456789")]).await;
    let app = app.with_key("canary-0123456789");
    let thinking = |text: &str, signature: Option<&str>| {
        let mut part = json!({ "part_kind": "thinking", "text": text, "issuer": "openai" });
        if let Some(signature) = signature {
            part["signature"] = json!(signature);
        }
        part
    };
    let parts = [
        thinking("canary-0123456789", Some("sig")),
        thinking("clean", Some("sig")),
        thinking("canary-0123456789", None),
        json!({ "part_kind": "text", "text": "Yes." }),
    ];
    let reply = json!({ "state": "complete", "parts": parts });
    let steps = json!([
        { "kind": "task", "parts": [{ "part_kind": "text", "text": "Hi." }] },
        { "kind": "action", "reply": reply, "outcomes": [] },
    ]);
    let body = json!({ "memory": { "version": 2, "thread": {}, "steps": steps } });
    let thread = app.post("/v1/threads", &body).await.expect(201);
    let path = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    let steps = app.all(&format!("{path}/steps")).await;
    let parts = steps[1]["reply"]["parts"].as_array().unwrap();
    let texts: Vec<&str> = parts.iter().map(|part| part["text"].as_str().unwrap()).collect();
    assert_eq!((texts[0], texts[2]), ("clean", "Yes."));
    assert!(texts[1].starts_with("[redacted:secret:") && texts.len() == 3, "{texts:?}");
    assert!(!app.get(&format!("{path}/memory")).await.text.contains("canary-"));
}

#[tokio::test]
async fn an_agent_is_shown_without_the_values_of_its_rules() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("Done.")]).await;
    let mut spec = agent(&app, &model.spec(false), &value_on(&["log"]));
    spec["instructions"] = json!("Be brief.");
    let created = app.create_agent(&spec).await;
    assert!(!leaks(&created.to_string()), "{created}");
    assert_eq!(created["redaction"][0]["channels"], json!(["log"]));
    let mut again = spec.clone();
    again["redaction"] = created["redaction"].clone();
    let path = format!("/v1/agents/{}", created["id"].as_str().unwrap());
    let refused = app.put(&path, &again).await.expect(422);
    assert_eq!(pointers(&refused), ["/redaction/0/value"]);
}

#[tokio::test]
async fn rules_that_cannot_work_are_refused_at_their_places() {
    let app = TestApp::start().await;
    let rules = json!([
        { "kind": "value", "name": "a", "value": "x[redacted:y" },
        { "kind": "pattern", "name": "a", "pattern": "(" },
        { "kind": "field", "name": "secret", "field": "x" },
    ]);
    let model = json!({ "provider": "scripted", "name": "m", "script": [{ "text": "x" }] });
    let spec = agent(&app, &model, &rules);
    let refused = app.post("/v1/agents", &spec).await.expect(422);
    let expected =
        ["/redaction/0/value", "/redaction/1/name", "/redaction/1/pattern", "/redaction/2/name"];
    assert_eq!(pointers(&refused), expected);
    let refused = app.post("/v1/runs", &json!({ "agent": spec, "input": "x" })).await.expect(422);
    assert_eq!(pointers(&refused)[0], "/agent/redaction/0/value");
}
