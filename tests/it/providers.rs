//! A whole server against recorded traffic of model providers.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Recording, Replay, SseEvent, TestApp, watch_stream};

/// The vocabulary of recordings in ours.
fn finish_reason(expected: &Value) -> Value {
    if expected == "tool_call" { json!("tool_calls") } else { expected.clone() }
}

/// The parts of a reply as recordings spell them, call ids and arguments left to others.
fn spelt(parts: &Value) -> Vec<Value> {
    let parts = parts.as_array().unwrap().iter();
    parts
        .map(|part| match part["part_kind"].as_str().unwrap() {
            "tool_call" => json!({"type": "tool_call", "name": part["name"]}),
            kind => json!({"type": kind, "text": part["text"]}),
        })
        .collect()
}

fn expected_parts(recording: &Recording) -> Vec<Value> {
    let parts = recording.expected()["parts"].as_array().cloned().unwrap_or_default();
    let keep = |part: &Value| match part["type"].as_str().unwrap() {
        "tool_call" => json!({"type": "tool_call", "name": part["name"]}),
        kind => json!({"type": kind, "text": part["text"]}),
    };
    parts.iter().map(keep).collect()
}

fn calls_of(action: &Value) -> Vec<(String, String)> {
    let text = |part: &Value, name: &str| part[name].as_str().unwrap().to_owned();
    let parts = action["reply"]["parts"].as_array().unwrap().iter();
    let calls = parts.filter(|part| part["part_kind"] == "tool_call");
    calls.map(|part| (text(part, "name"), text(part, "arguments"))).collect()
}

/// What a recording says about its reply must be what the step says, byte for byte.
fn compare(recording: &Recording, action: &Value) {
    let (id, expected, reply) = (recording.id(), recording.expected(), &action["reply"]);
    assert_eq!(spelt(&reply["parts"]), expected_parts(recording), "{id}");
    assert_eq!(calls_of(action), recording.calls(), "{id}");
    assert_eq!(reply["finish_reason"], finish_reason(&expected["finish_reason"]), "{id}");
    assert_eq!(reply["usage"], expected["usage"], "{id}");
    assert_eq!(reply["model"], expected["model"], "{id}");
    assert_eq!(reply["response_id"], expected["response_id"], "{id}");
    assert_eq!(reply["state"], "complete", "{id}");
}

/// Every call has run, and its tool was sent the arguments.
fn compare_outcomes(recording: &Recording, action: &Value) {
    let outcomes = action["outcomes"].as_array().unwrap();
    let calls = recording.calls();
    assert_eq!(outcomes.len(), calls.len(), "{}", recording.id());
    for (outcome, (name, arguments)) in outcomes.iter().zip(&calls) {
        assert_eq!(outcome["name"], **name);
        assert_eq!(outcome["kind"], "success", "{outcome}");
        let echoed: Value = serde_json::from_str(arguments).unwrap();
        assert_eq!(outcome["output"]["json"], echoed);
    }
}

/// How a run must end that always gets this reply. A turn that repeats itself ends its run.
fn compare_end(recording: &Recording, run: &Value) {
    let (id, parts) = (recording.id(), expected_parts(recording));
    let first = parts.first().and_then(|part| part["type"].as_str());
    let end = (run["status"].as_str().unwrap(), run["stop_reason"].as_str());
    let kind = run["error"]["kind"].as_str();
    match first {
        Some("tool_call") => assert_eq!(end, ("completed", Some("loop_detected")), "{id}"),
        Some("text") => {
            assert_eq!(end, ("completed", Some("text")), "{id}");
            assert_eq!(run["answer"], parts[0]["text"], "{id}");
        }
        Some("refusal") => assert_eq!((end.0, kind), ("failed", Some("content_filter")), "{id}"),
        other => {
            assert_eq!(other, None, "{id}");
            assert_eq!((end.0, kind), ("failed", Some("unusable_output")), "{id}");
        }
    }
}

/// What the provider answered is kept byte for byte beside every request.
async fn compare_bytes(app: &TestApp, recording: &Recording, run: &Value) {
    let requests = app.all(&format!("/v1/runs/{}/requests", run["id"].as_str().unwrap())).await;
    assert!(!requests.is_empty());
    for request in requests.iter().filter(|request| request["outcome"] == "replied") {
        let path = format!("/v1/requests/{}/response", request["id"].as_str().unwrap());
        let kept = app.request("GET", &path).send().await.unwrap().bytes().await.unwrap();
        assert!(recording.is_answer(&kept), "{path}");
    }
}

async fn steps(app: &TestApp, run: &Value) -> Vec<Value> {
    app.all(&format!("/v1/runs/{}/steps", run["id"].as_str().unwrap())).await
}

async fn events(app: &TestApp, run: &Value) -> Vec<Value> {
    app.all(&format!("/v1/runs/{}/events", run["id"].as_str().unwrap())).await
}

fn kinds(steps: &[Value]) -> Vec<&str> {
    steps.iter().map(|step| step["kind"].as_str().unwrap()).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

fn restarts(events: &[Value]) -> usize {
    names(events).iter().filter(|name| **name == "turn.restarted").count()
}

fn total(actions: &[&Value], of: &str) -> u64 {
    actions.iter().map(|action| action["reply"]["usage"][of].as_u64().unwrap_or(0)).sum()
}

#[tokio::test]
async fn providers_recorded_replies_of_openai_become_the_transcript() {
    let Some(replay) = Replay::start() else { return };
    let app = TestApp::start().await;
    let all = Recording::all();
    let replies = all.iter().filter(|recording| recording.expected()["outcome"] == "reply");
    let mut seen = [0_usize; 3];
    for recording in replies.filter(|recording| recording.is_of_openai()) {
        let agent = recording.agent(&replay.base_url(recording.id(), ""), &app.tools);
        let run = app.run(&agent, "go").await;
        compare_end(recording, &run);
        compare_bytes(&app, recording, &run).await;
        let steps = steps(&app, &run).await;
        let actions: Vec<&Value> = steps.iter().filter(|step| step["kind"] == "action").collect();
        assert_eq!(steps[0]["kind"], "task", "{}", recording.id());
        assert!(!actions.is_empty(), "{}", recording.id());
        for action in &actions {
            compare(recording, action);
            compare_outcomes(recording, action);
        }
        for count in ["input", "output", "reasoning", "cache_read", "cache_write"] {
            assert_eq!(run["usage"][count], total(&actions, count), "{} {count}", recording.id());
        }
        assert_eq!(run["steps"], steps.len());
        seen[recording.calls().len().min(2)] += 1;
    }
    assert!(seen.iter().all(|n| *n > 3), "plain, with a call, with several: {seen:?}");
}

#[tokio::test]
async fn providers_recorded_refusals_of_all_vendors_end_the_run_at_once() {
    let Some(replay) = Replay::start() else { return };
    let app = TestApp::start().await;
    let all = Recording::all();
    let refusals = all.iter().filter(|recording| recording.expected()["outcome"] == "error");
    let mut statuses = Vec::new();
    for recording in refusals.filter(|one| one.expected()["error"]["retryable"] == false) {
        let (id, error) = (recording.id(), &recording.expected()["error"]);
        let run = app.run(&recording.agent(&replay.base_url(id, ""), &app.tools), "go").await;
        assert_eq!(run["status"], "failed", "{id}");
        assert_eq!(run["error"]["type"], "/problems/model-error", "{id}");
        assert_eq!(run["error"]["kind"], error["class"], "{id}");
        assert_eq!(kinds(&steps(&app, &run).await), ["task"], "{id}");
        assert_eq!(restarts(&events(&app, &run).await), 0, "{id}");
        if error["status"] != 200 {
            assert_eq!(run["error"]["provider_status"], error["status"], "{id}");
        }
        statuses.push(error["status"].as_u64().unwrap());
    }
    for status in [400, 401, 403, 404] {
        assert!(statuses.contains(&status), "{status} is among the recordings: {statuses:?}");
    }
}

/// The pieces that were seen are how the whole begins. Pieces that a slow watcher misses are in the
/// step that follows.
fn assert_prefix(watched: &[SseEvent], name: &str, whole: &str) {
    let pieces = watched.iter().filter(|event| event.name == name);
    let seen: String = pieces.map(|event| event.data["text"].as_str().unwrap()).collect();
    assert!(!seen.is_empty() && whole.starts_with(&seen), "{name}: {seen}");
}

#[tokio::test]
async fn providers_recorded_streamed_run_with_parallel_calls_is_watched_to_its_answer() {
    let Some(replay) = Replay::start() else { return };
    let app = TestApp::start().await;
    let called = Recording::named("openai-chat-028-stream-parallel-tool-calls");
    let said = Recording::named("openai-chat-049-stream-plain");
    let script = replay.script(&[called.id(), said.id()]).await;
    let body = json!({"agent": called.agent(&script.base_url, &app.tools), "input": "go"});
    let request = app.request("POST", "/v1/runs/stream").body(body.to_string());
    let request = request.header("content-type", "application/json");
    let mut halves = ["tool_call.delta", "text.delta"].iter().peekable();
    // The second half of an answer comes once a piece of its first half has been seen.
    let watched = watch_stream(request.send().await.unwrap(), |event| {
        if halves.next_if(|name| event.name == **name).is_some() {
            script.release(1);
        }
    });
    let watched = watched.await;
    let answer = said.expected()["parts"][0]["text"].as_str().unwrap();
    assert_prefix(&watched, "text.delta", answer);
    let arguments: String = called.calls().into_iter().map(|call| call.1).collect();
    assert_prefix(&watched, "tool_call.delta", &arguments);

    let durable: Vec<&str> = watched
        .iter()
        .filter(|event| event.id.is_some())
        .map(|event| event.name.as_str())
        .collect();
    let turn_1 = ["turn.started", "tool.call", "tool.call", "tool.result", "tool.result"];
    let turn_2 = ["step.recorded", "turn.started", "step.recorded", "step.recorded"];
    let tail: Vec<&str> = [&turn_1[..], &turn_2[..], &["run.completed"]].concat();
    assert!(durable.ends_with(&tail), "{durable:?}");

    let run = watched.last().unwrap().data.clone();
    assert_eq!((&run["answer"], &run["stop_reason"]), (&json!(answer), &json!("text")));
    let steps = steps(&app, &run).await;
    assert_eq!(kinds(&steps), ["task", "action", "action", "final"]);
    compare(&called, &steps[1]);
    compare_outcomes(&called, &steps[1]);
    compare(&said, &steps[2]);
    assert_eq!(app.tools.seen().len(), 2);
}

#[tokio::test]
async fn providers_recorded_plain_run_calls_its_tool_and_answers() {
    let Some(replay) = Replay::start() else { return };
    let app = TestApp::start().await;
    let called = Recording::named("openai-chat-018-tool-call");
    let said = Recording::named("openai-chat-014-tool-error-followup-tool-followup");
    let script = replay.script(&[called.id(), said.id()]).await;
    script.release(2);
    let run = app.run(&called.agent(&script.base_url, &app.tools), "go").await;
    assert_eq!(run["answer"], said.expected()["parts"][0]["text"]);
    let steps = steps(&app, &run).await;
    assert_eq!(kinds(&steps), ["task", "action", "action", "final"]);
    compare(&called, &steps[1]);
    compare_outcomes(&called, &steps[1]);
    compare(&said, &steps[2]);
    let both = [&steps[1], &steps[2]];
    assert_eq!(run["usage"]["input"], total(&both, "input"));
    let seen = app.tools.seen();
    assert_eq!((seen[0].tool.as_str(), &seen[0].body), ("get_weather", &json!({"city": "Paris"})));
}

/// What a reply must come to when its provider misbehaves so.
struct Chaos {
    spec: &'static str,
    restarts: usize,
    /// The kind of the error, or nothing when the run completes all the same.
    kind: Option<&'static str>,
}

const fn completes(spec: &'static str, restarts: usize) -> Chaos {
    Chaos { spec, restarts, kind: None }
}

const fn fails(spec: &'static str, kind: &'static str) -> Chaos {
    Chaos { spec, restarts: 3, kind: Some(kind) }
}

const STREAM_CHAOS: &[Chaos] = &[
    completes("delay=30", 0),
    completes("split=1", 0),
    completes("split=event", 0),
    completes("split=rand:7;crlf=1;comments=1", 0),
    completes("fail=429x2;retry=0;key=a", 2),
    completes("fail=500x1;key=b", 1),
    completes("fail=dropx1;key=c", 1),
    completes("fail=503x1;retry=ms:10;key=d", 1),
    // More patience than a run has is asked for.
    Chaos { spec: "fail=429x9;retry=200;key=e", restarts: 0, kind: Some("rate_limit") },
    fails("cut=50%", "transport"),
    fails("cut=50%;clean=1", "truncated_stream"),
    fails("errorevent=50%:overloaded", "overloaded"),
    fails("garbage=html", "protocol"),
    fails("garbage=trunc", "protocol"),
];

const PLAIN_CHAOS: &[Chaos] = &[
    completes("split=1", 0),
    completes("gzip=1", 0),
    completes("fail=429x2;retry=0;key=f", 2),
    fails("cut=50%", "transport"),
    fails("garbage=html", "protocol"),
    fails("garbage=trunc", "protocol"),
];

#[tokio::test]
async fn providers_that_misbehave_are_asked_again_and_lose_no_transcript() {
    let Some(replay) = Replay::start() else { return };
    let app = TestApp::start().await;
    let streamed = Recording::named("openai-chat-049-stream-plain");
    let plain = Recording::named("openai-chat-014-tool-error-followup-tool-followup");
    // The pauses between attempts are real, so all cases wait at once.
    let cases = STREAM_CHAOS.iter().map(|chaos| (&streamed, chaos));
    let cases = cases.chain(PLAIN_CHAOS.iter().map(|chaos| (&plain, chaos)));
    join_all(cases.map(|(recording, chaos)| misbehave(&app, &replay, recording, chaos))).await;
}

async fn misbehave(app: &TestApp, replay: &Replay, recording: &Recording, chaos: &Chaos) {
    let case = format!("{} {}", recording.id(), chaos.spec);
    let base_url = replay.base_url_apart(recording.id(), chaos.spec).await;
    let run = app.run(&recording.agent(&base_url, &app.tools), "go").await;
    let steps = steps(app, &run).await;
    assert_eq!(restarts(&events(app, &run).await), chaos.restarts, "{case}");
    assert_eq!(run["attempt"], chaos.restarts + 1, "{case}");
    let Some(kind) = chaos.kind else {
        assert_eq!(run["status"], "completed", "{case}: {run}");
        assert_eq!(kinds(&steps), ["task", "action", "final"], "{case}");
        compare(recording, &steps[1]);
        assert_eq!(steps[1]["attempt"], chaos.restarts + 1, "{case}");
        return;
    };
    let error = (&run["error"]["type"], &run["error"]["kind"]);
    assert_eq!(error, (&json!("/problems/model-error"), &json!(kind)), "{case}");
    assert_eq!(kinds(&steps), ["task"], "{case}");
    goes_on(app, replay, recording, &run).await;
}

/// The thread of a failed run goes on when its provider does.
async fn goes_on(app: &TestApp, replay: &Replay, recording: &Recording, failed: &Value) {
    assert_eq!(failed["status"], "failed");
    assert_eq!(names(&events(app, failed).await).last(), Some(&"run.failed"));
    let agent = recording.agent(&replay.base_url(recording.id(), ""), &app.tools);
    let again = json!({"agent": agent, "thread_id": failed["thread_id"], "input": "again"});
    let run = app.run_body(&again).await;
    assert_eq!(run["answer"], recording.expected()["parts"][0]["text"], "{run}");
}
