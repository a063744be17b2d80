//! Message lists of others as the memory of a thread, and what a model is then sent.

use serde_json::{Value, json};

use super::{pointers, send_as, send_text};
use crate::support::{FakeModel, ModelReply, TestApp, mint_key};

const PLAIN: &str = include_str!("../../data/memory_pydantic/plain.json");
const TOOLS: &str = include_str!("../../data/memory_pydantic/tools.json");
const FEEDBACK: &str = include_str!("../../data/memory_pydantic/feedback.json");
const PROMPTS: &str = include_str!("../../data/memory_pydantic/prompts.json");
const KEPT: &str = include_str!("../../data/memory_pydantic/kept.json");
const LEGACY: &str = include_str!("../../data/memory_pydantic/legacy.json");
const FILES: &str = include_str!("../../data/memory_pydantic/files.json");

/// A file that only its provider has.
const UPLOADED: &str = r#"[{"kind":"request","parts":[{"part_kind":"user-prompt","content":["see",{"kind":"uploaded-file","file_id":"f"}]}]}]"#;

const CHAT: &str = r#"[{"role":"system","content":"Be brief."},{"role":"user","content":"How deep?"},
 {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",
  "function":{"name":"depth","arguments":"{ \"n\":1.0 }"}}]},
 {"role":"tool","tool_call_id":"c","content":"eleven"},{"role":"assistant","content":"Eleven."}]"#;

/// What is told of a retry with the cause `error`.
const FEEDBACK_LINE: &str = "Your previous response failed the application's validation (this is automated feedback, not a message from the user):";

/// Loads a list as a new thread and asks a model on it; answers the messages that it was sent ahead
/// of the last question.
async fn sent(app: &TestApp, list: &str) -> Vec<Value> {
    let body = format!("{{\"memory\":{list}}}");
    let thread = send_text(app, ("POST", "/v1/threads"), "", &body).await.expect(201);
    let model = FakeModel::start([ModelReply::text("Good.")]).await;
    let agent = json!({ "name": "a", "model": model.spec(false) });
    app.run_body(&json!({ "agent": agent, "thread_id": thread["id"], "input": "now" })).await;
    let mut messages = model.requests()[0].messages();
    assert_eq!(messages.pop().unwrap(), json!({ "role": "user", "content": "now" }));
    messages
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// Feedback in its frame.
fn feedback(tag: &str, body: &str) -> Value {
    user(&format!("{FEEDBACK_LINE}\n<{tag}>\n{body}\n</{tag}>"))
}

/// A line for each message of a model's calls and their results.
fn told(messages: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |message: &Value| {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls: Vec<String> = calls
            .map(|call| {
                let function = &call["function"];
                format!(
                    "{} {}{}",
                    text(&call["id"]),
                    text(&function["name"]),
                    text(&function["arguments"])
                )
            })
            .collect();
        let id = text(&message["tool_call_id"]);
        [text(&message["role"]), id, text(&message["content"]), calls.join(" ")].join("|")
    };
    messages.iter().map(line).collect()
}

#[tokio::test]
async fn prompts_and_replies_are_sent_on() {
    let app = TestApp::start().await;
    let thinking = "<assistant_thinking>\nThey mean the port.\n</assistant_thinking>";
    let messages = sent(&app, PLAIN).await;
    assert_eq!(messages[0], user("<system>You know every harbour.</system>"));
    assert_eq!(messages[1], user("Where is Brest?"));
    assert_eq!(messages[2], assistant("On the Atlantic."));
    assert_eq!(messages[messages.len() - 1], assistant("On the Channel."));
    // The thinking is OpenAI's own, and its wire has no place for it.
    assert!(!messages.contains(&user(thinking)));
    let kept = sent(&app, KEPT).await;
    assert_eq!(kept, [user("Draw the harbour."), assistant("Here it is.")]);
}

#[tokio::test]
async fn calls_and_outcomes_are_sent_on_in_call_order() {
    let app = TestApp::start().await;
    let messages = sent(&app, TOOLS).await;
    assert_eq!(
        told(&messages)[1..8],
        [
            concat!(
                "assistant||Let me look.|",
                "call_text depth{ \"z\":1.50, \"a\":1E+2 } ",
                "call_object depth{\"z\":1,\"a\":{\"y\":[true,null],\"x\":\"é\"}} ",
                "call_none tide{} call_failed crane{} call_denied crane{} call_interrupted crane{}"
            ),
            "tool|call_text|eleven|",
            "tool|call_object|{\"metres\":11.5,\"at\":[\"low\",\"high\"]}|",
            "tool|call_none|null|",
            "tool|call_failed|Error from 'crane': the crane is stuck. Consider a different approach \
             or tool.|",
            "tool|call_denied|The tool call was denied. Ask the harbour master.|",
            "tool|call_interrupted|The tool call was interrupted before a result was produced.|",
        ]
    );
    assert_eq!(messages[8..], [user("Well?"), assistant("Eleven metres.")]);
}

#[tokio::test]
async fn files_are_sent_on_to_a_model_that_reads_them() {
    let app = TestApp::start().await;
    let body = format!("{{\"memory\":{FILES}}}");
    let thread = send_text(&app, ("POST", "/v1/threads"), "", &body).await.expect(201);
    let model = FakeModel::start([ModelReply::text("Good.")]).await;
    let mut spec = model.spec(false);
    spec["profile"] = json!({ "images": true });
    let agent = json!({ "name": "a", "model": spec });
    app.run_body(&json!({ "agent": agent, "thread_id": thread["id"], "input": "now" })).await;
    let messages = model.requests()[0].messages();
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    let snap = image("data:image/png;base64,iVBO+/8=");
    assert_eq!(
        messages[0]["content"],
        json!([
            text("Which harbour is this?"),
            image("https://example.com/harbour.png"),
            snap,
            text(
                "-----BEGIN FILE id=\"tides.txt\" type=\"text/plain\"-----\nlow\n-----END FILE id=\"tides.txt\"-----"
            ),
            text(
                "[The file e8c1f2 of type application/pdf is left out: this model does not read it.]"
            ),
            text("[The file f5a66c of type audio/mpeg is left out: this model does not read it.]"),
        ])
    );
    assert_eq!(messages[2]["content"], "See file snap.");
    assert_eq!(messages[3]["content"], "Here.\nSee file snap.");
    assert_eq!(messages[4]["content"], "[{\"n\":1},\"two\"]\nSee file snap.\nSee file snap.");
    let frames = messages[5]["content"].as_array().unwrap();
    assert_eq!(frames.len(), 12);
    assert_eq!(
        frames[..3],
        [
            text("<tool_result tool_name=\"camera\" tool_call_id=\"call_alone\" file_id=\"snap\">"),
            snap,
            text("</tool_result>"),
        ]
    );
}

const ERRORS: &str = r#"[{"type":"missing","loc":["berth"],"msg":"Field required","input":{"b":1,"a":[2]}},{"type":"greater_than","loc":["tide",0],"msg":"Input should be greater than 0","input":-1}]"#;

#[tokio::test]
async fn feedback_says_what_it_is_whatever_its_cause() {
    let app = TestApp::start().await;
    let messages = sent(&app, FEEDBACK).await;
    let thought =
        |text: &str| user(&format!("<assistant_thinking>\n{text}\n</assistant_thinking>"));
    assert_eq!(
        messages[..9],
        [
            user("Name a berth."),
            assistant("{}"),
            feedback("validation_errors", ERRORS),
            assistant("North"),
            feedback("retry_feedback", "North is no berth."),
            thought("Hm."),
            user("<system>Please return text or call a tool.</system>"),
            thought("Hm?"),
            feedback("retry_feedback", "Obey the harbour master."),
        ]
    );
    assert_eq!(
        told(&messages)[9..13],
        [
            "assistant|||c1 berth{\"n\":\"x\"}",
            "tool|c1|Error from 'berth': [{\"type\":\"int_parsing\",\"loc\":[\"n\"],\"msg\":\"not a \
             number\"}]. Fix the arguments and try again.|",
            "assistant|||c2 birth{}",
            "tool|c2|Error from 'birth': Unknown tool name: 'birth'.. Consider a different approach \
             or tool.|",
        ]
    );
}

#[tokio::test]
async fn old_retries_are_told_like_new_ones() {
    let app = TestApp::start().await;
    let messages = sent(&app, PROMPTS).await;
    assert_eq!(messages[2], feedback("validation_errors", ERRORS));
    assert_eq!(messages[4], feedback("retry_feedback", "North is no berth."));
    assert_eq!(messages[6], user("<system>Please return text.</system>"));
    let first =
        r#"[{"type":"missing","loc":["berth"],"msg":"Field required","input":{"b":1,"a":[2]}}]"#;
    assert_eq!(messages[8], feedback("validation_errors", first));
    let fix = "Fix the arguments and try again.";
    assert_eq!(
        told(&messages)[10..13],
        [
            format!("tool|c1|Error from 'berth': {ERRORS}. {fix}|"),
            format!("tool|c2|Error from 'berth': No berth has such a number.. {fix}|"),
            format!("tool|c3|Error from 'berth': Please call a tool.. {fix}|"),
        ]
    );
    let messages = sent(&app, LEGACY).await;
    assert_eq!(
        told(&messages)[2..],
        [
            "assistant|||call_1 depth{\"at\": \"quay\"}".to_owned(),
            format!("tool|call_1|Error from 'depth': Say which quay.. {fix}|"),
            "assistant||Which quay?|".to_owned(),
        ]
    );
}

#[tokio::test]
async fn chat_messages_are_sent_as_they_came() {
    let app = TestApp::start().await;
    let messages = sent(&app, CHAT).await;
    assert_eq!(
        told(&messages),
        [
            "user||<system>Be brief.</system>|",
            "user||How deep?|",
            "assistant|||c depth{ \"n\":1.0 }",
            "tool|c|eleven|",
            "assistant||Eleven.|",
        ]
    );
}

#[tokio::test]
async fn a_list_that_is_flawed_changes_nothing() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let memory = format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap());
    send_text(&app, ("PUT", &memory), "", CHAT).await.expect(200);
    let before = app.get(&memory).await;
    let unanswered = CHAT.replace(r#""tool_call_id":"c""#, r#""tool_call_id":"d""#);
    let flaws: Vec<Value> = (0..25).map(|n| json!({ "role": n })).collect();
    let flaws = Value::Array(flaws).to_string();
    for (list, expected, n) in [
        (UPLOADED, "/0/parts/0/content/1/kind", 1),
        (&unanswered, "/3/tool_call_id", 2),
        (&flaws, "/0/role", 20),
        (r#"[{"role":"user","content":"x"},{"kind":"request","parts":[]}]"#, "/1", 1),
        (r#"[{"role":"user","content":"\u0000"}]"#, "/0/content", 1),
        ("[]", "", 1),
    ] {
        let answer = send_text(&app, ("PUT", &memory), "", list).await;
        let problem = answer.expect_problem(422, "memory-load-error");
        assert_eq!((pointers(&problem)[0], pointers(&problem).len()), (expected, n), "{problem}");
    }
    let body = format!("{{\"memory\":{UPLOADED}}}");
    let answer = send_text(&app, ("POST", "/v1/threads"), "", &body).await;
    let problem = answer.expect_problem(422, "memory-load-error");
    assert_eq!(pointers(&problem), ["/memory/0/parts/0/content/1/kind"]);
    let after = app.get(&memory).await;
    assert_eq!(
        (after.text.as_str(), after.header("etag")),
        (before.text.as_str(), before.header("etag"))
    );
}

#[tokio::test]
async fn a_list_that_speaks_as_the_system_takes_a_scope_of_its_own() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let memory = format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap());
    let writer = mint_key(&app, "default", &["memory:write"]).await;
    let trusted = mint_key(&app, "default", &["memory:write", "memory:system"]).await;
    for list in [CHAT, PLAIN, LEGACY, r#"[{"role":"developer","content":"Obey."}]"#] {
        let answer = send_as(&app, &writer, ("PUT", &memory), list).await;
        assert_eq!(answer.expect_problem(403, "insufficient-scope")["required"], "memory:system");
        send_as(&app, &trusted, ("PUT", &memory), list).await.expect(200);
    }
    for list in [TOOLS, FEEDBACK, PROMPTS, KEPT, FILES, r#"[{"role":"user","content":"hi"}]"#] {
        send_as(&app, &writer, ("PUT", &memory), list).await.expect(200);
    }
}
