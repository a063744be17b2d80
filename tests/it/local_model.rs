//! A whole server with a real model behind it. The model is small enough for any machine, so what it
//! says is not judged; that it calls, is answered and comes to an end is.

use serde_json::{Value, json};

use crate::support::{SseEvent, TestApp, local_model, tool};

const TOOL: &str = "get_weather";

/// Takes the likeliest token each time, and cuts off what rambles.
fn agent(app: &TestApp, provider: &str, base_url: &str) -> Value {
    let settings = json!({"temperature": 0.0, "max_output_tokens": 160});
    let parameters = json!({
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": false,
    });
    json!({
        "name": "forecaster",
        "model": {
            "provider": provider, "name": "local", "base_url": base_url, "settings": settings,
        },
        "tools": [tool(&app.tools, TOOL, "pure", &parameters)],
    })
}

fn place(events: &[SseEvent], name: &str) -> usize {
    let found = events.iter().position(|event| event.name == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {events:?}"))
}

/// The tool was called once or more, each time with what its parameters ask for and nothing else.
fn assert_called(app: &TestApp) {
    let seen = app.tools.seen();
    assert!(!seen.is_empty(), "the model calls the tool");
    for call in &seen {
        let city = call.body["city"].as_str().unwrap_or_default();
        assert!(!city.is_empty(), "{call:?}");
        assert_eq!((call.tool.as_str(), &call.body), (TOOL, &json!({"city": city})));
    }
}

/// Every reply says what it cost, and the run says what all cost. A turn that follows a call reads
/// more than the one before it: what the tool answered was sent along.
fn assert_counted(run: &Value, steps: &[Value]) {
    let actions = steps.iter().filter(|step| step["kind"] == "action");
    let usages: Vec<&Value> = actions.map(|action| &action["reply"]["usage"]).collect();
    let counts = |of: &str| usages.iter().map(|usage| usage[of].as_u64().unwrap()).collect();
    let (read, written): (Vec<u64>, Vec<u64>) = (counts("input"), counts("output"));
    assert!(read.len() >= 2 && read.is_sorted_by(|one, next| one < next), "{read:?}");
    assert!(written.iter().all(|n| *n > 0), "{written:?}");
    assert_eq!(run["usage"]["input"], read.iter().sum::<u64>());
    assert_eq!(run["usage"]["output"], written.iter().sum::<u64>());
}

/// The call is seen while it is written, before it is made; the run's end comes last.
fn assert_streamed(events: &[SseEvent]) {
    let of_interest = ["tool_call.delta", "tool.call", "tool.result", "run.completed"];
    let places: Vec<usize> = of_interest.iter().map(|name| place(events, name)).collect();
    assert!(places.is_sorted(), "{events:?}");
    assert_eq!(places.last(), Some(&(events.len() - 1)), "{events:?}");
}

/// One run on a server of its own, watched to its end; nothing to do without a model.
async fn holds_for(provider: &str) {
    let Some(base_url) = local_model() else { return };
    let app = TestApp::start().await;
    app.tools.answer(TOOL, |_| (200, json!({"weather": "rain, 12 degrees"})));
    let agent = agent(&app, provider, &base_url);
    let body = json!({"agent": agent, "input": "What is the weather in Paris?"});
    let events = app.start_stream(&body).await.rest().await;
    let id = events[0].data["id"].as_str().unwrap();
    let (run, steps) = (app.ended(id).await, app.steps(id).await);
    assert_eq!(run["status"], "completed", "{run}");
    assert!(["text", "final_answer"].contains(&run["stop_reason"].as_str().unwrap()), "{run}");
    assert!(run["answer"].as_str().is_some_and(|answer| !answer.is_empty()), "{run}");
    assert_called(&app);
    assert_counted(&run, &steps);
    assert_streamed(&events);
}

#[tokio::test]
async fn a_real_model_calls_a_tool_and_answers_over_chat_completions() {
    holds_for("openai").await;
}

#[tokio::test]
async fn a_real_model_calls_a_tool_and_answers_over_responses() {
    holds_for("openai_responses").await;
}

#[tokio::test]
async fn a_real_model_calls_a_tool_and_answers_over_anthropic_messages() {
    holds_for("anthropic").await;
}
