//! The main job, end to end: an agent, a run with a mistake and a failing tool, an answer, and the
//! memory that it leaves.

use serde_json::{Value, json};

use crate::support::{FakeTools, HeldModel, Piece, TestApp, tool};

/// An agent that forgets an argument, corrects itself, meets a failing tool and answers.
fn weather(tools: &FakeTools) -> Value {
    let look_up = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    });
    let book = json!({"type": "object", "properties": {"day": {"type": "string"}}});
    let usage = json!({"input": 10, "output": 3});
    json!({
        "name": "weather",
        "instructions": "You know the weather.",
        "model": {"provider": "scripted", "name": "m", "script": [
            {"tool_calls": [{"name": "look_up", "arguments": {}}], "usage": usage},
            {"text": "Once more.", "usage": usage, "tool_calls": [
                {"name": "look_up", "arguments": {"city": "Oslo"}},
                {"name": "book", "arguments": {"day": "Friday"}},
            ]},
            {"tool_calls": [{"name": "final_answer", "arguments": {"answer": "Sun in Oslo."}}],
             "usage": usage},
        ]},
        "tools": [
            tool(tools, "look_up", "idempotent", &look_up),
            tool(tools, "book", "at_most_once", &book),
        ],
    })
}

/// A server with the agent, and the agent's run.
async fn played() -> (TestApp, Value) {
    let app = TestApp::start().await;
    app.tools.answer("look_up", |_| (200, json!({"sky": "clear"})));
    app.tools.answer("book", |_| (500, json!({"why": "no seats"})));
    let agent = app.create_agent(&weather(&app.tools)).await;
    let run = app.run_body(&json!({"agent_id": agent["id"], "input": "Oslo?"})).await;
    assert_eq!(run["agent_id"], agent["id"]);
    assert_eq!(run["agent_version"], 1);
    (app, run)
}

fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

fn thread(run: &Value) -> &str {
    run["thread_id"].as_str().expect("a thread")
}

#[tokio::test]
async fn a_run_corrects_its_call_survives_a_failing_tool_and_answers() {
    let (app, run) = played().await;
    assert_eq!(run["status"], "completed");
    assert_eq!(run["stop_reason"], "final_answer");
    assert_eq!(run["answer"], "Sun in Oslo.");
    assert_eq!((&run["turn"], &run["steps"]), (&json!(3), &json!(5)));
    assert_eq!((&run["usage"]["input"], &run["usage"]["output"]), (&json!(30), &json!(9)));
    let steps = app.steps(id(&run)).await;
    assert_eq!(
        shapes(&steps),
        json!([
            {"seq": 1, "turn": 0, "kind": "task", "outcomes": []},
            {"seq": 2, "turn": 1, "kind": "action", "outcomes": [["look_up", "invalid_arguments", 0]]},
            {"seq": 3, "turn": 2, "kind": "action", "outcomes": [
                ["look_up", "success", 1], ["book", "execution", 1],
            ]},
            {"seq": 4, "turn": 3, "kind": "action", "outcomes": [["final_answer", "success", 0]]},
            {"seq": 5, "turn": 3, "kind": "final", "outcomes": []},
        ])
    );
    let told = steps[1]["outcomes"][0]["error"]["message"].as_str().unwrap();
    assert!(told.contains("city"), "the missing argument is named: {told}");
    assert_eq!(steps[2]["outcomes"][0]["output"]["json"], json!({"sky": "clear"}));
    let failed = steps[2]["outcomes"][1]["error"]["message"].as_str().unwrap();
    assert!(failed.contains("500") && failed.contains("no seats"), "{failed}");
    assert_eq!(app.all(&format!("/v1/threads/{}/steps", thread(&run))).await, steps);
    let one = app.get(&format!("/v1/steps/{}", id(&steps[2]))).await.expect(200);
    assert_eq!(one, steps[2]);
}

/// What a step is, and how its calls ended.
fn shapes(steps: &[Value]) -> Value {
    let shape = |step: &Value| {
        let outcomes: Vec<Value> = step["outcomes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|outcome| json!([outcome["name"], outcome["kind"], outcome["attempts"]]))
            .collect();
        json!({"seq": step["seq"], "turn": step["turn"], "kind": step["kind"], "outcomes": outcomes})
    };
    steps.iter().map(shape).collect()
}

#[tokio::test]
async fn the_durable_events_tell_the_run_in_order_and_without_gaps() {
    let (app, run) = played().await;
    let events = app.events(id(&run)).await;
    let ids: Vec<i64> = events.iter().filter_map(|event| event["id"].as_i64()).collect();
    assert_eq!(ids, (1..=17).collect::<Vec<i64>>());
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!(
        names,
        [
            "run.created",
            "step.recorded",
            "run.started",
            "turn.started",
            "tool.call",
            "tool.result",
            "step.recorded",
            "turn.started",
            "tool.call",
            "tool.call",
            "tool.result",
            "tool.result",
            "step.recorded",
            "turn.started",
            "step.recorded",
            "step.recorded",
            "run.completed",
        ]
    );
    let steps = app.steps(id(&run)).await;
    let recorded: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "step.recorded")
        .map(|event| &event["data"])
        .collect();
    assert_eq!(recorded, steps.iter().collect::<Vec<_>>());
    let results: Vec<&Value> = events
        .iter()
        .filter(|event| event["event"] == "tool.result")
        .map(|event| &event["data"]["outcome"])
        .collect();
    let outcomes: Vec<&Value> =
        [1, 2].iter().filter_map(|at| steps[*at]["outcomes"].as_array()).flatten().collect();
    assert_eq!(results, outcomes);
    assert_eq!(events[16]["data"]["answer"], "Sun in Oslo.");
}

#[tokio::test]
async fn each_tool_is_called_once_with_the_id_of_its_call_as_the_key() {
    let (app, run) = played().await;
    let steps = app.steps(id(&run)).await;
    let mut seen = app.tools.seen();
    seen.sort_by(|a, b| b.tool.cmp(&a.tool));
    let tools: Vec<&str> = seen.iter().map(|call| call.tool.as_str()).collect();
    assert_eq!(tools, ["look_up", "book"], "the refused call never went out");
    assert_eq!(seen[0].body, json!({"city": "Oslo"}));
    for (call, outcome) in seen.iter().zip(steps[2]["outcomes"].as_array().unwrap()) {
        assert_eq!(call.key, outcome["tool_call_id"].as_str().unwrap());
        assert_eq!(call.fence, "1");
    }
}

#[tokio::test]
async fn a_memory_is_the_same_to_the_byte_after_export_load_and_export() {
    let (app, run) = played().await;
    let exported = export(&app, thread(&run), "").await;
    let document: Value = serde_json::from_str(&exported).unwrap();
    assert_eq!(document["version"], 2);
    assert_eq!(document["steps"].as_array().map(Vec::len), Some(5));
    let other = empty_thread(&app).await;
    load(&app, &other, &exported).await;
    assert_eq!(export(&app, &other, "").await, exported);
    let born = app.post("/v1/threads", &json!({"memory": document})).await.expect(201);
    assert_eq!(export(&app, id(&born), "").await, exported);
}

#[tokio::test]
async fn version_1_says_what_it_would_lose_and_loses_it_only_when_told() {
    let (app, run) = played().await;
    let path = format!("/v1/threads/{}/memory?version=1", thread(&run));
    let problem = app.get(&path).await.expect_problem(422, "validation-failed");
    assert!(problem["errors"].as_array().is_some_and(|errors| !errors.is_empty()));
    let document = app.get(&format!("{path}&lossy=true")).await.expect(200);
    let kinds: Vec<&str> = document["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|step| step["type"].as_str())
        .collect();
    assert_eq!(kinds, ["task", "action", "action", "action", "final"]);
    let results = &document["steps"][2]["data"]["tool_results"];
    assert_eq!(results[0]["is_error"], false);
    assert_eq!(results[1]["error_kind"], "execution");
}

#[tokio::test]
async fn documents_of_the_original_framework_load_and_export_as_they_were() {
    let app = TestApp::start().await;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/memory_v1");
    let mut n = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let thread = empty_thread(&app).await;
        load(&app, &thread, &text).await;
        let exported = export(&app, &thread, "?version=1").await;
        let (before, after): (Value, Value) =
            (serde_json::from_str(&text).unwrap(), serde_json::from_str(&exported).unwrap());
        assert_eq!(after, before);
        n += 1;
    }
    assert!(n >= 4, "only {n} documents were found");
}

#[tokio::test]
async fn a_run_goes_on_from_a_memory_that_was_loaded() {
    let app = TestApp::start().await;
    let thread = empty_thread(&app).await;
    let text = include_str!("../../data/memory_v1/tools.json");
    load(&app, &thread, text).await;
    let model = HeldModel::saying([vec![Piece::Text("Gladly.")]]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let before = app.all(&format!("/v1/threads/{thread}/steps")).await.len();
    let run =
        app.run_body(&json!({"agent": agent, "thread_id": thread, "input": "And tomorrow?"})).await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("Gladly.")));
    let messages = model.messages(0);
    assert_eq!(messages[0]["role"], "user");
    assert!(messages[0]["content"].as_str().unwrap().starts_with("When is high water in Brest?"));
    assert_eq!(messages.last().unwrap()["content"], "And tomorrow?");
    let steps = app.all(&format!("/v1/threads/{thread}/steps")).await;
    let seqs: Vec<i64> = steps.iter().filter_map(|step| step["seq"].as_i64()).collect();
    assert_eq!(seqs, (1..=i64::try_from(before).unwrap() + 3).collect::<Vec<i64>>());
    assert_eq!(steps[before]["run_id"], run["id"]);
    assert_eq!(steps[before - 1]["run_id"], Value::Null);
}

#[tokio::test]
async fn a_broken_document_leaves_the_thread_as_it_was() {
    let (app, run) = played().await;
    let (thread, before) = (thread(&run), export(&app, thread(&run), "").await);
    for broken in ["[]", r#"{"version":2}"#, r#"{"version":1,"steps":[{"type":"dream"}]}"#] {
        let request = app.request("PUT", &format!("/v1/threads/{thread}/memory"));
        let request = request.header("content-type", "application/json").body(broken);
        app.send(request).await.expect_problem(422, "memory-load-error");
    }
    assert_eq!(export(&app, thread, "").await, before);
}

async fn export(app: &TestApp, thread: &str, query: &str) -> String {
    let answer = app.get(&format!("/v1/threads/{thread}/memory{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.text
}

async fn load(app: &TestApp, thread: &str, document: &str) {
    let request = app.request("PUT", &format!("/v1/threads/{thread}/memory"));
    let request = request.header("content-type", "application/json").body(document.to_owned());
    app.send(request).await.expect(200);
}

async fn empty_thread(app: &TestApp) -> String {
    id(&app.post("/v1/threads", &json!({})).await.expect(201)).to_owned()
}
