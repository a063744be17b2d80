//! `GET /v1/memory/items/versions`.

use serde_json::json;

use super::{item, put};
use crate::support::TestApp;

#[tokio::test]
async fn versions_come_newest_first_page_by_page_and_a_cursor_is_for_one_item() {
    let app = TestApp::start().await;
    for n in 1..=5 {
        put(&app, "a", "k", &json!(n)).await.expect(200);
    }
    put(&app, "a", "other", &json!(0)).await.expect(200);
    let path = format!("/v1/memory/items/versions?{}&limit=2", item("a", "k"));
    let mut cursor = String::new();
    let mut seen = Vec::new();
    loop {
        let page = app.get(&format!("{path}{cursor}")).await.expect(200);
        let items = page["items"].as_array().unwrap().iter();
        seen.extend(items.map(|it| (it["version"].as_i64().unwrap(), it["value"].clone())));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
        let other = format!("/v1/memory/items/versions?{}{cursor}", item("a", "other"));
        app.get(&other).await.expect_problem(400, "invalid-cursor");
    }
    assert_eq!(seen, [5, 4, 3, 2, 1].map(|n| (n, json!(n))));
    let missing = format!("/v1/memory/items/versions?{}", item("b", "k"));
    app.get(&missing).await.expect_problem(404, "not-found");
}
