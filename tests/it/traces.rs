//! What a collector of traces is told of a run, and what becomes of a server whose collector is not well.

use std::collections::BTreeSet;

use agentling::app::Surroundings;
use serde_json::{Value, json};

use crate::support::{
    Answer, Collector, FakeTools, TestApp, TestDb, Traced, assert_invariants, tool, with_json,
};

const PROMPT: &str = "the-prompt-of-the-caller";
const ARGUMENT: &str = "an-argument-of-the-model";
const OUTPUT: &str = "what-the-tool-has-found";
const ANSWER: &str = "the-answer-of-the-model";
const INSTRUCTIONS: &str = "the-instructions-of-the-agent";
/// A key of the server, as its settings hold it.
const CREDENTIAL: &str = "credential-of-the-server-0123456789";
/// What a rule of the agent keeps from traces.
const RULED: &str = "ruled-out-by-the-agent";

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// What is in no trace unless the operator wants it there.
const CONTENT: &[&str] = &[
    PROMPT,
    ARGUMENT,
    OUTPUT,
    ANSWER,
    INSTRUCTIONS,
    RULED,
    CREDENTIAL,
    "a-header-value",
    "of-a-query",
    "no_such_tool",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.system_instructions",
];

fn agent(tools: &FakeTools) -> Value {
    let parameters = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    let usage = json!({"input": 10, "output": 3});
    json!({
        "name": "seeker",
        "instructions": INSTRUCTIONS,
        "redaction": [{ "kind": "value", "name": "own", "value": RULED, "channels": ["trace"] }],
        "model": {"provider": "scripted", "name": "m", "script": [
            {"tool_calls": [{"name": "seek", "arguments": {"q": ARGUMENT}}], "usage": usage},
            {"tool_calls": [{"name": "no_such_tool", "arguments": {"q": ARGUMENT}}], "usage": usage},
            {"text": ANSWER, "usage": usage},
        ]},
        "tools": [tool(tools, "seek", "pure", &parameters)],
    })
}

async fn traced_app(collector: &str, more: &[(&str, &str)]) -> TestApp {
    let settings = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-of-operator=yes%20sir"),
        ("OPENAI_API_KEY", CREDENTIAL),
    ];
    let app = TestApp::with(&[&settings, more].concat()).await;
    app.tools.answer("seek", |_| (200, json!({"found": OUTPUT, "key": CREDENTIAL})));
    app
}

/// Runs the agent to its end, as a caller that traces what it does.
async fn run(app: &TestApp) -> Answer {
    let input = format!("{PROMPT} {RULED} sk-abcdefghijklmnopqrstuvwx");
    let body = json!({"agent": agent(&app.tools), "input": input});
    let request = with_json(app.request("POST", "/v1/runs?nothing=of-a-query"), &body);
    let refused = app.send(request.header("traceparent", format!("00-{TRACE}-{CALLER}-01"))).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    let request = with_json(app.request("POST", "/v1/runs"), &body);
    let request = request.header("traceparent", format!("00-{TRACE}-{CALLER}-01"));
    app.send(request.header("prefer", "wait=60").header("x-of-caller", "a-header-value")).await
}

/// All spans of the run, once they are there.
async fn spans_of_run(collector: &Collector) -> Vec<Traced> {
    collector.named("invoke_agent seeker").await;
    collector
        .until(|spans| spans.iter().filter(|span| span.name == "POST /v1/runs").count() == 2)
        .await
}

fn named<'s>(spans: &'s [Traced], name: &str) -> Vec<&'s Traced> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[tokio::test]
async fn a_run_is_traced_without_any_content() {
    let collector = Collector::start().await;
    let app = traced_app(&collector.origin, &[]).await;
    let run = run(&app).await.expect(200);
    assert_eq!(run["status"], "completed", "{run}");
    let spans = spans_of_run(&collector).await;

    let requests = named(&spans, "POST /v1/runs");
    for request in &requests {
        assert_eq!((request.kind, &*request.trace, &*request.parent), (2, TRACE, CALLER));
        assert_eq!(request.says("http.route"), "/v1/runs");
        assert_eq!(request.says("http.request.method"), "POST");
    }
    let statuses: BTreeSet<_> =
        requests.iter().map(|request| request.says("http.response.status_code")).collect();
    assert_eq!(statuses, ["200", "400"].into());

    let [agent] = named(&spans, "invoke_agent seeker").try_into().unwrap();
    let says = |key| agent.says(key);
    assert_eq!((agent.kind, &*agent.parent, agent.is_error), (1, "", false));
    assert_eq!(says("gen_ai.operation.name"), "invoke_agent");
    assert_eq!(says("gen_ai.agent.name"), "seeker");
    assert_eq!(says("gen_ai.conversation.id"), run["thread_id"]);
    assert_eq!(says("agentling.run.id"), run["id"]);
    assert_eq!(says("agentling.run.status"), "completed");

    let chats = named(&spans, "chat m");
    assert_eq!(chats.len(), 3);
    for chat in &chats {
        assert_eq!((&chat.trace, &chat.parent, chat.kind), (&agent.trace, &agent.id, 3));
        assert_eq!(chat.says("gen_ai.operation.name"), "chat");
        assert_eq!(chat.says("gen_ai.provider.name"), "scripted");
        assert_eq!(chat.says("gen_ai.request.model"), "m");
        assert_eq!(chat.says("gen_ai.conversation.id"), run["thread_id"]);
        assert_eq!(chat.says("gen_ai.usage.input_tokens"), "10");
        assert_eq!(chat.says("gen_ai.usage.output_tokens"), "3");
        assert_eq!(chat.says("gen_ai.usage.cache_read.input_tokens"), "0");
    }

    let [call] = named(&spans, "execute_tool seek").try_into().unwrap();
    assert_eq!((&call.trace, &call.parent, call.kind), (&agent.trace, &agent.id, 1));
    assert_eq!(call.says("gen_ai.operation.name"), "execute_tool");
    assert_eq!(call.says("gen_ai.tool.name"), "seek");
    assert_eq!(call.says("gen_ai.tool.call.id"), app.tools.seen()[0].key);
    assert!(!call.is_error);

    let sent = app.tools.seen();
    assert!(sent.iter().all(|call| !call.headers.contains_key("traceparent")), "{sent:?}");
    assert!(collector.header("x-of-operator").iter().all(|value| value == "yes sir"));
    let text = collector.text();
    for content in CONTENT {
        assert!(!text.contains(content), "{content} is in a trace");
    }
}

#[tokio::test]
async fn content_is_traced_where_the_operator_wants_it_and_secrets_are_not() {
    let collector = Collector::start().await;
    let app = traced_app(&collector.origin, &[("AGENTLING_CAPTURE_CONTENT", "true")]).await;
    run(&app).await.expect(200);
    let spans = spans_of_run(&collector).await;
    let [call] = named(&spans, "execute_tool seek").try_into().unwrap();
    assert!(call.says("gen_ai.tool.call.arguments").contains(ARGUMENT));
    assert!(call.says("gen_ai.tool.call.result").contains(OUTPUT));
    let chats = named(&spans, "chat m");
    let last = chats.iter().find(|chat| chat.says("gen_ai.output.messages").contains(ANSWER));
    let last = last.expect("the answer is there");
    assert!(last.says("gen_ai.system_instructions").contains(INSTRUCTIONS));
    let messages: Value = serde_json::from_str(last.says("gen_ai.input.messages")).unwrap();
    let first = &messages[0];
    assert_eq!((&first["role"], &first["parts"][0]["type"]), (&json!("user"), &json!("text")));
    assert!(first["parts"][0]["content"].as_str().unwrap().contains(PROMPT), "{messages}");
    let text = collector.text();
    assert!(text.contains(OUTPUT) && text.contains("[redacted:"), "{text}");
    for secret in [CREDENTIAL, RULED, "sk-abcdefghijklmnopqrstuvwx", "a-header-value"] {
        assert!(!text.contains(secret), "{secret} is in a trace");
    }
}

#[tokio::test]
async fn what_fails_says_how_in_a_word() {
    let collector = Collector::start().await;
    let app = traced_app(&collector.origin, &[]).await;
    app.tools.answer("seek", |_| (500, json!({"why": OUTPUT})));
    let mut agent = agent(&app.tools);
    agent["model"]["script"][1] = json!({"error": {"kind": "bad_request"}});
    let run = app.run(&agent, PROMPT).await;
    assert_eq!(run["status"], "failed", "{run}");
    let agent = collector.named("invoke_agent seeker").await;
    assert_eq!((agent.is_error, agent.says("error.type")), (true, "bad_request"));
    assert_eq!(agent.says("agentling.run.status"), "failed");
    let call = collector.named("execute_tool seek").await;
    assert_eq!((call.is_error, call.says("error.type")), (true, "execution"));
    let spans = collector.spans();
    let failed = named(&spans, "chat m").into_iter().filter(|chat| chat.is_error);
    let kinds: Vec<_> = failed.map(|chat| chat.says("error.type")).collect();
    assert_eq!(kinds, ["bad_request"]);
    assert!(!collector.text().contains(OUTPUT));
}

#[tokio::test]
async fn a_parent_that_is_not_sampled_or_not_well_formed_is_obeyed_or_passed_over() {
    let collector = Collector::start().await;
    let app = traced_app(&collector.origin, &[]).await;
    for parent in [format!("00-{TRACE}-{CALLER}-00"), format!("00-{TRACE}-{CALLER}-01-x")] {
        let request = app.request("GET", "/healthz").header("traceparent", parent);
        app.send(request).await.expect(200);
    }
    let two =
        app.request("GET", "/readyz").header("traceparent", format!("00-{TRACE}-{CALLER}-01"));
    app.send(two.header("traceparent", format!("00-{TRACE}-{CALLER}-01"))).await.expect(200);
    app.send(app.request("TEST", "/no/such/path")).await;
    let spans = collector.until(|spans| !named(spans, "HTTP").is_empty()).await;
    let names: Vec<_> =
        spans.iter().map(|span| (span.name.as_str(), span.parent.as_str())).collect();
    assert_eq!(names, [("GET /healthz", ""), ("GET /readyz", ""), ("HTTP", "")]);
    assert!(spans.iter().all(|span| span.trace != TRACE));
    assert_eq!((spans[2].says("http.request.method"), spans[2].says("http.route")), ("_OTHER", ""));
}

#[tokio::test]
async fn what_is_left_at_the_end_is_sent() {
    let collector = Collector::start().await;
    let app = traced_app(&collector.origin, &[]).await;
    app.get("/healthz").await.expect(200);
    app.running.stop().await;
    assert_eq!(named(&collector.spans(), "GET /healthz").len(), 1);
}

/// Runs over a database of its own, with a collector that is no good.
async fn runs_and_stops(collector: &str, meanwhile: impl AsyncFnOnce(&TestApp)) {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.answer("seek", |_| (200, json!({"found": OUTPUT})));
    let settings = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector)];
    let app = TestApp::on(db.clone(), tools, &settings, Surroundings::default()).await;
    let run = app.run(&agent(&app.tools), PROMPT).await;
    assert_eq!(run["status"], "completed", "{run}");
    meanwhile(&app).await;
    let run = app.run(&agent(&app.tools), PROMPT).await;
    assert_eq!(run["status"], "completed", "{run}");
    let stopped = tokio::time::timeout(std::time::Duration::from_mins(1), app.running.stop());
    stopped.await.expect("the end is not held up");
    assert_invariants(&db).await;
}

#[tokio::test]
async fn a_collector_that_never_answers_holds_up_neither_runs_nor_the_end() {
    let collector = Collector::stalling().await;
    runs_and_stops(&collector.origin, async |_| collector.asked().await).await;
}

#[tokio::test]
async fn what_a_collector_that_is_down_is_not_told_is_counted() {
    let down = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    runs_and_stops(&down, async |app| {
        let counted = tokio::time::timeout(std::time::Duration::from_mins(1), dropped(app)).await;
        counted.expect("what is lost is counted");
    })
    .await;
}

/// Waits until spans have been dropped.
async fn dropped(app: &TestApp) {
    let none = "agentling_spans_dropped_total 0\n";
    while app.get("/metrics").await.text.contains(none) {}
}
