//! Items whose time is bounded.

use serde_json::json;

use super::{found, item, path, put, versions};
use crate::support::{TestApp, assert_invariants, count, execute, until};

/// Moves the end of every item and version into the past.
const EXPIRE: &str =
    "WITH v AS (UPDATE memory_item_version SET expires_at = now() WHERE expires_at IS NOT NULL)
                      UPDATE memory_item SET expires_at = now() WHERE expires_at IS NOT NULL";

/// Whoever sweeps has done so and rests for an hour.
const RESTS: &str = "SELECT bool_and(due_at > now() + interval '30 minutes') FROM chore
                      WHERE name = 'expired_items'";

async fn put_for_a_day(app: &TestApp, key: &str) -> serde_json::Value {
    let body = json!({"value": "here", "ttl_s": 86_400});
    app.put(&path("a", key), &body).await.expect(200)
}

#[tokio::test]
async fn what_has_expired_is_not_there_for_anything_before_it_is_swept() {
    let app = TestApp::start().await;
    until(&app.db, RESTS).await;
    let made = put_for_a_day(&app, "k").await;
    assert!(made["expires_at"].as_str().unwrap() > made["updated_at"].as_str().unwrap());
    assert_eq!(app.get(&path("a", "k")).await.expect(200)["expires_at"], made["expires_at"]);
    execute(&app.db, EXPIRE).await;
    let listed = format!("/v1/memory/items/versions?{}", item("a", "k"));
    for path in [path("a", "k"), listed] {
        app.get(&path).await.expect_problem(404, "not-found");
    }
    for path in [path("a", "k"), format!("{}&purge=true", path("a", "k"))] {
        app.delete(&path).await.expect_problem(404, "not-found");
    }
    let which = json!({"namespace": ["a"], "key": "k", "version": 1});
    let redacted = app.post("/v1/memory/items/versions/redact", &which).await;
    redacted.expect_problem(404, "not-found");
    for search in [json!({}), json!({"query": "here"})] {
        assert_eq!(found(&app, &search).await, [""; 0]);
    }
    assert_eq!(app.get("/v1/memory/namespaces").await.expect(200)["items"], json!([]));
    assert_eq!(count(&app.db, "SELECT count(*) FROM memory_item").await, 1);
    // What is put there begins anew behind it.
    let again = put(&app, "a", "k", &json!("again")).await.expect(200);
    assert_eq!((&again["version"], again.get("expires_at")), (&json!(2), None));
    assert_ne!(again["created_at"], made["created_at"]);
    assert_eq!(versions(&app, "a", "k").await, [(2, "kept".into(), json!("again"))]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn what_has_expired_is_swept_and_nothing_else_is() {
    let app = TestApp::start().await;
    put_for_a_day(&app, "gone").await;
    put_for_a_day(&app, "replaced").await;
    put(&app, "a", "replaced", &json!("newer")).await.expect(200);
    put(&app, "a", "stays", &json!(1)).await.expect(200);
    execute(&app.db, EXPIRE).await;
    until(&app.db, RESTS).await;
    execute(&app.db, "UPDATE chore SET due_at = now() WHERE name = 'expired_items'").await;
    until(&app.db, "SELECT count(*) = 2 FROM memory_item").await;
    until(&app.db, "SELECT count(*) = 2 FROM memory_item_version").await;
    assert_eq!(versions(&app, "a", "replaced").await, [(2, "kept".into(), json!("newer"))]);
    assert_eq!(found(&app, &json!({})).await, ["replaced", "stays"]);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn deleted_items_and_old_versions_are_forgotten_when_the_operator_says_so() {
    let app = TestApp::with(&[("AGENTLING_RETAIN_ITEM_VERSIONS_DAYS", "30")]).await;
    for (key, n) in [("deleted", 1), ("deleted", 2), ("stays", 1), ("stays", 2)] {
        put(&app, "a", key, &json!(n)).await.expect(200);
    }
    app.delete(&path("a", "deleted")).await;
    execute(
        &app.db,
        "WITH v AS (UPDATE memory_item_version SET created_at = created_at - interval '31 days')
         UPDATE memory_item SET updated_at = updated_at - interval '31 days'",
    )
    .await;
    put(&app, "a", "young", &json!(1)).await.expect(200);
    put(&app, "a", "young", &json!(2)).await.expect(200);
    let rests =
        "SELECT due_at > now() + interval '30 minutes' FROM chore WHERE name = 'item_versions'";
    until(&app.db, rests).await;
    execute(&app.db, "UPDATE chore SET due_at = now() WHERE name = 'item_versions'").await;
    until(&app.db, "SELECT count(*) = 2 FROM memory_item").await;
    until(&app.db, "SELECT count(*) = 3 FROM memory_item_version").await;
    assert_eq!(versions(&app, "a", "stays").await, [(2, "kept".into(), json!(2))]);
    assert_eq!(versions(&app, "a", "young").await.len(), 2);
    assert_invariants(&app.db).await;
}
