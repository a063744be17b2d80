//! No URL that a tenant names leads where no tenant may go, wherever they name it.

use serde_json::{Value, json};

use crate::support::{Answer, FakeDns, TestApp, Trap};

/// Each with the rule that it breaks where the port is open and plain http is not.
const HOSTILE: &str = include_str!("../../data/hostile_urls.json");

/// The four places where tenants name URLs, with the answer to one.
async fn named_everywhere(app: &TestApp, url: &str) -> [(&'static str, Answer); 4] {
    let tool = json!({"kind": "http", "name": "t", "url": url, "parameters": {"type": "object"}});
    let model = json!({"provider": "openai", "name": "m", "base_url": url});
    let scripted = json!({"provider": "scripted", "name": "m"});
    let agent = json!({"name": "a", "model": scripted, "tools": [tool]});
    let asking = json!({"name": "b", "model": model});
    [
        ("agent", app.post("/v1/agents", &agent).await),
        ("test", app.post("/v1/tools/test", &json!({"tool": tool})).await),
        ("webhook", app.post("/v1/webhooks", &json!({"url": url, "enabled": false})).await),
        ("base_url", app.post("/v1/agents", &asking).await),
    ]
}

/// A URL is refused by a rule, and no address is told.
fn assert_refused(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 422, "{what}: {}", answer.text);
    let slug = answer.slug();
    if slug == "egress-denied" {
        let problem = answer.json();
        let told = problem["errors"][0]["message"].as_str().unwrap();
        let rule = told.strip_prefix("egress-denied: ").expect(what);
        assert!(!rule.contains([' ', '.', ':']), "{what}: {told}");
    } else {
        // What is not even a URL, or is read in more than one way, is refused for its form.
        assert!(
            ["validation-failed", "text-not-storable"].contains(&slug.as_str()),
            "{what}: {slug}"
        );
    }
}

#[tokio::test]
async fn no_spelling_of_a_url_reaches_a_closed_address_from_any_place() {
    let traps = Trap::everywhere().await;
    let port = traps[0].address.port().to_string();
    let app = TestApp::with(&[
        ("AGENTLING_EGRESS_PORTS", &port),
        ("AGENTLING_EGRESS_ANY_MODEL", "false"),
    ])
    .await;
    let hostile: Vec<(String, String)> = serde_json::from_str(HOSTILE).unwrap();
    assert!(hostile.len() >= 60);
    for (rule, url) in &hostile {
        let url = url.replace("{port}", &port);
        for (place, answer) in named_everywhere(&app, &url).await {
            assert_refused(&answer, &format!("{place} {rule} {url:?}"));
        }
    }
    for trap in &traps {
        trap.assert_untouched().await;
    }
}

/// The positive control: a listener counts whoever the operator lets through to it.
#[tokio::test]
async fn every_closed_address_is_reached_once_the_operator_opens_it() {
    let traps = Trap::everywhere().await;
    let hosts: Vec<String> = traps.iter().map(|trap| trap.address.to_string()).collect();
    let app = TestApp::with(&[("AGENTLING_EGRESS_ALLOW", &hosts.join(","))]).await;
    for (trap, host) in traps.iter().zip(&hosts) {
        let tool = json!({"kind": "http", "name": "t", "url": format!("http://{host}/"),
                          "parameters": {"type": "object"}});
        // The listener hangs up.
        app.post("/v1/tools/test", &json!({"tool": tool}))
            .await
            .expect_problem(422, "tool-call-error");
        assert!(trap.hits() > 0, "{host}");
    }
}

#[tokio::test]
async fn a_url_that_leads_elsewhere_is_taken_wherever_it_is_named() {
    let dns = FakeDns::start(|_| Some(Vec::new())).await;
    let app = TestApp::with(&[
        ("AGENTLING_EGRESS_ANY_MODEL", "false"),
        ("AGENTLING_EGRESS_DNS", &dns.server),
    ])
    .await;
    let statuses = named_everywhere(&app, "https://tool.example/v1").await;
    let statuses = statuses.map(|(place, answer)| (place, answer.status, answer.slug()));
    let fine = |place| (place, 201, String::new());
    // The name has no address, which is found out by the call and no refusal.
    let unreachable = ("test", 422, "tool-call-error".to_owned());
    assert_eq!(statuses, [fine("agent"), unreachable, fine("webhook"), fine("base_url")]);
}

#[tokio::test]
async fn what_the_operator_closes_is_closed_and_what_the_operator_lists_is_open() {
    let app = TestApp::with(&[
        ("AGENTLING_EGRESS_ANY_MODEL", "false"),
        ("AGENTLING_EGRESS_DENY", "192.31.196.0/24,2001:4860::/32"),
        ("AGENTLING_EGRESS_PORTS", "9443"),
        ("AGENTLING_PUBLIC_URL", "https://agents.example/"),
        ("AGENTLING_PROVIDER_ORIGINS", "openai=http://127.0.0.1:7001"),
    ])
    .await;
    for (url, rule) in [
        ("https://192.31.196.1:9443/", "address"),
        ("https://[::ffff:192.31.196.1]:9443/", "address"),
        ("https://[2001:4860:4860::8888]:9443/", "address"),
        ("https://tool.example/", "port"),
        ("https://agents.example:9443/v1/runs", "host"),
    ] {
        for (place, answer) in named_everywhere(&app, url).await {
            let problem = answer.expect_problem(422, "egress-denied");
            let told = format!("egress-denied: {rule}");
            assert_eq!(problem["errors"][0]["message"], told, "{place} {url}");
        }
    }
    let asking = |url: &str| {
        let model = json!({"provider": "openai", "name": "m", "base_url": url});
        json!({"name": "c", "model": model})
    };
    app.create_agent(&asking("http://127.0.0.1:7001/v1")).await;
    let other = app.post("/v1/agents", &asking("http://127.0.0.1:7002/v1")).await;
    other.expect_problem(422, "egress-denied");
}

#[tokio::test]
async fn a_fallback_is_held_to_the_same_as_the_model_before_it() {
    let app = TestApp::with(&[("AGENTLING_EGRESS_ANY_MODEL", "false")]).await;
    let fallback = json!({"provider": "openai", "name": "m", "base_url": "https://10.0.0.1/v1"});
    let model = json!({"provider": "scripted", "name": "m", "fallbacks": [fallback]});
    let answer = app.post("/v1/agents", &json!({"name": "a", "model": model})).await;
    let problem: Value = answer.expect_problem(422, "egress-denied");
    assert_eq!(problem["errors"][0]["pointer"], "/model/fallbacks/0/base_url");
}
