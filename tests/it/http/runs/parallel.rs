//! Many calls in one reply, and many tools in one agent.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{
    TestApp, agent_with, assert_invariants, client_tool, count, saying, tool, until, waiting_calls,
};

const CALLS: usize = 200;
/// How many of them may be under way at once.
const AT_ONCE: usize = 32;

/// A turn that calls so often, always under one id of the provider's.
fn many(name: &str) -> Value {
    let call = |n: usize| json!({"name": name, "arguments": {"n": n}, "id": "call_same"});
    json!({"tool_calls": (0..CALLS).map(call).collect::<Vec<_>>()})
}

fn numbered() -> Value {
    json!({"type": "object", "properties": {"n": {"type": "integer"}}})
}

#[tokio::test]
async fn two_hundred_calls_of_one_reply_are_made_a_few_at_a_time_and_each_once() {
    for effect in ["pure", "at_most_once"] {
        let app = TestApp::start().await;
        app.tools.hold("look");
        let agent = agent_with(
            &[many("look"), saying("Done.")],
            &[tool(&app.tools, "look", effect, &numbered())],
        );
        let run = app.start_run(&json!({"agent": agent, "input": "Go."})).await;
        app.tools.wait_for(AT_ONCE).await;
        let started = "SELECT count(*) FROM tool_call WHERE state = 'started'";
        assert_eq!(count(&app.db, started).await, i64::try_from(AT_ONCE).unwrap());
        assert_eq!(app.tools.seen().len(), AT_ONCE);
        app.tools.release("look");
        let ended = app.rested(&run).await;
        assert_eq!((&ended["status"], &ended["answer"]), (&json!("completed"), &json!("Done.")));
        let seen = app.tools.seen();
        assert_eq!(seen.len(), CALLS);
        let keys: BTreeSet<_> = seen.iter().map(|call| call.key.as_str()).collect();
        assert_eq!(keys.len(), CALLS, "every call has an id of its own");
        let outcomes = app.outcomes(&run).await;
        let order: Vec<_> =
            outcomes.iter().map(|outcome| &outcome["output"]["json"]["n"]).collect();
        assert_eq!(
            order,
            (0..CALLS).map(|n| json!(n)).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
        assert_invariants(&app.db).await;
    }
}

#[tokio::test]
async fn two_hundred_calls_of_no_tool_and_of_a_client_tool_are_told_and_asked_for() {
    let app = TestApp::start().await;
    let agent = agent_with(&[many("nobody"), saying("Done.")], &[]);
    let run = app.run(&agent, "Go.").await;
    assert_eq!(run["answer"], "Done.");
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes.len(), CALLS);
    assert!(outcomes.iter().all(|outcome| outcome["kind"] == "unknown_tool"));
    let agent = agent_with(&[many("pick"), saying("Done.")], &[client_tool("pick")]);
    let run = app.parked(&json!({"agent": agent, "input": "Go."})).await;
    let waiting = waiting_calls(&run);
    assert_eq!(waiting.len(), CALLS, "what waits for its caller takes no place");
    for some in waiting.chunks(128) {
        let results: Vec<Value> =
            some.iter().map(|call| json!({"tool_call_id": call, "output": 1})).collect();
        let path = crate::support::run_path(&run, "tool-results");
        app.post(&path, &json!({"results": results})).await.expect(200);
    }
    until(&app.db, "SELECT count(*) = 2 FROM run WHERE status = 'completed'").await;
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_agent_has_a_hundred_and_twenty_eight_tools_and_no_more() {
    let app = TestApp::start().await;
    let agent = |n: usize| {
        let tools: Vec<Value> = (0..n).map(|n| client_tool(&format!("t{n}"))).collect();
        agent_with(&[saying("Done.")], &tools)
    };
    assert_eq!(app.run(&agent(128), "Go.").await["answer"], "Done.");
    let refused = app.post("/v1/agents", &agent(129)).await;
    let problem = refused.expect_problem(422, "validation-failed");
    assert_eq!(problem["errors"][0]["pointer"], "/tools");
}
