//! Calls and what comes of them.

use serde_json::json;

use super::{all, repeatable};
use crate::support::{McpServer, TestApp, assert_invariants, execute, mcp_agent, mcp_servers};

#[tokio::test]
async fn results_of_every_kind_reach_the_model_and_no_failure_ends_the_run() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let agent = mcp_agent(
        &all(),
        &[
            ("add", json!({"a": 2, "b": 3})),
            ("add", json!({"a": "x"})),
            ("fail", json!({"why": "it is broken"})),
            ("picture", json!({})),
            ("nobody", json!({})),
            ("large", json!({"chars": 5_700_000})),
        ],
    );
    let run = app.run(&agent, "go").await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("done")), "{run}");
    let outcomes = app.outcomes(&run).await;
    let kinds: Vec<&str> = outcomes.iter().map(|o| o["kind"].as_str().unwrap()).collect();
    let expected =
        ["success", "invalid_arguments", "execution", "success", "unknown_tool", "in_doubt"];
    assert_eq!(kinds, expected, "{outcomes:?}");
    assert_eq!(outcomes[0]["output"]["json"]["result"], 5, "{}", outcomes[0]);
    assert!(outcomes[1]["error"]["message"].as_str().unwrap().contains("/b"), "{}", outcomes[1]);
    assert!(outcomes[2]["error"]["message"].as_str().unwrap().contains("fail"), "{}", outcomes[2]);
    assert_eq!(outcomes[3]["files"][0]["id"], "picture.png", "{}", outcomes[3]);
    assert_eq!(outcomes[5]["error"]["type"], "ResponseTooLarge", "{}", outcomes[5]);
    assert_eq!(server.log(), ["add", "fail"]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn the_reference_server_is_listed_called_and_heard_to_its_end() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::everything(&folder).await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let agent = mcp_agent(
        &all(),
        &[
            ("echo", json!({"message": "hello"})),
            ("get-sum", json!({"a": 2, "b": 3})),
            ("get-structured-content", json!({"location": "Chicago"})),
            ("get-tiny-image", json!({})),
            ("trigger-long-running-operation", json!({"duration": 1, "steps": 3})),
            ("get-resource-reference", json!({"resourceType": "Blob", "resourceId": 1})),
            ("echo", json!({})),
        ],
    );
    let run = app.run(&agent, "go").await;
    assert_eq!(run["status"], "completed", "{run}");
    let outcomes = app.outcomes(&run).await;
    let kinds: Vec<&str> = outcomes.iter().map(|o| o["kind"].as_str().unwrap()).collect();
    let mut expected = vec!["success"; 6];
    expected.push("invalid_arguments");
    assert_eq!(kinds, expected, "{outcomes:?}");
    assert!(outcomes[0]["output"]["text"].as_str().unwrap().contains("hello"), "{}", outcomes[0]);
    assert!(outcomes[2]["output"]["json"]["temperature"].is_number(), "{}", outcomes[2]);
    assert_eq!(outcomes[3]["files"][0]["media_type"], "image/png", "{}", outcomes[3]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn progress_does_not_extend_the_time_of_a_call() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({"rules": {"timeout_ms": 1500}})).await;
    let agent =
        mcp_agent(&all(), &[("progress", json!({"steps": 600})), ("add", json!({"a": 1, "b": 1}))]);
    let outcomes = app.outcomes(&app.run(&agent, "go").await).await;
    assert_eq!(outcomes[0]["kind"], "in_doubt", "{outcomes:?}");
    assert!(outcomes[0]["error"]["message"].as_str().unwrap().contains("1.5s"), "{outcomes:?}");
    assert_eq!(outcomes[1]["kind"], "success", "{outcomes:?}");
}

#[tokio::test]
async fn progress_within_the_time_of_a_call_leads_to_its_result() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let agent = mcp_agent(&all(), &[("progress", json!({"steps": 3}))]);
    let outcomes = app.outcomes(&app.run(&agent, "go").await).await;
    assert_eq!(outcomes[0]["output"]["text"], "arrived", "{outcomes:?}");
}

#[tokio::test]
async fn a_run_that_is_cancelled_gives_its_call_up() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let agent = mcp_agent(&repeatable(), &[("slow", json!({"seconds": 600}))]);
    let run = app.start_run(&json!({"agent": agent, "input": "go"})).await;
    server.noted("slow", 1).await;
    let id = run["id"].as_str().unwrap();
    app.post(&format!("/v1/runs/{id}/cancel"), &json!({"wait": true})).await.expect(202);
    assert_eq!(app.ended(id).await["status"], "cancelled");
    // The session is of use to the next run.
    let agent = mcp_agent(&all(), &[("add", json!({"a": 1, "b": 1}))]);
    let outcomes = app.outcomes(&app.run(&agent, "go").await).await;
    assert_eq!(outcomes[0]["kind"], "success", "{outcomes:?}");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_call_that_has_to_be_approved_waits_whatever_the_server_says_of_it() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::python(&folder, "").await;
    let rules = json!({"overrides": {"add": {"approval": "always"}}});
    let app = TestApp::with_mcp(&server, &rules).await;
    let agent = mcp_agent(&all(), &[("add", json!({"a": 1, "b": 1}))]);
    let run = app.parked(&json!({"agent": agent, "input": "go"})).await;
    assert_eq!(run["requires_action"]["reason"], "approval", "{run}");
    assert_eq!(server.log(), Vec::<String>::new());
    let call = run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    app.decide(&run, call, &json!({"approve": true})).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!((&run["status"], server.log()), (&json!("completed"), vec!["add".to_owned()]));
}

#[tokio::test]
async fn a_server_that_is_removed_in_the_middle_of_a_run_costs_its_calls_only() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({"rules": {"approval": "always"}})).await;
    let agent = mcp_agent(&all(), &[("add", json!({"a": 1, "b": 1}))]);
    let run = app.parked(&json!({"agent": agent, "input": "go"})).await;
    execute(&app.db, "DELETE FROM mcp_server").await;
    let call = run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    app.decide(&run, call, &json!({"approve": true})).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!(app.outcomes(&run).await[0]["error"]["type"], "McpServerGone");
}
