//! Faults around calls in doubt and runs that wait: F-08, F-42, F-56, F-57, F-69, F-70.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;

use agentling::app::Surroundings;
use agentling::engine::CommitPoint;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::engine::crash::{accept, ended, healthy};
use crate::support::{
    Child, Commits, Errand, FakeTools, TestApp, TestDb, agent_with, answer_calls,
    assert_invariants, calling, client_tool, count, execute, history, race, run_path, saying,
    test_config, tool, until, waiting_calls,
};

fn fake(tools: &FakeTools, name: &str, effect: &str) -> Value {
    tool(tools, name, effect, &json!({"type": "object", "properties": {"n": {"type": "integer"}}}))
}

/// An agent that pays once, which is held when it is in doubt.
fn payer(tools: &FakeTools) -> Value {
    let mut pay = fake(tools, "pay", "at_most_once");
    pay["on_in_doubt"] = json!("hold");
    agent_with(&[calling(&["pay"]), saying("Done.")], &[pay])
}

const IN_DOUBT: &str = "SELECT status = 'requires_action'
                           AND requires_action->>'reason' = 'in_doubt' FROM run";

/// Says of the call in doubt that it succeeded, and waits for the end of its run.
async fn resolved(app: &TestApp) {
    until(&app.db, IN_DOUBT).await;
    assert_invariants(&app.db).await;
    let run = app.all("/v1/runs").await.remove(0);
    let [call] = waiting_calls(&run).try_into().unwrap();
    app.resolve(&run, &call, &json!({"outcome": "succeeded"})).await.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f08_a_call_that_must_not_run_twice_is_held_when_its_process_is_killed() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("pay");
    accept(&db, &tools, &payer(&tools)).await;
    let child = Child::start(&db.url, &tools.host, None);
    tools.wait_for(1).await;
    child.kill().await;
    tools.release("pay");
    let app = healthy(&db, &tools).await;
    resolved(&app).await;
    assert_eq!(tools.seen().len(), 1);
}

#[tokio::test]
async fn f42_a_call_that_outlasts_a_drain_is_held() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    tools.hold("pay");
    let settings = [Errand::SETTINGS, &[("AGENTLING_DRAIN_SECS", "0")]].concat();
    let app = TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default()).await;
    app.start_run(&json!({"agent": payer(&tools), "input": "Go."})).await;
    tools.wait_for(1).await;
    app.running.stop().await;
    tools.release("pay");
    let app = healthy(&db, &tools).await;
    resolved(&app).await;
    assert_eq!(tools.seen().len(), 1);
}

/// A server that reads a request and resets the connection.
async fn resetting() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a fake peer ends with its test")]
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            let mut head = [0; 1 << 14];
            let n = peer.read(&mut head).await.unwrap();
            assert!(n > 0, "a request arrives");
            // With this the connection is reset and not closed.
            peer.set_zero_linger().unwrap();
            drop(peer.flush().await);
        }
    });
    address
}

#[tokio::test]
async fn f57_a_reset_after_the_request_was_sent_leaves_the_call_in_doubt() {
    let peer = resetting().await.to_string();
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let allowed = format!("{},{peer}", tools.host);
    let settings = [("AGENTLING_EGRESS_ALLOW", allowed.as_str())];
    let app = TestApp::on(db, tools, &settings, Surroundings::default()).await;
    let mut pay = fake(&app.tools, "pay", "at_most_once");
    pay["on_in_doubt"] = json!("hold");
    pay["url"] = json!(format!("http://{peer}/pay"));
    let agent = agent_with(&[calling(&["pay"]), saying("Done.")], &[pay]);
    app.parked(&json!({"agent": agent, "input": "Go."})).await;
    resolved(&app).await;
}

#[tokio::test]
async fn f56_a_tool_that_cannot_be_reached_fails_and_is_never_in_doubt() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed_at = closed.local_addr().unwrap();
    drop(closed);
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let allowed = format!("{},{closed_at}", tools.host);
    let settings = [("AGENTLING_EGRESS_ALLOW", allowed.as_str())];
    let app = TestApp::on(db, tools, &settings, Surroundings::default()).await;
    // Nobody listens, there is no such name, and what listens does not speak TLS.
    let urls = [
        format!("http://{closed_at}/pay"),
        "https://nobody.invalid/pay".to_owned(),
        format!("https://{}/pay", app.tools.host),
    ];
    for url in urls {
        let mut pay = fake(&app.tools, "pay", "at_most_once");
        (pay["on_in_doubt"], pay["url"]) = (json!("hold"), json!(url));
        let run = app.run(&agent_with(&[calling(&["pay"]), saying("Done.")], &[pay]), "go").await;
        assert_eq!(run["status"], "completed", "{run}");
        let outcome = app.outcomes(&run).await.remove(0);
        let told = (&outcome["kind"], &outcome["error"]["type"]);
        assert_eq!(told, (&json!("execution"), &json!("ConnectError")), "{url}: {outcome}");
    }
    assert_eq!(app.tools.seen().len(), 0);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f69_of_answers_that_race_on_two_servers_one_is_taken() {
    let app = TestApp::start().await;
    let (db, tools) = (app.db.clone(), app.tools.clone());
    let other = TestApp::on(db, tools, &[], Surroundings::default()).await;
    let mut guarded = fake(&app.tools, "send", "at_most_once");
    guarded["approval"] = json!("always");
    let mut doubtful = fake(&app.tools, "pay", "at_most_once");
    (doubtful["on_in_doubt"], doubtful["timeout_ms"]) = (json!("hold"), json!(200));
    app.tools.hold("pay");
    let script = [calling(&["pick"]), calling(&["send"]), calling(&["pay"]), saying("Done.")];
    let agent = agent_with(&script, &[client_tool("pick"), guarded, doubtful]);
    let mut run = app.parked(&json!({"agent": agent, "input": "Go."})).await;
    let both = [&app, &other];
    for what in ["tool-results", "approvals", "resolution"] {
        let [call] = waiting_calls(&run).try_into().unwrap();
        let path = match what {
            "resolution" => run_path(&run, &format!("tool-calls/{call}/resolution")),
            _ => run_path(&run, what),
        };
        let body = |n: usize| match what {
            "tool-results" => json!({"results": [{"tool_call_id": call, "output": n}]}),
            "approvals" => json!({"decisions": [{"tool_call_id": call, "approve": true}]}),
            _ => json!({"outcome": "failed", "message": n.to_string()}),
        };
        assert_eq!(race(&both, &path, body).await, (1, 49), "{what}");
        run = app.rested(&run).await;
    }
    assert_eq!(run["status"], "completed");
    let resumed = app.event_names(&run).await;
    assert_eq!(resumed.iter().filter(|name| *name == "run.resumed").count(), 3);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f69_the_same_result_from_two_clients_is_taken_from_both() {
    let app = TestApp::start().await;
    let agent = agent_with(&[calling(&["pick"]), saying("Done.")], &[client_tool("pick")]);
    let run = app.parked(&json!({"agent": agent, "input": "Go."})).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    let output = json!("a.txt");
    let (one, two) =
        tokio::join!(app.give_result(&run, &call, &output), app.give_result(&run, &call, &output));
    one.expect(200);
    two.expect(200);
    assert_eq!(app.rested(&run).await["status"], "completed");
    assert_eq!(count(&app.db, "SELECT n_answers::bigint FROM run").await, 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn f70_a_result_that_never_comes_is_a_timeout() {
    let app = TestApp::start().await;
    let agent = agent_with(&[calling(&["pick"]), saying("Done.")], &[client_tool("pick")]);
    let run = app.parked(&json!({"agent": agent, "input": "Go."})).await;
    let [call] = waiting_calls(&run).try_into().unwrap();
    // A day goes by.
    execute(&app.db, "UPDATE tool_call SET wait_until = now() - interval '1 second'").await;
    execute(&app.db, "UPDATE run SET wake_at = now() - interval '1 second'").await;
    until(&app.db, "SELECT status = 'completed' FROM run").await;
    assert_eq!(app.outcomes(&run).await[0]["kind"], "timeout");
    let late = app.give_result(&run, &call, &json!(1)).await;
    late.expect_problem(409, "run-not-waiting");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_answer_at_the_last_moment_is_taken_and_kept_or_refused() {
    let app = TestApp::with(&[("AGENTLING_SWEEP_MS", "10")]).await;
    let mut pick = client_tool("pick");
    pick["timeout_ms"] = json!(300);
    let agent = agent_with(&[calling(&["pick"]), saying("Done.")], &[pick]);
    for _ in 0..10 {
        let run = app.start_run(&json!({"agent": agent, "input": "Go."})).await;
        let waits = "SELECT count(*) = 0 FROM run
                      WHERE status IN ('queued', 'running') AND requires_action IS NULL";
        until(&app.db, waits).await;
        let found = app.get(&run_path(&run, "events")).await.expect(200);
        let events = found["items"].as_array().unwrap();
        let call = events.iter().find(|event| event["event"] == "tool.call").unwrap();
        let call = call["data"]["tool_call_id"].as_str().unwrap();
        until(&app.db, "SELECT bool_and(wait_until IS NULL OR wait_until <= now()) FROM tool_call")
            .await;
        let answer = app.give_result(&run, call, &json!(1)).await;
        let run = app.rested(&run).await;
        assert_eq!(run["status"], "completed");
        let kind = app.outcomes(&run).await[0]["kind"].clone();
        assert_eq!(kind, if answer.status == 200 { "success" } else { "timeout" });
        assert_invariants(&app.db).await;
    }
}

/// An agent that needs its caller twice: for a result, beside another call, and for an approval.
fn needy(tools: &FakeTools) -> Value {
    let mut send = fake(tools, "send", "pure");
    send["approval"] = json!("always");
    let declared = [client_tool("pick"), fake(tools, "look", "pure"), send];
    let script = [calling(&["pick", "look"]), calling(&["send"]), saying("Done.")];
    agent_with(&script, &declared)
}

/// Runs it to its end, with the caller's answers.
async fn answered(app: &TestApp, run: agentling::domain::id::RunId) {
    let config = test_config(&app.db, &app.tools, &[]);
    let engine = agentling::app::engine(&config, &app.db.store(), &Surroundings::default()).await;
    answer_calls(&engine.unwrap(), &app.db, run, 2).await;
}

/// A run to which nothing happens: its history and how many commits it takes.
async fn undisturbed() -> (Vec<String>, usize) {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let commits = Arc::new(Commits::default());
    let around =
        Surroundings { observer: Arc::<Commits>::clone(&commits), ..Surroundings::default() };
    let run = accept(&db, &tools, &needy(&tools)).await.id;
    let app = TestApp::on(db, tools, &[], around).await;
    answered(&app, run).await;
    ended(&app, run).await;
    assert_invariants(&app.db).await;
    (history(&app.db).await, commits.of(run))
}

/// Loses a process at a commit, and lets another go on to the end.
async fn survive((point, n): (CommitPoint, usize)) -> Vec<String> {
    const SIGABRT: i32 = 6;
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let run = accept(&db, &tools, &needy(&tools)).await.id;
    let child = Child::start(&db.url, &tools.host, Some((point, n)));
    let config = test_config(&db, &tools, &[]);
    let engine = agentling::app::engine(&config, &db.store(), &Surroundings::default()).await;
    let engine = engine.unwrap();
    let lose = async {
        assert_eq!(child.died().await.signal(), Some(SIGABRT), "{point:?} {n}");
        assert_invariants(&db).await;
        healthy(&db, &tools).await
    };
    let (app, ()) = tokio::join!(lose, answer_calls(&engine, &db, run, 2));
    ended(&app, run).await;
    assert_invariants(&db).await;
    app.running.stop().await;
    history(&db).await
}

#[tokio::test]
async fn a_crash_at_any_commit_of_a_run_that_waits_changes_nothing() {
    let (undisturbed, commits) = undisturbed().await;
    let points = (1..=commits).flat_map(|n| [(CommitPoint::Before, n), (CommitPoint::After, n)]);
    let mut survivors =
        futures::stream::iter(points).map(async |at| (at, survive(at).await)).buffer_unordered(4);
    while let Some((at, history)) = survivors.next().await {
        assert_eq!(history, undisturbed, "{at:?}");
    }
    assert!(commits > 4, "it waits and goes on twice");
}
