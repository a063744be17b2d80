//! Journeys of tenants behind row-level security, with what the server does beside them; and that it is a
//! wall: what a mistake would show without it is not seen.

use std::time::Duration;

use agentling::domain::id::{RunId, TenantId};
use agentling::store::{runs, scope};
use serde_json::{Value, json};

use super::secrets::SEALING;
use super::speaker;
use super::walk::BOOTSTRAP;
use crate::support::{
    FakeTools, SseReader, TENANT_ROLE, TestApp, TestDb, agent_with, assert_invariants, calling,
    client_tool, count, execute, mint_key, run_path, saying, tool, until, waiting_calls,
};

/// A server of another tenant than the default one, behind row-level security.
async fn walled(settings: &[(&str, &str)]) -> TestApp {
    let (db, tools) = (TestDb::walled().await, FakeTools::start().await);
    let settings = [settings, &[("AGENTLING_API_KEY", BOOTSTRAP), SEALING]].concat();
    let app = TestApp::on(db, tools, &settings, agentling::app::Surroundings::default()).await;
    let key = mint_key(&app, "acme", &["admin"]).await;
    app.with_key(&key)
}

#[tokio::test]
async fn a_run_with_tools_a_stream_a_fork_and_a_reader_elsewhere() {
    let app = walled(&[]).await;
    let t = tool(
        &app.tools,
        "t",
        "pure",
        &json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    );
    let script = [calling(&["t", "ask"]), saying("Done.")];
    let agent = agent_with(&script, &[t, client_tool("ask")]);
    let run = app.parked(&json!({"agent": agent, "input": "go"})).await;
    let call = waiting_calls(&run).swap_remove(0);
    app.give_result(&run, &call, &json!("yes")).await.expect(200);
    let run = app.rested(&run).await;
    assert_eq!((&run["status"], &run["answer"]), (&json!("completed"), &json!("Done.")), "{run}");
    assert_eq!(app.tools.seen().len(), 1, "{:?}", app.outcomes(&run).await);
    let body = json!({"agent": speaker("b", "Hello."), "input": "hi"});
    let events = app.start_stream(&body).await.rest().await;
    assert_eq!(events.last().unwrap().name, "run.completed");
    let again = SseReader::of(app.stream(run["id"].as_str().unwrap(), None).await).rest().await;
    assert_eq!(again.last().unwrap().name, "run.completed");
    let fork = format!("/v1/threads/{}/fork", run["thread_id"].as_str().unwrap());
    let fork = app.post(&fork, &json!({"at_seq": 2})).await.expect(201);
    let on = json!({"agent": speaker("b", "Again."), "input": "hi", "thread_id": fork["id"]});
    assert_eq!(app.run_body(&on).await["answer"], "Again.");
    let replayed = app.post(&run_path(&run, "replay"), &json!({})).await.expect(200);
    assert_eq!(replayed["first_divergence"], Value::Null, "{replayed}");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn sub_runs_schedules_webhooks_and_a_queue_go_on_by_themselves() {
    let app = walled(&[("AGENTLING_POLL_MS", "50")]).await;
    app.post("/v1/webhooks", &json!({"url": app.tools.url("hook")})).await.expect(201);
    app.create_agent(&speaker("helper", "Helped.")).await;
    let ask = json!({"kind": "agent", "name": "ask", "description": "d", "agent": "helper"});
    let script =
        [json!({"tool_calls": [{"name": "ask", "arguments": {"task": "Help."}}]}), saying("Done.")];
    let run = app.run_body(&json!({"agent": agent_with(&script, &[ask]), "input": "go"})).await;
    assert_eq!(run["answer"], "Done.", "{run}");
    assert_eq!(app.outcomes(&run).await[0]["output"]["text"], "Helped.");
    // Runs of one thread take turns.
    let on = |input: &str| {
        json!({"agent": speaker("b", "Next."), "input": input, "thread_id": run["thread_id"],
               "on_busy": "enqueue"})
    };
    let (one, other) = (app.start_run(&on("one")).await, app.start_run(&on("two")).await);
    assert_eq!(app.rested(&one).await["answer"], "Next.");
    assert_eq!(app.rested(&other).await["answer"], "Next.");
    let schedule = json!({"cron": "0 0 1 1 *", "agent_id": "helper", "input": "Morning."});
    app.post("/v1/schedules", &schedule).await.expect(201);
    execute(&app.db, "UPDATE schedule SET next_at = date_trunc('minute', now())").await;
    until(&app.db, "SELECT bool_and(next_at > now() AND last_run_id IS NOT NULL) FROM schedule")
        .await;
    until(&app.db, "SELECT bool_and(finished_at IS NOT NULL) FROM run").await;
    until(&app.db, "SELECT count(*) = 5 AND bool_and(state = 'delivered') FROM webhook_delivery")
        .await;
    assert_eq!(count(&app.db, "SELECT count(*) FROM run WHERE tenant_id <> 'acme'").await, 0);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_worker_that_is_lost_is_replaced_and_what_is_old_is_forgotten() {
    let app = walled(&[("AGENTLING_RETAIN_DAYS", "1")]).await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    let agent = agent_with(&[json!({"text": "Late.", "delay_ms": 2_000})], &[]);
    let slow = app.start_run(&json!({"agent": agent, "input": "go"})).await;
    until(&app.db, "SELECT count(*) = 1 FROM run_lease").await;
    // As if another server had held it that is gone.
    let lost = "WITH lost AS (
                    UPDATE run_lease
                       SET expires_at = now() - interval '1 hour', lease_token = gen_random_uuid()
                 RETURNING run_id, lease_token)
                UPDATE run SET lease_token = lost.lease_token FROM lost WHERE lost.run_id = run.run_id";
    execute(&app.db, lost).await;
    assert_eq!(app.rested(&slow).await["answer"], "Late.");
    let old = "UPDATE thread SET updated_at = updated_at - interval '2 days'
                WHERE thread_id = (SELECT thread_id FROM run ORDER BY created_at LIMIT 1)";
    execute(&app.db, old).await;
    execute(&app.db, "UPDATE run SET finished_at = finished_at - interval '2 days'").await;
    execute(&app.db, "UPDATE chore SET due_at = now()").await;
    until(&app.db, "SELECT count(*) = 1 FROM thread").await;
    app.get(&run_path(&run, "steps")).await.expect_problem(404, "not-found");
    let thread = format!("/v1/threads/{}", slow["thread_id"].as_str().unwrap());
    assert_eq!(app.delete(&thread).await.status, 204);
}

#[tokio::test]
async fn a_secret_of_another_tenant_is_sent_nowhere() {
    let app = walled(&[]).await;
    let secret = json!({"value": "hunter22hunter22", "origins": [app.tools.origin()]});
    app.put("/v1/secrets/key", &secret).await.expect(200);
    let mut t = tool(
        &app.tools,
        "t",
        "pure",
        &json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    );
    t["headers"] = json!({"x-key": {"secret": "key"}});
    let agent = agent_with(&[calling(&["t"]), saying("Done.")], &[t]);
    app.run(&agent, "go").await;
    let other = mint_key(&app, "other", &["admin"]).await;
    let app = app.with_key(&other);
    let refused = app.post("/v1/runs", &json!({"agent": agent, "input": "go"})).await;
    refused.expect_problem(422, "validation-failed");
    assert_eq!(app.tools.seen().len(), 1, "only its owner's run has sent it");
}

/// A mistake: the tenant whose work is done is not the one that a statement is given.
async fn mistaken(app: &TestApp, asked: &str, run: RunId) -> bool {
    let of = |name: &str| TenantId::parse(name).unwrap();
    let asked = of(asked);
    let found = runs::get(&app.running.store, &asked, run);
    scope::within(&of("other"), found).await.unwrap().is_some()
}

async fn a_run_of_acme(db: TestDb) -> (TestApp, RunId) {
    let settings = [("AGENTLING_API_KEY", BOOTSTRAP)];
    let around = agentling::app::Surroundings::default();
    let app = TestApp::on(db, FakeTools::start().await, &settings, around).await;
    let key = mint_key(&app, "acme", &["admin"]).await;
    let app = app.with_key(&key);
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    (app, run["id"].as_str().unwrap().parse().unwrap())
}

#[tokio::test]
async fn what_a_mistake_shows_of_others_is_not_seen_behind_row_level_security() {
    let (open, run) = a_run_of_acme(TestDb::plain().await).await;
    assert!(mistaken(&open, "acme", run).await, "without it the statement is all that there is");
    let (app, run) = a_run_of_acme(TestDb::walled().await).await;
    assert!(!mistaken(&app, "acme", run).await);
    let acme = TenantId::parse("acme").unwrap();
    // The same connections serve one tenant after the other.
    for _ in 0..20 {
        assert!(!mistaken(&app, "acme", run).await);
        let found = scope::within(&acme, runs::get(&app.running.store, &acme, run)).await.unwrap();
        assert!(found.is_some());
    }
    // Work that is nobody's does not take nothing for an answer.
    assert!(runs::get(&app.running.store, &acme, run).await.is_err());
    let found = runs::get(&app.running.store.as_system(), &acme, run).await.unwrap();
    assert!(found.is_some(), "an operator's command sees all");
}

#[tokio::test]
async fn a_statement_without_a_tenant_shows_the_rows_of_one_and_changes_no_others() {
    use sqlx::{Connection as _, PgConnection};
    let (app, _) = a_run_of_acme(TestDb::walled().await).await;
    let role = app.db.url_of(TENANT_ROLE);
    let mut connection = PgConnection::connect(&role).await.unwrap();
    for (tenant, n) in [("", 0), ("acme", 1), ("other", 0), ("acm", 0), ("default", 0)] {
        let set = "SELECT set_config('agentling.tenant', $1, false)";
        sqlx::query(set).bind(tenant).execute(&mut connection).await.unwrap();
        let seen: i64 = sqlx::query_scalar("SELECT count(*) FROM run")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(seen, n, "{tenant:?}");
        let touched = "UPDATE run SET metadata = metadata";
        let touched = sqlx::query(touched).execute(&mut connection).await.unwrap();
        assert_eq!(touched.rows_affected(), u64::try_from(n).unwrap(), "{tenant:?}");
    }
    let tried = [
        "INSERT INTO run_watch VALUES ('acme', gen_random_uuid(), gen_random_uuid(), now())",
        "UPDATE run_watch SET tenant_id = 'acme'",
        "SELECT * FROM server_secret",
        "CREATE TABLE mine (x int)",
        "ALTER TABLE run DISABLE ROW LEVEL SECURITY",
        "DROP POLICY agentling_tenant ON run",
        "SET ROLE agentling_system",
    ];
    let own =
        "INSERT INTO run_watch VALUES ('default', gen_random_uuid(), gen_random_uuid(), now())";
    sqlx::query(own).execute(&mut connection).await.unwrap();
    for sql in tried {
        let refused = sqlx::query(sql).execute(&mut connection).await.unwrap_err();
        let code = refused.as_database_error().unwrap().code().unwrap().into_owned();
        assert_eq!(code, "42501", "{sql}: {refused}");
    }
    tokio::time::timeout(Duration::from_mins(1), connection.close()).await.unwrap().unwrap();
}
