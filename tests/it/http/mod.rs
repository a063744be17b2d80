//! HTTP in, HTTP out.

mod agents;
mod auth;
mod bad_input;
mod bounds;
mod budgets;
mod compact;
mod context;
mod diagnosis;
mod egress;
mod failures;
mod framing_tags;
mod hostile;
mod http2;
mod idempotency;
mod inputs;
mod journey;
mod keys;
mod layers;
mod lists;
mod matrix;
mod mcp_servers;
mod memory;
mod memory_generated;
mod memory_items;
mod memory_lists;
mod memory_old;
mod memory_packages;
mod memory_validate;
mod metrics;
mod obeying;
mod oidc;
mod rates;
mod redaction;
mod render;
mod runs;
mod schedules;
mod schemas;
mod secrets;
mod secrets_use;
mod skills;
mod slow;
mod steps;
mod threads;
mod threads_fork;
mod threads_steps;
mod tools;
mod usage;
mod voices;
mod walk;
mod walled;
mod webhooks;

use serde_json::{Value, json};

use crate::support::{Answer, TestApp};

/// Sends a request with a key, and a body that is any text.
async fn send_as(app: &TestApp, key: &str, (method, path): (&str, &str), body: &str) -> Answer {
    let request = app.request(method, path).bearer_auth(key);
    app.send(request.header("content-type", "application/json").body(body.to_owned())).await
}

/// Sends a text as JSON, with `If-Match` unless it is empty.
async fn send_text(
    app: &TestApp,
    (method, path): (&str, &str),
    if_match: &str,
    body: &str,
) -> Answer {
    let mut request = app.request(method, path).header("content-type", "application/json");
    if !if_match.is_empty() {
        request = request.header("if-match", if_match);
    }
    app.send(request.body(body.to_owned())).await
}

/// An agent of a name that says this and nothing else.
fn speaker(name: &str, text: &str) -> Value {
    json!({ "name": name,
            "model": { "provider": "scripted", "name": "m", "script": [{ "text": text }] } })
}

/// Starts a run that does not end by itself; answers the run.
async fn start_endless_run(app: &TestApp) -> Value {
    let script = json!([{ "text": "x", "delay_ms": 600_000 }]);
    let agent = json!({ "name": "slow", "model_timeout_ms": 600_000,
                        "model": { "provider": "scripted", "name": "m", "script": script } });
    app.post("/v1/runs", &json!({ "agent": agent, "input": "wait" })).await.expect(201)
}

/// The pointers of a problem's errors.
fn pointers(problem: &Value) -> Vec<&str> {
    let errors = problem["errors"].as_array().into_iter().flatten();
    errors.filter_map(|error| error["pointer"].as_str()).collect()
}

/// A problem without what differs from request to request.
fn without_ids(mut problem: Value) -> Value {
    let members = problem.as_object_mut().into_iter();
    let own = |key: &str| ["instance", "error_id"].contains(&key);
    members.for_each(|members| members.retain(|key, _| !own(key)));
    problem
}
