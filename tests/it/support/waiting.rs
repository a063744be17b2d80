//! Runs that wait for callers, and the callers that they wait for.

use agentling::domain::id::{RunId, TenantId};
use agentling::domain::wait::{CallAnswer, WaitReason};
use agentling::engine::{Answers, Engine};
use futures::future::join_all;
use serde_json::{Value, json};

use super::{Answer, TestApp, TestDb, until};

/// A tool that the caller runs.
pub(crate) fn client_tool(name: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    json!({"kind": "client", "name": name, "description": "", "parameters": parameters})
}

/// The ids of the calls that a run waits for, in call order.
pub(crate) fn waiting_calls(run: &Value) -> Vec<String> {
    let calls = run["requires_action"]["tool_calls"].as_array().cloned().unwrap_or_default();
    calls.iter().map(|call| call["tool_call_id"].as_str().unwrap().to_owned()).collect()
}

/// A run's own path, with what is asked of it.
pub(crate) fn run_path(run: &Value, what: &str) -> String {
    format!("/v1/runs/{}/{what}", run["id"].as_str().unwrap())
}

/// Posts fifty bodies at once, by turns to these servers, and answers what came back: how many were
/// taken, and how many refused as answered already. Nothing else may come back.
pub(crate) async fn race(
    apps: &[&TestApp],
    path: &str,
    body: impl Fn(usize) -> Value,
) -> (usize, usize) {
    let bodies: Vec<Value> = (0..50).map(body).collect();
    let posts = bodies.iter().zip(apps.iter().cycle()).map(|(body, app)| insist(app, path, body));
    let answers = join_all(posts).await;
    let taken = answers.iter().filter(|answer| answer.status == 200).count();
    for answer in answers.into_iter().filter(|answer| answer.status != 200) {
        answer.expect_problem(409, "tool-call-already-answered");
    }
    (taken, bodies.len() - taken)
}

/// Posts until the server has time for it.
async fn insist(app: &TestApp, path: &str, body: &Value) -> Answer {
    loop {
        let answer = app.post(path, body).await;
        if answer.status != 503 {
            return answer;
        }
    }
}

/// Answers every call that a run waits for, until it has been answered so often.
pub(crate) async fn answer_calls(engine: &Engine, db: &TestDb, run: RunId, n_answers: usize) {
    let tenant = TenantId::default();
    for _ in 0..n_answers {
        until(db, "SELECT status = 'requires_action' FROM run").await;
        let found = engine.wait(&tenant, run, std::time::Duration::ZERO).await.unwrap().unwrap();
        let waits = found.facts.requires_action.expect("it waits for something");
        let call = waits.tool_calls[0].clone();
        let answers = vec![(call.tool_call_id, answer_for(waits.reason))];
        let given = Answers { reason: waits.reason, answers, key: None };
        engine.answer(&tenant, run, given).await.unwrap();
    }
}

fn answer_for(reason: WaitReason) -> CallAnswer {
    match reason {
        WaitReason::Approval => CallAnswer::Approved { arguments: None },
        _ => CallAnswer::Succeeded { output: Some(json!("It is done.").into()) },
    }
}
