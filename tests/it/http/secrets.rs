//! `/v1/secrets`, and the agents that name secrets.

use serde_json::{Value, json};

use super::{pointers, send_as, send_text};
use crate::support::{TestApp, execute, mint_key, picture_of, tool};

/// A key that secrets are sealed with.
pub(super) const SEALING: (&str, &str) =
    ("AGENTLING_SECRET_KEYS", "one=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=");

/// A value that nothing else holds.
pub(super) const VALUE: &str = "canary-4d1f0c22-hunter";

/// Stores a secret that may be sent to the fake tools.
pub(super) async fn keep(app: &TestApp, name: &str, value: &str) -> Value {
    let body = json!({ "value": value, "origins": [app.tools.origin()] });
    app.put(&format!("/v1/secrets/{name}"), &body).await.expect(200)
}

/// An agent with the tool `t`, which is sent the secret `key`.
pub(super) fn agent(app: &TestApp, model: &Value) -> Value {
    let parameters = json!({ "type": "object", "properties": {} });
    let mut tool = tool(&app.tools, "t", "pure", &parameters);
    tool["headers"] = json!({ "Authorization": { "secret": "key", "prefix": "Bearer " } });
    json!({ "name": "a", "model": model, "tools": [tool] })
}

#[tokio::test]
async fn a_secret_is_stored_shown_without_its_value_listed_and_forgotten() {
    let app = TestApp::with(&[SEALING]).await;
    let made = keep(&app, "key", VALUE).await;
    assert_eq!((&made["name"], &made["version"]), (&json!("key"), &json!(1)));
    assert_eq!(made["origins"], json!([app.tools.origin()]));
    assert_eq!(made["fingerprint"].as_str().unwrap().len(), 8);
    assert_eq!(app.get("/v1/secrets/key").await.expect(200), made);
    assert_eq!(keep(&app, "key", VALUE).await, made, "a repeated request changes nothing");
    let other = keep(&app, "key", "another-value").await;
    assert_eq!((&other["version"], &other["created_at"]), (&json!(2), &made["created_at"]));
    assert_ne!(other["fingerprint"], made["fingerprint"]);
    keep(&app, "second", VALUE).await;
    let listed = app.all("/v1/secrets").await;
    let names: Vec<_> = listed.iter().map(|secret| &secret["name"]).collect();
    assert_eq!(names, ["second", "key"]);
    assert_eq!(listed[0]["fingerprint"], made["fingerprint"], "equal values can be told");
    assert_eq!(app.delete("/v1/secrets/key").await.status, 204);
    app.get("/v1/secrets/key").await.expect_problem(404, "not-found");
    app.delete("/v1/secrets/key").await.expect_problem(404, "not-found");
    let rows = picture_of(&app.db, "secret").await;
    assert!(rows.contains("second") && !rows.contains("canary"), "{rows}");
}

#[tokio::test]
async fn what_cannot_be_a_secret_is_refused_without_repeating_it() {
    let app = TestApp::with(&[SEALING]).await;
    let origin = app.tools.origin();
    let long = VALUE.repeat(400);
    let many = vec![origin.clone(); 17];
    for (value, origins, place) in [
        (json!("canary"), json!([origin]), "/value"),
        (json!(format!(" {VALUE}")), json!([origin]), "/value"),
        (json!(format!("{VALUE}\nx")), json!([origin]), "/value"),
        (json!(format!("{VALUE}é")), json!([origin]), "/value"),
        (json!(long), json!([origin]), "/value"),
        (json!([VALUE]), json!([origin]), "/value"),
        (json!(VALUE), json!([]), "/origins"),
        (json!(VALUE), json!(many), "/origins"),
        (json!(VALUE), json!(["https://example.com/v1"]), "/origins/0"),
        (json!(VALUE), json!([origin, "*"]), "/origins/1"),
    ] {
        let body = json!({ "value": value, "origins": origins });
        let answer = app.put("/v1/secrets/key", &body).await;
        assert!(!answer.text.contains("canary"), "{}", answer.text);
        let problem = answer.expect_problem(422, "validation-failed");
        assert_eq!(pointers(&problem), [place], "{problem}");
    }
    for closed in ["http://example.com", "https://10.0.0.1", "https://localhost"] {
        let body = json!({ "value": VALUE, "origins": [closed] });
        let answer = app.put("/v1/secrets/key", &body).await;
        assert_eq!(pointers(&answer.expect_problem(422, "egress-denied")), ["/origins/0"]);
    }
    for broken in [format!("{{\"value\": \"{VALUE}\""), format!("{{\"{VALUE}\": 1}}")] {
        let answer = send_text(&app, ("PUT", "/v1/secrets/key"), "", &broken).await;
        assert!(answer.status == 400 || answer.status == 422);
        let is_name = answer.slug() == "unknown-field";
        assert!(is_name || !answer.text.contains("canary"), "{}", answer.text);
    }
    let body = json!({ "value": VALUE, "origins": [origin] });
    app.put("/v1/secrets/No-Name", &body).await.expect_problem(404, "not-found");
    assert_eq!(app.all("/v1/secrets").await, Vec::<Value>::new());
}

#[tokio::test]
async fn without_a_key_to_seal_with_nothing_is_stored() {
    let app = TestApp::start().await;
    let body = json!({ "value": VALUE, "origins": [app.tools.origin()] });
    let answer = app.put("/v1/secrets/key", &body).await;
    answer.expect_problem(501, "secrets-not-configured");
    assert_eq!(app.all("/v1/secrets").await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_secret_is_its_tenants_alone_and_storing_one_takes_a_scope() {
    let own = "the-key-of-the-test";
    let app = TestApp::with(&[("AGENTLING_API_KEY", own), SEALING]).await;
    let path = "/v1/secrets/key";
    let body = json!({ "value": VALUE, "origins": [app.tools.origin()] }).to_string();
    send_as(&app, own, ("PUT", path), &body).await.expect(200);
    let foreign = mint_key(&app, "other", &["secrets:write", "agents:read", "agents:write"]).await;
    let reader = mint_key(&app, "default", &["agents:read"]).await;
    for method in ["GET", "DELETE"] {
        send_as(&app, &foreign, (method, path), "").await.expect_problem(404, "not-found");
    }
    let answer = send_as(&app, &reader, ("PUT", path), &body).await;
    answer.expect_problem(403, "insufficient-scope");
    send_as(&app, &reader, ("GET", path), "").await.expect(200);
    let theirs = agent(&app, &json!({ "provider": "scripted", "name": "m" })).to_string();
    let answer = send_as(&app, &foreign, ("POST", "/v1/agents"), &theirs).await;
    let problem = answer.expect_problem(422, "validation-failed");
    assert_eq!(problem["errors"][0]["code"], "unknown_secret");
}

#[tokio::test]
async fn an_agent_names_secrets_that_are_there_and_bound_to_where_they_would_be_sent() {
    let app = TestApp::with(&[SEALING]).await;
    let scripted = json!({ "provider": "scripted", "name": "m" });
    let mut spec = agent(&app, &scripted);
    spec["tools"][0]["probe_url"] = json!("https://example.com/{tool_call_id}");
    spec["tools"][0]["on_in_doubt"] = json!("probe");
    spec["tools"][0]["headers"]["X-Key"] = json!({ "secret": "nothing" });
    let at = |name: &str| format!("/tools/0/headers/{name}");
    spec["model"] = json!({ "provider": "openai", "name": "m", "api_key": { "secret": "key" } });
    let problem = app.post("/v1/agents", &spec).await.expect_problem(422, "validation-failed");
    let found: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|e| &e["code"]).collect();
    assert!(found.iter().all(|code| **code == "unknown_secret"), "{problem}");
    keep(&app, "key", VALUE).await;
    keep(&app, "nothing", VALUE).await;
    let problem = app.post("/v1/agents", &spec).await.expect_problem(422, "validation-failed");
    let errors = problem["errors"].as_array().unwrap();
    assert!(errors.iter().all(|error| error["code"] == "secret_not_bound"), "{problem}");
    let places = [at("Authorization"), at("X-Key")];
    assert_eq!(pointers(&problem), ["/model/api_key", &places[0], &places[1]]);
    let both = json!(["https://example.com", "https://api.openai.com", app.tools.origin()]);
    for name in ["key", "nothing"] {
        let body = json!({ "value": VALUE, "origins": both });
        app.put(&format!("/v1/secrets/{name}"), &body).await.expect(200);
    }
    let shown = app.post("/v1/agents", &spec).await.expect(201);
    assert_eq!(shown["tools"][0]["headers"], spec["tools"][0]["headers"]);
    assert_eq!(shown["model"]["api_key"], json!({ "secret": "key" }));
    spec["tools"][0]["headers"] = json!({ "Authorization": "Bearer plain" });
    let problem = app.post("/v1/agents", &spec).await.expect_problem(422, "invalid-header-name");
    assert_eq!(pointers(&problem), [at("Authorization")]);
    assert!(!problem.to_string().contains("plain"));
}

#[tokio::test]
async fn of_two_who_store_at_once_both_values_are_versions() {
    let app = TestApp::with(&[SEALING]).await;
    let (one, other) =
        tokio::join!(keep(&app, "key", "value-of-one"), keep(&app, "key", "value-of-other"));
    let mut versions = [one["version"].as_i64(), other["version"].as_i64()];
    versions.sort_unstable();
    assert_eq!(versions, [Some(1), Some(2)]);
    assert_eq!(execute(&app.db, "UPDATE secret SET version = 2 WHERE version = 2").await, 1);
}

#[tokio::test]
async fn a_secret_that_is_named_is_forgotten_only_by_force() {
    let app = TestApp::with(&[SEALING]).await;
    keep(&app, "key", VALUE).await;
    keep(&app, "other", VALUE).await;
    let scripted = json!({ "provider": "scripted", "name": "m" });
    let spec = agent(&app, &scripted);
    let named = app.post("/v1/agents", &spec).await.expect(201);
    let tools = spec["tools"].clone();
    let skill = json!({ "name": "s", "description": "d", "instructions": "i", "tools": tools });
    let skill = app.post("/v1/skills", &skill).await.expect(201);
    let url = format!("{}/mcp", app.tools.origin());
    let server =
        app.register("m", &url, &json!({ "headers": { "X-Key": { "secret": "key" } } })).await;
    let path = "/v1/secrets/key";
    let mut ids: Vec<_> = [&named, &skill, &server].map(|made| made["id"].clone()).to_vec();
    ids.sort_by_key(|id| id.as_str().unwrap().to_owned());
    let problem = app.delete(path).await.expect_problem(409, "in-use");
    let mut told = problem["references"].as_array().unwrap().clone();
    told.sort_by_key(|id| id.as_str().unwrap().to_owned());
    assert_eq!(told, ids, "{problem}");
    assert_eq!(app.delete("/v1/secrets/other").await.status, 204);
    // What does not name it any more, or is archived, does not keep it.
    let plain = json!({ "name": "a", "model": scripted });
    app.put(&format!("/v1/agents/{}", named["id"].as_str().unwrap()), &plain).await.expect(200);
    app.delete(&format!("/v1/skills/{}", skill["id"].as_str().unwrap())).await.expect(204);
    let problem = app.delete(path).await.expect_problem(409, "in-use");
    assert_eq!(problem["references"], json!([server["id"]]), "{problem}");
    app.delete("/v1/secrets/key?force=perhaps").await.expect_problem(400, "invalid-parameter");
    assert_eq!(app.delete("/v1/secrets/key?force=true").await.status, 204);
    app.get(path).await.expect_problem(404, "not-found");
}
