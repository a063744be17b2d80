//! `POST /v1/memory/search`.

use serde_json::{Value, json};

use super::{found, path, put};
use crate::http::pointers;
use crate::support::{TestApp, count, execute};

async fn with_items(items: &[(&str, &str, Value)]) -> TestApp {
    let app = TestApp::start().await;
    for (namespace, key, value) in items {
        put(&app, namespace, key, value).await.expect(200);
    }
    app
}

#[tokio::test]
async fn without_words_items_come_in_the_order_of_their_names() {
    let app = with_items(&[
        ("a", "2", json!("second")),
        ("a", "10", json!("tenth")),
        ("a/b", "1", json!(1)),
        ("a.b", "1", json!(1)),
        ("b", "é", json!(1)),
        ("b", "z", json!(1)),
    ])
    .await;
    let all = ["10", "2", "1", "1", "z", "é"];
    assert_eq!(found(&app, &json!({})).await, all);
    for limit in 1..=7 {
        assert_eq!(found(&app, &json!({"limit": limit})).await, all);
    }
    assert_eq!(
        found(&app, &json!({"namespace_prefix": ["a"], "limit": 1})).await,
        ["10", "2", "1"]
    );
    assert_eq!(found(&app, &json!({"namespace_prefix": ["a", "b"]})).await, ["1"]);
    assert_eq!(found(&app, &json!({"namespace_prefix": ["a", "b", "c"]})).await, [""; 0]);
    let page = app.post("/v1/memory/search", &json!({"limit": 1})).await.expect(200);
    let hit = &page["items"][0];
    assert_eq!((&hit["item"]["value"], hit.get("score")), (&json!("tenth"), None));
    let other = json!({"limit": 1, "namespace_prefix": ["a"], "cursor": page["next_cursor"]});
    app.post("/v1/memory/search", &other).await.expect_problem(400, "invalid-cursor");
}

#[tokio::test]
async fn members_are_compared_as_json_wherever_they_are() {
    let app = with_items(&[
        ("a", "1", json!({"kind": "x", "n": 1, "at": {"city": "Ulm"}, "tags": ["p", "q"]})),
        ("a", "2", json!({"kind": "x", "n": 2.50, "at": {"city": null}, "a/b": true})),
        ("a", "3", json!({"kind": ["x"], "n": "1", "-1": 0})),
        ("a", "4", json!("x")),
    ])
    .await;
    for (filter, keys) in [
        (json!({"/kind": "x"}), &["1", "2"][..]),
        (json!({"/kind": ["x"]}), &["3"]),
        (json!({"/n": 1.0}), &["1"]),
        (json!({"/n": 2.5, "/kind": "x"}), &["2"]),
        (json!({"/n": 1, "/kind": ["x"]}), &[]),
        (json!({"/at/city": "Ulm"}), &["1"]),
        (json!({"/at/city": null}), &["2"]),
        (json!({"/at": {"city": "Ulm"}}), &["1"]),
        (json!({"/at": {}}), &[]),
        (json!({"/tags/1": "q"}), &["1"]),
        (json!({"/tags/2": null}), &[]),
        (json!({"/a~1b": true}), &["2"]),
        (json!({"/none": null}), &[]),
        (json!({"": "x"}), &["4"]),
        (json!({}), &["1", "2", "3", "4"]),
    ] {
        assert_eq!(found(&app, &json!({"filter": filter, "limit": 1})).await, keys, "{filter}");
    }
    for pointer in ["kind", "/tags/-1", "/tags/01", "/a~2"] {
        let answer = app.post("/v1/memory/search", &json!({"filter": {(pointer): 1}})).await;
        let place = format!("/filter/{}", pointer.replace('~', "~0").replace('/', "~1"));
        assert_eq!(pointers(&answer.expect_problem(422, "validation-failed")), [place]);
    }
}

#[tokio::test]
async fn words_are_found_in_values_and_keys_and_the_best_come_first() {
    let app = with_items(&[
        ("u/1", "likes", json!({"drink": "green tea", "more": ["oolong tea", {"x": "tea"}]})),
        ("u/1", "home", json!("12 green street, next to the park")),
        ("u/1", "tea", json!("Of an evening.")),
        ("u/2", "likes", json!("Green Tea")),
        ("v", "likes", json!({"tea": 7})),
    ])
    .await;
    let within = |query: &str| json!({"namespace_prefix": ["u"], "query": query, "limit": 1});
    for (query, keys) in [
        ("park", &["home"][..]),
        ("green street", &["home"]),
        ("\"street green\"", &[]),
        ("oolong or park", &["home", "likes"]),
        ("green -street", &["likes", "likes"]),
        ("TEA evening", &["tea"]),
        ("nothing", &[]),
        ("!&|:*()'", &[]),
        ("\"", &[]),
    ] {
        assert_eq!(found(&app, &within(query)).await, keys, "{query}");
    }
    assert_eq!(found(&app, &json!({"query": "tea", "namespace_prefix": ["v"]})).await, [""; 0]);
    let page = app.post("/v1/memory/search", &json!({"query": "tea"})).await.expect(200);
    let hits = page["items"].as_array().unwrap();
    let scores: Vec<f64> = hits.iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
    assert!(scores.len() == 3 && scores.is_sorted_by(|a, b| a >= b), "{page}");
    let keyed = json!({"query": "tea", "filter": {"/drink": "green tea"}});
    assert_eq!(found(&app, &keyed).await, ["likes"]);
    app.delete(&path("u/1", "home")).await;
    assert_eq!(found(&app, &within("park")).await, [""; 0]);
}

#[tokio::test]
async fn pages_of_what_was_ranked_hold_every_item_once() {
    let app = TestApp::start().await;
    // Many of one rank, and some of others.
    for n in 0..30 {
        let text = "word ".repeat(1 + n % 3);
        put(&app, &format!("n/{}", n % 4), &format!("k{n}"), &json!(text)).await.expect(200);
    }
    let all = found(&app, &json!({"query": "word", "limit": 200})).await;
    let mut unique = all.clone();
    unique.sort();
    unique.dedup();
    assert_eq!((all.len(), unique.len()), (30, 30));
    for limit in [1, 7, 29, 30] {
        assert_eq!(found(&app, &json!({"query": "word", "limit": limit})).await, all, "{limit}");
    }
}

#[tokio::test]
async fn what_cannot_be_looked_for_is_refused() {
    let app = TestApp::start().await;
    let filter: serde_json::Map<String, Value> =
        (0..17).map(|n| (format!("/{n}"), json!(n))).collect();
    for (search, place) in [
        (json!({"query": " "}), "/query"),
        (json!({"query": "x".repeat(1_025)}), "/query"),
        (json!({"filter": filter}), "/filter"),
        (json!({"vector": []}), "/vector"),
        (json!({"vector": [1, 1e300]}), "/vector/1"),
        (json!({"limit": 0}), "/limit"),
        (json!({"limit": 201}), "/limit"),
    ] {
        let answer = app.post("/v1/memory/search", &search).await;
        assert_eq!(pointers(&answer.expect_problem(422, "validation-failed")), [place], "{search}");
    }
    let answer = app.post("/v1/memory/search", &json!({"namespace_prefix": ["a/b"]})).await;
    answer.expect_problem(422, "validation-failed");
    app.post("/v1/memory/search", &json!({"cursor": "x"}))
        .await
        .expect_problem(400, "invalid-cursor");
}

/// Whether the server of this test's database has the extension.
const OFFERED: &str = "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'";

/// What the API uses of the extension, for a server that does not have it: the type, which arrays are cast to,
/// the operator of cosine distance, which refuses vectors of different sizes, and the entry by which it is
/// known to be there.
const STAND_IN: [&str; 4] = [
    "CREATE DOMAIN vector AS real[]",
    "CREATE FUNCTION cosine_distance(a real[], b real[]) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$
     BEGIN
         IF cardinality(a) <> cardinality(b) THEN RAISE EXCEPTION 'different vector dimensions'; END IF;
         RETURN (SELECT 1 - sum(x * y) / sqrt(sum(x * x) * sum(y * y)) FROM unnest(a, b) AS u(x, y));
     END $$",
    "CREATE OPERATOR <=> (LEFTARG = real[], RIGHTARG = real[], FUNCTION = cosine_distance)",
    "INSERT INTO pg_extension
     SELECT 99999, 'vector', extowner, extnamespace, true, '0', NULL, NULL FROM pg_extension LIMIT 1",
];

#[tokio::test]
async fn vectors_are_compared_where_the_extension_is_installed_and_nowhere_else() {
    let app = TestApp::start().await;
    for (key, embedding) in [
        ("near", json!([1, 0.1])),
        ("far", json!([-1, 0])),
        ("wide", json!([1, 0, 0])),
        ("nearest", json!([2, 0])),
    ] {
        let body = json!({"value": key, "embedding": embedding});
        app.put(&path("a", key), &body).await.expect(200);
    }
    put(&app, "a", "none", &json!(1)).await.expect(200);
    let search = json!({"vector": [1, 0], "limit": 1});
    let refused = app.post("/v1/memory/search", &search).await;
    assert_eq!(pointers(&refused.expect_problem(501, "not-implemented")), ["/vector"]);
    if count(&app.db, OFFERED).await == 1 {
        execute(&app.db, "CREATE EXTENSION vector").await;
    } else {
        for statement in STAND_IN {
            execute(&app.db, statement).await;
        }
    }
    assert_eq!(found(&app, &search).await, ["nearest", "near", "far"]);
    let page = app.post("/v1/memory/search", &json!({"vector": [1, 0]})).await.expect(200);
    let scores: Vec<f64> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["score"].as_f64().unwrap())
        .collect();
    assert_eq!((scores[0], scores[2]), (0.0, 2.0));
    assert_eq!(found(&app, &json!({"vector": [1, 0], "query": "far"})).await, ["far"]);
    assert_eq!(found(&app, &json!({"vector": [1, 0], "filter": {"": "near"}})).await, ["near"]);
    assert_eq!(found(&app, &json!({"vector": [1, 0, 0]})).await, ["wide"]);
    let elsewhere = json!({"vector": [1, 0], "namespace_prefix": ["b"]});
    assert_eq!(found(&app, &elsewhere).await, [""; 0]);
    // A value without an embedding takes the place of one with.
    put(&app, "a", "near", &json!("near")).await.expect(200);
    assert_eq!(found(&app, &search).await, ["nearest", "far"]);
}
