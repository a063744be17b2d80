//! Changes of one item at the same time.

use futures::future::join_all;
use serde_json::{Value, json};

use super::{found, path, put, versions};
use crate::http::send_text;
use crate::support::{TestApp, assert_invariants};

const N: usize = 20;

#[tokio::test]
async fn values_that_are_put_at_the_same_time_are_all_kept() {
    let app = TestApp::start().await;
    let answers = join_all((0..N).map(async |n| {
        let answer = put(&app, "a", "k", &json!(n)).await.expect(200);
        (answer["version"].as_i64().unwrap(), answer["value"].clone())
    }))
    .await;
    let kept = versions(&app, "a", "k").await;
    let mut put: Vec<(i64, String, Value)> =
        answers.into_iter().map(|(version, value)| (version, "kept".to_owned(), value)).collect();
    put.sort_by_key(|version| -version.0);
    assert_eq!(kept, put);
    assert_eq!(kept.iter().map(|it| it.0).min(), Some(1));
    assert_eq!(kept.len(), N);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn of_changes_that_start_from_one_state_one_is_made() {
    let app = TestApp::start().await;
    let tag = put(&app, "a", "k", &json!("first")).await.header("etag").to_owned();
    let path = path("a", "k");
    let change = async |n: usize| {
        let answer = if n.is_multiple_of(4) {
            send_text(&app, ("DELETE", &path), &tag, "").await
        } else {
            send_text(&app, ("PUT", &path), &tag, &json!({"value": n}).to_string()).await
        };
        if answer.status >= 300 {
            answer.clone().expect_problem(412, "precondition-failed");
        }
        answer.status
    };
    let answers = join_all((0..N).map(change)).await;
    assert_eq!(answers.iter().filter(|status| **status < 300).count(), 1, "{answers:?}");
    assert_eq!(versions(&app, "a", "k").await.len(), 2);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_redaction_beside_new_values_takes_its_own_version_and_no_other() {
    let app = TestApp::start().await;
    for round in 0..N {
        let key = format!("k{round}");
        put(&app, "a", &key, &json!("secret")).await.expect(200);
        let which = json!({"namespace": ["a"], "key": key, "version": 1});
        let redact = app.post("/v1/memory/items/versions/redact", &which);
        let value = json!("public");
        let (redacted, written) = tokio::join!(redact, put(&app, "a", &key, &value));
        assert_eq!(redacted.expect(200)["state"], "redacted");
        assert_eq!(written.expect(200)["version"], 2);
        assert_eq!(app.get(&path("a", &key)).await.expect(200)["value"], "public");
    }
    assert_eq!(found(&app, &json!({"query": "secret"})).await, [""; 0]);
    assert_invariants(&app.db).await;
}
