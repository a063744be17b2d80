//! Where the operator's key for models goes.

use serde_json::json;

use crate::support::{FakeModel, ModelReply, TestApp};

#[tokio::test]
async fn the_operators_key_goes_to_listed_origins_and_nowhere_else() {
    let listed = FakeModel::start([ModelReply::text("yes")]).await;
    let stranger = FakeModel::start([ModelReply::text("yes")]).await;
    let key = "sk-0123456789abcdef";
    let settings = [("OPENAI_API_KEY", key), ("AGENTLING_OPENAI_ORIGINS", listed.origin.as_str())];
    let app = TestApp::with(&settings).await;
    let alias = listed.origin.replace("127.0.0.1", "localhost");
    let mut other_name = listed.spec(true);
    other_name["base_url"] = json!(format!("{alias}/v1"));
    for model in [listed.spec(true), listed.spec(false), stranger.spec(true), other_name] {
        let run = app.run(&json!({"name": "a", "model": model}), "hi").await;
        assert_eq!(run["status"], "completed", "{run}");
        assert!(!run.to_string().contains(key));
    }
    let bearer = format!("Bearer {key}");
    let shown: Vec<_> =
        listed.requests().into_iter().map(|request| request.authorization).collect();
    assert_eq!(shown, [Some(bearer.clone()), Some(bearer), None]);
    let stranger = stranger.requests();
    assert_eq!((stranger.len(), &stranger[0].authorization), (1, &None));
    assert!(!stranger[0].body.contains(key));
}

#[tokio::test]
async fn a_listed_origin_is_not_asked_for_a_key_that_nobody_set() {
    let model = FakeModel::start([ModelReply::text("yes")]).await;
    let app = TestApp::with(&[("AGENTLING_OPENAI_ORIGINS", model.origin.as_str())]).await;
    app.run(&json!({"name": "a", "model": model.spec(true)}), "hi").await;
    let requests = model.requests();
    assert_eq!((requests.len(), &requests[0].authorization), (1, &None));
    assert_eq!(requests[0].path, "/v1/chat/completions");
}
