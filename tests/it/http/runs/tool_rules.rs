//! How tools are called and told: together or in order, in time, whole or in part.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{HeldModel, Piece, TestApp, tool};

/// An agent on a fake model that calls these tools in one turn and then says `Done.`.
async fn caller(app: &TestApp, names: &[&'static str]) -> (HeldModel, Value) {
    let anything = json!({"type": "object", "additionalProperties": true});
    let calls = names.iter().map(|name| Piece::Call(name, json!({"from": name}))).collect();
    let model = HeldModel::saying([calls]).await;
    let tools: Vec<Value> =
        names.iter().map(|name| tool(&app.tools, name, "idempotent", &anything)).collect();
    let agent = json!({"name": "a", "model": model.spec(), "tools": tools});
    (model, agent)
}

async fn outcomes(app: &TestApp, run: &Value) -> Vec<Value> {
    let steps = app.steps(run["id"].as_str().unwrap()).await;
    steps[1]["outcomes"].as_array().cloned().unwrap()
}

#[tokio::test]
async fn the_calls_of_a_turn_are_under_way_together_and_told_in_their_order() {
    let app = TestApp::start().await;
    let (_model, agent) = caller(&app, &["one", "two"]).await;
    app.tools.hold("one");
    app.tools.hold("two");
    let run = app.start_run(&json!({"agent": agent, "input": "Go."})).await;
    app.tools.wait_for(2).await;
    let id = run["id"].as_str().unwrap();
    // The second one ends first and is held back until the first one is told.
    app.tools.release("two");
    app.tools.release("one");
    let ended = app.ended(id).await;
    assert_eq!(ended["answer"], "Done.");
    let events = app.events(id).await;
    let results: Vec<&str> = events
        .iter()
        .filter(|event| event["event"] == "tool.result")
        .filter_map(|event| event["data"]["outcome"]["name"].as_str())
        .collect();
    assert_eq!(results, ["one", "two"]);
}

#[tokio::test]
async fn without_parallel_tools_each_call_waits_for_the_one_before() {
    for setting in ["agent", "tool"] {
        let app = TestApp::start().await;
        let (_model, mut agent) = caller(&app, &["one", "two"]).await;
        if setting == "agent" {
            agent["parallel_tools"] = json!(false);
        } else {
            agent["tools"][1]["parallel_safe"] = json!(false);
        }
        let tools = app.tools.clone();
        app.tools.answer("one", move |_| (200, json!(tools.seen().len())));
        app.tools.hold("one");
        let run = app.start_run(&json!({"agent": agent, "input": "Go."})).await;
        app.tools.wait_for(1).await;
        let path = format!("/v1/runs/{}", run["id"].as_str().unwrap());
        assert_eq!(app.get(&path).await.expect(200)["status"], "running");
        app.tools.release("one");
        let ended = app.ended(run["id"].as_str().unwrap()).await;
        assert_eq!(ended["answer"], "Done.");
        let order: Vec<String> = app.tools.seen().into_iter().map(|call| call.tool).collect();
        assert_eq!(order, ["one", "two"]);
        let seen_by_first = &outcomes(&app, &ended).await[0]["output"]["json"];
        assert_eq!(*seen_by_first, json!(1), "the second call came after the first one's answer");
    }
}

#[tokio::test]
async fn a_tool_that_takes_too_long_is_told_as_a_timeout() {
    let app = TestApp::start().await;
    let (model, mut agent) = caller(&app, &["slow", "quick"]).await;
    agent["tools"][0]["timeout_ms"] = json!(100);
    app.tools.hold("slow");
    let run = app.run(&agent, "Go.").await;
    assert_eq!(run["answer"], "Done.");
    let outcomes = outcomes(&app, &run).await;
    assert_eq!(
        (&outcomes[0]["kind"], &outcomes[1]["kind"]),
        (&json!("timeout"), &json!("success"))
    );
    let messages = model.messages(1);
    let told = messages.iter().find(|message| message["role"] == "tool").unwrap();
    assert!(told["content"].as_str().unwrap().contains("exceeded its 0.1s timeout"), "{told}");
    app.tools.release("slow");
}

#[tokio::test]
async fn what_a_failing_tool_said_is_withheld_when_errors_are_redacted() {
    let app = TestApp::start().await;
    app.tools.answer("t", |_| (500, json!({"password": "hunter2"})));
    let (model, mut agent) = caller(&app, &["t"]).await;
    agent["redact_errors"] = json!(true);
    let run = app.run(&agent, "Go.").await;
    assert_eq!(run["answer"], "Done.");
    let outcome = outcomes(&app, &run).await.remove(0);
    assert_eq!(outcome["kind"], "execution");
    assert_eq!(outcome["error"], json!({"type": "HttpStatus", "message": "", "redacted": true}));
    let told = model.messages(1).last().cloned().unwrap();
    assert_eq!(
        told["content"],
        "Error from 't': HttpStatus while running 't' (details suppressed). \
        Consider a different approach or tool."
    );
    let whole =
        format!("{:?}{:?}", app.events(run["id"].as_str().unwrap()).await, model.requests());
    assert!(!whole.contains("hunter2"));
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_even_when_errors_are_redacted() {
    let app = TestApp::start().await;
    let (model, mut agent) = caller(&app, &["t"]).await;
    agent["redact_errors"] = json!(true);
    agent["tools"][0]["parameters"] = json!({
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
    });
    app.run(&agent, "Go.").await;
    let told = model.messages(1).last().cloned().unwrap();
    let text = told["content"].as_str().unwrap();
    assert!(text.contains("city") && text.ends_with("Fix the arguments and try again."), "{text}");
}

#[tokio::test]
async fn a_long_output_is_cut_for_the_model_and_stored_whole() {
    let app = TestApp::start().await;
    let long = "0123456789".repeat(50);
    let said = long.clone();
    app.tools.answer("t", move |_| (200, json!(said.clone())));
    let (model, mut agent) = caller(&app, &["t"]).await;
    agent["max_tool_output_chars"] = json!(20);
    let run = app.run(&agent, "Go.").await;
    let outcome = outcomes(&app, &run).await.remove(0);
    assert!(outcome["output"].to_string().contains(&long), "{outcome}");
    let told = model.messages(1).last().cloned().unwrap();
    let text = told["content"].as_str().unwrap();
    assert!(text.contains("characters omitted") && !text.contains(&long), "{text}");
}

#[tokio::test]
async fn a_tool_that_does_not_exist_is_answered_with_those_that_do() {
    let app = TestApp::start().await;
    let (model, mut agent) = caller(&app, &["ghost", "t"]).await;
    agent["tools"] = json!([agent["tools"][1]]);
    let run = app.run(&agent, "Go.").await;
    let outcome = outcomes(&app, &run).await.remove(0);
    assert_eq!(outcome["kind"], "unknown_tool");
    let messages = model.messages(1);
    let told = messages.iter().find(|message| message["role"] == "tool").unwrap();
    let text = told["content"].as_str().unwrap();
    assert!(text.contains("Unknown tool 'ghost'. Available: t, final_answer"), "{text}");
}

#[tokio::test]
async fn an_address_that_the_operator_does_not_allow_is_never_called() {
    let app = TestApp::start().await;
    let other = crate::support::FakeTools::start().await;
    let (_model, mut agent) = caller(&app, &["t"]).await;
    agent["tools"][0]["url"] = json!(other.url("t"));
    let answer = app.post("/v1/runs", &json!({"agent": agent, "input": "Go."})).await;
    answer.expect_problem(422, "egress-denied");
    assert_eq!(other.seen(), []);
}

#[tokio::test]
async fn numbers_are_sent_stored_told_and_answered_as_they_were_spelt() {
    const SPELT: &str = r#"{"id":12345678901234567890123,"price":1.10,"n":9007199254740993.0}"#;
    let app = TestApp::start().await;
    let (calls, answer) =
        (vec![Piece::Spelt("t", SPELT)], vec![Piece::Spelt("final_answer", SPELT)]);
    let model = HeldModel::saying([calls, answer]).await;
    let anything = json!({"type": "object", "additionalProperties": true});
    let agent = json!({
        "name": "a", "model": model.spec(), "output_schema": anything,
        "tools": [tool(&app.tools, "t", "idempotent", &anything)],
    });
    let run = app.run(&agent, "Go.").await;
    assert_eq!(app.tools.seen()[0].text, SPELT);
    assert_eq!(outcomes(&app, &run).await[0]["output"]["exact"], SPELT);
    assert_eq!(model.messages(1).last().unwrap()["content"], SPELT);
    assert_eq!(run["answer"], SPELT);
}

/// A server that answers with this and then with one byte after the other, for ever.
async fn drips(head: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = listener.local_addr().unwrap().to_string();
    #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
        socket.write_all(head.as_bytes()).await.unwrap();
        let mut drops = tokio::time::interval(Duration::from_millis(10));
        while socket.write_all(b"x").await.is_ok() {
            drops.tick().await;
        }
    });
    host
}

#[tokio::test]
async fn an_answer_that_comes_drop_by_drop_does_not_move_the_deadline() {
    for head in
        ["HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n", "HTTP/1.1 200 OK\r\nx-drops: "]
    {
        let host = drips(head).await;
        let app = TestApp::with(&[("AGENTLING_EGRESS_ALLOW", host.as_str())]).await;
        let (_model, mut agent) = caller(&app, &["t"]).await;
        agent["tools"][0]["url"] = json!(format!("http://{host}/"));
        agent["tools"][0]["timeout_ms"] = json!(300);
        let run = app.run(&agent, "Go.").await;
        assert_eq!(run["answer"], "Done.", "{run}");
        let outcome = outcomes(&app, &run).await.remove(0);
        assert_eq!(outcome["kind"], "timeout", "{outcome}");
        assert_eq!(outcome["error"]["message"], "tool 't' exceeded its 0.3s timeout");
    }
}
