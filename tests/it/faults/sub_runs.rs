//! A run and its sub-run, whose process is killed at each of their commits, whose servers differ, and whom
//! callers get between.

use std::os::unix::process::ExitStatusExt as _;

use agentling::app::Surroundings;
use agentling::domain::run::RunStatus;
use agentling::engine::CommitPoint;
use futures::StreamExt as _;
use futures::future::Either;
use serde_json::{Value, json};
use sqlx::Connection as _;

use crate::engine::crash::{accept, ended, healthy};
use crate::support::{
    Child, FakeTools, TestApp, TestDb, agent_with, assert_invariants, client_tool, count, execute,
    run_path, saying, until,
};

const SIGABRT: i32 = 6;

/// An agent that asks two others at once; one of them asks the other.
async fn asker(db: &TestDb, tools: &FakeTools) -> Value {
    let app = healthy(db, tools).await;
    let ask = |name: &str, agent: &str| json!({"kind": "agent", "name": name, "agent": agent});
    let call = |name: &str| json!({"name": name, "arguments": {"task": name}});
    let mut leaf = agent_with(&[json!({"echo": true})], &[]);
    leaf["name"] = json!("leaf");
    app.create_agent(&leaf).await;
    let script = [json!({"tool_calls": [call("leaf")]}), saying("Middle.")];
    let mut middle = agent_with(&script, &[ask("leaf", "leaf")]);
    middle["name"] = json!("middle");
    app.create_agent(&middle).await;
    app.running.stop().await;
    let script = [json!({"tool_calls": [call("leaf"), call("middle")]}), saying("Done.")];
    let mut agent = agent_with(&script, &[ask("leaf", "leaf"), ask("middle", "middle")]);
    agent["budget"] = json!({"turns": 100, "tokens": 1_000_000});
    agent
}

/// The run has ended as if nothing had happened, with one run a call.
async fn assert_same_story(db: &TestDb) {
    let told = "SELECT count(*) FROM run WHERE status = 'completed' AND answer = CASE
                       WHEN cardinality(ancestors) = 0 THEN 'Done.'
                       WHEN answer = 'Middle.' THEN 'Middle.' ELSE 'leaf' END";
    assert_eq!(count(db, told).await, 4);
    assert_eq!(count(db, "SELECT count(*) FROM run").await, 4);
    let succeeded = "SELECT count(*) FROM tool_call WHERE outcome->>'kind' = 'success'";
    assert_eq!(count(db, succeeded).await, 3);
    assert_eq!(count(db, "SELECT count(*) FROM call_answer").await, 3);
    assert_invariants(db).await;
}

/// Waits until a process dies, or its run has ended; whether it has died.
async fn dies(db: &TestDb, child: Child) -> bool {
    let done = "SELECT count(*) = 1 FROM run WHERE ancestors = '{}' AND status = 'completed'";
    let died = std::pin::pin!(child.died());
    let ended = std::pin::pin!(until(db, done));
    match futures::future::select(died, ended).await {
        Either::Left((status, _)) => status.signal() == Some(SIGABRT),
        Either::Right(_) => false,
    }
}

/// Kills a process at its n-th append and lets another one end what it leaves; whether there was one.
async fn survives(death: (CommitPoint, usize)) -> bool {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let agent = asker(&db, &tools).await;
    let run = accept(&db, &tools, &agent).await.id;
    let child = Child::steady(&db.url, &tools.host, Some(death));
    let has_died = dies(&db, child).await;
    assert_invariants(&db).await;
    let app = healthy(&db, &tools).await;
    assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed, "{death:?}");
    app.running.stop().await;
    assert_same_story(&db).await;
    has_died
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_at_any_commit_of_a_run_or_its_sub_runs_leaves_one_run_a_call() {
    let points = [CommitPoint::Before, CommitPoint::After];
    let deaths = (1..=10).flat_map(|n| points.map(|point| (point, n)));
    let survived: Vec<bool> =
        futures::stream::iter(deaths).map(survives).buffer_unordered(3).collect().await;
    let n_died = survived.into_iter().filter(|has_died| *has_died).count();
    assert!(n_died >= 16, "only {n_died} points were reached");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_run_that_ends_on_another_server_lets_its_parent_go_on_without_any_hint() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let agent = asker(&db, &tools).await;
    let settings = [
        ("AGENTLING_NOTIFY", "off"),
        ("AGENTLING_CONCURRENCY", "1"),
        ("AGENTLING_LEASE_MS", "30000"),
    ];
    let on = || TestApp::on(db.clone(), tools.clone(), &settings, Surroundings::default());
    let (one, two) = tokio::join!(on(), on());
    let run = accept(&db, &tools, &agent).await.id;
    assert_eq!(ended(&one, run).await.facts.status, RunStatus::Completed);
    assert_same_story(&db).await;
    one.running.stop().await;
    two.running.stop().await;
}

/// As a server of the version before ends a run that no worker holds: it knows of no parent to be told.
const ENDED_BY_AN_OLD_SERVER: &str = "WITH ended AS (
         UPDATE run
            SET status = 'cancelled', finished_at = now(), lease_token = NULL,
                next_event_seq = next_event_seq + 1,
                stopped = '{\"turns_aborted\": [], \"calls_not_started\": [], \"calls_in_doubt\": []}'
          WHERE cardinality(ancestors) > 0 AND status IN ('queued', 'running')
      RETURNING tenant_id, run_id, next_event_seq - 1 AS seq)
     INSERT INTO run_event (tenant_id, run_id, seq, name, data, created_at)
     SELECT e.tenant_id, e.run_id, e.seq, 'run.cancelled',
            jsonb_set(jsonb_set(c.data::jsonb, '{run,status}', '\"cancelled\"'),
                      '{run,finished_at}', to_jsonb(now()))::json, now()
       FROM ended e
       JOIN run_event c USING (tenant_id, run_id)
      WHERE c.name = 'run.created'";

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_whose_sub_runs_were_ended_by_a_server_that_tells_no_parent_goes_on_all_the_same()
{
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let agent = asker(&db, &tools).await;
    let run = accept(&db, &tools, &agent).await.id;
    // With a budget, the first append begins the turn, and the second one starts the sub-runs.
    let child = Child::steady(&db.url, &tools.host, Some((CommitPoint::After, 2)));
    assert!(dies(&db, child).await);
    assert_eq!(execute(&db, ENDED_BY_AN_OLD_SERVER).await, 2);
    let app = healthy(&db, &tools).await;
    assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    let told = "SELECT count(*) FROM tool_call WHERE outcome->'error'->>'type' = 'SubRunCancelled'";
    assert_eq!(count(&db, told).await, 2);
    assert_invariants(&db).await;
}

/// An agent of the name of its tool, and a run of another one that asks it once.
async fn asks(app: &TestApp, name: &str, (script, tools): (&[Value], &[Value])) -> Value {
    let mut helper = agent_with(script, tools);
    helper["name"] = json!(name);
    app.create_agent(&helper).await;
    let tool = json!({"kind": "agent", "name": name, "agent": name});
    let call = json!({"tool_calls": [{"name": name, "arguments": {"task": "Do it."}}]});
    json!({"agent": agent_with(&[call, saying("Done.")], &[tool]), "input": "Go."})
}

#[tokio::test]
async fn a_call_whose_sub_run_has_its_id_taken_by_a_caller_fails_and_the_model_is_told() {
    let app = TestApp::start().await;
    let mut body = asks(&app, "echo", (&[json!({"echo": true})], &[])).await;
    body["agent"]["tools"][0]["approval"] = json!("always");
    let run = app.parked(&body).await;
    let call = run["requires_action"]["tool_calls"][0]["tool_call_id"].as_str().unwrap();
    let agent = agent_with(&[saying("Mine.")], &[]);
    let own = json!({"id": call.replace("call_", "run_"), "agent": agent, "input": "Go."});
    let own = app.run_body(&own).await;
    app.decide(&run, call, &json!({"approve": true})).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("Done.")), "{run}");
    let outcome = &app.outcomes(&run).await[0];
    assert_eq!(outcome["error"]["type"], "SubRunIdTaken", "{outcome}");
    assert_eq!(outcome["kind"], "execution");
    assert_eq!((&own["answer"], &own["parent_run_id"]), (&json!("Mine."), &Value::Null));
    assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, 2);
    let replay = app.post(&run_path(&run, "replay"), &json!({})).await.expect(200);
    assert_eq!(replay["first_divergence"], Value::Null, "{replay}");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_thread_of_a_sub_run_is_cleared_with_the_parent_locked_first_as_every_append_does() {
    let app = TestApp::start().await;
    let picks = json!({"tool_calls": [{"name": "pick", "arguments": {"n": 1}}]});
    let body = asks(&app, "pick", (&[picks, saying("Picked.")], &[client_tool("pick")])).await;
    app.start_run(&body).await;
    until(&app.db, "SELECT count(*) = 1 FROM run WHERE status = 'requires_action'").await;
    let sub_run = app.get("/v1/runs?status=requires_action").await.expect(200)["items"][0].clone();
    let agent = agent_with(&[saying("Instead.")], &[]);
    let next = json!({"agent": agent, "thread_id": sub_run["thread_id"], "input": "Go.",
                      "on_busy": "rollback"});
    let mut connection = app.db.connect().await;
    // As an append that tells a parent of an end, before it comes to the sub-run.
    let mut append = connection.begin().await.unwrap();
    let lock = "SELECT FROM run WHERE cardinality(ancestors) = 0 FOR UPDATE";
    sqlx::query(lock).execute(&mut *append).await.unwrap();
    let posted = app.post("/v1/runs", &next);
    let goes_on = async {
        let waits = "SELECT count(*) > 0 FROM pg_stat_activity
                      WHERE datname = current_database() AND wait_event_type = 'Lock'";
        until(&app.db, waits).await;
        // Whoever waits for the parent has neither.
        let free = "SELECT FROM run r JOIN thread t USING (tenant_id, thread_id)
                     WHERE cardinality(r.ancestors) = 1 FOR UPDATE NOWAIT";
        let free = sqlx::query(free).execute(&mut *append).await;
        append.rollback().await.unwrap();
        free.unwrap();
    };
    let (posted, ()) = tokio::join!(posted, goes_on);
    // On a busy machine it may have waited for too long.
    assert!([201, 503].contains(&posted.status), "{}", posted.text);
}

#[tokio::test]
async fn what_one_sub_run_has_left_is_erased_though_that_of_another_cannot_be() {
    let app = TestApp::start().await;
    let body = asks(&app, "echo", (&[json!({"echo": true})], &[])).await;
    let runs = [app.run_body(&body).await, app.run_body(&body).await, app.run_body(&body).await];
    // The one in the middle, so that neither order of erasing is the lucky one.
    execute(
        &app.db,
        "CREATE TABLE keeper AS
         SELECT r.tenant_id, r.thread_id FROM run r
          WHERE r.parent_run_id IS NOT NULL ORDER BY r.created_at OFFSET 1 LIMIT 1",
    )
    .await;
    execute(
        &app.db,
        "ALTER TABLE keeper ADD FOREIGN KEY (tenant_id, thread_id)
             REFERENCES thread (tenant_id, thread_id)",
    )
    .await;
    // Their parents were erased by a server that leaves the rest to the sweep.
    execute(
        &app.db,
        "INSERT INTO tombstone (tenant_id, kind, id, thread_id, n_steps, erased_at)
         SELECT tenant_id, 'run', run_id, thread_id, 0, now() FROM run WHERE ancestors = '{}'",
    )
    .await;
    until(&app.db, "SELECT count(*) = 1 FROM run WHERE ancestors <> '{}'").await;
    execute(&app.db, "DROP TABLE keeper").await;
    until(&app.db, "SELECT count(*) = 0 FROM run WHERE ancestors <> '{}'").await;
    let parents = "DELETE FROM tombstone t USING run r
                    WHERE (r.tenant_id, r.run_id) = (t.tenant_id, t.id) AND t.kind = 'run'";
    assert_eq!(execute(&app.db, parents).await, 3);
    for run in &runs {
        app.delete(run_path(run, "").trim_end_matches('/')).await.expect(204);
    }
    assert_eq!(count(&app.db, "SELECT count(*) FROM run").await, 0);
    assert_invariants(&app.db).await;
}
