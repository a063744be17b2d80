//! Credentials as a whole server takes them.

use std::sync::Arc;
use std::time::Duration;

use super::without_ids;
use crate::support::{
    Answer, FakeTools, ManualClock, TestApp, TestDb, mint_key, mint_key_until, send_raw,
};
use agentling::app::Surroundings;
use agentling::clock::{Clock as _, System};
use agentling::domain::id::TenantId;
use agentling::store::keys;

const BOOTSTRAP: &str = "the-operators-own-key";

/// `GET /v1/agents` with these headers and no others of ours.
async fn list(app: &TestApp, headers: &[(&str, &str)]) -> Answer {
    let request = app.client().get(app.url("/v1/agents"));
    let with = |request: reqwest::RequestBuilder, (name, value): &(&str, &str)| {
        request.header(*name, *value)
    };
    app.send(headers.iter().fold(request, with)).await
}

async fn with_key(app: &TestApp, key: &str) -> Answer {
    list(app, &[("authorization", &format!("Bearer {key}"))]).await
}

/// A key with another secret.
fn forged(key: &str) -> String {
    let (id, _) = key.rsplit_once('_').unwrap();
    format!("{id}_{}", "A".repeat(43))
}

#[tokio::test]
async fn whatever_is_wrong_with_a_credential_the_answer_is_the_same() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", BOOTSTRAP)]).await;
    let now = System::new().now();
    let (_, expired) = mint_key_until(&app, ("default", &["admin"]), Some(now)).await;
    let (id, revoked) = mint_key_until(&app, ("default", &["admin"]), None).await;
    keys::revoke(&app.running.store.as_system(), &TenantId::default(), id, now).await.unwrap();
    let good = mint_key(&app, "default", &["admin"]).await;
    let mut answers = vec![list(&app, &[]).await];
    for value in [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Basic {good}"),
        format!("Token {good}"),
        good.clone(),
        "Bearer x".to_owned(),
        "Bearer ag_x_y".to_owned(),
        format!("Bearer {good}x"),
        format!("Bearer {good} x"),
        format!("Bearer {}", good.to_uppercase()),
        format!("Bearer {}", forged(&good)),
        format!("Bearer ag_0198f2c4a1b27cde8f00112233445566_{}", "A".repeat(43)),
        format!("Bearer {expired}"),
        format!("Bearer {revoked}"),
        format!("Bearer {BOOTSTRAP}x"),
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJkZWZhdWx0In0.".to_owned(),
    ] {
        answers.push(list(&app, &[("authorization", &value)]).await);
    }
    let good_header = format!("Bearer {good}");
    let two = [("authorization", good_header.as_str()), ("authorization", good_header.as_str())];
    answers.push(list(&app, &two).await);
    let first = without_ids(answers[0].json());
    for answer in answers {
        assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"agentling\"");
        let problem = answer.expect_problem(401, "unauthenticated");
        assert_eq!(without_ids(problem), first);
    }
    for scheme in ["Bearer", "bearer", "BEARER"] {
        list(&app, &[("authorization", &format!("{scheme} {good}"))]).await.expect(200);
    }
    with_key(&app, BOOTSTRAP).await.expect(200);
}

#[tokio::test]
async fn a_key_in_the_query_opens_nothing() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", BOOTSTRAP)]).await;
    for name in ["api_key", "key", "access_token", "token", "authorization"] {
        let path = format!("/v1/agents?{name}={BOOTSTRAP}");
        let answer = app.get(&path).await;
        assert!(!answer.text.contains(BOOTSTRAP), "{}", answer.text);
        answer.expect_problem(401, "unauthenticated");
        let answer = app.send(app.request("GET", &path).bearer_auth(BOOTSTRAP)).await;
        answer.expect_problem(400, "invalid-parameter");
    }
}

#[tokio::test]
async fn a_key_stops_working_when_it_expires_and_soon_after_it_is_revoked() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let clock = Arc::new(ManualClock::new());
    let around =
        Surroundings { clock: Arc::<ManualClock>::clone(&clock), ..Surroundings::default() };
    let app = TestApp::on(db, tools, &[("AGENTLING_API_KEY", BOOTSTRAP)], around).await;
    let end = clock.now() + Duration::from_secs(10);
    let (_, short) = mint_key_until(&app, ("default", &["admin"]), Some(end)).await;
    let (id, key) = mint_key_until(&app, ("default", &["admin"]), None).await;
    for key in [&short, &key] {
        with_key(&app, key).await.expect(200);
    }
    clock.advance(Duration::from_millis(9_999));
    with_key(&app, &short).await.expect(200);
    clock.advance(Duration::from_millis(1));
    with_key(&app, &short).await.expect_problem(401, "unauthenticated");

    let revoked =
        keys::revoke(&app.running.store.as_system(), &TenantId::default(), id, clock.now()).await;
    assert!(revoked.unwrap());
    clock.advance(Duration::from_secs(30));
    with_key(&app, &key).await.expect_problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_server_without_keys_answers_to_the_names_of_its_machine_only() {
    let app = TestApp::start().await;
    let port = app.running.address.port();
    for host in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", &format!("localhost:{port}")] {
        list(&app, &[("host", host)]).await.expect(200);
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "localhost:x",
        "127.0.0.2",
        "localhost@evil.example",
        "0.0.0.0",
    ] {
        let answer = list(&app, &[("host", host), ("origin", "http://evil.example")]).await;
        answer.expect_problem(421, "misdirected-request");
    }
    let none = send_raw(&app, b"GET /v1/agents HTTP/1.0\r\n\r\n").await;
    assert!(none.starts_with("HTTP/1.0 421 "), "{none}");
    // Whoever asks for its health may do so by any name.
    app.send(app.request("GET", "/healthz").header("host", "evil.example")).await.expect(200);
    // A credential that does not count is not forgiven because none is needed.
    with_key(&app, "x").await.expect_problem(401, "unauthenticated");
}

#[tokio::test]
async fn with_a_key_any_name_of_the_server_will_do_and_without_it_none() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", BOOTSTRAP)]).await;
    let bearer = format!("Bearer {BOOTSTRAP}");
    list(&app, &[("authorization", &bearer), ("host", "api.example")]).await.expect(200);
    list(&app, &[("host", "localhost")]).await.expect_problem(401, "unauthenticated");
}

#[tokio::test]
async fn a_stored_key_closes_a_server_that_was_open() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let clock = Arc::new(ManualClock::new());
    let around =
        Surroundings { clock: Arc::<ManualClock>::clone(&clock), ..Surroundings::default() };
    let app = TestApp::on(db, tools, &[], around).await;
    list(&app, &[]).await.expect(200);
    let key = mint_key(&app, "default", &["agents:read"]).await;
    with_key(&app, &key).await.expect(200);
    clock.advance(Duration::from_secs(30));
    list(&app, &[]).await.expect_problem(401, "unauthenticated");
    with_key(&app, &key).await.expect(200);
}
