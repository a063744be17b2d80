//! `/v1/memory`: items that outlive threads.

mod delete;
mod expiry;
mod get;
mod namespaces;
mod prefixes;
mod put;
mod races;
mod redact;
mod search;
mod versions;

use serde_json::{Value, json};

use crate::support::{Answer, TestApp};

/// The query that names an item.
fn item(namespace: &str, key: &str) -> String {
    let pairs = [("namespace", namespace), ("key", key)];
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

/// Where an item is.
fn path(namespace: &str, key: &str) -> String {
    format!("/v1/memory/items?{}", item(namespace, key))
}

/// Puts a value.
async fn put(app: &TestApp, namespace: &str, key: &str, value: &Value) -> Answer {
    app.put(&path(namespace, key), &json!({ "value": value })).await
}

/// Sends a request with another key than that of the test.
async fn send_with(app: &TestApp, key: &str, (method, path): (&str, &str), body: &str) -> Answer {
    let request = app.client().request(method.parse().unwrap(), app.url(path)).bearer_auth(key);
    app.send(request.header("content-type", "application/json").body(body.to_owned())).await
}

/// The versions of an item, newest first, as `(version, state, value)`.
async fn versions(app: &TestApp, namespace: &str, key: &str) -> Vec<(i64, String, Value)> {
    let path = format!("/v1/memory/items/versions?{}&limit=200", item(namespace, key));
    let page = app.get(&path).await.expect(200);
    let read = |version: &Value| {
        let state = version["state"].as_str().unwrap().to_owned();
        (version["version"].as_i64().unwrap(), state, version["value"].clone())
    };
    page["items"].as_array().unwrap().iter().map(read).collect()
}

/// The keys that a search finds, page by page.
async fn found(app: &TestApp, search: &Value) -> Vec<String> {
    let mut search = search.clone();
    let mut keys = Vec::new();
    loop {
        let page = app.post("/v1/memory/search", &search).await.expect(200);
        let items = page["items"].as_array().unwrap().iter();
        keys.extend(items.map(|hit| hit["item"]["key"].as_str().unwrap().to_owned()));
        if page["next_cursor"].is_null() {
            return keys;
        }
        search["cursor"] = page["next_cursor"].clone();
    }
}
