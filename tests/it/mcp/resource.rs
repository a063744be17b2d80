//! `/v1/mcp-servers` with servers behind it.

use serde_json::json;

use crate::support::{McpServer, TestApp, mcp_servers};

#[tokio::test]
async fn a_test_says_who_answers_what_may_be_used_and_what_may_not() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::python(&folder, "").await;
    let app = TestApp::reaching(&[server.port()], &[]).await;
    let made = app.register("s", &server.url(), &json!({"deny": ["fail"]})).await;
    let path = format!("/v1/mcp-servers/{}/test", made["id"].as_str().unwrap());
    let tested = app.post(&path, &json!({})).await.expect(200);
    assert_eq!(tested["server_info"]["name"], "tests", "{tested}");
    assert!(tested["duration_ms"].is_u64(), "{tested}");
    let names: Vec<&str> =
        tested["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"add") && !names.contains(&"fail"), "{names:?}");
    assert_eq!(tested["left_out"][0]["name"], "fail", "{tested}");
}

#[tokio::test]
async fn a_server_that_is_away_or_is_none_is_not_available() {
    let Some(folder) = mcp_servers() else { return };
    let mut server = McpServer::python(&folder, "").await;
    let app = TestApp::reaching(&[server.port()], &[]).await;
    let made = app.register("s", &server.url(), &json!({})).await;
    let path =
        |made: &serde_json::Value| format!("/v1/mcp-servers/{}/test", made["id"].as_str().unwrap());
    let nowhere = server.url().replace("/mcp", "/nothing");
    let lost = app.register("lost", &nowhere, &json!({})).await;
    app.post(&path(&lost), &json!({})).await.expect_problem(502, "mcp-unavailable");
    server.kill();
    app.post(&path(&made), &json!({})).await.expect_problem(502, "mcp-unavailable");
}
