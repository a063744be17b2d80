//! `GET /v1/memory/items`, and whose items they are.

use serde_json::json;

use super::{found, item, path, put, send_with};
use crate::http::without_ids;
use crate::support::{TestApp, mint_key, picture_of};

#[tokio::test]
async fn an_item_is_there_once_it_was_put_and_in_no_other_place() {
    let app = TestApp::start().await;
    let missing = app.get(&path("a", "k")).await.expect_problem(404, "not-found");
    put(&app, "a", "k", &json!("v")).await.expect(200);
    assert_eq!(app.get(&path("a", "k")).await.expect(200)["value"], "v");
    for (namespace, key) in [("a/a", "k"), ("A", "k"), ("a", "K"), ("a", "k k")] {
        let problem = app.get(&path(namespace, key)).await.expect_problem(404, "not-found");
        assert_eq!(without_ids(problem), without_ids(missing.clone()));
    }
}

#[tokio::test]
async fn another_tenants_items_are_not_there_for_anything() {
    let own = "the-key-of-the-test";
    let app = TestApp::with(&[("AGENTLING_API_KEY", own)]).await;
    let foreign = mint_key(&app, "other", &["memory:read", "memory:write"]).await;
    let app = app.with_key(own);
    put(&app, "a", "k", &json!("theirs")).await.expect(200);
    let before = picture_of(&app.db, "memory_item").await;
    let path = path("a", "k");
    let versions = format!("/v1/memory/items/versions?{}", item("a", "k"));
    let which = json!({"namespace": ["a"], "key": "k", "version": 1}).to_string();
    for (method, path, body) in [
        ("GET", path.as_str(), ""),
        ("DELETE", &path, ""),
        ("DELETE", &format!("{path}&purge=true"), ""),
        ("GET", &versions, ""),
        ("POST", "/v1/memory/items/versions/redact", &which),
    ] {
        let answer = send_with(&app, &foreign, (method, path), body).await;
        answer.expect_problem(404, "not-found");
    }
    let listed = send_with(&app, &foreign, ("GET", "/v1/memory/namespaces"), "").await.expect(200);
    assert_eq!(listed["items"], json!([]));
    for search in ["{}", r#"{"query":"theirs"}"#] {
        let found = send_with(&app, &foreign, ("POST", "/v1/memory/search"), search).await;
        assert_eq!(found.expect(200)["items"], json!([]));
    }
    let put = send_with(&app, &foreign, ("PUT", &path), r#"{"value":"ours"}"#).await.expect(200);
    assert_eq!(put["version"], 1);
    assert!(picture_of(&app.db, "memory_item").await.contains(&before));
    assert_eq!(app.get(&path).await.expect(200)["value"], "theirs");
    assert_eq!(found(&app, &json!({"query": "ours"})).await, [""; 0]);
}
