//! What an agent says of its model, and what a model is sent for it.

use serde_json::{Value, json};

use crate::http::pointers;
use crate::support::{FakeModel, ModelReply, TestApp, tool};

fn agent(app: &TestApp, model: &FakeModel, profile: &Value, names: &[&str]) -> Value {
    let mut spec = model.spec(true);
    spec["profile"] = profile.clone();
    let anything = json!({ "type": "object", "additionalProperties": true });
    let tools: Vec<Value> =
        names.iter().map(|name| tool(&app.tools, name, "pure", &anything)).collect();
    json!({ "name": "a", "model": spec, "tools": tools })
}

fn declared(request: &Value) -> Vec<&str> {
    let tools = request["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn facts_that_no_model_can_have_are_refused_at_their_place() {
    let app = TestApp::start().await;
    let profile = json!({
        "native_system": "yes", "images": 1, "documents": null, "max_call_id": 7,
        "max_tool_name": 15, "context_window": 1023, "family": "openai",
    });
    let model = json!({ "provider": "scripted", "name": "m", "profile": profile });
    let answer = app.post("/v1/agents", &json!({ "name": "a", "model": model })).await;
    let problem = answer.expect_problem(422, "unknown-field");
    let mut found = pointers(&problem);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "/model/profile/context_window",
            "/model/profile/family",
            "/model/profile/images",
            "/model/profile/max_call_id",
            "/model/profile/max_tool_name",
            "/model/profile/native_system",
        ]
    );
    for profile in [json!({ "max_call_id": 129 }), json!({ "max_tool_name": 129 })] {
        let model = json!({ "provider": "scripted", "name": "m", "profile": profile });
        let answer = app.post("/v1/agents", &json!({ "name": "a", "model": model })).await;
        answer.expect_problem(422, "validation-failed");
    }
    let profile = json!({ "native_system": false, "images": true, "documents": true,
        "max_call_id": 8, "max_tool_name": 128, "context_window": 1024 });
    let model = json!({ "provider": "scripted", "name": "m", "profile": profile });
    let agent = app.create_agent(&json!({ "name": "a", "model": model })).await;
    assert_eq!(agent["model"]["profile"], profile, "{agent}");
}

#[tokio::test]
async fn system_text_has_an_entry_of_its_own_where_the_model_knows_one() {
    let app = TestApp::start().await;
    for (native, expected) in [
        (true, json!({ "role": "system", "content": "Close at five." })),
        (false, json!({ "role": "user", "content": "<system>Close at five.</system>" })),
    ] {
        let thread = app.post("/v1/threads", &json!({})).await.expect(201);
        let steps = format!("/v1/threads/{}/steps", thread["id"].as_str().unwrap());
        let said = json!({ "kind": "system", "text": "Close at five." });
        app.post(&steps, &said).await.expect(201);
        let model = FakeModel::start([ModelReply::text("Yes.")]).await;
        let agent = agent(&app, &model, &json!({ "native_system": native }), &[]);
        app.run_body(&json!({ "agent": agent, "thread_id": thread["id"], "input": "Hi." })).await;
        assert_eq!(model.requests()[0].messages()[0], expected);
    }
}

#[tokio::test]
async fn ids_of_calls_are_as_short_as_the_model_wants_them() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::call("look", "{}"), ModelReply::text("Done.")]).await;
    let agent = agent(&app, &model, &json!({ "max_call_id": 8 }), &["look"]);
    let run = app.run(&agent, "Go.").await;
    let messages = model.requests()[1].messages();
    let told = messages[1]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(told.len() <= 8, "{told}");
    assert_eq!(messages[2]["tool_call_id"], told);
    // What is stored has our own.
    let steps = app.steps(run["id"].as_str().unwrap()).await;
    assert!(steps[1]["outcomes"][0]["tool_call_id"].as_str().unwrap().len() > 8);
}

const LONG: [&str; 3] = ["look_up_the_weather", "look_up_the_weatherman", "look_up"];

#[tokio::test]
async fn tools_choice_history_and_replies_agree_on_names_that_are_cut() {
    let app = TestApp::start().await;
    let probe = FakeModel::start([ModelReply::text("Hi.")]).await;
    let profile = json!({ "max_tool_name": 16 });
    app.run(&agent(&app, &probe, &profile, &LONG), "Hi.").await;
    let request = probe.requests()[0].json();
    let names = declared(&request);
    let [weather, man, "look_up", "final_answer"] = names.as_slice() else { panic!("{names:?}") };
    assert!(weather.len() == 16 && man.len() == 16 && weather != man, "{names:?}");

    // The model calls the second one by the name that it was told.
    let model =
        FakeModel::start([ModelReply::call(man, "{\"n\":1}"), ModelReply::text("Done.")]).await;
    let mut agent = agent(&app, &model, &profile, &LONG);
    agent["model"]["settings"]["tool_choice"] = json!(LONG[1]);
    let run = app.run(&agent, "Go.").await;
    let seen = app.tools.seen();
    assert_eq!((seen.len(), seen[0].tool.as_str()), (1, LONG[1]));
    let steps = app.steps(run["id"].as_str().unwrap()).await;
    let stored = &steps[1];
    assert_eq!(stored["outcomes"][0]["name"], LONG[1]);
    assert!(stored.to_string().contains(&format!("\"name\":\"{}\"", LONG[1])), "{stored}");
    assert!(!stored.to_string().contains(man));
    let requests = model.requests();
    for request in &requests {
        assert_eq!(declared(&request.json()), names);
        assert_eq!(request.json()["tool_choice"]["function"]["name"], **man);
    }
    assert_eq!(requests[1].messages()[1]["tool_calls"][0]["function"]["name"], **man);
}

#[tokio::test]
async fn an_invented_name_is_told_apart_from_a_declared_one() {
    let app = TestApp::start().await;
    let model =
        FakeModel::start([ModelReply::call("look.up", "{}"), ModelReply::text("Done.")]).await;
    let agent = agent(&app, &model, &json!({}), &["look_up"]);
    let run = app.run(&agent, "Go.").await;
    let steps = app.steps(run["id"].as_str().unwrap()).await;
    assert_eq!(steps[1]["outcomes"][0]["name"], "look.up");
    assert_eq!(steps[1]["outcomes"][0]["kind"], "unknown_tool");
    let messages = model.requests()[1].messages();
    let told = messages[1]["tool_calls"][0]["function"]["name"].as_str().unwrap();
    assert!(told.starts_with("look_up_") && told.len() == "look_up_".len() + 8, "{told}");
}

#[tokio::test]
async fn a_conversation_beyond_the_window_is_not_sent() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("Hi.")]).await;
    let agent = agent(&app, &model, &json!({ "context_window": 1024 }), &[]);
    let run = app.run(&agent, &"word ".repeat(2_000)).await;
    assert_eq!((&run["status"], model.requests().len()), (&json!("failed"), 0), "{run}");
    assert_eq!(app.run(&agent, "Hi.").await["answer"], "Hi.");
}
