//! Generated histories through a real server and its database: what comes out goes in and comes out again.

#[path = "../../../src/domain/memory/tests/generate.rs"]
mod generate;

use agentling::domain::memory::{Memory, export_chat, export_v1, export_v2};
use agentling::domain::thread::FramingPolicy;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::Value;

use super::send_text;
use crate::support::TestApp;

/// How many histories are sent.
const HISTORIES: usize = 60;

fn histories() -> Vec<Memory> {
    let mut runner = TestRunner::deterministic();
    let history = generate::memory().prop_map(|memory| Memory {
        metadata: Some(memory.metadata.unwrap_or_default()),
        framing_policy: Some(memory.framing_policy.unwrap_or(FramingPolicy::Frames)),
        ..memory
    });
    (0..HISTORIES).map(|_| history.new_tree(&mut runner).unwrap().current()).collect()
}

/// A thread with a memory; answers the path of it.
async fn thread_of(app: &TestApp, document: &str) -> String {
    let body = format!("{{\"memory\":{document}}}");
    let thread = send_text(app, ("POST", "/v1/threads"), "", &body).await.expect(201);
    format!("/v1/threads/{}/memory", thread["id"].as_str().unwrap())
}

async fn load(app: &TestApp, memory: &str, document: &str) {
    send_text(app, ("PUT", memory), "", document).await.expect(200);
}

#[tokio::test]
async fn generated_histories_come_back_to_the_byte_over_http() {
    let app = TestApp::start().await;
    for history in histories() {
        let document = export_v2(&history);
        let memory = thread_of(&app, &document).await;
        assert_eq!(app.get(&memory).await.text, document);
        load(&app, &memory, &document).await;
        assert_eq!(app.get(&memory).await.text, document);
        let old = app.get(&format!("{memory}?version=1&lossy=true")).await.text;
        assert_eq!(Ok(&old), export_v1(&history, true).as_ref());
        load(&app, &memory, &old).await;
        assert_eq!(app.get(&format!("{memory}?version=1")).await.text, old);
        load(&app, &memory, &document).await;
        let chat = app.get(&format!("{memory}?format=openai")).await.text;
        assert_eq!(Ok(&chat), export_chat(&history, true).as_ref());
        if serde_json::from_str::<Vec<Value>>(&chat).unwrap().is_empty() {
            continue;
        }
        load(&app, &memory, &chat).await;
        let strict = format!("{memory}?format=openai&lossy=false");
        let chat = app.get(&strict).await.text;
        load(&app, &memory, &chat).await;
        assert_eq!(app.get(&strict).await.text, chat);
    }
}
