//! `GET /metrics`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::speaker;
use crate::support::{TestApp, tool};

/// Samples by name and labels, each as it is written.
type Samples = BTreeMap<(String, BTreeMap<String, String>), String>;

/// Reads the text format of Prometheus, every line of which has to be one of it.
fn read(text: &str) -> Samples {
    let (mut samples, mut types) = (Samples::new(), BTreeMap::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(comment) = line.strip_prefix("# ") {
            let [what, name, rest] = comment.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
            match what {
                "TYPE" => assert_eq!(types.insert(name, rest), None, "{name} has two types"),
                "HELP" => assert!(rest.ends_with('.'), "{line}"),
                _ => panic!("{line}"),
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect(line);
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect(line)),
            None => (series, ""),
        };
        let stem = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let kind = types.get(name).or_else(|| types.get(stem?)).expect(line);
        let is_total = name.ends_with("_total");
        assert_eq!(*kind == "counter", is_total, "{line}");
        let labels = labels.split("\",").filter(|pair| !pair.is_empty()).map(|pair| {
            let (key, value) = pair.split_once("=\"").expect(line);
            (key.to_owned(), value.trim_end_matches('"').to_owned())
        });
        let key = (name.to_owned(), labels.collect());
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert_eq!(samples.insert(key, value.to_owned()), None, "{line} is there twice");
    }
    samples
}

/// The value of one sample; 0 where there is none.
fn value<'s>(samples: &'s Samples, name: &str, labels: &[(&str, &str)]) -> &'s str {
    let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    samples.get(&(name.to_owned(), labels.collect())).map_or("0", String::as_str)
}

async fn scrape(app: &TestApp) -> (Samples, String) {
    let answer = app.get("/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    (read(&answer.text), answer.text)
}

fn agent(app: &TestApp) -> Value {
    let usage = json!({"input": 10, "output": 3});
    let parameters = json!({"type": "object"});
    json!({
        "name": "agent-of-a-tenant",
        "model": {"provider": "scripted", "name": "model-of-a-tenant", "script": [
            {"tool_calls": [{"name": "tool-of-a-tenant", "arguments": {}}], "usage": usage},
            {"tool_calls": [{"name": "made-up-by-a-model", "arguments": {}}], "usage": usage},
            {"error": {"kind": "server", "times": 1}, "text": "done", "usage": usage},
        ]},
        "tools": [tool(&app.tools, "tool-of-a-tenant", "pure", &parameters)],
    })
}

#[tokio::test]
async fn what_a_run_does_is_counted_and_nothing_of_its_tenant_is_a_label() {
    let app = TestApp::start().await;
    app.tools.answer("tool-of-a-tenant", |_| (200, json!({})));
    let (before, _) = scrape(&app).await;
    assert_eq!(value(&before, "agentling_runs_accepted_total", &[]), "0");
    let run = app.run(&agent(&app), "text-of-a-caller").await;
    assert_eq!(run["status"], "completed", "{run}");
    app.get(&format!("/v1/runs/{}", run["id"].as_str().unwrap())).await.expect(200);
    app.get("/v1/path-of-a-caller?query-of-a-caller").await;
    app.send(app.request("METHODOFACALLER", "/healthz")).await;
    // What a worker counts at the end, it may count after the answer is out.
    let (after, text) = loop {
        let (samples, text) = scrape(&app).await;
        let done = [("outcome", "completed")];
        if value(&samples, "agentling_runs_ended_total", &done) != "0" {
            break (samples, text);
        }
    };
    let of =
        |name: &str, labels: &[(&str, &str)]| value(&after, &format!("agentling_{name}"), labels);
    assert_eq!(of("runs_accepted_total", &[]), "1");
    assert_eq!(of("runs_ended_total", &[("outcome", "completed")]), "1");
    let scripted = ("provider", "scripted");
    assert_eq!(of("model_calls_total", &[scripted, ("outcome", "success")]), "3", "{text}");
    assert_eq!(of("model_calls_total", &[scripted, ("outcome", "server")]), "1", "{text}");
    assert_eq!(of("model_call_duration_seconds_count", &[scripted]), "4");
    assert_eq!(of("model_retries_total", &[scripted]), "1");
    assert_eq!(of("model_tokens_total", &[scripted, ("type", "input")]), "30");
    assert_eq!(of("model_tokens_total", &[scripted, ("type", "output")]), "9");
    assert_eq!(of("tool_calls_total", &[("kind", "http"), ("outcome", "success")]), "1");
    assert_eq!(of("tool_call_duration_seconds_count", &[("kind", "http")]), "1");
    let get = ("method", "GET");
    let found = [get, ("route", "/v1/runs/{run_id}"), ("status_class", "2xx")];
    assert_eq!(of("http_requests_total", &found), "1", "{text}");
    assert_eq!(of("http_requests_total", &[get, ("route", "none"), ("status_class", "4xx")]), "1");
    assert_ne!(of("http_request_duration_seconds_count", &[get, ("route", "/metrics")]), "0");
    assert_eq!(of("claim_delay_seconds_count", &[]), "1");
    assert_ne!(of("run_slots", &[]), "0");
    for never in ["leases_lost_total", "fenced_writes_total", "run_takeovers_total"] {
        assert!(text.contains(&format!("agentling_{never} 0\n")), "{never} is not in {text}");
    }
    assert!(text.contains("agentling_database_connections{pool=\"worker\",state=\"used\"}"));

    let keys: BTreeSet<&str> =
        after.keys().flat_map(|(_, labels)| labels.keys()).map(String::as_str).collect();
    let known = [
        "kind",
        "le",
        "method",
        "outcome",
        "pool",
        "provider",
        "route",
        "state",
        "status_class",
        "type",
    ];
    assert_eq!(keys, known.into());
    for theirs in ["-of-a-tenant", "-of-a-caller", "OFACALLER", "made-up", "default"] {
        assert!(!text.contains(theirs), "{theirs} is in {text}");
    }
}

#[tokio::test]
async fn metrics_with_an_address_of_their_own_are_there_and_nowhere_else() {
    let app = TestApp::with(&[("AGENTLING_METRICS_LISTEN", "127.0.0.1:0")]).await;
    app.run(&speaker("a", "Hello."), "hi").await;
    app.get("/metrics").await.expect_problem(404, "not-found");
    let own = app.running.metrics_address.unwrap();
    let ask = |path| app.client().get(format!("http://{own}{path}"));
    let metrics = app.send(ask("/metrics")).await;
    assert_eq!(value(&read(&metrics.text), "agentling_runs_accepted_total", &[]), "1");
    for path in ["/v1/agents", "/healthz", "/openapi.json", "/"] {
        app.send(ask(path)).await.expect_problem(404, "not-found");
    }
}

#[tokio::test]
async fn metrics_need_no_key_also_where_everything_else_does() {
    let app = TestApp::with(&[("AGENTLING_API_KEY", "a-key-that-nobody-shows")]).await;
    app.get("/v1/agents").await.expect_problem(401, "unauthenticated");
    scrape(&app).await;
}
