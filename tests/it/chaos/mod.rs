//! A whole server against providers of every wire that misbehave: the run ends as it should, every
//! attempt is on record, and nothing of a broken stream is in the transcript.

mod bounds;
mod cuts;
mod faults;
mod waits;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::support::{
    Fickle, Recording, Replay, TestApp, assert_invariants, path_of, requests_of, tool,
};

/// How many runs of all these tests are under way at once: most of them wait for their next attempt.
static RUNS: Semaphore = Semaphore::const_new(64);

/// How many are started or looked at at once. A server that has few connections refuses what waits long
/// for one, and these tests are no test of that.
static LOOKS: Semaphore = Semaphore::const_new(3);

/// A wire, and recordings of it that are streams.
#[derive(Debug)]
struct Wire {
    provider: &'static str,
    /// A reply of text only.
    said: &'static str,
    /// A reply that calls one tool with arguments.
    called: Option<&'static str>,
    /// Bytes without which no stream of the wire is whole.
    end: &'static str,
}

const WIRES: [Wire; 6] = [
    Wire {
        provider: "openai",
        said: "openai-chat-013-stream-plain",
        called: Some("openai-chat-042-stream-tool-call"),
        end: r#""finish_reason":""#,
    },
    Wire {
        provider: "openai_responses",
        said: "openai-responses-048-stream-plain",
        called: Some("openai-responses-033-stream-tool-followup-tool-call"),
        end: r#""type":"response.completed""#,
    },
    Wire {
        provider: "anthropic",
        said: "anthropic-messages-057-stream-media-input",
        called: Some("anthropic-messages-059-stream-tool-call"),
        end: r#""stop_reason":""#,
    },
    Wire {
        provider: "gemini",
        said: "google-generate-004-stream-tool-followup-structured-thinking-echo",
        called: Some("google-generate-046-stream-tool-followup-tool-call-call-without-id"),
        end: r#""finishReason""#,
    },
    Wire {
        provider: "bedrock",
        said: "bedrock-converse-032-stream-plain",
        called: Some("bedrock-converse-013-stream-tool-call"),
        end: "messageStop",
    },
    // No streamed call of Ollama's own wire is on record.
    Wire {
        provider: "ollama",
        said: "ollama-ollamachat-002-stream-finish-length-plain",
        called: None,
        end: r#""done":true"#,
    },
];

/// The server that is watched, and the one that plays the providers.
struct Stage {
    app: TestApp,
    replay: Replay,
}

/// A run that is over.
struct Ended {
    run: Value,
    steps: Vec<Value>,
    requests: Vec<Value>,
    restarts: usize,
}

impl Stage {
    /// Sets it up; `None`, said plainly, without the replay server.
    async fn set() -> Option<Self> {
        let replay = Replay::start()?;
        let app = TestApp::with(&[("AGENTLING_CONCURRENCY", "256")]).await;
        Some(Self { app, replay })
    }

    /// Runs an agent whose model answers by a script, and checks what holds however it ends.
    async fn play(&self, wire: &Wire, answers: &[(&'static str, String)]) -> Ended {
        self.play_within(120_000, wire, answers).await
    }

    /// The same with so many milliseconds for a turn.
    async fn play_within(
        &self,
        bound: u32,
        wire: &Wire,
        answers: &[(&'static str, String)],
    ) -> Ended {
        let _running = RUNS.acquire().await.unwrap();
        let fickle = Fickle::start(&self.replay, answers).await;
        let body = json!({"agent": self.agent(wire, &fickle.base_url, bound), "input": "go"});
        let starting = LOOKS.acquire().await.unwrap();
        let started = self.app.start_run(&body).await;
        drop(starting);
        let id = started["id"].as_str().unwrap();
        let run = self.app.ended(id).await;
        let looking = LOOKS.acquire().await.unwrap();
        let (steps, events) = (self.app.steps(id).await, self.app.events(id).await);
        let requests = requests_of(&self.app, &run).await;
        drop(looking);
        let restarts = events.iter().filter(|event| event["event"] == "turn.restarted").count();
        let ended = Ended { run, steps, requests, restarts };
        ended.assert_consistent(&format!("{} {answers:?}", wire.provider));
        ended
    }

    fn agent(&self, wire: &Wire, base_url: &str, bound: u32) -> Value {
        let parameters = json!({"type": "object", "additionalProperties": true});
        let tools = wire.called.map(|id| {
            let (name, _) = call_of(&Recording::of_any_wire(id));
            tool(&self.app.tools, &name, "pure", &parameters)
        });
        json!({
            "name": "a",
            "model": {"provider": wire.provider, "name": "m", "base_url": base_url},
            "tools": tools.into_iter().collect::<Vec<_>>(),
            "model_timeout_ms": bound,
        })
    }

    /// The replies of all wires when nothing is wrong, checked against what is known of the
    /// recordings.
    async fn replies(&self) -> Vec<Value> {
        join_all(WIRES.iter().map(|wire| self.undisturbed(wire))).await
    }

    async fn undisturbed(&self, wire: &Wire) -> Value {
        let ended = self.play(wire, &[(wire.said, String::new())]).await;
        assert_eq!(ended.run["attempt"], 1, "{}", ended.run);
        let reply = ended.reply();
        let expected = Recording::of_any_wire(wire.said).expected().clone();
        let texts: String = reply["parts"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect();
        assert_eq!(expected["parts"][0]["text"], *texts, "{}", wire.said);
        assert_eq!(reply["usage"], expected["usage"], "{}", wire.said);
        reply
    }

    /// The bytes that came back of a request.
    async fn received(&self, request: &Value) -> Vec<u8> {
        let path = format!("{}/response", path_of(request));
        let _looking = LOOKS.acquire().await.unwrap();
        let answer = self.app.request("GET", &path).send().await.unwrap();
        if !answer.status().is_success() {
            return Vec::new();
        }
        answer.bytes().await.unwrap().to_vec()
    }

    async fn assert_invariants(&self) {
        assert_invariants(&self.app.db).await;
    }
}

/// The name and the arguments of the one call of a recording.
fn call_of(recording: &Recording) -> (String, Value) {
    let parts = recording.expected()["parts"].as_array().unwrap();
    let call = parts.iter().find(|part| part["type"] == "tool_call").unwrap();
    (call["name"].as_str().unwrap().to_owned(), call["args"].clone())
}

impl Ended {
    /// Every attempt has one request on record with what came of it; every turn that has a reply has
    /// one action, of its last attempt, and no other turn has any.
    fn assert_consistent(&self, case: &str) {
        let case = format!("{case}: {}", self.run);
        let (turn, attempt) = self.assert_numbered(&case);
        assert_eq!(self.restarts + turn, self.requests.len(), "{case}");
        assert_eq!((&self.run["turn"], &self.run["attempt"]), (&json!(turn), &json!(attempt)));
        let replied = self.requests.iter().filter(|request| request["outcome"] == "replied");
        let place = |of: &Value| (of["turn"].as_u64(), of["attempt"].as_u64());
        let replies: Vec<_> = replied.map(place).collect();
        let actions: Vec<_> = self.actions().map(place).collect();
        assert_eq!(actions, replies, "{case}");
        assert!(self.actions().all(|step| step["reply"]["state"] == "complete"), "{case}");
        let ends = usize::from(self.completed());
        assert_eq!(
            self.steps.iter().filter(|step| step["kind"] == "final").count(),
            ends,
            "{case}"
        );
        assert_eq!(self.steps.len(), 1 + actions.len() + ends, "{case}");
        self.assert_end(&case);
    }

    /// Attempts are numbered by turn, and a failed one has its error. Answers the last numbers.
    fn assert_numbered(&self, case: &str) -> (usize, usize) {
        let (mut turn, mut attempt) = (0, 0);
        for request in &self.requests {
            let is_next = request["turn"] == turn + 1;
            (turn, attempt) = if is_next { (turn + 1, 1) } else { (turn, attempt + 1) };
            assert_eq!((&request["turn"], &request["attempt"]), (&json!(turn), &json!(attempt)));
            let (outcome, error) = (request["outcome"].as_str(), request["error"].as_str());
            match error {
                None => assert_eq!((outcome, &request["status"]), (Some("replied"), &json!(200))),
                Some(_) => assert_eq!(outcome, Some("failed"), "{case}"),
            }
        }
        (turn, attempt)
    }

    /// The run has ended by its last attempt.
    fn assert_end(&self, case: &str) {
        let last = &self.requests.last().unwrap();
        if self.completed() {
            assert_eq!(last["outcome"], "replied", "{case}");
            return;
        }
        assert_eq!(self.run["status"], "failed", "{case}");
        assert_eq!(self.run["error"]["kind"], last["error"], "{case}");
        let slug = if last["error"] == "timeout" { "model-timeout" } else { "model-error" };
        assert_eq!(self.run["error"]["type"], format!("/problems/{slug}"), "{case}");
    }

    fn actions(&self) -> impl Iterator<Item = &Value> {
        self.steps.iter().filter(|step| step["kind"] == "action")
    }

    /// The reply of the only action, without where it came from: every run asks a server of its own.
    fn reply(&self) -> Value {
        let mut reply = self.actions().next().unwrap()["reply"].clone();
        reply.as_object_mut().unwrap().remove("host");
        reply
    }

    fn completed(&self) -> bool {
        self.run["status"] == "completed"
    }

    /// The kinds of the failures, in order.
    fn failures(&self) -> Vec<&str> {
        self.requests.iter().filter_map(|request| request["error"].as_str()).collect()
    }
}
