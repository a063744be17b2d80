//! What a run is given, and that it stays so.

use serde_json::{Value, json};

use super::all;
use crate::support::{
    McpServer, TestApp, assert_invariants, count, mcp_agent, mcp_servers, run_path,
};

/// The texts of the first request of a run.
async fn first_request(app: &TestApp, run: &Value) -> String {
    let requests = app.all(&run_path(run, "requests")).await;
    let id = requests[0]["id"].as_str().unwrap();
    app.get(&format!("/v1/requests/{id}/body")).await.text
}

async fn tools_steps(app: &TestApp, run: &Value) -> Vec<Value> {
    let steps = app.steps(run["id"].as_str().unwrap()).await;
    steps.into_iter().filter(|step| step["kind"] == "tools").collect()
}

fn same(requests: u64) -> Value {
    json!({ "requests": requests, "matches": requests, "other_renderer": 0, "unknown": 0,
            "unrecorded": 0, "missing": [], "first_divergence": null })
}

#[tokio::test]
async fn a_list_that_changed_since_the_run_before_is_announced() {
    let Some(folder) = mcp_servers() else { return };
    let mut server = McpServer::python(&folder, "early stays").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let first = app.run(&mcp_agent(&all(), &[("early", json!({}))]), "one").await;
    assert_eq!(tools_steps(&app, &first).await, Vec::<Value>::new());
    server.restart("stays late").await;
    let on =
        |agent: &Value| json!({"agent": agent, "thread_id": first["thread_id"], "input": "more"});
    let second = app.run_body(&on(&mcp_agent(&all(), &[("late", json!({}))]))).await;
    let announced = tools_steps(&app, &second).await;
    assert_eq!(announced.len(), 1, "{announced:?}");
    assert_eq!(announced[0]["added"], json!(["late"]), "{announced:?}");
    assert_eq!(announced[0]["removed"], json!(["early"]), "{announced:?}");
    let asked = first_request(&app, &second).await;
    assert!(asked.contains("The following tool(s) are now available: `late`"), "{asked}");
    assert!(asked.contains("The following tool(s) are no longer available: `early`"), "{asked}");
    assert_eq!(app.outcomes(&second).await[0]["output"]["text"], "late");
    let third = app.run_body(&on(&mcp_agent(&all(), &[]))).await;
    assert_eq!(tools_steps(&app, &third).await, Vec::<Value>::new());
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_list_that_changes_within_a_run_changes_nothing_for_it_and_it_is_replayed_without_the_server()
 {
    let Some(folder) = mcp_servers() else { return };
    let mut server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let calls = [("change", json!({})), ("newcomer", json!({})), ("picture", json!({}))];
    let run = app.run(&mcp_agent(&all(), &calls), "go").await;
    let outcomes = app.outcomes(&run).await;
    let kinds: Vec<&str> = outcomes.iter().map(|o| o["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["success", "unknown_tool", "execution"], "{outcomes:?}");
    assert_eq!(count(&app.db, "SELECT count(*) FROM run_pin").await, 1);
    server.kill();
    let replayed = app.post(&run_path(&run, "replay"), &json!({})).await.expect(200);
    assert_eq!(replayed, same(4));
}

#[tokio::test]
async fn a_server_that_cannot_be_asked_costs_the_run_its_tools_and_nothing_else() {
    let Some(folder) = mcp_servers() else { return };
    let mut server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let agent = mcp_agent(&all(), &[("add", json!({"a": 1, "b": 1}))]);
    let first = app.run(&agent, "one").await;
    server.kill();
    let more = json!({"agent": agent, "thread_id": first["thread_id"], "input": "more"});
    let second = app.run_body(&more).await;
    assert_eq!(second["status"], "completed", "{second}");
    assert_eq!(app.outcomes(&second).await[0]["kind"], "unknown_tool");
    // What it does no longer have is told.
    let announced = tools_steps(&app, &second).await;
    assert!(announced[0]["removed"].to_string().contains("add"), "{announced:?}");
    let missing = json!([{"name": "s", "reason": "not_answering"}]);
    assert_eq!(second["unavailable_servers"], missing);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_name_of_two_servers_is_told_apart_by_them() {
    let Some(folder) = mcp_servers() else { return };
    let server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    app.register("other", &server.url(), &json!({"allow": ["add"]})).await;
    let tools = json!([
        {"kind": "mcp", "server": "s", "tools": ["add", "large"]},
        {"kind": "mcp", "server": "other"},
    ]);
    let calls = [("s__add", json!({"a": 1, "b": 1})), ("other__add", json!({"a": 1, "b": 2}))];
    let run = app.run(&mcp_agent(&tools, &calls), "go").await;
    let outcomes = app.outcomes(&run).await;
    assert_eq!(outcomes[1]["output"]["json"]["result"], 3, "{outcomes:?}");
    assert_eq!(server.log(), ["add", "add"]);
}

#[tokio::test]
async fn a_prompt_is_rendered_with_the_tools_that_there_are_now() {
    let Some(folder) = mcp_servers() else { return };
    let mut server = McpServer::python(&folder, "").await;
    let app = TestApp::with_mcp(&server, &json!({})).await;
    let body = json!({"agent": mcp_agent(&all(), &[]), "input": "go"});
    let rendered = app.post("/v1/render", &body).await.expect(200);
    assert!(rendered["body"].as_str().unwrap().contains("Adds two numbers."), "{rendered}");
    server.kill();
    let rendered = app.post("/v1/render", &body).await.expect(200);
    assert!(!rendered["body"].as_str().unwrap().contains("Adds two numbers."), "{rendered}");
    assert_eq!(count(&app.db, "SELECT count(*) FROM run_pin").await, 0);
}
