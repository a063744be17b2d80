//! A fork reads as the thread that it shares its steps with, at every step, and a run goes on from it
//! with the bytes that it would have sent from a copy.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::support::{Capture, TestApp, assert_invariants};

/// How many histories are tried.
const N_HISTORIES: usize = 4;

/// One to two steps of a document; the calls in them have this id.
fn entry() -> impl Strategy<Value = Vec<Value>> {
    let text = || "[a-z<>/ ]{1,12}x";
    let task = text().prop_map(|text| {
        vec![json!({ "kind": "task", "parts": [{ "part_kind": "text", "text": text }] })]
    });
    let system = text().prop_map(|text| vec![json!({ "kind": "system", "text": text })]);
    let context =
        text().prop_map(|text| vec![json!({ "kind": "context", "id": "c", "text": text })]);
    let calls = text().prop_map(|text| {
        let call = json!({ "part_kind": "tool_call", "tool_call_id": "call", "name": "look",
                           "arguments": "{}" });
        let outcome = json!({ "tool_call_id": "call", "name": "look", "is_error": false,
                              "kind": "success", "attempts": 1,
                              "output": { "output_kind": "text", "text": text } });
        vec![json!({ "kind": "action", "reply": { "state": "complete", "parts": [call] },
                     "outcomes": [outcome] })]
    });
    let answer = text().prop_map(|text| {
        let said = json!({ "part_kind": "text", "text": text });
        vec![
            json!({ "kind": "action", "reply": { "state": "complete", "parts": [said] },
                    "outcomes": [] }),
            json!({ "kind": "final", "answer": text }),
        ]
    });
    prop_oneof![2 => task, 1 => system, 1 => context, 2 => calls, 2 => answer]
}

/// Steps of a document, whose calls have ids of their own.
fn history() -> impl Strategy<Value = Vec<Value>> {
    proptest::collection::vec(entry(), 2..5).prop_map(|entries| {
        let numbered = entries.into_iter().flatten().enumerate();
        let own = numbered.map(|(n, step)| {
            let id = format!("\"tool_call_id\":\"call-{n}\"");
            step.to_string().replace("\"tool_call_id\":\"call\"", &id)
        });
        own.map(|step| serde_json::from_str(&step).unwrap()).collect()
    })
}

struct World {
    app: TestApp,
    capture: Capture,
}

impl World {
    async fn fork(&self, thread: &str, at_seq: usize) -> String {
        let path = format!("/v1/threads/{thread}/fork");
        let fork = self.app.post(&path, &json!({ "at_seq": at_seq })).await.expect(201);
        assert_eq!(fork["forked_from"], json!({ "thread_id": thread, "at_seq": at_seq }));
        assert_eq!(fork["head_seq"], at_seq);
        fork["id"].as_str().unwrap().to_owned()
    }

    async fn steps(&self, thread: &str) -> Vec<Value> {
        self.app.all(&format!("/v1/threads/{thread}/steps")).await
    }

    async fn document(&self, thread: &str) -> Value {
        self.app.get(&format!("/v1/threads/{thread}/memory")).await.expect(200)
    }

    async fn copy(&self, document: &Value) -> String {
        let copy = self.app.post("/v1/threads", &json!({ "memory": document })).await.expect(201);
        copy["id"].as_str().unwrap().to_owned()
    }

    /// What a run on a thread sends.
    async fn sent(&self, thread: &str) -> Vec<u8> {
        let model = json!({ "provider": "openai", "name": "m",
                            "base_url": self.capture.base_url(thread),
                            "settings": { "stream": false } });
        let agent = json!({ "name": "a", "instructions": "Be brief.", "model": model });
        let asked = json!({ "agent": agent, "thread_id": thread, "input": "Go on." });
        assert_eq!(self.app.run_body(&asked).await["answer"], "ok");
        self.capture.bodies(thread).pop().unwrap()
    }
}

/// The first steps of a document.
fn first(document: &Value, n: usize) -> Value {
    let mut document = document.clone();
    document["steps"].as_array_mut().unwrap().truncate(n);
    document
}

#[tokio::test]
async fn a_fork_at_any_step_reads_and_goes_on_as_a_copy_would() {
    let world = World { app: TestApp::start().await, capture: Capture::start().await };
    let mut runner = TestRunner::deterministic();
    for _ in 0..N_HISTORIES {
        let steps = history().new_tree(&mut runner).unwrap().current();
        let thread = world.copy(&json!({ "version": 2, "thread": {}, "steps": steps })).await;
        // Not everything in it was loaded.
        world.sent(&thread).await;
        let (all, document) = (world.steps(&thread).await, world.document(&thread).await);
        let mut last = thread.clone();
        for at in (1..=all.len()).rev() {
            // Each is a fork of the fork before it, and has steps that this one does not share.
            let fork = world.fork(&last, at).await;
            assert_eq!(world.steps(&fork).await, all[..at]);
            let expected = first(&document, at);
            assert_eq!(world.document(&fork).await["steps"], expected["steps"]);
            let copy = world.copy(&expected).await;
            assert_eq!(world.sent(&fork).await, world.sent(&copy).await, "at {at} of {steps:?}");
            last = fork;
        }
        assert_eq!(world.steps(&thread).await, all);
    }
    assert_invariants(&world.app.db).await;
}
