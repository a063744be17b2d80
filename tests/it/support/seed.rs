//! Agents and runs to begin a test with.

use std::time::Duration;

use agentling::clock::{Ids as _, System};
use agentling::domain::agent::Metadata;
use agentling::domain::budget::Budget;
use agentling::domain::format::RunFormat;
use agentling::domain::id::{RunId, StepId, TenantId, ThreadId};
use agentling::domain::run::{OnBusy, OnDisconnect, Run, RunFacts};
use agentling::domain::step::{InputPart, InputText, StepContent, TaskStep};
use agentling::domain::thread::{Framing, Thread};
use agentling::engine::{StartRun, ThreadChoice, WhichAgent};
use agentling::store::Store;
use agentling::store::journal::{self, Guard, LoadedRun};
use agentling::store::lease::{self, Claim};
use agentling::store::runs::{self, Accepted, NewRun};
use serde_json::{Value, json};
use uuid::Uuid;

/// A random id.
pub(crate) fn uuid() -> Uuid {
    System::new().random()
}

/// A turn of a script that says something.
pub(crate) fn saying(text: &str) -> Value {
    json!({"text": text})
}

/// A turn of a script that calls tools, each with an argument of its own.
pub(crate) fn calling(tools: &[&str]) -> Value {
    let calls: Vec<Value> =
        (1..).zip(tools).map(|(n, tool)| json!({"name": tool, "arguments": {"n": n}})).collect();
    json!({"tool_calls": calls})
}

/// An agent that follows a script.
pub(crate) fn agent_with(script: &[Value], tools: &[Value]) -> Value {
    json!({
        "name": "a",
        "model": {"provider": "scripted", "name": "m", "script": script},
        "tools": tools,
    })
}

/// A request for a run of an inline agent on a new thread.
pub(crate) fn request(agent: &Value) -> StartRun {
    StartRun {
        id: None,
        agent: WhichAgent::Inline(serde_json::from_value(agent.clone()).unwrap()),
        thread: ThreadChoice::New,
        input: vec![InputPart::Text(InputText { text: "go on".to_owned() })],
        max_steps: None,
        run_timeout: None,
        on_busy: OnBusy::default(),
        on_disconnect: OnDisconnect::default(),
        budget: Budget::default(),
        key: None,
        metadata: Metadata::new(),
        idempotency: None,
        webhook: None,
        firing: None,
    }
}

/// A run on a new thread, as it is accepted.
pub(crate) fn new_run() -> NewRun {
    let ids = System::new();
    let now = agentling::clock::Clock::now(&ids);
    let (id, thread_id) = (RunId::from(ids.sortable()), ThreadId::from(ids.sortable()));
    let input = vec![InputPart::Text(InputText { text: "go on".to_owned() })];
    let agent = agent_with(&[saying("Done.")], &[]);
    NewRun {
        run: Run {
            id,
            thread_id,
            agent_id: None,
            agent_version: None,
            parent: None,
            metadata: Metadata::new(),
            created_at: now,
            budget: Budget::default(),
            facts: RunFacts::accepted(),
        },
        skills: Vec::new(),
        inline_agent: Some(serde_json::from_value(agent).unwrap()),
        new_thread: Some(Thread {
            id: thread_id,
            framing: Framing::default(),
            metadata: Metadata::new(),
            memory_from: 1,
            head_seq: 0,
            forked_from: None,
            revision: 1,
            created_at: now,
            updated_at: now,
        }),
        reset: false,
        max_steps: None,
        timeout: None,
        on_busy: OnBusy::default(),
        on_disconnect: OnDisconnect::default(),
        task: (StepId::from(ids.sortable()), StepContent::Task(TaskStep { parts: input })),
        op_id: ids.random(),
        idempotency: None,
        webhook: None,
        firing: None,
        key: None,
        format: RunFormat::First,
        is_priced: false,
    }
}

/// A run that waits for a worker.
pub(crate) async fn accepted(store: &Store) -> NewRun {
    let new = new_run();
    let accepted = runs::accept(store, &TenantId::default(), &new).await.unwrap();
    assert_eq!(accepted, Accepted::Created);
    new
}

/// A run that a worker holds: its claim, the right to append to it, and the run.
pub(crate) async fn claimed(store: &Store) -> (Claim, Guard, LoadedRun) {
    let new = accepted(store).await;
    let ttl = Duration::from_mins(1);
    let claims = lease::claim(store, &[uuid()], ttl, new.run.created_at).await.unwrap();
    let [claim] = claims.try_into().unwrap();
    let loaded = journal::load(store, &claim.tenant, claim.run).await.unwrap().unwrap();
    let guard = Guard {
        tenant: claim.tenant.clone(),
        run: claim.run,
        token: claim.token,
        epoch: claim.epoch,
        head: loaded.head,
    };
    (claim, guard, loaded)
}
