//! Steering under faults: clients that go away, cancels that race the end, busy threads.

use std::sync::Arc;
use std::time::Duration;

use agentling::app::Surroundings;
use agentling::clock::{Ids as _, System};
use agentling::domain::id::{RunId, TenantId};
use agentling::domain::run::{OnBusy, RunStatus};
use agentling::engine::{CommitObserver, CommitPoint, Engine, StartRun, ThreadChoice};
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::broadcast;

use crate::support::{
    Answer, Child, FakeTools, HeldModel, Piece, TestApp, TestDb, agent_with, assert_invariants,
    count, request, saying, test_config, tool, until, with_json,
};

/// How many times a cancel races the end of a run.
const RACES: usize = 1_000;

/// An engine that accepts and steers but does not work.
async fn idle(db: &TestDb, tools: &FakeTools) -> Engine {
    let config = test_config(db, tools, &[]);
    agentling::app::engine(&config, &db.store(), &Surroundings::default()).await.unwrap()
}

fn id(run: &Value) -> &str {
    run["id"].as_str().expect("an id")
}

async fn post(app: &TestApp, run: &str, what: &str) -> Answer {
    app.post(&format!("/v1/runs/{run}/{what}"), &json!({})).await
}

async fn cancelled(app: &TestApp, run: &str) -> Value {
    app.post(&format!("/v1/runs/{run}/cancel"), &json!({"wait": true})).await.expect(202)
}

/// An agent that calls its tool once and then answers.
fn caller(app: &TestApp, effect: &str) -> Value {
    let anything = json!({"type": "object", "additionalProperties": true});
    let call = json!({"tool_calls": [
        {"name": "slow", "arguments": {"n": 1}}, {"name": "slow", "arguments": {"n": 2}},
    ]});
    let mut agent =
        agent_with(&[call, saying("Done.")], &[tool(&app.tools, "slow", effect, &anything)]);
    agent["parallel_tools"] = json!(false);
    agent
}

/// A run on a thread, or on a new one.
fn body(agent: &Value, thread: Option<&Value>, on_busy: &str) -> Value {
    let mut body = json!({"agent": agent, "input": "Go.", "on_busy": on_busy});
    if let Some(thread) = thread {
        body["thread_id"] = thread.clone();
    }
    body
}

fn answering(text: &str) -> Value {
    agent_with(&[saying(text)], &[])
}

/// I16: the thread takes the next message at once.
async fn goes_on(app: &TestApp, thread: &Value) {
    let next = app.run_body(&body(&answering("Here."), Some(thread), "reject")).await;
    assert_eq!(next["answer"], "Here.");
    assert_invariants(&app.db).await;
}

/// Sends a request whose client goes away later: the connection is the answer.
async fn connect(app: &TestApp, path: &str, headers: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(app.running.address).await.unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
        app.running.address,
        body.len(),
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body.as_bytes()).await.unwrap();
    stream
}

/// Which way a client waits for its run, and when it goes away.
const WAYS: [(&str, &str, bool); 4] = [
    ("/v1/runs", "prefer: wait=60\r\n", true),
    ("/v1/runs", "prefer: wait=60\r\n", false),
    ("/v1/runs/stream", "", true),
    ("/v1/runs/stream", "", false),
];

#[tokio::test]
async fn f63_a_client_that_goes_away_ends_its_run_where_it_was_asked_to() {
    for (path, headers, is_before_the_first_byte) in WAYS {
        let app = TestApp::start().await;
        let mut said = vec![Piece::Hold];
        if !is_before_the_first_byte {
            said.insert(0, Piece::Text("Hel"));
        }
        let model = HeldModel::saying([said]).await;
        let agent = json!({"name": "a", "model": model.spec()});
        let run = RunId::from(System::new().sortable());
        let new = json!({"agent": agent, "input": "Go.", "id": run, "on_disconnect": "cancel"});
        let client = connect(&app, path, headers, &new).await;
        until(&app.db, "SELECT EXISTS (SELECT FROM run_event WHERE name = 'turn.started')").await;
        while model.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        drop(client);
        model.hung_up().await;
        let ended = app.ended(&run.to_string()).await;
        assert_eq!(ended["status"], "cancelled", "{path} {headers}");
        assert_eq!(ended["stopped"]["turns_aborted"], json!([1]));
        goes_on(&app, &ended["thread_id"]).await;
    }
}

#[tokio::test]
async fn f63_a_client_that_goes_away_leaves_its_run_alone_where_nothing_else_was_asked() {
    for (path, headers, _) in WAYS {
        let app = TestApp::start().await;
        let model = HeldModel::saying([vec![Piece::Hold, Piece::Text("Hello.")]]).await;
        let agent = json!({"name": "a", "model": model.spec()});
        let run = RunId::from(System::new().sortable());
        let new = json!({"agent": agent, "input": "Go.", "id": run});
        let client = connect(&app, path, headers, &new).await;
        while model.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        drop(client);
        model.release();
        let ended = app.ended(&run.to_string()).await;
        assert_eq!((&ended["status"], &ended["answer"]), (&json!("completed"), &json!("Hello.")));
        assert_invariants(&app.db).await;
    }
}

#[tokio::test]
async fn f63_a_client_that_was_served_may_go_away() {
    let app = TestApp::start().await;
    let model = HeldModel::saying([vec![Piece::Hold, Piece::Text("Hello.")]]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let new = json!({"agent": agent, "input": "Go.", "on_disconnect": "cancel"});
    let waiting = app.request("POST", "/v1/runs").header("prefer", "wait=0");
    let run = app.send(with_json(waiting, &new)).await.expect(202);
    model.release();
    assert_eq!(app.ended(id(&run)).await["status"], "completed");
    assert_invariants(&app.db).await;
}

/// Says when a commit is about to happen.
#[derive(Debug)]
struct Announcer(broadcast::Sender<RunId>);

impl CommitObserver for Announcer {
    fn on_commit(&self, point: CommitPoint, run: RunId) {
        if point == CommitPoint::Before {
            drop(self.0.send(run));
        }
    }
}

/// Waits for a commit of a run, if it is to be waited for.
async fn committed(commits: &mut broadcast::Receiver<RunId>, run: Option<RunId>) {
    while run.is_some() && run != Some(commits.recv().await.unwrap()) {}
}

#[tokio::test]
async fn f67_a_cancel_and_the_end_of_a_run_have_one_winner_and_the_answer_names_it() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let commits = broadcast::Sender::new(4_096);
    let around =
        Surroundings { observer: Arc::new(Announcer(commits.clone())), ..Surroundings::default() };
    let app = TestApp::on(db, tools, &[("AGENTLING_LEASE_MS", "60000")], around).await;
    let (engine, tenant) = (&app.running.engine, &TenantId::default());
    let race = |n: usize| {
        let commits = commits.clone();
        async move {
            // The one commit of such a run is its end: half of the cancels begin with it, the others a
            // little before.
            let is_at_the_end = n.is_multiple_of(2);
            let mut ends = commits.subscribe();
            let delayed = json!({"text": "Hello.", "delay_ms": n % 16});
            let run =
                engine.start(tenant, request(&agent_with(&[delayed], &[]))).await.unwrap().run;
            committed(&mut ends, is_at_the_end.then_some(run.id)).await;
            let answer = engine.cancel(tenant, run.id).await;
            let run = engine.wait(tenant, run.id, Duration::from_mins(1)).await.unwrap().unwrap();
            let is_cancelled = run.facts.status == RunStatus::Cancelled;
            assert!(is_cancelled || run.facts.status == RunStatus::Completed, "{run:?}");
            // Who was told that the run had ended was told the truth; who was promised a cancel got one.
            assert_eq!(answer.is_ok(), is_cancelled, "{answer:?} {run:?}");
            assert_eq!(run.facts.stopped.is_some(), is_cancelled);
            usize::from(is_cancelled)
        }
    };
    let races = futures::stream::iter(0..RACES).map(race).buffer_unordered(16);
    let n_cancelled: usize = races.collect::<Vec<_>>().await.into_iter().sum();
    assert!((1..RACES).contains(&n_cancelled), "{n_cancelled} of {RACES}");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f68_a_queued_run_is_cancelled_at_once() {
    let app = TestApp::with(&[("AGENTLING_CONCURRENCY", "1")]).await;
    app.tools.hold("slow");
    let first = app.start_run(&body(&caller(&app, "pure"), None, "reject")).await;
    app.tools.wait_for(1).await;
    let run = app.start_run(&body(&answering("Never."), None, "reject")).await;
    let answer = post(&app, id(&run), "cancel").await.expect(202);
    assert_eq!(answer["status"], "cancelled");
    let nothing = json!({"turns_aborted": [], "calls_not_started": [], "calls_in_doubt": []});
    assert_eq!(answer["stopped"], nothing);
    assert_eq!(cancelled(&app, id(&run)).await["stopped"], nothing, "again, the same");
    app.tools.release("slow");
    app.ended(id(&first)).await;
    goes_on(&app, &run["thread_id"]).await;
}

#[tokio::test]
async fn f68_a_run_that_is_claimed_or_thinks_is_cancelled_and_its_turn_is_aborted() {
    let app = TestApp::start().await;
    let model = HeldModel::saying([vec![Piece::Hold]]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let run = app.start_run(&body(&agent, None, "reject")).await;
    until(&app.db, "SELECT EXISTS (SELECT FROM run WHERE status = 'running')").await;
    let answer = cancelled(&app, id(&run)).await;
    assert_eq!(answer["status"], "cancelled");
    assert_eq!(answer["stopped"]["turns_aborted"], json!([1]));
    assert_eq!(cancelled(&app, id(&run)).await["stopped"], answer["stopped"]);
    let read = app.get(&format!("/v1/runs/{}", id(&run))).await.expect(200);
    assert_eq!(read["stopped"], answer["stopped"]);
    goes_on(&app, &run["thread_id"]).await;
}

#[tokio::test]
async fn f68_a_run_in_a_tool_is_cancelled_and_what_was_sent_is_told_by_its_effect() {
    for effect in ["pure", "idempotent", "at_most_once"] {
        let app = TestApp::start().await;
        app.tools.hold("slow");
        let run = app.start_run(&body(&caller(&app, effect), None, "reject")).await;
        app.tools.wait_for(1).await;
        let answer = cancelled(&app, id(&run)).await;
        let n = |what: &str| answer["stopped"][what].as_array().unwrap().len();
        let in_doubt = usize::from(effect == "at_most_once");
        let stopped = (n("turns_aborted"), n("calls_not_started"), n("calls_in_doubt"));
        assert_eq!(stopped, (0, 1, in_doubt), "{effect}");
        goes_on(&app, &run["thread_id"]).await;
        app.tools.release("slow");
    }
}

#[tokio::test]
async fn f68_a_run_that_waits_for_a_caller_is_cancelled() {
    let app = TestApp::start().await;
    let run = app.start_run(&body(&asking(), None, "reject")).await;
    until(&app.db, "SELECT EXISTS (SELECT FROM run WHERE status = 'requires_action')").await;
    let answer = cancelled(&app, id(&run)).await;
    assert_eq!(answer["status"], "cancelled");
    assert_eq!(answer["stopped"]["calls_not_started"].as_array().unwrap().len(), 1);
    goes_on(&app, &run["thread_id"]).await;
}

#[tokio::test]
async fn f68_a_run_that_waits_for_its_thread_is_cancelled_and_leaves_no_step() {
    let app = TestApp::start().await;
    app.tools.hold("slow");
    let first = app.start_run(&body(&caller(&app, "pure"), None, "reject")).await;
    app.tools.wait_for(1).await;
    let thread = &first["thread_id"];
    let next = body(&answering("Never."), Some(thread), "enqueue");
    let run = app.start_run(&next).await;
    let input = app.get(&format!("/v1/runs/{}", id(&run))).await.expect(200)["input"].clone();
    assert_eq!(input[0]["text"], "Go.");
    assert_eq!(app.events(id(&run)).await[0]["data"]["input"], input);
    assert_eq!(post(&app, id(&run), "cancel").await.expect(202)["status"], "cancelled");
    assert!(app.steps(id(&run)).await.is_empty());
    app.tools.release("slow");
    assert_eq!(app.ended(id(&first)).await["status"], "completed");
    goes_on(&app, thread).await;
}

#[tokio::test]
async fn f68_a_cancel_during_a_drain_is_carried_out_by_the_next_server() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let settings = [("AGENTLING_DRAIN_SECS", "0")];
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    app.tools.hold("slow");
    let run = app.start_run(&body(&caller(&app, "pure"), None, "reject")).await;
    app.tools.wait_for(1).await;
    app.running.stop().await;
    let (engine, tenant) = (idle(&db, &tools).await, TenantId::default());
    let asked: RunId = id(&run).parse().unwrap();
    assert_eq!(engine.cancel(&tenant, asked).await.unwrap().facts.status, RunStatus::Queued);
    let app = TestApp::on(db, tools, &[], Surroundings::default()).await;
    assert_eq!(app.ended(id(&run)).await["status"], "cancelled");
    app.tools.release("slow");
    goes_on(&app, &run["thread_id"]).await;
}

#[tokio::test]
async fn f68_a_wish_that_is_given_to_another_replica_is_heard() {
    let worker = TestApp::start().await;
    let (other, tenant) = (idle(&worker.db, &worker.tools).await, TenantId::default());
    for is_cancel in [true, false] {
        let model = HeldModel::saying([vec![Piece::Text("Hel"), Piece::Hold]]).await;
        let agent = json!({"name": "a", "model": model.spec()});
        let mut stream = worker.start_stream(&body(&agent, None, "reject")).await;
        let run: RunId = id(&stream.until("text.delta").await[0].data).parse().unwrap();
        let asked = if is_cancel {
            other.cancel(&tenant, run).await
        } else {
            other.interrupt(&tenant, run).await
        };
        assert_eq!(asked.unwrap().facts.status, RunStatus::Running);
        model.hung_up().await;
        let ended = worker.ended(&run.to_string()).await;
        assert_eq!(ended["status"], if is_cancel { "cancelled" } else { "interrupted" });
        goes_on(&worker, &ended["thread_id"]).await;
    }
}

#[tokio::test]
async fn f71_of_many_creates_on_one_thread_one_is_active_and_the_others_are_refused() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201)["id"].clone();
    let model = HeldModel::saying([vec![Piece::Hold, Piece::Text("Hello.")]]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let new = body(&agent, Some(&thread), "reject");
    let answers = futures::future::join_all((0..8).map(|_| app.post("/v1/runs", &new))).await;
    let (created, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!(created.len(), 1);
    let run = created[0].json();
    for answer in refused {
        let problem = answer.expect_problem(409, "thread-busy");
        assert_eq!(problem["active_run_id"], run["id"]);
    }
    model.release();
    assert_eq!(app.ended(id(&run)).await["status"], "completed");
    goes_on(&app, &thread).await;
}

#[tokio::test]
async fn f71_creates_that_may_wait_run_one_after_the_other_and_are_never_interleaved() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201)["id"].clone();
    let texts: Vec<String> = (0..8).map(|n| format!("Number {n}.")).collect();
    let news: Vec<Value> =
        texts.iter().map(|text| body(&answering(text), Some(&thread), "enqueue")).collect();
    let created = futures::future::join_all(news.iter().map(|new| app.start_run(new))).await;
    for run in &created {
        assert_eq!(app.ended(id(run)).await["status"], "completed");
    }
    let steps = app.all(&format!("/v1/threads/{}/steps", thread.as_str().unwrap())).await;
    let runs: Vec<&str> = steps.iter().filter_map(|step| step["run_id"].as_str()).collect();
    let mut blocks = runs.clone();
    blocks.dedup();
    assert_eq!(blocks.len(), created.len(), "histories are interleaved: {runs:?}");
    assert_invariants(&app.db).await;
}

/// A run in the middle of a reply on a new thread.
async fn mid_reply(app: &TestApp) -> (HeldModel, Value) {
    let model = HeldModel::saying([vec![Piece::Text("Hel"), Piece::Hold]]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let new = json!({"agent": agent, "input": "The first task.", "on_busy": "reject"});
    let mut stream = app.start_stream(&new).await;
    let events = stream.until("text.delta").await;
    (model, events[0].data.clone())
}

/// What a model is sent by a run that is started on a busy thread with this policy.
async fn after(app: &TestApp, active: &Value, on_busy: &str) -> (Value, Vec<Value>) {
    let model = HeldModel::saying([vec![Piece::Text("Hello.")]]).await;
    let agent = json!({"name": "b", "model": model.spec()});
    let run = app.start_run(&body(&agent, Some(&active["thread_id"]), on_busy)).await;
    let ended = app.ended(id(&run)).await;
    assert_eq!(ended["answer"], "Hello.", "{ended}");
    (ended, model.messages(0))
}

fn contents(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["content"].as_str()).collect()
}

#[tokio::test]
async fn f71_a_run_may_interrupt_the_one_before_it() {
    let app = TestApp::start().await;
    let (model, active) = mid_reply(&app).await;
    let (_, messages) = after(&app, &active, "interrupt").await;
    model.hung_up().await;
    assert_eq!(contents(&messages), ["The first task.", "Hel", "Go."]);
    assert_eq!(app.ended(id(&active)).await["status"], "interrupted");
    post(&app, id(&active), "resume").await.expect_problem(409, "version-conflict");
    goes_on(&app, &active["thread_id"]).await;
}

#[tokio::test]
async fn f71_a_run_may_roll_the_one_before_it_back_and_no_model_is_told_of_that_any_more() {
    let app = TestApp::start().await;
    let (model, active) = mid_reply(&app).await;
    let (_, messages) = after(&app, &active, "rollback").await;
    model.hung_up().await;
    assert_eq!(contents(&messages), ["Go."]);
    assert_eq!(app.ended(id(&active)).await["status"], "cancelled");
    assert_eq!(app.steps(id(&active)).await[0]["kind"], "task", "nothing is deleted");
    let memory = format!("/v1/threads/{}/memory", active["thread_id"].as_str().unwrap());
    let memory = app.get(&memory).await.expect(200).to_string();
    assert!(!memory.contains("The first task.") && memory.contains("Hello."), "{memory}");
    goes_on(&app, &active["thread_id"]).await;
}

#[tokio::test]
async fn f71_a_run_that_waits_for_its_thread_is_found_again_by_its_key() {
    let app = TestApp::start().await;
    let (model, active) = mid_reply(&app).await;
    let new = body(&answering("Next."), Some(&active["thread_id"]), "enqueue");
    let send = || {
        let request = app.request("POST", "/v1/runs").header("idempotency-key", "k");
        app.send(with_json(request, &new))
    };
    let (first, again) = (send().await.expect(201), send().await);
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(first["id"], again.expect(201)["id"]);
    model.release();
    assert_eq!(app.ended(id(&first)).await["answer"], "Next.");
    assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, 2);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f71_a_run_goes_on_though_the_worker_of_the_one_before_it_died_with_its_end() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let (engine, tenant) = (idle(&db, &tools).await, TenantId::default());
    let first = engine.start(&tenant, request(&answering("First."))).await.unwrap().run;
    let thread = ThreadChoice::Existing { id: first.thread_id, reset: false };
    let next = request(&answering("Next."));
    let next = StartRun { thread, on_busy: OnBusy::Enqueue, ..next };
    let next = engine.start(&tenant, next).await.unwrap().run;
    // The one commit of the first run is its end.
    Child::start(&db.url, &tools.host, Some((CommitPoint::After, 1))).died().await;
    let waiting = "SELECT count(*) FROM run WHERE status = 'queued' AND enqueued_task IS NOT NULL";
    assert_eq!(count(&db, waiting).await, 1);
    let app = TestApp::on(db, tools, &[], Surroundings::default()).await;
    assert_eq!(app.ended(&next.id.to_string()).await["answer"], "Next.");
    assert_eq!(app.ended(&first.id.to_string()).await["answer"], "First.");
    goes_on(&app, &json!(first.thread_id)).await;
}

#[tokio::test]
async fn f71_a_run_whose_time_is_over_before_its_turn_fails() {
    let app = TestApp::start().await;
    let (_model, active) = mid_reply(&app).await;
    let mut new = body(&answering("Never."), Some(&active["thread_id"]), "enqueue");
    new["run_timeout_ms"] = json!(1);
    let run = app.start_run(&new).await;
    let ended = app.ended(id(&run)).await;
    assert_eq!(
        (&ended["status"], &ended["error"]["type"]),
        (&json!("failed"), &json!("/problems/run-timeout"),)
    );
    assert_eq!(
        app.get(&format!("/v1/runs/{}", id(&active))).await.expect(200)["status"],
        "running"
    );
    cancelled(&app, id(&active)).await;
    goes_on(&app, &active["thread_id"]).await;
}

/// An agent that asks its caller to run a tool.
fn asking() -> Value {
    let client = json!({"kind": "client", "name": "ask", "description": "asks",
        "parameters": {"type": "object", "additionalProperties": true}});
    let call = json!({"tool_calls": [{"name": "ask", "arguments": {"n": 1}}]});
    agent_with(&[call, saying("Done.")], &[client])
}

#[tokio::test]
async fn a_run_that_waits_for_a_caller_fails_when_its_time_is_over() {
    let app = TestApp::start().await;
    let mut new = body(&asking(), None, "reject");
    new["run_timeout_ms"] = json!(3_000);
    let run = app.start_run(&new).await;
    until(&app.db, "SELECT EXISTS (SELECT FROM run WHERE status = 'failed')").await;
    let ended = app.ended(id(&run)).await;
    assert_eq!(ended["error"]["type"], "/problems/run-timeout", "{ended}");
    goes_on(&app, &run["thread_id"]).await;
}

/// Brings a run into a status, where it stays.
async fn brought_to(app: &TestApp, status: &str) -> (Option<HeldModel>, String) {
    match status {
        "running" => {
            let (model, run) = mid_reply(app).await;
            (Some(model), id(&run).to_owned())
        }
        "enqueued" => {
            let (model, active) = mid_reply(app).await;
            let new = body(&answering("Next."), Some(&active["thread_id"]), "enqueue");
            (Some(model), id(&app.start_run(&new).await).to_owned())
        }
        "requires_action" => {
            let run = app.start_run(&body(&asking(), None, "reject")).await;
            assert_eq!(app.ended(id(&run)).await["status"], status);
            (None, id(&run).to_owned())
        }
        "completed" => (None, id(&app.run(&answering("Hi."), "Go.").await).to_owned()),
        "failed" => {
            let broken = json!({"error": {"kind": "bad_request"}});
            (None, id(&app.run(&agent_with(&[broken], &[]), "Go.").await).to_owned())
        }
        _ => {
            let (model, run) = mid_reply(app).await;
            let what = if status == "cancelled" { "cancel" } else { "interrupt" };
            post(app, id(&run), what).await.expect(202);
            assert_eq!(app.ended(id(&run)).await["status"], status);
            (Some(model), id(&run).to_owned())
        }
    }
}

/// Every status and every wish: the answer, and how the run stands when it has settled.
const WISHES: [(&str, &str, u16, &str, &str); 21] = [
    ("enqueued", "cancel", 202, "", "cancelled"),
    ("enqueued", "interrupt", 202, "", "interrupted"),
    ("enqueued", "resume", 409, "run-not-waiting", "queued"),
    ("running", "cancel", 202, "", "cancelled"),
    ("running", "interrupt", 202, "", "interrupted"),
    ("running", "resume", 409, "run-not-waiting", "running"),
    ("requires_action", "cancel", 202, "", "cancelled"),
    ("requires_action", "interrupt", 202, "", "interrupted"),
    ("requires_action", "resume", 409, "run-not-waiting", "requires_action"),
    ("completed", "cancel", 409, "run-already-terminal", "completed"),
    ("completed", "interrupt", 409, "run-not-active", "completed"),
    ("completed", "resume", 409, "run-not-waiting", "completed"),
    ("failed", "cancel", 409, "run-already-terminal", "failed"),
    ("failed", "interrupt", 409, "run-not-active", "failed"),
    ("failed", "resume", 409, "run-not-waiting", "failed"),
    ("cancelled", "cancel", 202, "", "cancelled"),
    ("cancelled", "interrupt", 409, "run-not-active", "cancelled"),
    ("cancelled", "resume", 409, "run-not-waiting", "cancelled"),
    ("interrupted", "cancel", 409, "run-already-terminal", "interrupted"),
    ("interrupted", "interrupt", 409, "run-not-active", "interrupted"),
    ("interrupted", "resume", 202, "", "completed"),
];

#[tokio::test]
async fn every_wish_of_a_run_in_every_status_has_its_answer() {
    let app = TestApp::start().await;
    for (status, wish, code, slug, then) in WISHES {
        let (_model, run) = brought_to(&app, status).await;
        let answer = post(&app, &run, wish).await;
        assert_eq!((answer.status, answer.slug().as_str()), (code, slug), "{status} {wish}");
        let path = format!("/v1/runs/{run}");
        let mut found = app.get(&path).await.expect(200);
        if code == 202 && status != "cancelled" {
            found = app.ended(&run).await;
        }
        assert_eq!(found["status"], then, "{status} {wish}");
        if then == "requires_action" {
            cancelled(&app, &run).await;
        }
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_that_was_interrupted_before_its_turn_waits_again_when_it_is_resumed() {
    let app = TestApp::start().await;
    let (_model, active) = mid_reply(&app).await;
    let new = body(&answering("Next."), Some(&active["thread_id"]), "enqueue");
    let run = app.start_run(&new).await;
    post(&app, id(&run), "interrupt").await.expect(202);
    post(&app, id(&run), "resume").await.expect_problem(409, "thread-busy");
    cancelled(&app, id(&active)).await;
    post(&app, id(&run), "resume").await.expect(202);
    assert_eq!(app.ended(id(&run)).await["answer"], "Next.");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_is_interrupted_and_resumed_as_often_as_it_is_asked() {
    let app = TestApp::start().await;
    let held = |text| vec![Piece::Text(text), Piece::Hold];
    let model = HeldModel::saying([held("One"), held("Two"), vec![Piece::Text("Three")]]).await;
    let agent = json!({"name": "a", "model": model.spec()});
    let mut stream = app.start_stream(&body(&agent, None, "reject")).await;
    let run = id(&stream.until("text.delta").await[0].data).to_owned();
    for n in 1..=2 {
        post(&app, &run, "interrupt").await.expect(202);
        assert_eq!(app.ended(&run).await["status"], "interrupted");
        post(&app, &run, "resume").await.expect(202);
        while model.requests().len() <= n {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(app.ended(&run).await["status"], "completed");
    let tasks = app.steps(&run).await;
    assert_eq!(tasks.iter().filter(|step| step["kind"] == "task").count(), 1);
    assert_invariants(&app.db).await;
}
