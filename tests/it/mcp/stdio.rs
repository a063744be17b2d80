//! Servers that are programs of the operator's.

use std::path::Path;

use serde_json::{Value, json};

use super::all;
use crate::support::{TestApp, mcp_agent, mcp_servers, npm_server, python, script};

/// A server of agentling with these programs.
async fn app(dir: &Path, programs: &Value) -> TestApp {
    let file = dir.join("programs.json");
    std::fs::write(&file, programs.to_string()).unwrap();
    TestApp::reaching(&[], &[("AGENTLING_MCP_STDIO", file.to_str().unwrap())]).await
}

#[tokio::test]
async fn a_program_is_called_dies_and_is_started_again_with_nothing_of_our_environment() {
    let Some(folder) = mcp_servers() else { return };
    let dir = tempfile::tempdir().unwrap();
    let programs = json!([{"name": "s", "command": python(&folder), "args": [script()],
        "env": {"TOKEN": "t", "MCP_LOG": dir.path().join("log")}}]);
    let app = app(dir.path(), &programs).await;
    let calls = [
        ("environment", json!({})),
        ("mutter", json!({"text": "a line of its own"})),
        ("quit", json!({})),
        ("add", json!({"a": 2, "b": 3})),
    ];
    let run = app.run(&mcp_agent(&all(), &calls), "go").await;
    assert_eq!(run["status"], "completed", "{run}");
    let outcomes = app.outcomes(&run).await;
    let known = outcomes[0]["output"]["text"].as_str().unwrap();
    let ours = ["CARGO", "AGENTLING", "HOME", "DATABASE"];
    assert!(known.contains("TOKEN") && ours.iter().all(|name| !known.contains(name)), "{known}");
    assert_eq!(outcomes[1]["output"]["text"], "said", "{outcomes:?}");
    assert_eq!(outcomes[2]["kind"], "in_doubt", "{outcomes:?}");
    assert_eq!(outcomes[3]["output"]["json"]["result"], 5, "{outcomes:?}");
}

#[tokio::test]
async fn the_reference_servers_are_spoken_to_over_pipes() {
    let Some(folder) = mcp_servers() else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("note.txt"), "remember the milk").unwrap();
    let programs = json!([
        {"name": "everything", "command": "node",
         "args": [npm_server(&folder, "server-everything"), "stdio"]},
        {"name": "files", "command": "node",
         "args": [npm_server(&folder, "server-filesystem"), dir.path()]},
    ]);
    let app = app(dir.path(), &programs).await;
    let tools =
        json!([{"kind": "mcp", "server": "everything"}, {"kind": "mcp", "server": "files"}]);
    let calls = [
        ("get-sum", json!({"a": 2, "b": 3})),
        ("read_text_file", json!({"path": dir.path().join("note.txt")})),
        ("read_text_file", json!({"path": "/etc/passwd"})),
    ];
    let run = app.run(&mcp_agent(&tools, &calls), "go").await;
    let outcomes = app.outcomes(&run).await;
    assert!(outcomes[0].to_string().contains('5'), "{outcomes:?}");
    assert!(outcomes[1].to_string().contains("remember the milk"), "{outcomes:?}");
    assert_eq!(outcomes[2]["kind"], "execution", "{outcomes:?}");
    assert!(outcomes[2]["error"]["message"].as_str().unwrap().contains("denied"), "{outcomes:?}");
}

#[tokio::test]
async fn a_program_is_there_for_the_tenants_that_it_names_only() {
    let Some(folder) = mcp_servers() else { return };
    let dir = tempfile::tempdir().unwrap();
    let programs = json!([{"name": "s", "command": python(&folder), "args": [script()],
        "tenants": ["somebody"]}]);
    let app = app(dir.path(), &programs).await;
    let agent = mcp_agent(&all(), &[("add", json!({"a": 1, "b": 1}))]);
    let answer = app.post("/v1/runs", &json!({"agent": agent, "input": "go"})).await;
    let problem = answer.expect_problem(422, "validation-failed");
    assert_eq!(problem["errors"][0]["code"], "unknown_mcp_server", "{problem}");
}
