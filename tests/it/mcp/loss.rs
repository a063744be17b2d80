//! Servers that go away, and come back.

use serde_json::json;

use super::{all, repeatable};
use crate::support::{McpServer, TestApp, assert_invariants, mcp_agent, mcp_servers};

#[tokio::test]
async fn a_server_killed_in_mid_call_leaves_a_call_in_doubt_that_must_not_run_twice() {
    let Some(folder) = mcp_servers() else { return };
    let mut server = McpServer::python(&folder, "").await;
    let gated = json!({"overrides": {"add": {"approval": "always"}}});
    let app = TestApp::with_mcp(&server, &gated).await;
    let calls = [("slow", json!({"seconds": 600})), ("add", json!({"a": 1, "b": 1}))];
    let agent = mcp_agent(&all(), &calls);
    let run = app.start_run(&json!({"agent": agent, "input": "go"})).await;
    server.noted("slow", 1).await;
    server.restart("").await;
    // The next call, which comes once the server is there again, begins a session anew.
    let run = app.rested(&run).await;
    let call = run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    app.decide(&run, call, &json!({"approve": true})).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!(run["status"], "completed", "{run}");
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[0]["kind"], "in_doubt", "{outcomes:?}");
    assert_eq!(outcomes[1]["kind"], "success", "{outcomes:?}");
    assert_eq!(server.log(), ["slow", "add"]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_server_killed_in_mid_call_is_asked_again_where_the_call_may_be_repeated() {
    let Some(folder) = mcp_servers() else { return };
    let mut server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let agent = mcp_agent(&repeatable(), &[("slow", json!({"seconds": 5}))]);
    let run = app.start_run(&json!({"agent": agent, "input": "go"})).await;
    server.noted("slow", 1).await;
    server.restart("").await;
    let outcomes = app.outcomes(&app.rested(&run).await).await;
    assert_eq!(outcomes[0]["output"]["text"], "slept", "{outcomes:?}");
    assert_eq!(server.log(), ["slow", "slow", "slow done"]);
}

#[tokio::test]
async fn a_server_that_ends_itself_in_mid_call_is_held_in_doubt_until_it_is_resolved() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let tools = json!([{"kind": "mcp", "server": "s"}]);
    let agent = mcp_agent(&tools, &[("quit", json!({}))]);
    let run = app.parked(&json!({"agent": agent, "input": "go"})).await;
    assert_eq!(run["requires_action"]["reason"], "in_doubt", "{run}");
    let call = run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    app.resolve(&run, call, &json!({"outcome": "failed"})).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_eq!(server.log(), ["quit"]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_server_restarted_between_runs_is_asked_in_a_new_session() {
    let Some(folder) = mcp_servers() else { return };
    for everything in [false, true] {
        let mut server = if everything {
            McpServer::everything(&folder).await
        } else {
            McpServer::python(&folder, "").await
        };
        let call = if everything {
            ("get-sum", json!({"a": 1, "b": 1}))
        } else {
            ("add", json!({"a": 1, "b": 1}))
        };
        let app = TestApp::with_mcp(&server, &json!({})).await;
        let agent = mcp_agent(&all(), &[call]);
        for _ in 0..2 {
            let run = app.run(&agent, "go").await;
            let outcomes = app.outcomes(&run).await;
            assert_eq!(outcomes[0]["kind"], "success", "{outcomes:?}");
            server.restart("").await;
        }
    }
}

#[tokio::test]
async fn a_server_restarted_within_a_run_does_a_call_once() {
    let Some(folder) = mcp_servers() else { return };
    let mut server = McpServer::python(&folder, "").await;
    let app =
        TestApp::with_mcp(&server, &json!({"overrides": {"add": {"approval": "always"}}})).await;
    let agent = mcp_agent(&all(), &[("add", json!({"a": 1, "b": 1}))]);
    let run = app.parked(&json!({"agent": agent, "input": "go"})).await;
    server.restart("").await;
    let call = run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    app.decide(&run, call, &json!({"approve": true})).await.expect(200);
    let outcomes = app.outcomes(&app.rested(&run).await).await;
    assert_eq!(outcomes[0]["kind"], "success", "{outcomes:?}");
    assert_eq!(server.log(), ["add"]);
}

#[tokio::test]
async fn a_call_of_a_server_that_stays_away_was_never_sent() {
    let Some(folder) = mcp_servers() else { return };
    let mut server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({"rules": {"approval": "always"}})).await;
    let agent = mcp_agent(&all(), &[("add", json!({"a": 1, "b": 1}))]);
    let run = app.parked(&json!({"agent": agent, "input": "go"})).await;
    server.kill();
    let call = run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    app.decide(&run, call, &json!({"approve": true})).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(app.outcomes(&run).await[0]["error"]["type"], "ConnectError");
}
