//! Messages that race with what a run does: each that was acknowledged is heard once.

use std::collections::BTreeSet;

use agentling::domain::id::{RunId, TenantId};
use agentling::domain::run::{Run, RunStatus};
use agentling::domain::run_message::Voice;
use agentling::engine::Engine;
use agentling::error::AgentlingError;
use futures::future::join_all;
use serde_json::{Value, json};

use super::crash::ended;
use crate::support::{
    TestApp, TestDb, agent_with, assert_invariants, calling, request, saying, tool, until,
};

/// Says things to a run until it takes no more; answers what was acknowledged.
async fn chat(engine: &Engine, run: RunId, who: usize) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for n in 0.. {
        let voice = if n % 3 == 0 { Voice::System } else { Voice::User };
        let text = format!("message {n} of caller {who}");
        match engine.say(&TenantId::default(), run, (voice, text.clone(), None)).await {
            Ok(message) => {
                assert_eq!((message.run_id, &message.text), (run, &text));
                acknowledged.push(text);
            }
            Err(AgentlingError::TooManyMessages { limit: 100 }) => tokio::task::yield_now().await,
            Err(AgentlingError::RunNotActive { .. } | AgentlingError::RunClosing { .. }) => break,
            Err(error) => panic!("{error}"),
        }
    }
    acknowledged
}

/// The texts of a run's messages that have become steps, in order.
async fn heard(db: &TestDb, run: RunId) -> Vec<String> {
    let statement = "SELECT coalesce(content->>'text', content->'parts'->0->>'text') FROM step
                      WHERE run_id = $1 AND kind IN ('task', 'system')
                        AND coalesce(content->>'text', content->'parts'->0->>'text')
                            LIKE 'message %'
                      ORDER BY seq";
    sqlx::query_scalar(statement).bind(run.uuid()).fetch_all(&mut db.connect().await).await.unwrap()
}

/// Starts a run whose tool is held, races callers with it, and cancels it, if it is to be, once they
/// talk. Answers the run as it ended, and what was acknowledged.
async fn raced(app: &TestApp, agent: &Value, cancels: bool) -> (Run, Vec<String>) {
    let engine = &app.running.engine;
    app.tools.hold("a");
    let run = engine.start(&TenantId::default(), request(agent)).await.unwrap().run.id;
    let begin = async {
        until(
            &app.db,
            "SELECT EXISTS (SELECT FROM run WHERE status = 'running' AND n_messages > 5)",
        )
        .await;
        app.tools.release("a");
        if cancels {
            engine.cancel(&TenantId::default(), run).await.unwrap();
        }
    };
    let chats = join_all((0..6).map(|who| chat(engine, run, who)));
    let (run, chats, ()) = tokio::join!(ended(app, run), chats, begin);
    assert_invariants(&app.db).await;
    (run, chats.concat())
}

fn agent(app: &TestApp, max_steps: u32) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let script = [calling(&["a", "a"]), saying("One."), calling(&["a"]), saying("Two.")];
    let mut agent = agent_with(&script, &[tool(&app.tools, "a", "pure", &parameters)]);
    agent["max_steps"] = json!(max_steps);
    agent
}

#[tokio::test]
async fn every_message_that_is_acknowledged_is_heard_once_however_many_race_with_the_run() {
    let app = TestApp::start().await;
    for _ in 0..8 {
        let (run, acknowledged) = raced(&app, &agent(&app, 6), false).await;
        assert_eq!(run.facts.status, RunStatus::Completed);
        let heard = heard(&app.db, run.id).await;
        assert_eq!(heard.len(), acknowledged.len());
        let once: BTreeSet<String> = heard.into_iter().collect();
        assert_eq!(once, acknowledged.into_iter().collect());
    }
}

#[tokio::test]
async fn a_cancel_among_the_messages_ends_the_run_and_none_is_heard_twice() {
    let app = TestApp::start().await;
    for _ in 0..8 {
        let (run, acknowledged) = raced(&app, &agent(&app, 1_000), true).await;
        assert_eq!(run.facts.status, RunStatus::Cancelled);
        let heard = heard(&app.db, run.id).await;
        let once: BTreeSet<String> = heard.iter().cloned().collect();
        assert_eq!(once.len(), heard.len());
        assert!(once.is_subset(&acknowledged.into_iter().collect()));
    }
}
