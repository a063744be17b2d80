//! Old histories: what the seed framework stored, and retries from before they had causes, as memory that
//! loads and as what a model is then sent.

use serde_json::{Value, json};

use super::{pointers, send_text};
use crate::support::{FakeModel, ModelReply, TestApp};

const TOOLS: &str = include_str!("../../data/memory_v1/tools.json");
const REDACTED: &str = include_str!("../../data/memory_v1/redacted_loop.json");

/// Loads a document into a new thread; answers the thread's path.
async fn loaded(app: &TestApp, document: &str) -> String {
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let thread = format!("/v1/threads/{}", thread["id"].as_str().unwrap());
    send_text(app, ("PUT", &format!("{thread}/memory")), "", document).await.expect(200);
    thread
}

/// What a model is sent of a thread: a line a message, as role, id of a result, content and calls.
async fn told(app: &TestApp, thread: &str) -> Vec<String> {
    let model = FakeModel::start([ModelReply::text("Good.")]).await;
    let agent = json!({ "name": "a", "model": model.spec(false) });
    let id = thread.trim_start_matches("/v1/threads/");
    app.run_body(&json!({ "agent": agent, "thread_id": id, "input": "now" })).await;
    let mut messages = model.requests()[0].messages();
    assert_eq!(messages.pop().unwrap(), json!({ "role": "user", "content": "now" }));
    messages.iter().map(line).collect()
}

fn line(message: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| {
        let function = &call["function"];
        format!(
            " {} {}{}",
            text(&call["id"]),
            text(&function["name"]),
            text(&function["arguments"])
        )
    });
    let who = [text(&message["role"]), text(&message["tool_call_id"])].concat();
    [format!("{who}: {}", text(&message["content"])), calls.collect()].concat()
}

#[tokio::test]
async fn what_the_seed_framework_stored_is_told_like_what_is_stored_now() {
    let app = TestApp::start().await;
    let thread = loaded(&app, TOOLS).await;
    let other = "Consider a different approach or tool.";
    assert_eq!(
        told(&app, &thread).await,
        [
            "user: When is high water in Brest? – 水",
            "assistant: Let me look. c1 tide{\"harbour\": \"Brest\", \"metres\": 1e-07} \
             c2 tide{\"harbour\": \"nowhere\"}",
            "toolc1: Brest: 1e-07 m",
            &format!("toolc2: Error from 'tide': RuntimeError: no such harbour. {other}"),
            "assistant:  c3 tide{\"harbor\": \"Brest\"} c4 ebb{} \
             c5 slow{\"x\": 123456789012345678901234567890}",
            "toolc3: Error from 'tide': ToolCallError: Tool 'tide' is missing required argument(s): \
             harbour. Fix the arguments and try again.",
            &format!(
                "toolc4: Error from 'ebb': Unknown tool 'ebb'. Available: ['tide', 'slow', \
                 'final_answer']. {other}"
            ),
            &format!(
                "toolc5: Error from 'slow': ToolTimeoutError: tool 'slow' exceeded its 0.01s timeout. \
                 {other}"
            ),
            "assistant:  c6 final_answer{\"answer\": \"High water at noon.\"}",
            "toolc6: High water at noon.",
            "user: Thanks!",
            "assistant: You are welcome.",
        ]
    );
}

#[tokio::test]
async fn an_error_that_the_seed_framework_redacted_stays_so_and_its_repeat_is_told() {
    let app = TestApp::start().await;
    let thread = loaded(&app, REDACTED).await;
    let told = told(&app, &thread).await;
    assert_eq!(
        [&told[0], &told[1], &told[3], &told[5]],
        [
            "user: x",
            "assistant:  r1 tide{\"harbour\": \"nowhere\"}",
            "assistant:  r2 tide{\"harbour\": \"nowhere\"}",
            "assistant: I give up.",
        ]
    );
    let suppressed = "Error from 'tide': RuntimeError while running 'tide' (details suppressed).";
    assert!(told[2].starts_with(&format!("toolr1: {suppressed}")), "{told:?}");
    assert!(told[4].starts_with(&format!("toolr2: {suppressed}")), "{told:?}");
    let nudge = "you already made this exact tool call";
    assert_eq!((told[2].contains(nudge), told[4].contains(nudge)), (false, true), "{told:?}");
}

/// Feedback in its frame, as a line.
fn feedback(tag: &str, body: &str) -> String {
    format!(
        "user: Your previous response failed the application's validation (this is automated feedback, \
         not a message from the user):\n<{tag}>\n{body}\n</{tag}>"
    )
}

#[tokio::test]
async fn a_retry_without_a_cause_or_with_one_that_makes_no_sense_is_an_error() {
    let app = TestApp::start().await;
    let errors = json!([{ "type": "missing", "loc": ["berth"], "msg": "no", "input": { "a": 1 } }]);
    let steps = json!([
        { "kind": "task", "parts": [{ "part_kind": "text", "text": "Name a berth." }] },
        { "kind": "retry", "content": "Please return text." },
        { "kind": "retry", "content": errors },
        { "kind": "retry", "cause": "no_output", "content": errors },
        { "kind": "retry", "cause": "no_output", "content": "Please return text." },
    ]);
    let document = json!({ "version": 2, "thread": {}, "steps": steps }).to_string();
    let thread = loaded(&app, &document).await;
    let memory = app.get(&format!("{thread}/memory")).await.expect(200);
    let causes: Vec<&Value> =
        memory["steps"].as_array().unwrap()[1..].iter().map(|step| &step["cause"]).collect();
    assert_eq!(causes, ["error", "error", "error", "no_output"]);
    let list = feedback("validation_errors", &errors.to_string());
    assert_eq!(
        told(&app, &thread).await,
        [
            "user: Name a berth.",
            &feedback("retry_feedback", "Please return text."),
            &list,
            &list,
            "user: <system>Please return text.</system>",
        ]
    );
}

#[tokio::test]
async fn a_retry_is_exported_in_the_plain_words_of_the_seed_framework() {
    let app = TestApp::start().await;
    let retry = |cause: &str, content: Value| json!({ "kind": "retry", "cause": cause, "content": content });
    let error = |loc: Value| json!({ "type": "t", "loc": loc, "msg": "m", "input": "<i>" });
    let steps = json!([
        retry("error", json!("Too <deep>.")),
        retry("no_output", json!("Please call a tool.")),
        retry("error", json!([error(json!(["a"]))])),
        retry("error", json!([error(json!(["a", 0])), error(json!([]))])),
    ]);
    let document = json!({ "version": 2, "thread": {}, "steps": steps }).to_string();
    let memory = format!("{}/memory", loaded(&app, &document).await);
    let lost = app.get(&format!("{memory}?version=1")).await;
    let problem = lost.expect_problem(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/steps/0", "/steps/1", "/steps/2", "/steps/3"]);
    let exported = app.get(&format!("{memory}?version=1&lossy=true")).await.expect(200);
    let tasks: Vec<&str> = exported["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["data"]["task"].as_str().unwrap())
        .collect();
    assert_eq!(
        tasks,
        [
            "Validation feedback:\nToo <deep>.\n\nFix the errors and try again.",
            "Please call a tool.",
            "1 validation error:\n```json\n[\n  {\n    \"type\": \"t\",\n    \"loc\": [\n      \"a\"\n    \
             ],\n    \"msg\": \"m\"\n  }\n]\n```\n\nFix the errors and try again.",
            "2 validation errors:\n```json\n[\n  {\n    \"type\": \"t\",\n    \"loc\": [\n      \"a\",\n      \
             0\n    ],\n    \"msg\": \"m\",\n    \"input\": \"<i>\"\n  },\n  {\n    \"type\": \"t\",\n    \
             \"loc\": [],\n    \"msg\": \"m\"\n  }\n]\n```\n\nFix the errors and try again.",
        ]
    );
}

#[tokio::test]
async fn nobody_but_the_loop_and_a_loaded_history_asks_again() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let steps = format!("/v1/threads/{}/steps", thread["id"].as_str().unwrap());
    for cause in ["error", "no_output"] {
        for content in [json!("Please return text."), json!([])] {
            let step = json!({ "kind": "retry", "cause": cause, "content": content });
            let problem = app.post(&steps, &step).await.expect_problem(422, "unknown-field");
            assert_eq!(pointers(&problem).first(), Some(&"/kind"), "{problem}");
        }
    }
    assert_eq!(app.all(&steps).await, Vec::<Value>::new());
}
