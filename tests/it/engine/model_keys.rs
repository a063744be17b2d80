//! Where the operator's key for models goes.

use serde_json::json;

use crate::support::{FakeModel, ModelReply, TestApp, picture};

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

#[tokio::test]
async fn every_provider_is_shown_its_own_key_which_is_kept_nowhere() {
    let providers = [
        ("openai", "OPENAI_API_KEY"),
        ("openrouter", "OPENROUTER_API_KEY"),
        ("xai", "XAI_API_KEY"),
        ("mistral", "MISTRAL_API_KEY"),
        ("groq", "GROQ_API_KEY"),
        ("deepseek", "DEEPSEEK_API_KEY"),
    ];
    let key = |name: &str| format!("canary-{}", name.to_lowercase());
    // Providers quote the key that they refuse.
    let quote = |name: &str| {
        let message = format!("Incorrect API key provided: {}", key(name));
        let body = json!({"error": {"message": message, "code": "invalid_api_key"}});
        ModelReply::Status(401, "application/json", body.to_string())
    };
    let model = FakeModel::start(providers.map(|(_, name)| quote(name))).await;
    let listed = providers.map(|(provider, _)| format!("{provider}={}", model.origin)).join(",");
    let keys = providers.map(|(_, name)| (name, key(name)));
    let mut settings: Vec<_> = keys.iter().map(|(name, key)| (*name, key.as_str())).collect();
    settings.push(("AGENTLING_PROVIDER_ORIGINS", listed.as_str()));
    let app = TestApp::with(&settings).await;
    for (provider, name) in providers {
        let mut spec = model.spec(true);
        spec["provider"] = json!(provider);
        let run = app.run(&json!({"name": "a", "model": spec}), "hi").await;
        assert_eq!(run["error"]["kind"], "auth", "{provider}: {run}");
        let events = app.events(run["id"].as_str().unwrap()).await;
        assert!(!format!("{run} {events:?}").contains("canary"), "{provider}");
        let request = model.requests().pop().unwrap();
        assert_eq!(request.authorization, Some(format!("Bearer {}", key(name))), "{provider}");
        assert!(!request.body.contains("canary"), "{provider}");
    }
    assert!(!picture(&app.db).await.concat().contains("canary"));
}
