//! The rules of the loop, as a caller sees them: limits, repetitions, replies that cannot be used.

use serde_json::{Value, json};

use crate::support::{HeldModel, Piece, TestApp, tool};

fn scripted(script: &Value) -> Value {
    json!({"name": "a", "model": {"provider": "scripted", "name": "m", "script": script}})
}

fn with_tool(app: &TestApp, mut agent: Value) -> Value {
    let anything = json!({"type": "object", "additionalProperties": true});
    agent["tools"] = json!([tool(&app.tools, "t", "pure", &anything)]);
    agent
}

fn calling(n: usize) -> Vec<Piece> {
    vec![Piece::Call("t", json!({"n": n}))]
}

async fn steps(app: &TestApp, run: &Value) -> Vec<Value> {
    app.steps(run["id"].as_str().unwrap()).await
}

fn kinds(steps: &[Value]) -> Vec<&str> {
    steps.iter().filter_map(|step| step["kind"].as_str()).collect()
}

#[tokio::test]
async fn a_run_that_takes_too_long_fails_with_its_open_calls_closed() {
    let app = TestApp::start().await;
    app.tools.hold("t");
    let script = json!([{"tool_calls": [{"name": "t", "arguments": {}}]}]);
    let agent = with_tool(&app, scripted(&script));
    let run = app.run_body(&json!({"agent": agent, "input": "Go.", "run_timeout_ms": 200})).await;
    assert_eq!(run["status"], "failed");
    assert_eq!(run["error"]["type"], "/problems/run-timeout");
    let steps = steps(&app, &run).await;
    let outcomes = steps.last().unwrap()["outcomes"].as_array();
    assert!(outcomes.is_none_or(|outcomes| outcomes.iter().all(|o| o["kind"] == "cancelled")));
    let next = json!({"agent": scripted(&json!([{"text": "Yes."}])), "input": "Still there?",
        "thread_id": run["thread_id"]});
    assert_eq!(app.run_body(&next).await["answer"], "Yes.");
    app.tools.release("t");
}

#[tokio::test]
async fn at_the_step_limit_the_model_is_asked_once_more_without_tools() {
    let app = TestApp::start().await;
    let model = HeldModel::saying([calling(1), calling(2), vec![Piece::Text("My best.")]]).await;
    let mut agent = with_tool(&app, json!({"name": "a", "model": model.spec()}));
    agent["max_steps"] = json!(2);
    let run = app.run(&agent, "Go.").await;
    assert_eq!((&run["status"], &run["stop_reason"]), (&json!("completed"), &json!("max_steps")));
    assert_eq!(run["answer"], "My best.");
    let steps = steps(&app, &run).await;
    assert_eq!(kinds(&steps), ["task", "action", "action", "system", "action", "final"]);
    let requests = model.requests();
    assert_eq!(requests.len(), 3);
    let tools = |at: usize| requests[at]["tools"].as_array().map(Vec::len);
    assert_eq!((tools(0), tools(1)), (Some(2), Some(2)), "the tool and `final_answer`");
    assert_eq!(requests[2].get("tools"), None);
    // A server of which nothing is known gets the system voice framed on the user's channel.
    let last = model.messages(2).last().cloned().unwrap();
    let text = "Step limit reached. Give your best final answer now.";
    let framed = format!("<system>{text}</system>");
    assert_eq!(last, json!({"role": "user", "content": framed}));
    assert_eq!(steps[3]["text"], text);
}

#[tokio::test]
async fn the_step_limit_of_a_run_is_stronger_than_the_agents() {
    let app = TestApp::start().await;
    let model = HeldModel::saying([calling(1), vec![Piece::Text("Enough.")]]).await;
    let agent = with_tool(&app, json!({"name": "a", "model": model.spec()}));
    let run = app.run_body(&json!({"agent": agent, "input": "Go.", "max_steps": 1})).await;
    assert_eq!((&run["stop_reason"], &run["turn"]), (&json!("max_steps"), &json!(2)));
}

#[tokio::test]
async fn a_model_that_repeats_itself_is_nudged_and_then_stopped() {
    let app = TestApp::start().await;
    let model = HeldModel::saying([calling(1), calling(1), calling(1), calling(1)]).await;
    let agent = with_tool(&app, json!({"name": "a", "model": model.spec()}));
    let run = app.run(&agent, "Go.").await;
    assert_eq!(run["status"], "completed");
    assert_eq!(run["stop_reason"], "loop_detected");
    assert_eq!(kinds(&steps(&app, &run).await), ["task", "action", "action", "action", "final"]);
    assert_eq!((app.tools.seen().len(), model.requests().len()), (3, 3));
    let nudged = |request: usize| {
        let last = model.messages(request).last().cloned().unwrap();
        last["content"].as_str().unwrap().contains("you already made this exact tool call")
    };
    assert!(!nudged(1) && nudged(2));
}

#[tokio::test]
async fn an_answer_that_does_not_fit_its_schema_is_asked_for_again() {
    let app = TestApp::start().await;
    let mut agent = scripted(&json!([{"text": "{\"n\": \"one\"}"}, {"text": "{\"n\": 1}"}]));
    agent["output_schema"] = json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
    });
    let run = app.run(&agent, "How many?").await;
    assert_eq!((&run["status"], &run["stop_reason"]), (&json!("completed"), &json!("text")));
    assert_eq!(run["output"], json!({"n": 1}));
    let steps = steps(&app, &run).await;
    assert_eq!(kinds(&steps), ["task", "action", "retry", "action", "final"]);
    assert_eq!(steps[2]["cause"], "error");
    assert_eq!(steps[2]["content"][0]["loc"], json!(["n"]));
    assert_eq!(steps[4]["output"], json!({"n": 1}));
}

#[tokio::test]
async fn an_answer_that_never_fits_fails_the_run() {
    let app = TestApp::start().await;
    let mut agent = scripted(&json!([{"text": "no"}]));
    agent["output_schema"] = json!({"type": "object"});
    let run = app.run(&agent, "How many?").await;
    assert_eq!(run["error"]["type"], "/problems/model-error");
    assert_eq!(run["error"]["kind"], "unusable_output");
    let found = steps(&app, &run).await;
    assert_eq!(kinds(&found), ["task", "action", "retry", "action", "retry", "action"]);
}

#[tokio::test]
async fn a_call_that_cannot_be_read_is_corrected_at_most_twice_in_a_row() {
    let app = TestApp::start().await;
    let broken =
        |n: usize| json!({"tool_calls": [{"name": "t", "raw_arguments": format!("{{\"n\": {n}")}]});
    let fine = json!([broken(1), broken(2), {"text": "Got it."}]);
    let run = app.run(&with_tool(&app, scripted(&fine)), "Go.").await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("Got it.")));
    let steps = steps(&app, &run).await;
    assert_eq!(kinds(&steps), ["task", "action", "action", "action", "final"]);
    for step in &steps[1..3] {
        assert_eq!(step["outcomes"][0]["kind"], "invalid_arguments");
    }
    assert_eq!(steps[1]["reply"]["parts"][0]["arguments"], "{\"n\": 1", "kept as it came");
    let never = json!([broken(1), broken(2), broken(3), {"text": "Too late."}]);
    let run = app.run(&with_tool(&app, scripted(&never)), "Go.").await;
    assert_eq!(run["error"]["kind"], "unusable_output");
    assert_eq!(app.tools.seen(), []);
}

#[tokio::test]
async fn a_reply_with_nothing_usable_is_asked_for_again() {
    let app = TestApp::start().await;
    let run = app.run(&scripted(&json!([{"thinking": "Hm."}, {"text": "Yes."}])), "Well?").await;
    assert_eq!(run["answer"], "Yes.");
    let steps = steps(&app, &run).await;
    assert_eq!(kinds(&steps), ["task", "action", "retry", "action", "final"]);
    assert_eq!(
        (&steps[2]["cause"], &steps[2]["content"]),
        (
            &json!("no_output"),
            &json!("Please return text or include your response in a tool call."),
        )
    );
}

#[tokio::test]
async fn no_call_of_a_truncated_reply_is_run() {
    let app = TestApp::start().await;
    let script = json!([
        {"tool_calls": [{"name": "t", "arguments": {}}], "finish_reason": "length"},
        {"text": "Shorter."},
    ]);
    let run = app.run(&with_tool(&app, scripted(&script)), "Go.").await;
    assert_eq!(run["answer"], "Shorter.");
    assert_eq!(steps(&app, &run).await[1]["outcomes"][0]["kind"], "truncated");
    assert_eq!(app.tools.seen(), []);
}

#[tokio::test]
async fn a_model_that_fails_for_good_fails_the_run_and_the_transcript_stays() {
    let app = TestApp::start().await;
    let script = json!([
        {"tool_calls": [{"name": "t", "arguments": {}}]},
        {"error": {"kind": "bad_request"}},
    ]);
    let run = app.run(&with_tool(&app, scripted(&script)), "Go.").await;
    assert_eq!(run["status"], "failed");
    let error = &run["error"];
    assert_eq!(
        (&error["type"], &error["kind"]),
        (&json!("/problems/model-error"), &json!("bad_request"),)
    );
    assert_eq!((&error["provider"], &error["provider_status"]), (&json!("scripted"), &json!(400)));
    assert_eq!(kinds(&steps(&app, &run).await), ["task", "action"]);
    let strict = json!({"agent": scripted(&json!([{"error": {"kind": "bad_request"}}])),
        "input": "Go."});
    let request = crate::support::with_json(app.request("POST", "/v1/runs"), &strict);
    let request = request.header("prefer", "wait=60, handling=strict");
    app.send(request).await.expect_problem(502, "model-error");
}

#[tokio::test]
async fn a_wait_that_outlasts_the_turn_is_not_begun() {
    let app = TestApp::start().await;
    let error = json!({"kind": "rate_limit", "retry_after_ms": 60_000});
    let agent = json!({
        "name": "busy",
        "model_timeout_ms": 30_000,
        "model": {"provider": "scripted", "name": "m", "script": [{"error": error}]},
    });
    let run = app.run(&agent, "Go.").await;
    assert_eq!((&run["status"], &run["attempt"]), (&json!("failed"), &json!(1)));
    assert_eq!(run["error"]["kind"], "rate_limit");
}
