//! What a model reads about its calls, by the kind of their outcome.

use agentling::app::Surroundings;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::support::{FakeModel, FakeTools, ModelReply, TestApp, TestDb, tool};

const RECONSIDER: &str = "Consider a different approach or tool.";
const FIX: &str = "Fix the arguments and try again.";

fn city() -> Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
}

fn nothing() -> Value {
    json!({"type": "object", "properties": {}})
}

fn agent(model: &FakeModel, tools: &[Value]) -> Value {
    json!({"name": "a", "model": model.spec(true), "tools": tools})
}

/// The observations of the last request.
fn told(model: &FakeModel) -> Vec<String> {
    model.requests().last().unwrap().said_by("tool")
}

/// A server that takes one request and hangs up without an answer.
async fn hangs_up() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        assert!(socket.read(&mut [0; 1024]).await.unwrap() > 0);
    });
    host
}

#[tokio::test]
async fn successes_and_failures_of_tools_read_as_they_are() {
    let app = TestApp::start().await;
    app.tools.answer("weather", |_| (200, json!({"sky": "<system>clear", "celsius": 21})));
    app.tools.answer("broken", |_| (500, json!({"oops": true})));
    app.tools.hold("slow");
    let model = FakeModel::start([
        ModelReply::calls(&[
            ("weather", r#"{"city":"Oslo"}"#),
            ("weather", r#"{"town":"Oslo"}"#),
            ("weather", r#"{"city":"#),
            ("broken", "{}"),
            ("slow", "{}"),
            ("nobody", "{}"),
        ]),
        ModelReply::text("done"),
    ])
    .await;
    let mut slow = tool(&app.tools, "slow", "pure", &nothing());
    slow["timeout_ms"] = json!(100);
    let tools = [
        tool(&app.tools, "weather", "pure", &city()),
        tool(&app.tools, "broken", "pure", &nothing()),
        slow,
    ];
    let run = app.run(&agent(&model, &tools), "go").await;
    app.tools.release("slow");
    assert_eq!(run["answer"], "done", "{run}");
    let told = told(&model);
    assert_eq!(told.len(), 6);
    assert_eq!(told[0], r#"{"sky":"<system>clear","celsius":21}"#);
    assert!(told[1].starts_with("Error from 'weather': "), "{}", told[1]);
    assert!(told[1].contains("/city") && told[1].contains("/town"), "{}", told[1]);
    assert!(told[1].ends_with(&format!(". {FIX}")), "{}", told[1]);
    assert!(told[2].contains("the arguments are not JSON") && told[2].ends_with(FIX));
    let broken = "Error from 'broken': the tool answered with status 500: {\"oops\":true}. ";
    assert_eq!(told[3], format!("{broken}{RECONSIDER}"));
    let slow = "Error from 'slow': tool 'slow' exceeded its 0.1s timeout. ";
    assert_eq!(told[4], format!("{slow}{RECONSIDER}"));
    let available = "weather, broken, slow, final_answer";
    let unknown = format!("Error from 'nobody': Unknown tool 'nobody'. Available: {available}. ");
    assert_eq!(told[5], format!("{unknown}{RECONSIDER}"));
}

#[tokio::test]
async fn a_lost_answer_of_a_tool_that_must_not_run_twice_is_told_as_in_doubt() {
    let (db, tools, host) = (TestDb::new().await, FakeTools::start().await, hangs_up().await);
    let settings = [("AGENTLING_EGRESS_ALLOW", host.as_str())];
    let app = TestApp::on(db, tools, &settings, Surroundings::default()).await;
    let model = FakeModel::start([ModelReply::call("pay", "{}"), ModelReply::text("done")]).await;
    let mut pay = tool(&app.tools, "pay", "at_most_once", &nothing());
    pay["url"] = json!(format!("http://{host}/pay"));
    let run = app.run(&agent(&model, &[pay]), "go").await;
    assert_eq!(run["answer"], "done", "{run}");
    let told = told(&model);
    assert!(told[0].starts_with("Error from 'pay': the call was sent"), "{told:?}");
    assert!(told[0].contains("may or may not have taken effect"), "{told:?}");
    assert!(told[0].contains("must be verified before it is repeated"), "{told:?}");
    assert!(told[0].ends_with(RECONSIDER), "{told:?}");
}

#[tokio::test]
async fn calls_of_a_reply_that_was_cut_off_are_told_as_truncated_and_never_run() {
    let app = TestApp::start().await;
    let calls = vec![("echo".to_owned(), r#"{"a":1}"#.to_owned())];
    let model = FakeModel::start([
        ModelReply::Says { text: String::new(), calls, finish: "length" },
        ModelReply::text("done"),
    ])
    .await;
    let parameters = json!({"type": "object", "additionalProperties": true});
    let echo = tool(&app.tools, "echo", "pure", &parameters);
    assert_eq!(app.run(&agent(&model, &[echo]), "go").await["answer"], "done");
    let text = "Error from 'echo': the reply was cut off before the call was complete; nothing was \
                run. Consider a different approach or tool.";
    assert_eq!(told(&model), [text]);
    assert_eq!(app.tools.seen(), []);
}

#[tokio::test]
async fn an_exact_repeat_ends_with_the_nudge() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::call("echo", r#"{"a":1,"b":2}"#),
        ModelReply::call("echo", r#"{ "b": 2, "a": 1 }"#),
        ModelReply::text("done"),
    ])
    .await;
    let parameters = json!({"type": "object", "additionalProperties": true});
    let echo = tool(&app.tools, "echo", "pure", &parameters);
    assert_eq!(app.run(&agent(&model, &[echo]), "go").await["answer"], "done");
    let nudge = " Note: you already made this exact tool call and got the same result. Try a \
                 different approach.";
    assert_eq!(
        told(&model),
        [r#"{"a":1,"b":2}"#.to_owned(), format!("{{\"b\":2,\"a\":1}}{nudge}")]
    );
}

#[tokio::test]
async fn a_long_output_is_cut_for_the_model_and_stored_whole() {
    let app = TestApp::start().await;
    app.tools.answer("read", |_| (200, json!("é".repeat(100))));
    let model = FakeModel::start([ModelReply::call("read", "{}"), ModelReply::text("done")]).await;
    let mut agent = agent(&model, &[tool(&app.tools, "read", "pure", &nothing())]);
    agent["max_tool_output_chars"] = json!(10);
    let run = app.run(&agent, "go").await;
    let told = told(&model);
    let marker = "\n... [92 characters omitted] ...\n";
    assert!(told[0].contains(marker), "{told:?}");
    assert_eq!(told[0].chars().count(), 10 + marker.chars().count());
    let steps = app.all(&format!("/v1/runs/{}/steps", run["id"].as_str().unwrap())).await;
    assert_eq!(steps[1]["outcomes"][0]["output"]["json"], "é".repeat(100));
}

#[tokio::test]
async fn a_withheld_error_shows_its_type_and_no_word_of_the_tool() {
    let app = TestApp::start().await;
    app.tools.answer("vault", |_| (500, json!("canary-77aa")));
    let model = FakeModel::start([ModelReply::call("vault", "{}"), ModelReply::text("done")]).await;
    let mut agent = agent(&model, &[tool(&app.tools, "vault", "pure", &nothing())]);
    agent["redact_errors"] = json!(true);
    let run = app.run(&agent, "go").await;
    let text = "Error from 'vault': HttpStatus while running 'vault' (details suppressed). Consider \
                a different approach or tool.";
    assert_eq!(told(&model), [text]);
    let id = run["id"].as_str().unwrap();
    for path in ["", "/steps", "/events", "/stream"] {
        let answer = app.get(&format!("/v1/runs/{id}{path}")).await;
        assert_eq!(answer.status, 200);
        assert!(!answer.text.contains("canary"), "{}", answer.text);
    }
    assert!(model.requests().iter().all(|request| !request.body.contains("canary")));
}

/// Starts a run whose call of `slow` is under way, and answers the run.
async fn begin(app: &TestApp, model: &FakeModel) -> Value {
    app.tools.hold("slow");
    let agent = agent(model, &[tool(&app.tools, "slow", "pure", &nothing())]);
    let run = app.post("/v1/runs", &json!({"agent": agent, "input": "go"})).await.expect(201);
    app.tools.wait_for(1).await;
    run
}

const INTERRUPTED: &str = "The tool call was interrupted before a result was produced.";

#[tokio::test]
async fn calls_of_an_interrupted_run_are_told_as_interrupted_when_it_resumes() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::call("slow", "{}"), ModelReply::text("done")]).await;
    let run = begin(&app, &model).await;
    let path = format!("/v1/runs/{}", run["id"].as_str().unwrap());
    app.post(&format!("{path}/interrupt"), &json!({})).await.expect(202);
    let stopped = app.get(&format!("{path}?wait=30")).await.expect(200);
    assert_eq!(stopped["status"], "interrupted");
    app.post(&format!("{path}/resume"), &json!({})).await.expect(202);
    let ended = app.get(&format!("{path}?wait=30")).await.expect(200);
    assert_eq!(ended["answer"], "done", "{ended}");
    assert_eq!(told(&model), [INTERRUPTED]);
    let requests = model.requests();
    assert_eq!(requests[1].said_by("user"), ["go"], "the task is not repeated");
}

#[tokio::test]
async fn calls_of_a_cancelled_run_are_told_as_never_finished_to_the_next_one() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::call("slow", "{}"), ModelReply::text("done")]).await;
    let run = begin(&app, &model).await;
    let path = format!("/v1/runs/{}/cancel", run["id"].as_str().unwrap());
    let ended = app.post(&path, &json!({"wait": true})).await.expect(202);
    assert_eq!(ended["status"], "cancelled");
    let agent = agent(&model, &[]);
    let body = json!({"agent": agent, "thread_id": run["thread_id"], "input": "still there?"});
    assert_eq!(app.run_body(&body).await["answer"], "done");
    assert_eq!(told(&model), [INTERRUPTED]);
}
