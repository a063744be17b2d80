//! Lists of resources: pages, filters, cursors.

use serde_json::{Value, json};

use crate::support::TestApp;

fn agent(name: &str, team: &str) -> Value {
    json!({
        "name": name,
        "model": {"provider": "scripted", "name": "m", "script": [{"text": "Done."}]},
        "metadata": {"team": team},
    })
}

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn labels_narrow_every_list() {
    let app = TestApp::start().await;
    let mut kept = Vec::new();
    for (name, team) in [("one", "red"), ("two", "blue"), ("three", "red")] {
        let created = app.create_agent(&agent(name, team)).await;
        let labels = json!({"metadata": {"team": team, "name": name}});
        let thread = app.post("/v1/threads", &labels).await.expect(201);
        let body = json!({"agent_id": name, "thread_id": thread["id"], "input": "Go.",
            "metadata": {"team": team, "name": name}});
        let run = app.run_body(&body).await;
        kept.push((created["id"].clone(), thread["id"].clone(), run["id"].clone()));
    }
    for (path, pick) in [("/v1/agents", 0), ("/v1/threads", 1), ("/v1/runs", 2)] {
        let id = |(agent, thread, run): &(Value, Value, Value)| {
            [agent, thread, run][pick].as_str().unwrap().to_owned()
        };
        let red = app.get(&format!("{path}?metadata.team=red")).await.expect(200);
        assert_eq!(ids(&red), [id(&kept[2]), id(&kept[0])], "{path}");
        let none = app.get(&format!("{path}?metadata.team=green")).await.expect(200);
        assert!(ids(&none).is_empty(), "{path}");
        let both = format!("{path}?metadata.team=red&metadata.none=x");
        assert!(ids(&app.get(&both).await.expect(200)).is_empty(), "{path}");
    }
}

#[tokio::test]
async fn a_filter_that_cannot_be_one_is_refused() {
    let app = TestApp::start().await;
    for path in ["/v1/agents", "/v1/threads", "/v1/runs"] {
        for query in ["metadata=1", "metadata.=1", "metadata.a=%00", "metadata.%00=1"] {
            let answer = app.get(&format!("{path}?{query}")).await;
            answer.expect_problem(400, "invalid-parameter");
        }
    }
}

#[tokio::test]
async fn a_page_goes_on_where_the_one_before_ended_and_only_in_the_same_list() {
    let app = TestApp::start().await;
    for _ in 0..5 {
        app.post("/v1/threads", &json!({"metadata": {"a": "b"}})).await.expect(201);
    }
    let all = app.all("/v1/threads").await;
    let mut seen = Vec::new();
    let mut path = "/v1/threads?limit=2&metadata.a=b".to_owned();
    let cursor = loop {
        let page = app.get(&path).await.expect(200);
        seen.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next_cursor"].as_str() else { break path };
        path = format!("/v1/threads?limit=2&metadata.a=b&cursor={next}");
    };
    assert_eq!(seen, all);
    let other = cursor.replace("metadata.a=b", "metadata.a=c");
    app.get(&other).await.expect_problem(400, "invalid-cursor");
}

#[tokio::test]
async fn times_narrow_every_list() {
    let app = TestApp::start().await;
    let thread = app.post("/v1/threads", &json!({})).await.expect(201);
    let at = thread["created_at"].as_str().unwrap().replace('+', "%2B");
    for (filter, n) in [("created_after", 0), ("created_before", 0)] {
        let page = app.get(&format!("/v1/threads?{filter}={at}")).await.expect(200);
        assert_eq!(ids(&page).len(), n, "{filter}: the moment itself is not in it");
    }
    let page = app.get("/v1/threads?created_after=2020-01-01T00:00:00Z").await.expect(200);
    assert_eq!(ids(&page).len(), 1);
    app.get("/v1/threads?created_after=yesterday").await.expect_problem(400, "invalid-parameter");
}
