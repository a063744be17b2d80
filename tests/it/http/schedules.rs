//! `/v1/schedules`.

use agentling::app::Surroundings;
use serde_json::{Value, json};

use super::{pointers, send_text, speaker};
use crate::support::{TestApp, assert_invariants, count, execute, until};

/// A schedule of the agent `a` that by itself is not due for months.
fn yearly() -> Value {
    json!({ "cron": "0 0 1 1 *", "agent_id": "a", "input": "Good morning." })
}

fn path(schedule: &Value) -> String {
    format!("/v1/schedules/{}", schedule["id"].as_str().unwrap())
}

/// Schedules `a`, which answers at once, unless it is to take for ever.
async fn schedule(app: &TestApp, delay_ms: u64, more: &Value) -> Value {
    let mut agent = speaker("a", "Morning.");
    agent["model"]["script"][0]["delay_ms"] = json!(delay_ms);
    agent["model_timeout_ms"] = json!(600_000);
    app.create_agent(&agent).await;
    let mut body = yearly();
    let members = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(members);
    app.post("/v1/schedules", &body).await.expect(201)
}

/// Lets the due time of every schedule have passed three hours ago.
async fn make_due(app: &TestApp) {
    let sql = "UPDATE schedule SET next_at = date_trunc('minute', now()) - interval '3 hours'";
    execute(&app.db, sql).await;
}

const MOVED_ON: &str = "SELECT bool_and(next_at > now()) FROM schedule";
const NO_RUN_IS_ACTIVE: &str = "SELECT count(*) > 0 AND bool_and(finished_at IS NOT NULL) FROM run";

#[tokio::test]
async fn a_schedule_is_made_read_listed_changed_and_removed() {
    let app = TestApp::start().await;
    let made = schedule(&app, 0, &json!({ "timezone": "Europe/Paris" })).await;
    assert_eq!(made["timezone"], "Europe/Paris");
    assert!(made["next_at"].as_str().unwrap().ends_with("-12-31T23:00:00.000Z"), "{made}");
    assert_eq!((&made["on_overlap"], &made["enabled"]), (&json!("skip"), &json!(true)));
    let read = app.get(&path(&made)).await;
    let tag = read.header("etag").to_owned();
    assert_eq!(read.expect(200), made);
    assert_eq!(app.all("/v1/schedules").await, std::slice::from_ref(&made));
    let change = yearly().to_string();
    let changed = send_text(&app, ("PUT", &path(&made)), &tag, &change).await.expect(200);
    assert_eq!((&changed["timezone"], &changed["id"]), (&json!("UTC"), &made["id"]));
    let stale = send_text(&app, ("PUT", &path(&made)), &tag, &change).await;
    stale.expect_problem(412, "precondition-failed");
    assert_eq!(app.delete(&path(&made)).await.status, 204);
    app.get(&path(&made)).await.expect_problem(404, "not-found");
}

#[tokio::test]
async fn a_schedule_that_cannot_be_is_refused_at_its_place() {
    let app = TestApp::start().await;
    app.create_agent(&speaker("a", "Morning.")).await;
    for (member, value, pointer) in [
        ("cron", json!("61 * * * *"), "/cron"),
        ("cron", json!("@daily"), "/cron"),
        ("timezone", json!("Mars/Olympus"), "/timezone"),
        ("input", json!(" "), "/input"),
        ("agent_version", json!(0), "/agent_version"),
        ("on_overlap", json!("shrug"), "/on_overlap"),
        ("thread_id", json!("thr_0198f2c4a1b27cde8f00112233445566"), "/thread_id"),
    ] {
        let mut body = yearly();
        body[member] = value;
        let answer = app.post("/v1/schedules", &body).await;
        let problem = answer.expect_problem(422, "validation-failed");
        assert_eq!(pointers(&problem), [pointer], "{problem}");
    }
    let mut body = yearly();
    body["agent_id"] = json!("nobody");
    app.post("/v1/schedules", &body).await.expect_problem(422, "unknown-agent");
}

#[tokio::test]
async fn a_due_time_starts_one_run_however_many_servers_see_it() {
    let app = TestApp::start().await;
    let quick = [("AGENTLING_POLL_MS", "10")];
    let around = Surroundings::default;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(TestApp::on(app.db.clone(), app.tools.clone(), &quick, around()).await);
    }
    let made = schedule(&app, 0, &json!({ "metadata": { "by": "clock" } })).await;
    for n in 1..=3 {
        // Three hours of due times were missed, and count once.
        execute(&app.db, "UPDATE schedule SET cron = '*/5 * * * *'").await;
        make_due(&app).await;
        until(&app.db, MOVED_ON).await;
        until(&app.db, NO_RUN_IS_ACTIVE).await;
        assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, n);
    }
    let runs = app.all("/v1/runs").await;
    let now = app.get(&path(&made)).await.expect(200);
    assert_eq!(now["last_run_id"], runs[0]["id"]);
    assert_eq!((&runs[0]["metadata"], &runs[0]["answer"]), (&made["metadata"], &json!("Morning.")));
    assert_ne!(runs[0]["thread_id"], runs[1]["thread_id"]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_due_time_passes_while_the_run_before_is_active() {
    let app = TestApp::start().await;
    let made = schedule(&app, 600_000, &json!({})).await;
    make_due(&app).await;
    until(&app.db, MOVED_ON).await;
    make_due(&app).await;
    until(&app.db, MOVED_ON).await;
    let now = app.get(&path(&made)).await.expect(200);
    assert_eq!(now["last_skip"], "overlap");
    assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, 1);
}

#[tokio::test]
async fn a_run_that_is_to_wait_starts_once_the_one_before_has_ended() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let more = json!({ "on_overlap": "enqueue", "thread_id": thread["id"] });
    let made = schedule(&app, 0, &more).await;
    let script = json!([{ "text": "x", "delay_ms": 600_000 }]);
    let slow = json!({ "name": "slow", "model_timeout_ms": 600_000,
                       "model": { "provider": "scripted", "name": "m", "script": script } });
    let body = json!({ "agent": slow, "thread_id": thread["id"], "input": "wait" });
    let busy = app.start_run(&body).await;
    make_due(&app).await;
    // Another schedule of the same moment is not held up.
    let other = app.post("/v1/schedules", &yearly()).await.expect(201);
    make_due(&app).await;
    until(&app.db, "SELECT count(*) = 1 FROM schedule WHERE next_at > now()").await;
    let waits = app.get(&path(&made)).await.expect(200);
    assert_eq!((&waits["last_run_id"], &waits["last_skip"]), (&Value::Null, &Value::Null));
    assert!(app.get(&path(&other)).await.expect(200)["last_run_id"].is_string());
    let cancel = format!("/v1/runs/{}/cancel", busy["id"].as_str().unwrap());
    app.post(&cancel, &json!({ "wait": true })).await.expect(202);
    until(&app.db, MOVED_ON).await;
    until(&app.db, NO_RUN_IS_ACTIVE).await;
    let now = app.get(&path(&made)).await.expect(200);
    let run = app.ended(now["last_run_id"].as_str().unwrap()).await;
    assert_eq!((&run["thread_id"], &run["status"]), (&thread["id"], &json!("completed")));
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_that_is_refused_lets_its_due_time_pass() {
    let app = TestApp::start().await;
    let made = schedule(&app, 0, &json!({})).await;
    assert_eq!(app.delete("/v1/agents/a").await.status, 204);
    make_due(&app).await;
    until(&app.db, MOVED_ON).await;
    assert_eq!(app.get(&path(&made)).await.expect(200)["last_skip"], "refused");
    assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, 0);
}

#[tokio::test]
async fn a_schedule_that_is_off_starts_nothing() {
    let app = TestApp::start().await;
    let off = schedule(&app, 0, &json!({ "enabled": false })).await;
    assert_eq!(off["next_at"], Value::Null);
    let on = app.post("/v1/schedules", &yearly()).await.expect(201);
    make_due(&app).await;
    until(&app.db, "SELECT bool_and(next_at > now()) FROM schedule WHERE enabled").await;
    let now = app.get(&path(&on)).await.expect(200);
    assert!(now["last_run_id"].is_string());
    assert_eq!(app.get(&path(&off)).await.expect(200)["last_run_id"], Value::Null);
}
