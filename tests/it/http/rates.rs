//! Rates of requests, as callers see them.

use std::sync::Arc;
use std::time::Duration;

use agentling::app::Surroundings;
use serde_json::json;

use super::{send_as, speaker};
use crate::support::{Answer, FakeTools, ManualClock, TestApp, TestDb, mint_key, stored};

const BOOTSTRAP: &str = "the-operators-own-key";

/// A server with these rates and a clock that a test moves.
async fn server(rates: &[(&str, &str)]) -> (TestApp, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    let around =
        Surroundings { clock: Arc::<ManualClock>::clone(&clock), ..Surroundings::default() };
    let settings = [&[("AGENTLING_API_KEY", BOOTSTRAP)], rates].concat();
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    (TestApp::on(db, tools, &settings, around).await, clock)
}

async fn list(app: &TestApp, key: &str) -> Answer {
    send_as(app, key, ("GET", "/v1/agents"), "").await
}

#[tokio::test]
async fn a_key_that_is_too_fast_is_told_when_to_come_back_and_what_is_left() {
    let (app, clock) = server(&[("AGENTLING_RATE_KEY", "2/3")]).await;
    let key = mint_key(&app, "default", &["agents:read"]).await;
    for (remaining, full_in) in [(2, 1), (1, 1), (0, 2)] {
        let answer = list(&app, &key).await;
        assert_eq!(answer.header("ratelimit-policy"), r#""key";q=3;w=2"#);
        assert_eq!(answer.header("ratelimit"), format!("\"key\";r={remaining};t={full_in}"));
        answer.expect(200);
    }
    clock.advance(Duration::from_millis(100));
    let refused = list(&app, &key).await;
    assert_eq!(
        (refused.header("retry-after"), refused.header("ratelimit")),
        ("1", r#""key";r=0;t=2"#)
    );
    assert_eq!(refused.header("ratelimit-policy"), r#""key";q=3;w=2"#);
    let problem = refused.expect_problem(429, "rate-limited");
    assert_eq!((&problem["limit"], &problem["retry_after_ms"]), (&json!(3), &json!(401)));
    clock.advance(Duration::from_millis(401));
    list(&app, &key).await.expect(200);
    list(&app, &key).await.expect_problem(429, "rate-limited");
}

#[tokio::test]
async fn a_refusal_of_another_kind_tells_what_is_left_too() {
    let (app, _clock) =
        server(&[("AGENTLING_RATE_KEY", "9"), ("AGENTLING_RATE_TENANT", "5")]).await;
    let key = mint_key(&app, "default", &["agents:read"]).await;
    let answer = send_as(&app, &key, ("GET", "/v1/agents/nobody"), "").await;
    assert_eq!(answer.header("ratelimit"), r#""key";r=8;t=1, "tenant";r=4;t=1"#);
    answer.expect_problem(404, "not-found");
    let answer = send_as(&app, &key, ("POST", "/v1/agents"), "{").await;
    assert_eq!(answer.header("ratelimit"), r#""key";r=7;t=1, "tenant";r=3;t=1"#);
    // Who is nobody has no bucket, and whoever asks for the server's health needs none.
    for path in ["/v1/agents", "/healthz", "/readyz", "/v1/nowhere"] {
        let answer = app.get(path).await;
        assert_eq!(answer.header("ratelimit"), "", "{path}");
    }
}

#[tokio::test]
async fn a_tenant_that_floods_slows_no_other_and_health_is_never_refused() {
    let rates = [("AGENTLING_RATE_KEY", "1/2"), ("AGENTLING_RATE_TENANT", "1/3")];
    let (app, _clock) = server(&rates).await;
    let one = mint_key(&app, "acme", &["agents:read"]).await;
    let two = mint_key(&app, "acme", &["agents:read"]).await;
    let other = mint_key(&app, "other", &["agents:read"]).await;
    let mut passed = 0;
    for _ in 0..20 {
        passed += u32::from(list(&app, &one).await.status == 200);
    }
    assert_eq!(passed, 2, "what a key may");
    assert_eq!(list(&app, &two).await.status, 200, "what is left to the tenant");
    list(&app, &two).await.expect_problem(429, "rate-limited");
    for _ in 0..2 {
        list(&app, &other).await.expect(200);
        list(&app, BOOTSTRAP).await.expect(200);
    }
    for _ in 0..50 {
        app.get("/healthz").await.expect(200);
        app.get("/readyz").await.expect(200);
    }
}

#[tokio::test]
async fn runs_are_counted_by_themselves_and_a_refused_one_is_not_there() {
    let (app, clock) = server(&[("AGENTLING_RATE_RUNS", "1/2")]).await;
    let app = app.with_key(BOOTSTRAP);
    let body = json!({ "agent": speaker("a", "Hello."), "input": "hi" });
    let first = app.post("/v1/runs", &body).await;
    assert_eq!(first.header("ratelimit-policy"), r#""runs";q=2;w=120"#);
    let first = first.expect(201);
    let stream = app.post("/v1/runs/stream", &body).await;
    assert_eq!((stream.status, stream.header("ratelimit")), (200, r#""runs";r=0;t=120"#));
    app.ended(first["id"].as_str().unwrap()).await;
    let before = stored(&app.db).await.remove("run");
    let refused = app.post("/v1/runs", &body).await;
    assert_eq!(refused.header("retry-after"), "61");
    refused.expect_problem(429, "rate-limited");
    assert_eq!(stored(&app.db).await.remove("run"), before);
    let listed = app.get("/v1/runs").await;
    assert_eq!(listed.header("ratelimit"), "", "reading is not bounded here");
    listed.expect(200);
    clock.advance(Duration::from_mins(1));
    app.post("/v1/runs", &body).await.expect(201);
}

#[tokio::test]
async fn without_a_rate_nothing_is_counted() {
    let (app, _clock) = server(&[]).await;
    for _ in 0..100 {
        let answer = list(&app, BOOTSTRAP).await;
        assert_eq!((answer.status, answer.header("ratelimit")), (200, ""));
    }
}
