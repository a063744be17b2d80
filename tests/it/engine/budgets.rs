//! Budgets that many runs share: no commit exceeds one, and what waits goes on when there is room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentling::app::Surroundings;
use agentling::domain::budget::{Budget, BudgetOwner, BudgetPeriod};
use agentling::domain::id::TenantId;
use agentling::domain::run::RunStatus;
use agentling::store::budget::{self, NewBudget};
use serde_json::{Value, json};

use super::crash::{accept, ended};
use crate::support::{
    Commits, FakeModel, FakeTools, ModelReply, TestApp, TestDb, agent_with, assert_invariants,
    calling, count, execute, saying, tool, until,
};

/// An agent that answers with a text of a fake model, which counts ten tokens.
fn talker(model: &FakeModel) -> Value {
    let mut spec = model.spec(false);
    spec["settings"]["max_output_tokens"] = json!(16);
    json!({"name": "a", "model": spec})
}

async fn set(db: &TestDb, bounds: Budget) {
    let new = NewBudget { period: BudgetPeriod::Total, bounds };
    let set = budget::set(&db.store(), &TenantId::default(), BudgetOwner::Tenant, &new).await;
    assert!(set.unwrap());
}

/// Looks again and again whether more is used or set aside than there is, or the books do not agree.
async fn watch(db: TestDb, is_over: Arc<AtomicBool>) -> u32 {
    let wrong = "SELECT count(*) FROM (
                     SELECT b.used + b.reserved > b.bound OR b.overrun > 0
                            OR b.reserved <> (SELECT coalesce(sum(d.reserved), 0)
                                                FROM budget_draw d
                                               WHERE d.resource = b.resource) AS is_wrong
                       FROM budget b) looked WHERE is_wrong";
    let mut n_looks = 0;
    while !is_over.load(Ordering::SeqCst) {
        assert_eq!(count(&db, wrong).await, 0);
        n_looks += 1;
    }
    n_looks
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_two_replicas_never_exceed_a_budget_that_they_share() {
    const RUNS: usize = 40;
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let model = FakeModel::start([ModelReply::text("Hi.")]).await;
    for _ in 0..RUNS {
        accept(&db, &tools, &talker(&model)).await;
    }
    // Room for a few calls at a time, and for fewer turns than there are runs.
    set(&db, Budget { tokens: Some(4_000), turns: Some(25), ..Budget::default() }).await;
    let is_over = Arc::new(AtomicBool::new(false));
    #[expect(clippy::disallowed_methods, reason = "the watch goes on beside the test")]
    let watch = tokio::spawn(watch(db.clone(), Arc::clone(&is_over)));
    let on = |db: &TestDb| TestApp::on(db.clone(), tools.clone(), &[], Surroundings::default());
    let (one, two) = tokio::join!(on(&db), on(&db));
    until(
        &db,
        "SELECT count(*) FILTER (WHERE status = 'completed') = 25
                AND count(*) FILTER (WHERE status = 'requires_action') = 15 FROM run",
    )
    .await;
    assert_eq!(model.requests().len(), 25, "what was asked for is what was counted");
    let budget = one.get("/v1/budgets/tenant/default").await.expect(200);
    assert_eq!(budget["turns"]["used"], 25);
    assert_eq!(budget["tokens"]["used"], 250);
    assert_eq!(budget["tokens"]["reserved"], 0);
    assert_invariants(&db).await;
    let refused = two.post("/v1/runs", &json!({"agent": talker(&model), "input": "hi"})).await;
    refused.expect_problem(429, "budget-exhausted");
    let raised = json!({"tokens": 5_000, "turns": 100});
    two.put("/v1/budgets/tenant/default", &raised).await.expect(200);
    until(&db, "SELECT count(*) = 40 FROM run WHERE status = 'completed'").await;
    is_over.store(true, Ordering::SeqCst);
    assert!(watch.await.unwrap() > 10, "it was looked at all the while");
    assert_eq!(model.requests().len(), RUNS);
    let used = "SELECT used FROM budget WHERE resource = 'tokens'";
    assert_eq!(count(&db, used).await, 400);
    assert_invariants(&db).await;
    one.running.stop().await;
    two.running.stop().await;
}

#[tokio::test]
async fn a_budget_costs_the_first_turn_a_commit_of_its_own_and_no_other() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let commits = Arc::new(Commits::default());
    let around =
        Surroundings { observer: Arc::<Commits>::clone(&commits), ..Surroundings::default() };
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let declared = [tool(&tools, "a", "pure", &parameters)];
    let mut agent = agent_with(&[calling(&["a", "a"]), saying("Hi.")], &declared);
    agent["budget"] = json!({"tokens": 1_000_000, "tool_calls": 9});
    let run = accept(&db, &tools, &agent).await;
    let app = TestApp::on(db, tools, &[("AGENTLING_LEASE_MS", "60000")], around).await;
    assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Completed);
    assert_eq!(commits.of(run.id), 1 + (1 + 2) + 1);
    assert_invariants(&app.db).await;
}

#[tokio::test]
async fn a_run_goes_on_when_a_period_ends() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let agent = agent_with(&[saying("Hi.")], &[]);
    accept(&db, &tools, &agent).await;
    let bounds = Budget { turns: Some(0), ..Budget::default() };
    let new = NewBudget { period: BudgetPeriod::Day, bounds };
    let tenant = TenantId::default();
    assert!(budget::set(&db.store(), &tenant, BudgetOwner::Tenant, &new).await.unwrap());
    let app = TestApp::on(db, tools, &[], Surroundings::default()).await;
    until(&app.db, "SELECT status = 'requires_action' FROM run").await;
    // One turn a day, of which one was taken yesterday.
    let yesterday = "UPDATE budget SET bound = 1, used = 1, period_ends_at = now()";
    execute(&app.db, yesterday).await;
    until(&app.db, "SELECT status = 'completed' FROM run").await;
    let left = "SELECT used FROM budget WHERE period_ends_at > now()";
    assert_eq!(count(&app.db, left).await, 1);
    assert_invariants(&app.db).await;
}
