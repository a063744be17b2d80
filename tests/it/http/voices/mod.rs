//! Who speaks in what a model is sent: the bytes that a provider received, for every way in which text
//! reaches it, where the system voice has an entry of its own and where it has a frame, with notes and
//! without.

mod context;
mod data;
mod feedback;
mod standing;
mod system;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{FakeModel, ModelReply, TestApp};

/// What is told of system blocks on the user's channel.
const EXPLAINED: &str = "What stands between <system> and </system> on the user's side of this \
                         conversation was put there by the application, not by the user, and has the \
                         authority of these instructions.";

/// How a model is spoken to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    /// The system has an entry of its own in the middle of a conversation.
    pub(super) native: bool,
    /// Notes are told beside what resembles a frame.
    pub(super) notes: bool,
}

/// Every way.
pub(super) const WAYS: [Way; 4] = [
    Way { native: true, notes: false },
    Way { native: false, notes: false },
    Way { native: true, notes: true },
    Way { native: false, notes: true },
];

impl Way {
    pub(super) const fn policy(self) -> &'static str {
        if self.notes { "frames_and_notes" } else { "frames" }
    }

    /// An agent that asks this model.
    pub(super) fn agent(self, model: &FakeModel) -> Value {
        let mut model = model.spec(false);
        model["profile"] = json!({ "native_system": self.native, "images": true });
        json!({ "name": "a", "model": model, "framing_policy": self.policy() })
    }

    /// A thread whose memory holds these steps.
    async fn thread(self, app: &TestApp, steps: Value) -> Value {
        let memory = json!({ "version": 2, "thread": {}, "steps": steps });
        let body = json!({ "framing_policy": self.policy(), "memory": memory });
        app.post("/v1/threads", &body).await.expect(201)["id"].clone()
    }

    /// What the system says in the middle of a conversation.
    fn system(self, text: &str) -> Value {
        if self.native {
            json!({ "role": "system", "content": text })
        } else {
            user(&format!("<system>{text}</system>"))
        }
    }

    /// Standing instructions of a conversation in which the system has spoken.
    fn standing(self, instructions: &str) -> Option<Value> {
        let explained = !self.native && self.notes;
        let text = match (instructions, explained) {
            ("", true) => EXPLAINED.to_owned(),
            (text, true) => format!("{text}\n\n{EXPLAINED}"),
            (text, false) => text.to_owned(),
        };
        (!text.is_empty()).then(|| json!({ "role": "system", "content": text }))
    }

    /// Loads a history, asks `now` on it, and answers the messages that the model was sent: these must
    /// be the standing instructions of a conversation in which the system has spoken if it has, then
    /// `told`, then the question.
    async fn expect(self, app: &TestApp, steps: Value, system_speaks: bool, told: &[Value]) {
        let thread = self.thread(app, steps).await;
        let model = FakeModel::start([ModelReply::text("Good.")]).await;
        let run = json!({ "agent": self.agent(&model), "thread_id": thread, "input": "now" });
        let ended = app.run_body(&run).await;
        assert_eq!(ended["status"], "completed", "{ended}");
        let standing = self.standing("").filter(|_| system_speaks);
        let told: Vec<Value> =
            standing.into_iter().chain(told.iter().cloned()).chain([user("now")]).collect();
        assert_messages(self, &model.requests()[0].body, &told);
    }
}

/// Compares the messages of a request with what is expected, byte for byte.
#[track_caller]
fn assert_messages(way: Way, body: &str, expected: &[Value]) {
    #[derive(serde::Deserialize)]
    struct Body {
        messages: Box<RawValue>,
    }
    let body: Body = serde_json::from_str(body).unwrap();
    let lines = |text: &str| text.replace("},{\"role\"", "},\n{\"role\"");
    let (sent, expected) = (lines(body.messages.get()), lines(&json!(expected).to_string()));
    assert!(sent == expected, "{way:?}\nsent:\n{sent}\nexpected:\n{expected}");
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

fn assistant(text: &str) -> Value {
    json!({ "role": "assistant", "content": text })
}

/// A message of the model that only calls.
fn calling(id: &str, name: &str) -> Value {
    let function = json!({ "name": name, "arguments": "{}" });
    let call = json!({ "id": id, "type": "function", "function": function });
    json!({ "role": "assistant", "content": "", "tool_calls": [call] })
}

/// A result of a call.
fn result(id: &str, text: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": text })
}

/// Steps as a memory document has them.
fn task(text: &str) -> Value {
    json!({ "kind": "task", "parts": [{ "part_kind": "text", "text": text }] })
}

fn said(text: &str) -> Value {
    let parts = [json!({ "part_kind": "text", "text": text })];
    json!({ "kind": "action", "reply": { "state": "complete", "parts": parts }, "outcomes": [] })
}

/// An action with one call and what came of it, members of the outcome aside.
fn called(id: &str, name: &str, outcome: &Value) -> Value {
    let call = json!({ "part_kind": "tool_call", "tool_call_id": id, "name": name,
                       "arguments": "{}" });
    let mut whole = json!({ "tool_call_id": id, "name": name, "is_error": false,
                            "kind": "success", "attempts": 1 });
    for (member, value) in outcome.as_object().unwrap() {
        whole[member] = value.clone();
    }
    json!({ "kind": "action", "reply": { "state": "complete", "parts": [call] },
            "outcomes": [whole] })
}

fn text_output(text: &str) -> Value {
    json!({ "output": { "output_kind": "text", "text": text } })
}
