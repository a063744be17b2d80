//! A process that stops for longer than its lease and comes back as if nothing had been.

use agentling::domain::run::RunStatus;
use rustix::process::Signal;
use serde_json::json;

use super::crash::{accept, ended, healthy};
use crate::support::{
    Child, FakeTools, TestDb, agent_with, assert_invariants, calling, count, history, saying, tool,
    until,
};

#[tokio::test]
async fn a_process_that_comes_back_from_the_dead_writes_nothing() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let declared = [tool(&tools, "a", "pure", &parameters)];
    let agent = agent_with(&[calling(&["a"]), saying("Done.")], &declared);
    tools.hold("a");
    let run = accept(&db, &tools, &agent).await.id;
    let zombie = Child::start(&db.url, &tools.host, None);
    tools.wait_for(1).await;
    zombie.signal(Signal::STOP);
    let app = healthy(&db, &tools).await;
    tools.wait_for(2).await;
    // Both have their answer now; the one that is stopped finds it when it wakes.
    tools.release("a");
    assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    let before = history(&db).await;
    app.running.stop().await;
    zombie.signal(Signal::CONT);
    // A run that it takes on and ends shows that it is awake and has seen what it missed.
    accept(&db, &tools, &agent).await;
    until(&db, "SELECT count(*) = 2 FROM run WHERE status = 'completed'").await;
    assert_invariants(&db).await;
    zombie.kill().await;
    assert_eq!(count(&db, "SELECT max(epoch) FROM run").await, 2);
    sqlx::query("DELETE FROM run WHERE epoch = 1").execute(&mut db.connect().await).await.unwrap();
    assert_eq!(history(&db).await, before);
}
