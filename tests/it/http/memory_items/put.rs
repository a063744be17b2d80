//! `PUT /v1/memory/items`.

use serde_json::{Value, json};

use super::{item, path, put, versions};
use crate::http::{pointers, send_text};
use crate::support::{FakeTools, PgProxy, TestApp, TestDb, assert_invariants, picture_of};
use agentling::store::PoolSettings;

#[tokio::test]
async fn a_value_is_kept_as_it_was_spelt_and_each_is_a_version() {
    let app = TestApp::start().await;
    let body = r#"{"value": {"b": 1.10, "a": [1e2, -0, 12345678901234567890]}}"#;
    let spelt = r#""value":{"b":1.10,"a":[1e2,-0,12345678901234567890]}"#;
    let path = path("users/42", "favourite colour");
    let answer = send_text(&app, ("PUT", &path), "", body).await;
    assert!(answer.text.contains(spelt), "{}", answer.text);
    assert_eq!(app.get(&path).await.text, answer.text);
    let first = answer.clone().expect(200);
    assert_eq!(
        (&first["namespace"], &first["key"], &first["version"]),
        (&json!(["users", "42"]), &json!("favourite colour"), &json!(1))
    );
    assert_eq!(first.get("expires_at"), None);
    let second = put(&app, "users/42", "favourite colour", &Value::Null).await;
    let tag = second.header("etag").to_owned();
    let second = second.expect(200);
    assert_eq!((&second["version"], &second["value"]), (&json!(2), &Value::Null));
    assert_eq!(second["created_at"], first["created_at"]);
    let got = app.get(&path).await;
    assert_eq!(got.header("etag"), tag);
    assert_ne!(answer.header("etag"), tag);
    let kept: Vec<_> = versions(&app, "users/42", "favourite colour").await;
    assert_eq!(kept.iter().map(|it| it.0).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(kept[1].2["b"], 1.1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_change_of_a_state_that_is_not_the_newest_is_refused() {
    let app = TestApp::start().await;
    let path = path("a", "k");
    let body = r#"{"value":1}"#;
    for absent in ["*", "\"1-0\""] {
        let answer = send_text(&app, ("PUT", &path), absent, body).await;
        answer.expect_problem(412, "precondition-failed");
    }
    let first = put(&app, "a", "k", &json!(1)).await;
    let tag = first.header("etag").to_owned();
    let second = send_text(&app, ("PUT", &path), &tag, body).await;
    assert_eq!(second.clone().expect(200)["version"], 2);
    send_text(&app, ("PUT", &path), &tag, body).await.expect_problem(412, "precondition-failed");
    send_text(&app, ("PUT", &path), "*", body).await.expect(200);
    // A number alone would name the item that was forgotten.
    app.delete(&format!("{path}&purge=true")).await;
    assert_eq!(put(&app, "a", "k", &json!(1)).await.expect(200)["version"], 1);
    send_text(&app, ("PUT", &path), &tag, body).await.expect_problem(412, "precondition-failed");
}

#[tokio::test]
async fn what_cannot_be_an_item_is_refused_with_its_place_and_changes_nothing() {
    let app = TestApp::start().await;
    let deep = |n: usize| format!(r#"{{"value":{}{}}}"#, "[".repeat(n), "]".repeat(n));
    let large = |n: usize| format!(r#"{{"value":"{}"}}"#, "x".repeat(n));
    let numbers = |n: usize| json!({"value": 1, "embedding": vec![0.5; n]}).to_string();
    for (body, slug, place) in [
        (large(65_535).as_str(), "validation-failed", "/value"),
        (&deep(33), "validation-failed", &format!("/value{}", "/0".repeat(32))),
        (r#"{"value":{"a":"\u0000"}}"#, "text-not-storable", "/value/a"),
        ("{}", "validation-failed", "/value"),
        (r#"{"value":1,"ttl_s":0}"#, "validation-failed", "/ttl_s"),
        (r#"{"value":1,"ttl_s":315360001}"#, "validation-failed", "/ttl_s"),
        (r#"{"value":1,"embedding":[]}"#, "validation-failed", "/embedding"),
        (r#"{"value":1,"embedding":[0,1e300]}"#, "validation-failed", "/embedding/1"),
        (&numbers(4_097), "validation-failed", "/embedding"),
        (r#"{"value":1,"version":2}"#, "unknown-field", "/version"),
    ] {
        let answer = send_text(&app, ("PUT", &path("a", "k")), "", body).await;
        assert_eq!(pointers(&answer.expect_problem(422, slug)), [place]);
    }
    for (namespace, key, wrong) in [
        ("", "k", "namespace"),
        ("a//b", "k", "namespace"),
        ("a b", "k", "namespace"),
        ("a/b/c/d/e/f/g/h/i", "k", "namespace"),
        (&"x".repeat(65), "k", "namespace"),
        ("a", "", "key"),
        ("a", " k", "key"),
        ("a", "k\0", "key"),
        ("a", &"k".repeat(129), "key"),
    ] {
        let answer = put(&app, namespace, key, &json!(1)).await;
        let problem = answer.expect_problem(400, "invalid-parameter");
        assert_eq!(pointers(&problem), [wrong], "{problem}");
    }
    for query in ["", "?namespace=a", "?key=k", "?namespace=a&key=k&key=l"] {
        let answer = app.put(&format!("/v1/memory/items{query}"), &json!({"value": 1})).await;
        answer.expect_problem(400, "invalid-parameter");
    }
    assert_eq!(picture_of(&app.db, "memory_item").await, "");
    for (body, namespace, key) in [
        (large(65_534), "a/b/c/d/e/f/g/h".to_owned(), "é".repeat(128)),
        (deep(32), "x".repeat(64), "a/b?c=d&e".to_owned()),
        (numbers(4_096), "A-z.0_9:@".to_owned(), "k".to_owned()),
    ] {
        let path = path(&namespace, &key);
        send_text(&app, ("PUT", &path), "", &body).await.expect(200);
        assert_eq!(app.get(&path).await.expect(200)["key"], key);
    }
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn numbers_that_only_text_can_hold_are_kept_as_text() {
    let app = TestApp::start().await;
    for number in ["1.7976931348623157e308", "5e-324", "0.1000000000000000055511151231257827"] {
        let body = format!(r#"{{"value":{{"n":{number}}}}}"#);
        let answer = send_text(&app, ("PUT", &path("a", "k")), "", &body).await;
        assert!(answer.text.contains(&format!(r#"{{"n":{number}}}"#)), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_request_takes_one_statement_and_a_conditional_one_two() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let proxy = PgProxy::to(&db.url).await;
    let db = TestDb { url: proxy.url.clone() };
    let pools = PoolSettings { api: 1, worker: 4, critical: 2 };
    let app = TestApp::over(&db, &tools, pools, &[]).await;
    // Each statement of the API is prepared once; those of chores are for all tenants.
    proxy.change("memory_item", "tenant_id = $1", "tenant_id = $1");
    let here = path("a", "k");
    let search = |more: Value| {
        let mut search = json!({"namespace_prefix": ["a"]});
        search.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        search
    };
    let mut before = 0;
    let mut took = |answer: crate::support::Answer| {
        assert!(answer.status < 300, "{}", answer.text);
        let now = proxy.times();
        std::mem::replace(&mut before, now).abs_diff(now)
    };
    assert_eq!(took(put(&app, "a", "k", &json!(1)).await), 1);
    let got = app.get(&here).await;
    let tag = got.header("etag").to_owned();
    assert_eq!(took(got), 1);
    assert_eq!(took(send_text(&app, ("PUT", &here), &tag, r#"{"value":2}"#).await), 1);
    assert_eq!(took(app.post("/v1/memory/search", &search(json!({}))).await), 1);
    assert_eq!(took(app.post("/v1/memory/search", &search(json!({"query": "k"}))).await), 1);
    assert_eq!(took(app.get("/v1/memory/namespaces").await), 1);
    let listed = app.get(&format!("/v1/memory/items/versions?{}", item("a", "k"))).await;
    assert_eq!(took(listed), 1);
    let which = json!({"namespace": ["a"], "key": "k", "version": 1});
    assert_eq!(took(app.post("/v1/memory/items/versions/redact", &which).await), 1);
    assert_eq!(took(app.delete(&here).await), 1);
    assert_eq!(took(app.delete(&format!("{here}&purge=true")).await), 1);
}
