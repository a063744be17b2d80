//! `/v1/keys`.

use std::sync::Arc;
use std::time::Duration;

use agentling::app::Surroundings;
use agentling::clock::{Clock as _, System};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};

use super::{pointers, without_ids};
use crate::support::{
    Answer, FakeTools, ManualClock, TestApp, TestDb, assert_invariants, mint_key, mint_key_until,
    picture_everything, stored, with_json,
};

const BOOTSTRAP: &str = "the-operators-own-key";

/// A server with the bootstrap key, which it is sent by default.
async fn server() -> TestApp {
    TestApp::with(&[("AGENTLING_API_KEY", BOOTSTRAP)]).await.with_key(BOOTSTRAP)
}

/// A server on a database, with a clock that a test moves.
async fn server_at(db: &TestDb, clock: &Arc<ManualClock>) -> TestApp {
    let around =
        Surroundings { clock: Arc::<ManualClock>::clone(clock), ..Surroundings::default() };
    let settings = [("AGENTLING_API_KEY", BOOTSTRAP)];
    let app = TestApp::on(db.clone(), FakeTools::start().await, &settings, around).await;
    app.with_key(BOOTSTRAP)
}

async fn make(app: &TestApp, body: &Value) -> Value {
    app.post("/v1/keys", body).await.expect(201)
}

fn path(key: &Value) -> String {
    format!("/v1/keys/{}", key["id"].as_str().unwrap())
}

fn text(key: &Value) -> &str {
    key["key"].as_str().unwrap()
}

async fn rotate(app: &TestApp, key: &Value, body: &Value) -> Answer {
    app.post(&format!("{}/rotate", path(key)), body).await
}

/// Sends a request with this key and no other.
async fn send_as(app: &TestApp, key: &str, (method, path): (&str, &str), body: &str) -> Answer {
    let request = app.client().request(method.parse().unwrap(), app.url(path)).bearer_auth(key);
    app.send(request.header("content-type", "application/json").body(body.to_owned())).await
}

/// What a key gets when it is shown.
async fn shown(app: &TestApp, key: &Value) -> u16 {
    send_as(app, text(key), ("GET", "/v1/agents"), "").await.status
}

fn rfc3339(time: DateTime<Utc>) -> Value {
    json!(time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

#[tokio::test]
async fn a_key_is_shown_once_works_is_listed_and_stops_when_it_is_revoked() {
    let app = server().await;
    let made = make(&app, &json!({ "name": "ci", "scopes": ["agents:read"] })).await;
    assert!(text(&made).starts_with("ag_"));
    assert_eq!((&made["name"], &made["scopes"]), (&json!("ci"), &json!(["agents:read"])));
    assert_eq!(shown(&app, &made).await, 200);
    let refused = send_as(&app, text(&made), ("GET", "/v1/keys"), "").await;
    refused.expect_problem(403, "insufficient-scope");
    let mut facts = made.clone();
    facts.as_object_mut().unwrap().remove("key");
    assert_eq!(app.get(&path(&made)).await.expect(200), facts, "the text is shown once");
    assert_eq!(app.all("/v1/keys").await, [facts], "the operator's key is not listed");
    assert_eq!(app.delete(&path(&made)).await.status, 204);
    assert_eq!(shown(&app, &made).await, 401, "here it stops at once");
    let revoked = app.get(&path(&made)).await.expect(200);
    assert!(revoked["revoked_at"].is_string(), "{revoked}");
    assert_eq!(app.delete(&path(&made)).await.status, 204, "revoking again is no error");
    assert_eq!(app.get(&path(&made)).await.expect(200), revoked);
}

#[tokio::test]
async fn keys_are_listed_newest_first_page_by_page() {
    let app = server().await;
    let mut made = Vec::new();
    for n in 0..5 {
        made.push(make(&app, &json!({ "name": format!("k{n}"), "scopes": ["admin"] })).await);
    }
    made.reverse();
    let ids = |keys: &[Value]| keys.iter().map(|key| key["id"].clone()).collect::<Vec<_>>();
    let first = app.get("/v1/keys?limit=3").await.expect(200);
    let rest = format!("/v1/keys?limit=3&cursor={}", first["next_cursor"].as_str().unwrap());
    let rest = app.get(&rest).await.expect(200);
    let items =
        [first["items"].as_array().unwrap().clone(), rest["items"].as_array().unwrap().clone()];
    assert_eq!(ids(&items.concat()), ids(&made));
    assert_eq!(rest["next_cursor"], Value::Null);
}

#[tokio::test]
async fn a_key_that_cannot_be_is_refused_at_its_place() {
    let app = server().await;
    let now = System::new().now();
    let before = stored(&app.db).await;
    for (body, slug, pointer) in [
        (json!({}), "validation-failed", "/scopes"),
        (json!({ "scopes": [] }), "validation-failed", "/scopes"),
        (json!({ "scopes": ["agents:fly"] }), "validation-failed", "/scopes/0"),
        (json!({ "scopes": "admin" }), "validation-failed", "/scopes"),
        (json!({ "scopes": ["admin"], "name": "" }), "validation-failed", "/name"),
        (json!({ "scopes": ["admin"], "name": "x".repeat(65) }), "validation-failed", "/name"),
        (json!({ "scopes": ["admin"], "name": "a\nb" }), "validation-failed", "/name"),
        (json!({ "scopes": ["admin"], "expires_at": "soon" }), "validation-failed", "/expires_at"),
        (
            json!({ "scopes": ["admin"], "expires_at": rfc3339(now - TimeDelta::days(1)) }),
            "validation-failed",
            "/expires_at",
        ),
        (
            json!({ "scopes": ["admin"], "expires_at": rfc3339(now + TimeDelta::days(3_660)) }),
            "validation-failed",
            "/expires_at",
        ),
        (json!({ "scopes": ["admin"], "tenant": "other" }), "unknown-field", "/tenant"),
        (json!({ "scopes": ["admin"], "tenant_id": "other" }), "unknown-field", "/tenant_id"),
        (json!({ "scopes": ["admin"], "key": "ag_x_y" }), "unknown-field", "/key"),
    ] {
        let problem = app.post("/v1/keys", &body).await.expect_problem(422, slug);
        assert_eq!(pointers(&problem), [pointer], "{body}: {problem}");
    }
    assert_eq!(stored(&app.db).await, before);
    let key = make(&app, &json!({ "scopes": ["admin"] })).await;
    for (body, pointer) in [
        (json!({ "overlap_secs": 2_592_001 }), "/overlap_secs"),
        (json!({ "overlap_secs": -1 }), "/overlap_secs"),
        (json!({ "expires_at": rfc3339(now - TimeDelta::days(1)) }), "/expires_at"),
    ] {
        let problem = rotate(&app, &key, &body).await.expect_problem(422, "validation-failed");
        assert_eq!(pointers(&problem), [pointer], "{problem}");
    }
}

#[tokio::test]
async fn a_key_of_another_tenant_is_not_there() {
    let app = server().await;
    let (id, _) = mint_key_until(&app, ("other", &["admin"]), None).await;
    let never = "/v1/keys/key_0198f2c4a1b27cde8f00112233445566";
    let foreign = format!("/v1/keys/{id}");
    let before = stored(&app.db).await;
    for (method, end) in [("GET", ""), ("DELETE", ""), ("POST", "/rotate")] {
        let ask = async |path: &str| {
            let answer = app.send(app.request(method, &format!("{path}{end}"))).await;
            without_ids(answer.expect_problem(404, "not-found"))
        };
        assert_eq!(ask(&foreign).await, ask(never).await);
    }
    assert_eq!(app.all("/v1/keys").await, Vec::<Value>::new());
    assert_eq!(stored(&app.db).await, before);
    // An admin of the other tenant makes keys of that one and sees no others.
    let other = mint_key(&app, "other", &["admin"]).await;
    let body = json!({ "scopes": ["runs:read"] }).to_string();
    let made = send_as(&app, &other, ("POST", "/v1/keys"), &body).await.expect(201);
    send_as(&app, &other, ("GET", &path(&made)), "").await.expect(200);
    app.get(&path(&made)).await.expect_problem(404, "not-found");
}

#[tokio::test]
async fn b28_a_revoked_key_stops_on_another_replica_within_thirty_seconds() {
    let (db, clock) = (TestDb::new().await, Arc::new(ManualClock::new()));
    let (one, other) = (server_at(&db, &clock).await, server_at(&db, &clock).await);
    let key = make(&one, &json!({ "scopes": ["agents:read"] })).await;
    assert_eq!([shown(&one, &key).await, shown(&other, &key).await], [200, 200]);
    assert_eq!(one.delete(&path(&key)).await.status, 204);
    assert_eq!(shown(&one, &key).await, 401);
    clock.advance(Duration::from_secs(30));
    assert_eq!(shown(&other, &key).await, 401);
}

#[tokio::test]
async fn b28_a_key_that_expires_is_refused_like_any_other() {
    let (db, clock) = (TestDb::new().await, Arc::new(ManualClock::new()));
    let app = server_at(&db, &clock).await;
    let end = rfc3339(clock.now() + Duration::from_mins(1));
    let key = make(&app, &json!({ "scopes": ["agents:read"], "expires_at": end })).await;
    assert_eq!((&key["expires_at"], shown(&app, &key).await), (&end, 200));
    clock.advance(Duration::from_mins(1));
    let expired = send_as(&app, text(&key), ("GET", "/v1/agents"), "").await;
    let unknown = send_as(&app, "x", ("GET", "/v1/agents"), "").await;
    let problems =
        [expired, unknown].map(|answer| without_ids(answer.expect_problem(401, "unauthenticated")));
    assert_eq!(problems[0], problems[1]);
    rotate(&app, &key, &json!({})).await.expect_problem(410, "gone");
}

#[tokio::test]
async fn both_keys_of_a_rotation_work_until_the_overlap_is_over() {
    let (db, clock) = (TestDb::new().await, Arc::new(ManualClock::new()));
    let app = server_at(&db, &clock).await;
    let end = rfc3339(clock.now() + Duration::from_hours(24));
    let body = json!({ "name": "ci", "scopes": ["agents:read", "runs:read"], "expires_at": end });
    let old = make(&app, &body).await;
    clock.advance(Duration::from_hours(1));
    let new = rotate(&app, &old, &json!({ "overlap_secs": 120 })).await.expect(201);
    assert_ne!((&new["id"], &new["key"]), (&old["id"], &old["key"]));
    assert_eq!((&new["name"], &new["scopes"]), (&old["name"], &old["scopes"]));
    assert_eq!(new["replaces"], old["id"]);
    let lives_as_long = rfc3339(clock.now() + Duration::from_hours(24));
    assert_eq!(new["expires_at"], lives_as_long);
    clock.advance(Duration::from_secs(119));
    assert_eq!([shown(&app, &old).await, shown(&app, &new).await], [200, 200]);
    clock.advance(Duration::from_secs(1));
    assert_eq!([shown(&app, &old).await, shown(&app, &new).await], [401, 200]);
    rotate(&app, &old, &json!({})).await.expect_problem(410, "gone");
    // Without an overlap the old key stops at once, and an overlap never makes a key live longer.
    let last = rotate(&app, &new, &json!({ "overlap_secs": 0 })).await.expect(201);
    assert_eq!([shown(&app, &new).await, shown(&app, &last).await], [401, 200]);
    rotate(&app, &last, &json!({ "overlap_secs": 2_592_000 })).await.expect(201);
    assert_eq!(app.get(&path(&last)).await.expect(200)["expires_at"], last["expires_at"]);
    assert_eq!(app.delete(&path(&last)).await.status, 204);
    rotate(&app, &last, &json!({})).await.expect_problem(410, "gone");
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_repeated_request_makes_no_second_key_and_does_not_show_the_first_again() {
    let app = server().await;
    let again = async |path: &str, body: &Value| {
        let request = with_json(app.request("POST", path), body);
        app.send(request.header("idempotency-key", "once")).await
    };
    let body = json!({ "name": "ci", "scopes": ["agents:read"] });
    let first = again("/v1/keys", &body).await.expect(201);
    let repeated = again("/v1/keys", &json!({ "scopes": ["agents:read"], "name": "ci" })).await;
    assert_eq!(repeated.header("idempotency-replayed"), "true");
    let repeated = repeated.expect(201);
    assert_eq!((&repeated["id"], &repeated["key"]), (&first["id"], &Value::Null));
    let other = json!({ "scopes": ["admin"] });
    again("/v1/keys", &other).await.expect_problem(422, "idempotency-key-reused");
    let turn = format!("{}/rotate", path(&first));
    let rotated = again(&turn, &json!({ "overlap_secs": 0 })).await.expect(201);
    let repeated = again(&turn, &json!({ "overlap_secs": 0 })).await;
    assert_eq!(repeated.header("idempotency-replayed"), "true");
    let repeated = repeated.expect(201);
    assert_eq!((&repeated["id"], &repeated["key"]), (&rotated["id"], &Value::Null));
    again(&turn, &json!({})).await.expect_problem(422, "idempotency-key-reused");
    assert_eq!(app.all("/v1/keys").await.len(), 2);
    // What makes a key work is nowhere in the database.
    let everything = picture_everything(&app.db).await;
    for key in [&first, &rotated] {
        let (_, secret) = text(key).rsplit_once('_').unwrap();
        assert!(!everything.contains(secret));
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn of_two_who_rotate_a_key_at_once_both_get_one_and_the_old_one_ends() {
    let app = server().await;
    let key = make(&app, &json!({ "scopes": ["agents:read"] })).await;
    let now = json!({ "overlap_secs": 600 });
    let (one, other) = tokio::join!(rotate(&app, &key, &now), rotate(&app, &key, &now));
    let (one, other) = (one.expect(201), other.expect(201));
    assert_ne!(one["id"], other["id"]);
    assert!(app.get(&path(&key)).await.expect(200)["expires_at"].is_string());
}

#[tokio::test]
async fn the_first_key_that_is_made_closes_a_server_that_was_open() {
    let app = TestApp::start().await;
    let made = make(&app, &json!({ "scopes": ["admin"] })).await;
    app.get("/v1/keys").await.expect_problem(401, "unauthenticated");
    let app = app.with_key(text(&made));
    assert_eq!(app.all("/v1/keys").await.len(), 1);
}
