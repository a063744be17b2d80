//! `POST /v1/runs`.

use serde_json::json;

use crate::support::TestApp;

#[tokio::test]
async fn a_text_reply_ends_the_run() {
    let app = TestApp::start().await;
    let agent = json!({
        "name": "a",
        "model": {"provider": "scripted", "name": "m", "script": [{"text": "Hello."}]},
    });
    let run = app.run(&agent, "hi").await;
    assert_eq!(run["status"], "completed");
    assert_eq!(run["stop_reason"], "text");
    assert_eq!(run["answer"], "Hello.");
}
