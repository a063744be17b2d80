//! A model that is down, slow, answers rubbish or hangs up: the run says so, and nothing else is
//! touched.

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Answer, FakeModel, ModelReply, TestApp, read_stream};

/// What a provider writes and no caller may read.
const CANARY: &str = "canary-5f1c";

/// How a model fails, and how the run then ends.
struct Fault {
    name: &'static str,
    reply: Option<ModelReply>,
    status: u16,
    slug: &'static str,
    kind: &'static str,
    provider_status: Option<u16>,
    restarts: usize,
}

fn error_body() -> String {
    let error = json!({"message": format!("{CANARY} is wrong"), "type": CANARY, "code": CANARY});
    json!({"error": error}).to_string()
}

fn page() -> ModelReply {
    ModelReply::Status(200, "text/html", format!("<html>{CANARY}</html>"))
}

fn refusal(status: u16) -> ModelReply {
    ModelReply::Status(status, "application/json", error_body())
}

fn cut() -> ModelReply {
    ModelReply::Cut(format!("I was about to say {CANARY}"))
}

fn fault(name: &'static str, reply: ModelReply, kind: &'static str) -> Fault {
    Fault {
        name,
        reply: Some(reply),
        status: 502,
        slug: "model-error",
        kind,
        provider_status: None,
        restarts: 3,
    }
}

fn faults() -> Vec<Fault> {
    let slow = fault("slow", ModelReply::Hang, "timeout");
    let down = fault("down", ModelReply::Hang, "transport");
    let busy = fault("busy", refusal(503), "unavailable");
    let locked = fault("locked", refusal(401), "auth");
    vec![
        Fault { reply: None, ..down },
        // The bound is the turn's, so there is no time for another attempt.
        Fault { status: 504, slug: "model-timeout", restarts: 0, ..slow },
        fault("a page", page(), "protocol"),
        fault("cut", cut(), "transport"),
        Fault { provider_status: Some(503), ..busy },
        Fault { provider_status: Some(401), restarts: 0, ..locked },
    ]
}

/// An agent whose model fails so. A port that was closed a moment ago is one where nobody listens.
async fn agent(fault: &Fault) -> Value {
    let model = if let Some(reply) = &fault.reply {
        FakeModel::start([reply.clone()]).await.spec(true)
    } else {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        json!({"provider": "openai", "name": "m", "base_url": format!("http://{port}/v1")})
    };
    let timeout = if fault.slug == "model-timeout" { 100 } else { 30_000 };
    json!({"name": "a", "model": model, "model_timeout_ms": timeout})
}

async fn strictly(app: &TestApp, body: &Value) -> Answer {
    let request = app.request("POST", "/v1/runs").header("prefer", "handling=strict, wait=30");
    let request = request.header("content-type", "application/json");
    app.send(request.body(body.to_string())).await
}

/// Every answer about a run, as text.
async fn all_about(app: &TestApp, run: &Value) -> Vec<String> {
    let id = run["id"].as_str().unwrap();
    let mut texts = Vec::new();
    for path in ["", "/steps", "/events", "/stream"] {
        texts.push(app.get(&format!("/v1/runs/{id}{path}")).await.text);
    }
    texts
}

#[tokio::test]
async fn a_model_that_fails_fails_the_run_and_nothing_else() {
    let app = TestApp::start().await;
    let faults = faults();
    // The pauses between attempts are real, so all cases wait at once.
    join_all(faults.iter().map(|fault| fails(&app, fault))).await;
}

async fn fails(app: &TestApp, fault: &Fault) {
    let name = fault.name;
    let body = json!({"agent": agent(fault).await, "input": "go", "metadata": {"fault": name}});
    let answer = strictly(app, &body).await;
    let runs = app.all("/v1/runs").await;
    let run = runs.iter().find(|run| run["metadata"]["fault"] == name).unwrap();
    assert_eq!((&run["status"], &run["steps"]), (&json!("failed"), &json!(1)), "{name}");
    let mut said = all_about(app, run).await;
    said.push(answer.text.clone());
    assert!(said.iter().all(|text| !text.contains(CANARY)), "{name}: {said:?}");
    compare_problem(fault, answer, &run["error"]);
    compare_record(app, fault, run).await;
    goes_on(app, run).await;
}

/// The problem that was answered is the one on the run.
fn compare_problem(fault: &Fault, answer: Answer, error: &Value) {
    let problem = answer.expect_problem(fault.status, fault.slug);
    assert_eq!(error["type"], format!("/problems/{}", fault.slug), "{}", fault.name);
    assert_eq!((&error["provider"], &error["kind"]), (&json!("openai"), &json!(fault.kind)));
    assert_eq!(error["provider_status"], json!(fault.provider_status), "{}", fault.name);
    for member in ["type", "status", "detail", "error_id", "provider", "provider_status", "kind"] {
        assert_eq!(problem[member], error[member], "{} {member}", fault.name);
    }
}

/// Every attempt is told, and nothing but the task is on record.
async fn compare_record(app: &TestApp, fault: &Fault, run: &Value) {
    let (name, id) = (fault.name, run["id"].as_str().unwrap());
    let events = app.all(&format!("/v1/runs/{id}/events")).await;
    let count = |wanted: &str| events.iter().filter(|event| event["event"] == wanted).count();
    assert_eq!(count("turn.restarted"), fault.restarts, "{name}");
    assert_eq!((count("step.recorded"), count("run.failed")), (1, 1), "{name}");
    assert_eq!(events.last().unwrap()["data"]["error"], run["error"], "{name}");
    let steps = app.all(&format!("/v1/runs/{id}/steps")).await;
    assert_eq!((steps.len(), &steps[0]["kind"]), (1, &json!("task")), "{name}");
}

/// The thread of a failed run takes the next one, and its model hears both tasks and nothing of what
/// broke.
async fn goes_on(app: &TestApp, run: &Value) {
    let model = FakeModel::start([ModelReply::text("fine")]).await;
    let agent = json!({"name": "b", "model": model.spec(true)});
    let body = json!({"agent": agent, "thread_id": run["thread_id"], "input": "once more"});
    assert_eq!(app.run_body(&body).await["answer"], "fine");
    let requests = model.requests();
    let told = json!([{"role": "user", "content": "go"}, {"role": "user", "content": "once more"}]);
    assert_eq!(json!(requests[0].messages()), told);
}

#[tokio::test]
async fn a_failed_run_is_answered_with_itself_unless_strictness_is_asked_for() {
    let app = TestApp::start().await;
    let agent = json!({"name": "a", "model": FakeModel::start([refusal(401)]).await.spec(false)});
    let run = app.run(&agent, "go").await;
    assert_eq!((&run["status"], &run["error"]["kind"]), (&json!("failed"), &json!("auth")));
    let problem = strictly(&app, &json!({"agent": agent, "input": "go"})).await;
    let problem = problem.expect_problem(502, "model-error");
    assert_ne!(problem["error_id"], run["error"]["error_id"]);
    assert!(problem["instance"].as_str().unwrap().starts_with("urn:request:"));
}

#[tokio::test]
async fn a_stream_that_breaks_is_told_as_restarted_and_only_the_whole_reply_stays() {
    let app = TestApp::start().await;
    let model = FakeModel::start([cut(), ModelReply::text("the whole of it")]).await;
    let body = json!({"agent": {"name": "a", "model": model.spec(true)}, "input": "go"});
    let request = app.request("POST", "/v1/runs/stream").body(body.to_string());
    let request = request.header("content-type", "application/json");
    let events = read_stream(request.send().await.unwrap(), usize::MAX).await;
    let restarted = events.iter().position(|event| event.name == "turn.restarted").unwrap();
    assert_eq!(events[restarted].data, json!({"turn": 1, "attempt": 2}));
    let run = &events.last().unwrap().data;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("the whole of it")));
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body, "an attempt asks what the one before asked");
    let texts = all_about(&app, run).await;
    assert!(texts.iter().all(|text| !text.contains(CANARY)), "{texts:?}");
}
