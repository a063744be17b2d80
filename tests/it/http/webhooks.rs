//! `/v1/webhooks`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{pointers, speaker};
use crate::support::{TestApp, assert_invariants, execute, mint_key, until};

/// Registers an endpoint of the fake tools.
async fn register(app: &TestApp, more: &Value) -> Value {
    let mut body = json!({ "url": app.tools.url("hook") });
    let members = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(members);
    app.post("/v1/webhooks", &body).await.expect(201)
}

fn path(webhook: &Value) -> String {
    format!("/v1/webhooks/{}", webhook["id"].as_str().unwrap())
}

async fn deliveries(app: &TestApp, webhook: &Value) -> Vec<Value> {
    app.all(&format!("{}/deliveries", path(webhook))).await
}

/// The signature that a receiver makes with the secret that it was shown.
fn signature(secret: &str, id: &str, timestamp: &str, body: &str) -> String {
    let key = BASE64_STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

const TOLD: &str = "SELECT count(*) > 0 AND bool_and(state <> 'pending') FROM webhook_delivery";

#[tokio::test]
async fn an_endpoint_is_registered_read_listed_changed_and_removed() {
    let app = TestApp::start().await;
    let made = register(&app, &json!({ "metadata": { "team": "a" } })).await;
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    let mut shown = made.clone();
    shown.as_object_mut().unwrap().remove("secret");
    assert_eq!(app.get(&path(&made)).await.expect(200), shown, "the secret is shown once");
    assert_eq!(app.all("/v1/webhooks").await, [shown]);
    let events = made["events"].as_array().unwrap();
    assert!(events.contains(&json!("run.completed")) && !events.contains(&json!("run.created")));
    let change = json!({ "url": app.tools.url("other"), "events": ["run.failed", "run.failed"],
                         "enabled": false, "all_runs": false });
    let changed = app.put(&path(&made), &change).await.expect(200);
    assert_eq!((&changed["events"], &changed["enabled"]), (&json!(["run.failed"]), &json!(false)));
    assert_eq!(app.get(&path(&made)).await.expect(200), changed);
    assert_eq!(app.delete(&path(&made)).await.status, 204);
    app.get(&path(&made)).await.expect_problem(404, "not-found");
    app.delete(&path(&made)).await.expect_problem(404, "not-found");
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_is_refused_at_its_place() {
    let app = TestApp::start().await;
    for (body, slug, pointer) in [
        (json!({ "url": "http://127.0.0.1:1/" }), "egress-denied", "/url"),
        (json!({ "url": "https://10.0.0.1/" }), "egress-denied", "/url"),
        (json!({ "url": "https://a:b@example.com/" }), "egress-denied", "/url"),
        (json!({ "url": "nonsense" }), "egress-denied", "/url"),
        (json!({ "url": "" }), "validation-failed", "/url"),
        (json!({}), "validation-failed", "/url"),
        (json!({ "url": "https://example.com", "events": [] }), "validation-failed", "/events"),
        (
            json!({ "url": "https://example.com", "events": ["run.failed", "turn.started"] }),
            "validation-failed",
            "/events/1",
        ),
        (
            json!({ "url": "https://example.com", "events": ["run.flew"] }),
            "validation-failed",
            "/events/0",
        ),
        (json!({ "url": "https://example.com", "secret": "x" }), "unknown-field", "/secret"),
    ] {
        let problem = app.post("/v1/webhooks", &body).await.expect_problem(422, slug);
        assert_eq!(pointers(&problem), [pointer], "{problem}");
    }
    let run = json!({ "agent": speaker("a", "Hello."), "input": "hi",
                      "webhook": "whk_0198f2c4a1b27cde8f00112233445566" });
    let problem = app.post("/v1/runs", &run).await.expect_problem(422, "validation-failed");
    assert_eq!(pointers(&problem), ["/webhook"]);
}

#[tokio::test]
async fn an_endpoint_is_told_what_the_api_shows_and_can_check_who_says_it() {
    let app = TestApp::start().await;
    let webhook = register(&app, &json!({ "events": ["run.created", "run.completed"] })).await;
    let run = app.run(&speaker("a", "Hello."), "hi").await;
    app.tools.wait_for(2).await;
    let mut told = app.tools.seen();
    told.sort_by_key(|seen| seen.body["event_id"].as_i64());
    let events = app.events(run["id"].as_str().unwrap()).await;
    for (seen, event) in told.iter().zip([events.first().unwrap(), events.last().unwrap()]) {
        assert_eq!(seen.body["type"], event["event"]);
        assert_eq!((&seen.body["run_id"], &seen.body["event_id"]), (&run["id"], &event["id"]));
        assert_eq!(seen.body["data"], event["data"]);
        assert!(seen.body["timestamp"].is_string());
        let [id, timestamp, signed] = &seen.webhook;
        let secret = webhook["secret"].as_str().unwrap();
        assert_eq!(*signed, signature(secret, id, timestamp, &seen.text));
    }
    until(&app.db, TOLD).await;
    let listed = deliveries(&app, &webhook).await;
    assert_eq!(listed.len(), 2);
    for delivery in &listed {
        assert_eq!((&delivery["state"], &delivery["attempts"]), (&json!("delivered"), &json!(1)));
        assert_eq!((&delivery["last_status"], &delivery["run_id"]), (&json!(200), &run["id"]));
        assert!(told.iter().any(|seen| json!(seen.webhook[0]) == delivery["id"]));
    }
    let failed = app.get(&format!("{}/deliveries?state=failed", path(&webhook))).await.expect(200);
    assert_eq!(failed["items"], json!([]));
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn an_endpoint_is_told_of_the_runs_it_is_for_and_no_others() {
    let app = TestApp::start().await;
    let webhook = register(&app, &json!({ "all_runs": false })).await;
    let other = mint_key(&app, "other", &["runs:write", "runs:read", "agents:write"]).await;
    let body = json!({ "agent": speaker("a", "Hello."), "input": "hi" });
    let mut named = body.clone();
    named["webhook"] = webhook["id"].clone();
    let admin = mint_key(&app, "default", &["admin"]).await;
    let app = app.with_key(&admin);
    app.run_body(&body).await;
    let run = app.run_body(&named).await;
    let listed = deliveries(&app, &webhook).await;
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0]["run_id"], &listed[0]["event"]), (&run["id"], &json!("run.completed")));
    // Another tenant cannot have it told.
    let app = app.with_key(&other);
    app.post("/v1/runs", &named).await.expect_problem(422, "validation-failed");
}

#[tokio::test]
async fn a_run_that_ends_before_a_worker_has_it_is_told_too() {
    let app = TestApp::with(&[("AGENTLING_CONCURRENCY", "1")]).await;
    let webhook = register(&app, &json!({})).await;
    super::start_endless_run(&app).await;
    until(&app.db, "SELECT count(*) = 1 FROM run WHERE status = 'running'").await;
    let waiting = app.start_run(&json!({ "agent": speaker("a", "x"), "input": "hi" })).await;
    let cancel = format!("/v1/runs/{}/cancel", waiting["id"].as_str().unwrap());
    app.post(&cancel, &json!({})).await.expect(202);
    app.tools.wait_for(1).await;
    assert_eq!(app.tools.seen()[0].body["type"], "run.cancelled");
    assert_eq!(deliveries(&app, &webhook).await.len(), 1);
}

#[tokio::test]
async fn for_a_day_after_a_rotation_both_secrets_sign() {
    let app = TestApp::start().await;
    let before = register(&app, &json!({})).await;
    let rotate = format!("{}/rotate", path(&before));
    let after = app.post(&rotate, &json!({})).await.expect(200);
    assert_ne!(after["secret"], before["secret"]);
    app.run(&speaker("a", "Hello."), "hi").await;
    app.tools.wait_for(1).await;
    let signed = |secret: &Value, n: usize| {
        let seen = &app.tools.seen()[n];
        signature(
            secret["secret"].as_str().unwrap(),
            &seen.webhook[0],
            &seen.webhook[1],
            &seen.text,
        )
    };
    let both = format!("{} {}", signed(&after, 0), signed(&before, 0));
    assert_eq!(app.tools.seen()[0].webhook[2], both);
    execute(&app.db, "UPDATE webhook SET rotated_at = now() - interval '25 hours'").await;
    app.run(&speaker("a", "Hello."), "hi").await;
    app.tools.wait_for(2).await;
    assert_eq!(app.tools.seen()[1].webhook[2], signed(&after, 1));
}

#[tokio::test]
async fn a_delivery_is_made_again_under_its_id_when_a_caller_asks() {
    let app = TestApp::start().await;
    let webhook = register(&app, &json!({})).await;
    app.run(&speaker("a", "Hello."), "hi").await;
    until(&app.db, TOLD).await;
    let delivery = deliveries(&app, &webhook).await[0].clone();
    let id = delivery["id"].as_str().unwrap();
    let again = format!("{}/deliveries/{id}/redeliver", path(&webhook));
    let due = app.post(&again, &json!({})).await.expect(202);
    assert_eq!((&due["id"], &due["state"]), (&delivery["id"], &json!("pending")));
    app.tools.wait_for(2).await;
    let seen = app.tools.seen();
    assert_eq!((&seen[0].webhook[0], &seen[0].body), (&seen[1].webhook[0], &seen[1].body));
    let none = again.replace(id, "dlv_0198f2c4a1b27cde8f00112233445566");
    app.post(&none, &json!({})).await.expect_problem(404, "not-found");
}

#[tokio::test]
async fn an_endpoint_that_says_it_is_no_more_is_told_nothing_more() {
    let app = TestApp::start().await;
    app.tools.answer("hook", |_| (410, json!({})));
    let webhook = register(&app, &json!({})).await;
    app.run(&speaker("a", "Hello."), "hi").await;
    until(&app.db, "SELECT count(*) = 1 FROM webhook WHERE disabled_at IS NOT NULL").await;
    assert_eq!(app.get(&path(&webhook)).await.expect(200)["enabled"], false);
    app.run(&speaker("a", "Hello."), "hi").await;
    assert_eq!(deliveries(&app, &webhook).await.len(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let app = TestApp::with(&[("AGENTLING_WEBHOOK_RETRY_MS", "3600000")]).await;
    app.tools.answer("hook", |_| (307, json!({})));
    let webhook = register(&app, &json!({})).await;
    app.run(&speaker("a", "Hello."), "hi").await;
    until(&app.db, "SELECT count(*) = 1 FROM webhook_delivery WHERE last_status = 307").await;
    let delivery = deliveries(&app, &webhook).await[0].clone();
    assert_eq!(
        (&delivery["state"], &delivery["last_error"]),
        (&json!("pending"), &json!("status"))
    );
}

#[tokio::test]
async fn a_rule_that_watches_webhooks_keeps_its_text_from_endpoints_alone() {
    let app = TestApp::start().await;
    register(&app, &json!({})).await;
    let mut agent = speaker("a", "The code is tangerine.");
    agent["redaction"] = json!([{ "kind": "value", "name": "code", "value": "tangerine",
                                  "channels": ["webhook"] }]);
    let run = app.run(&agent, "hi").await;
    assert_eq!(run["answer"], "The code is tangerine.");
    app.tools.wait_for(1).await;
    assert!(!app.tools.seen()[0].text.contains("tangerine"), "{}", app.tools.seen()[0].text);
}
