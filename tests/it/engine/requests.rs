//! What a model is sent, byte for byte.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{FakeModel, ModelReply, ModelRequest, TestApp, assert_invariants, tool};

fn anything() -> Value {
    json!({"type": "object", "additionalProperties": true})
}

/// The messages as they stand in the body.
fn messages_text(request: &ModelRequest) -> String {
    #[derive(serde::Deserialize)]
    struct Body {
        messages: Box<RawValue>,
    }
    let body: Body = serde_json::from_str(&request.body).unwrap();
    body.messages.get().to_owned()
}

fn assert_prefix(requests: &[ModelRequest]) {
    for pair in requests.windows(2) {
        let (one, next) = (messages_text(&pair[0]), messages_text(&pair[1]));
        let prefix = one.strip_suffix(']').unwrap();
        let rest = next.strip_prefix(prefix);
        assert!(rest.is_some_and(|rest| rest.starts_with(',')), "{one}\n{next}");
    }
}

#[tokio::test]
async fn a_turns_request_begins_with_the_messages_of_the_turn_before() {
    let app = TestApp::start().await;
    for stream in [true, false] {
        let model = FakeModel::start([
            ModelReply::call("echo", r#"{"b": 1.50, "a":"<system>"}"#),
            ModelReply::calls(&[("echo", "{}"), ("nobody", "{}"), ("echo", "[1]")]),
            ModelReply::Says { text: "\n ".to_owned(), calls: Vec::new(), finish: "stop" },
            ModelReply::call("echo", r#"{"c":"é"}"#),
            ModelReply::text("done"),
            ModelReply::text("done again"),
        ])
        .await;
        let agent = json!({
            "name": "a",
            "model": model.spec(stream),
            "instructions": "Be brief.",
            "tools": [tool(&app.tools, "echo", "pure", &anything())],
        });
        let run = app.run(&agent, "go").await;
        assert_eq!(run["answer"], "done", "{run}");
        let body = json!({"agent": agent, "thread_id": run["thread_id"], "input": "and again"});
        assert_eq!(app.run_body(&body).await["answer"], "done again");
        let requests = model.requests();
        assert_eq!(requests.len(), 6);
        assert_prefix(&requests);
        for request in &requests {
            assert_eq!(request.json()["stream"], stream);
            assert_eq!(request.json()["tools"], requests[0].json()["tools"]);
        }
        // The arguments go back as they came, number spelling and spaces included.
        let call = &requests[1].messages()[2]["tool_calls"][0];
        assert_eq!(call["function"]["arguments"], r#"{"b": 1.50, "a":"<system>"}"#);
        assert_eq!(requests[1].messages()[3]["tool_call_id"], call["id"]);
    }
}

#[tokio::test]
async fn the_task_and_the_instructions_come_first_and_tools_in_their_order() {
    let app = TestApp::start().await;
    let model = FakeModel::start([ModelReply::text("done")]).await;
    let names = ["zeta", "alpha", "mid"];
    let tools: Vec<Value> =
        names.iter().map(|name| tool(&app.tools, name, "pure", &anything())).collect();
    let mut spec = model.spec(true);
    spec["settings"] = json!({
        "temperature": 0.5, "max_output_tokens": 99, "stop": ["END"], "seed": 7,
        "extra_body": {"top_k": 5},
    });
    let mut agent =
        json!({"name": "a", "model": spec, "instructions": "Be brief.", "tools": tools});
    app.run(&agent, "go").await;
    let request = model.requests()[0].json();
    let told: Vec<&str> = request["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["zeta", "alpha", "mid", "final_answer"]);
    assert_eq!(request["tools"][0]["function"]["parameters"], anything());
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "go"},
    ]);
    assert_eq!(request["messages"], messages);
    assert_eq!(request["stream_options"], json!({"include_usage": true}));
    assert_eq!((&request["model"], &request["temperature"]), (&json!("m"), &json!(0.5)));
    assert_eq!((&request["stop"], &request["seed"]), (&json!(["END"]), &json!(7)));
    assert_eq!((&request["max_tokens"], &request["top_k"]), (&json!(99), &json!(5)));

    agent["model"]["settings"]["extra_body"] = json!({"messages": []});
    let refused = app.post("/v1/runs", &json!({"agent": agent, "input": "go"})).await;
    let problem = refused.expect_problem(422, "validation-failed");
    assert_eq!(problem["errors"][0]["pointer"], "/agent/model/settings/extra_body/messages");
}

#[tokio::test]
async fn the_closing_turn_has_no_tools_and_says_so_in_the_system_voice() {
    let app = TestApp::start().await;
    let model =
        FakeModel::start([ModelReply::call("echo", "{}"), ModelReply::text("my best")]).await;
    let agent = json!({
        "name": "a",
        "model": model.spec(true),
        "max_steps": 1,
        "tools": [tool(&app.tools, "echo", "pure", &anything())],
    });
    let run = app.run(&agent, "go").await;
    assert_eq!((&run["answer"], &run["stop_reason"]), (&json!("my best"), &json!("max_steps")));
    let requests = model.requests();
    assert_prefix(&requests);
    assert!(requests[0].json().get("tools").is_some());
    for member in ["tools", "tool_choice", "parallel_tool_calls"] {
        assert_eq!(requests[1].json().get(member), None);
    }
    // This server is not OpenAI's own, so a system entry may not be understood here.
    let last = requests[1].messages().pop().unwrap();
    let text = "<system>Step limit reached. Give your best final answer now.</system>";
    assert_eq!(last, json!({"role": "user", "content": text}));
}

#[tokio::test]
async fn a_reply_without_anything_usable_is_asked_again_with_the_fixed_sentence() {
    let app = TestApp::start().await;
    let empty = ModelReply::Says { text: String::new(), calls: Vec::new(), finish: "stop" };
    let model = FakeModel::start([empty, ModelReply::text("here")]).await;
    let run = app.run(&json!({"name": "a", "model": model.spec(false)}), "go").await;
    assert_eq!(run["answer"], "here");
    let last = model.requests()[1].messages().pop().unwrap();
    let text = "<system>Please return text or include your response in a tool call.</system>";
    assert_eq!(last, json!({"role": "user", "content": text}));
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_schema_is_asked_again_with_framed_errors() {
    let app = TestApp::start().await;
    let model = FakeModel::start([
        ModelReply::text(r#"{"n": "</validation_errors>"}"#),
        ModelReply::text(r#"{"n": 3}"#),
    ])
    .await;
    let schema = json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
    });
    let agent = json!({"name": "a", "model": model.spec(true), "output_schema": schema});
    let run = app.run(&agent, "go").await;
    assert_eq!(run["output"], json!({"n": 3}), "{run}");
    let requests = model.requests();
    assert_eq!(requests[0].json()["tools"][0]["function"]["parameters"], schema);
    let last = requests[1].messages().pop().unwrap();
    let text = last["content"].as_str().unwrap();
    let first = "Your previous response failed the application's validation (this is automated \
                 feedback, not a message from the user):\n<validation_errors>\n";
    let inner = text.strip_prefix(first).unwrap().strip_suffix("\n</validation_errors>").unwrap();
    assert!(!inner.contains("</"), "{inner}");
    let errors: Vec<Value> = serde_json::from_str(&inner.replace("&lt;", "<")).unwrap();
    assert_eq!((errors.len(), &errors[0]["loc"]), (1, &json!(["n"])));
}
