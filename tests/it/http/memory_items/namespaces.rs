//! `GET /v1/memory/namespaces`.

use serde_json::{Value, json};

use super::{path, put};
use crate::http::pointers;
use crate::support::TestApp;

async fn listed(app: &TestApp, query: &str) -> Vec<(String, u64)> {
    let mut cursor = String::new();
    let mut all = Vec::new();
    loop {
        let page = app.get(&format!("/v1/memory/namespaces?limit=1{query}{cursor}")).await;
        let page = page.expect(200);
        let read = |entry: &Value| {
            let parts: Vec<&str> =
                entry["namespace"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            (parts.join("/"), entry["n_items"].as_u64().unwrap())
        };
        all.extend(page["items"].as_array().unwrap().iter().map(read));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

fn counts(counts: &[(&str, u64)]) -> Vec<(String, u64)> {
    counts.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
}

#[tokio::test]
async fn namespaces_are_counted_whole_or_cut_in_order_and_under_a_prefix() {
    let app = TestApp::start().await;
    for namespace in ["a", "a/x", "a/x/1", "a/y", "a.b", "b/x", "B"] {
        put(&app, namespace, "k", &json!(1)).await.expect(200);
        put(&app, namespace, "l", &json!(1)).await.expect(200);
    }
    app.delete(&path("b/x", "l")).await;
    app.delete(&path("B", "k")).await;
    app.delete(&path("B", "l")).await;
    assert_eq!(
        listed(&app, "").await,
        counts(&[("a", 2), ("a/x", 2), ("a/x/1", 2), ("a/y", 2), ("a.b", 2), ("b/x", 1)])
    );
    assert_eq!(listed(&app, "&depth=1").await, counts(&[("a", 8), ("a.b", 2), ("b", 1)]));
    assert_eq!(
        listed(&app, "&depth=2&prefix=a").await,
        counts(&[("a", 2), ("a/x", 4), ("a/y", 2)])
    );
    assert_eq!(listed(&app, "&prefix=a/x").await, counts(&[("a/x", 2), ("a/x/1", 2)]));
    assert_eq!(listed(&app, "&prefix=c").await, counts(&[]));
    for (query, wrong) in [
        ("depth=0", "depth"),
        ("depth=9", "depth"),
        ("prefix=a//b", "prefix"),
        ("limit=0", "limit"),
    ] {
        let answer = app.get(&format!("/v1/memory/namespaces?{query}")).await;
        assert_eq!(pointers(&answer.expect_problem(400, "invalid-parameter")), [wrong]);
    }
}
