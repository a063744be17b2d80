//! `DELETE /v1/memory/items`.

use serde_json::{Value, json};

use super::{found, path, put, versions};
use crate::http::send_text;
use crate::support::{TestApp, assert_invariants, picture_of};

#[tokio::test]
async fn a_deleted_item_is_gone_and_its_versions_stay_until_it_is_purged() {
    let app = TestApp::start().await;
    let path = path("a", "k");
    app.delete(&path).await.expect_problem(404, "not-found");
    let first = put(&app, "a", "k", &json!("one")).await.expect(200);
    assert_eq!(app.delete(&path).await.status, 204);
    app.delete(&path).await.expect_problem(404, "not-found");
    app.get(&path).await.expect_problem(404, "not-found");
    assert_eq!(found(&app, &json!({})).await, [""; 0]);
    assert_eq!(found(&app, &json!({"query": "one"})).await, [""; 0]);
    assert_eq!(
        versions(&app, "a", "k").await,
        [(2, "deleted".into(), Value::Null), (1, "kept".into(), json!("one"))]
    );
    assert_invariants(&app.db).await;
    let again = put(&app, "a", "k", &json!("two")).await.expect(200);
    assert_eq!(again["version"], 3);
    assert_ne!(again["created_at"], first["created_at"]);
    assert_eq!(app.delete(&format!("{path}&purge=true")).await.status, 204);
    app.delete(&format!("{path}&purge=true")).await.expect_problem(404, "not-found");
    for table in ["memory_item", "memory_item_version"] {
        assert_eq!(picture_of(&app.db, table).await, "");
    }
}

#[tokio::test]
async fn what_was_deleted_before_can_be_purged_and_a_stale_state_keeps_it() {
    let app = TestApp::start().await;
    let path = path("a", "k");
    let purge = format!("{path}&purge=true");
    let tag = put(&app, "a", "k", &json!(1)).await.header("etag").to_owned();
    put(&app, "a", "k", &json!(2)).await.expect(200);
    for path in [&path, &purge] {
        let stale = send_text(&app, ("DELETE", path), &tag, "").await;
        stale.expect_problem(412, "precondition-failed");
    }
    let tag = app.get(&path).await.header("etag").to_owned();
    assert_eq!(send_text(&app, ("DELETE", &path), &tag, "").await.status, 204);
    assert_eq!(app.delete(&purge).await.status, 204);
    assert_eq!(picture_of(&app.db, "memory_item_version").await, "");
}
