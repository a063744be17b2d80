//! `/v1/threads/{thread_id}/diagnosis`.

use serde_json::{Value, json};

use super::{pointers, send_text, speaker, start_endless_run};
use crate::support::{FakeModel, ModelReply, TestApp};

async fn diagnosis(app: &TestApp, thread: &Value, query: &str) -> Value {
    let id = thread["id"].as_str().unwrap();
    app.get(&format!("/v1/threads/{id}/diagnosis{query}")).await.expect(200)
}

fn told(diagnosis: &Value) -> Vec<Value> {
    let items = diagnosis["items"].as_array().unwrap().iter();
    items.map(|item| json!([item["seq"], item["code"], item["pointer"]])).collect()
}

/// A history that loads and that no provider would take as it is.
fn awkward() -> Value {
    let long = "i".repeat(100);
    let call = |id: &str, name: &str, arguments: &str| {
        json!({ "part_kind": "tool_call", "tool_call_id": id, "name": name,
                "arguments": arguments })
    };
    let gave = |id: &str, name: &str| {
        json!({ "tool_call_id": id, "name": name, "is_error": false, "kind": "success",
                "output": { "output_kind": "text", "text": "ok" }, "attempts": 1 })
    };
    let parts = json!([
        { "part_kind": "thinking", "text": "Hm." },
        { "part_kind": "text", "text": " " },
        call("a", "sea.depth", "[1]"),
        call(&long, "tide", "{}"),
    ]);
    json!({ "version": 2, "thread": {}, "steps": [
        { "kind": "task", "parts": [{ "part_kind": "text", "text": "How deep?" }] },
        { "kind": "action", "reply": { "state": "complete", "parts": parts },
          "outcomes": [gave("a", "sea.depth"), gave(&long, "tide")] },
    ] })
}

#[tokio::test]
async fn each_repair_is_listed_and_is_what_the_provider_is_sent() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({ "memory": awkward() })).await.expect(201);
    let found = diagnosis(&app, &thread, "").await;
    assert_eq!((&found["profile"], &found["total"]), (&json!("openai_compatible"), &json!(5)));
    assert_eq!(
        told(&found),
        [
            json!([2, "foreign_thinking", "/reply/parts/0"]),
            json!([2, "blank_text", "/reply/parts/1/text"]),
            json!([2, "invalid_tool_name", "/reply/parts/2/name"]),
            json!([2, "invalid_arguments", "/reply/parts/2/arguments"]),
            json!([2, "unfit_call_id", "/reply/parts/3/tool_call_id"]),
        ]
    );
    assert!(found["items"][0]["message"].as_str().unwrap().contains("frame"), "{found}");

    let stored = app.get(&format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap())).await;
    let model = FakeModel::start([ModelReply::text("Eleven.")]).await;
    let agent = json!({ "name": "a", "model": model.spec(false) });
    app.run_body(&json!({ "agent": agent, "thread_id": thread["id"], "input": "So?" })).await;
    let sent = model.requests()[0].messages();
    assert!(sent[1]["content"].as_str().unwrap().ends_with("\nHm.\n</assistant_thinking>"));
    let function = |name: &str, arguments: &str| json!({ "name": name, "arguments": arguments });
    assert_eq!(sent[2]["content"], "");
    assert_eq!(
        sent[2]["tool_calls"],
        json!([
            { "id": "a", "type": "function",
              "function": function("sea_depth", r#"{"INVALID_JSON":"[1]"}"#) },
            { "id": "call_2", "type": "function", "function": function("tide", "{}") },
        ])
    );
    let answered: Vec<&Value> = sent[3..5].iter().map(|m| &m["tool_call_id"]).collect();
    assert_eq!(answered, [&json!("a"), &json!("call_2")]);

    // Nothing of it is stored: the memory begins as it was.
    let after = app.get(&format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap())).await;
    let (before, after) = (stored.json(), after.json());
    assert_eq!(after["steps"].as_array().unwrap()[..2], before["steps"].as_array().unwrap()[..]);
    assert_eq!(told(&diagnosis(&app, &thread, "").await), told(&found));
}

#[tokio::test]
async fn another_family_of_models_needs_other_repairs() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({ "memory": awkward() })).await.expect(201);
    let found = diagnosis(&app, &thread, "?profile=scripted").await;
    assert_eq!((&found["profile"], &found["total"]), (&json!("scripted"), &json!(4)));
    let path = format!("/v1/threads/{}/diagnosis?profile=oracle", thread["id"].as_str().unwrap());
    let problem = app.get(&path).await.expect_problem(400, "invalid-parameter");
    assert_eq!(pointers(&problem), ["profile"]);
}

#[tokio::test]
async fn what_a_run_wrote_is_found_by_the_place_it_has_in_the_thread() {
    let app = TestApp::start().await;
    let agent = json!({ "name": "a", "model": { "provider": "scripted", "name": "m", "script": [
        { "tool_calls": [{ "name": "no.such", "raw_arguments": "{" }] }, { "text": "Sorry." },
    ] } });
    let run = app.run(&agent, "go").await;
    let thread = json!({ "id": run["thread_id"] });
    let found = diagnosis(&app, &thread, "").await;
    assert_eq!(
        told(&found),
        [
            json!([2, "invalid_tool_name", "/reply/parts/0/name"]),
            json!([2, "invalid_arguments", "/reply/parts/0/arguments"]),
        ]
    );
    // What a model no longer sees needs no repair.
    let memory = format!("/v1/threads/{}/memory", run["thread_id"].as_str().unwrap());
    send_text(&app, ("PUT", &memory), "", &awkward().to_string()).await.expect(200);
    assert_eq!(
        told(&diagnosis(&app, &thread, "").await)[0],
        json!([6, "foreign_thinking", "/reply/parts/0"])
    );
    assert_eq!(app.delete(&memory).await.status, 204);
    assert_eq!(diagnosis(&app, &thread, "").await["items"], json!([]));
}

#[tokio::test]
async fn a_sound_thread_needs_nothing_and_one_under_way_is_examined_as_it_stands() {
    let app = TestApp::start().await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let found = diagnosis(&app, &json!({ "id": run["thread_id"] }), "").await;
    assert_eq!((&found["total"], &found["items"]), (&json!(0), &json!([])));
    let endless = start_endless_run(&app).await;
    let found = diagnosis(&app, &json!({ "id": endless["thread_id"] }), "").await;
    assert_eq!(found["total"], 0);
}
