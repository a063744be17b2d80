//! `POST /v1/memory/items/versions/redact`.

use serde_json::{Value, json};

use super::{found, path, put, send_with, versions};
use crate::support::{TestApp, assert_invariants, mint_key, picture_everything};

const REDACT: &str = "/v1/memory/items/versions/redact";

#[tokio::test]
async fn a_redacted_version_leaves_when_and_who_and_nothing_of_its_value() {
    let own = "the-key-of-the-test";
    let app = TestApp::with(&[("AGENTLING_API_KEY", own)]).await;
    let key = mint_key(&app, "default", &["memory:write"]).await;
    let app = app.with_key(own);
    put(&app, "a", "k", &json!("canary-one")).await.expect(200);
    put(&app, "a", "k", &json!({"t": ["canary-two"]})).await.expect(200);
    let which = json!({"namespace": ["a"], "key": "k", "version": 1}).to_string();
    let left = send_with(&app, &key, ("POST", REDACT), &which).await.expect(200);
    assert_eq!((&left["state"], left.get("value")), (&json!("redacted"), None));
    assert!(left["redacted_at"].is_string());
    assert!(key.contains(&left["redacted_by"].as_str().unwrap().replace("key_", "")), "{left}");
    // Asked for again, by somebody else, it answers the same.
    let again = app.post(REDACT, &serde_json::from_str(&which).unwrap()).await.expect(200);
    assert_eq!(again, left);
    assert_eq!(app.get(&path("a", "k")).await.expect(200)["version"], 2);
    assert_eq!(found(&app, &json!({"query": "canary"})).await, ["k"]);
    assert!(!picture_everything(&app.db).await.contains("canary-one"));

    let which = json!({"namespace": ["a"], "key": "k", "version": 2});
    app.post(REDACT, &which).await.expect(200);
    app.get(&path("a", "k")).await.expect_problem(404, "not-found");
    for search in [json!({}), json!({"query": "canary"}), json!({"query": "k"})] {
        assert_eq!(found(&app, &search).await, [""; 0]);
    }
    let everything = picture_everything(&app.db).await;
    assert!(!everything.contains("canary"), "{everything}");
    assert_invariants(&app.db).await;
    assert_eq!(put(&app, "a", "k", &json!("new")).await.expect(200)["version"], 3);
    assert_eq!(
        versions(&app, "a", "k").await,
        [
            (3, "kept".into(), json!("new")),
            (2, "redacted".into(), Value::Null),
            (1, "redacted".into(), Value::Null)
        ]
    );
}

#[tokio::test]
async fn what_is_not_there_and_what_has_no_value_cannot_be_redacted() {
    let app = TestApp::start().await;
    put(&app, "a", "k", &json!(1)).await.expect(200);
    app.delete(&path("a", "k")).await;
    for (namespace, key, version) in [("a", "k", 2), ("a", "k", 3), ("a", "l", 1), ("b", "k", 1)] {
        let which = json!({"namespace": [namespace], "key": key, "version": version});
        app.post(REDACT, &which).await.expect_problem(404, "not-found");
    }
    let which = json!({"namespace": ["a"], "key": "k", "version": 1});
    assert_eq!(app.post(REDACT, &which).await.expect(200)["state"], "redacted");
}
