//! A process that dies at a commit: another one goes on, and the history is that of a run to which
//! nothing happened.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::time::Duration;

use agentling::app::Surroundings;
use agentling::domain::id::{RunId, TenantId};
use agentling::domain::run::{Run, RunStatus};
use agentling::domain::run_message::Voice;
use agentling::engine::CommitPoint;
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::support::{
    Child, Commits, Errand, FakeTools, PanicOnce, TestApp, TestDb, agent_with, assert_invariants,
    calling, count, history, request, saying, test_config, tool, until,
};

/// The process that the tests of this file start and lose. Without their variables in its
/// environment it has no errand and so nothing to show.
#[tokio::test]
async fn child() {
    if let Some(errand) = Errand::of_this_process() {
        errand.run().await;
    }
}

/// Makes an agent out of fake tools.
pub(crate) type MakeAgent = fn(&FakeTools) -> Value;

/// When a run is told something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Never,
    BeforeItStarts,
    WhileItsToolRuns,
}

/// What a run does and what it is told.
type Story = (MakeAgent, Told);

const PATIENCE: Duration = Duration::from_mins(1);
const SIGABRT: i32 = 6;

/// Accepts a run without any worker at hand.
pub(crate) async fn accept(db: &TestDb, tools: &FakeTools, agent: &Value) -> Run {
    let config = test_config(db, tools, &[]);
    let engine = agentling::app::engine(&config, &db.store(), &Surroundings::default()).await;
    let engine = engine.unwrap();
    engine.start(&TenantId::default(), request(agent)).await.unwrap().run
}

/// A server that has lost nothing itself.
pub(crate) async fn healthy(db: &TestDb, tools: &FakeTools) -> TestApp {
    let around = Surroundings::default();
    TestApp::on(db.clone(), tools.clone(), Errand::SETTINGS, around).await
}

/// Waits for the end of a run.
pub(crate) async fn ended(app: &TestApp, run: RunId) -> Run {
    let run = app.running.engine.wait(&TenantId::default(), run, PATIENCE).await.unwrap().unwrap();
    assert!(run.facts.status.is_ended(), "{run:?}");
    run
}

fn fake(tools: &FakeTools, name: &str, effect: &str) -> Value {
    tool(tools, name, effect, &json!({"type": "object", "properties": {"n": {"type": "integer"}}}))
}

/// The same tool, but it must be alone.
fn alone(mut tool: Value) -> Value {
    tool["parallel_safe"] = json!(false);
    tool
}

fn text_only(_: &FakeTools) -> Value {
    agent_with(&[saying("Hello.")], &[])
}

/// Two calls at once, then two in order, then the answer.
fn with_tools(tools: &FakeTools, effect: &str) -> Value {
    let declared =
        [fake(tools, "a", effect), fake(tools, "b", effect), alone(fake(tools, "c", effect))];
    agent_with(&[calling(&["a", "b"]), calling(&["c", "c"]), saying("Done.")], &declared)
}

fn with_pure_tools(tools: &FakeTools) -> Value {
    with_tools(tools, "pure")
}

fn with_idempotent_tools(tools: &FakeTools) -> Value {
    with_tools(tools, "idempotent")
}

fn with_unrepeatable_tools(tools: &FakeTools) -> Value {
    with_tools(tools, "at_most_once")
}

/// A conversation that no longer fits once it has its second output.
fn with_compaction(tools: &FakeTools, strategy: &str) -> Value {
    tools.answer("big", |_| (200, json!("word ".repeat(1_600))));
    let declared = [fake(tools, "big", "pure"), fake(tools, "a", "pure")];
    let script = [calling(&["big"]), calling(&["big", "a"]), saying("Done.")];
    let mut agent = agent_with(&script, &declared);
    agent["context_strategy"] = json!(strategy);
    agent["model"]["profile"] = json!({"context_window": 4_096});
    agent
}

/// Two calls, one alone, and the answer, within a budget of everything.
fn with_a_budget(tools: &FakeTools) -> Value {
    let mut agent = with_tools(tools, "pure");
    let price = json!({"input": "1", "output": "2"});
    agent["model"]["price"] = price;
    agent["budget"] = json!({"tokens": 1_000_000, "cost": "100", "turns": 100, "tool_calls": 100});
    agent
}

fn with_a_summary(tools: &FakeTools) -> Value {
    with_compaction(tools, "summarize")
}

fn with_output_left_out(tools: &FakeTools) -> Value {
    with_compaction(tools, "drop_tool_output")
}

/// Accepts the run of a story without any worker at hand.
async fn begin(db: &TestDb, tools: &FakeTools, (make, told): Story) -> Run {
    let run = accept(db, tools, &make(tools)).await;
    match told {
        Told::Never => {}
        Told::BeforeItStarts => say(db, tools, run.id).await,
        Told::WhileItsToolRuns => tools.hold("a"),
    }
    run
}

/// Tells the run what it is to be told while it runs: before the call of its tool ends.
async fn go_on(db: &TestDb, tools: &FakeTools, run: RunId, told: Told) {
    if told == Told::WhileItsToolRuns {
        tools.wait_for(1).await;
        say(db, tools, run).await;
        tools.release("a");
    }
}

async fn say(db: &TestDb, tools: &FakeTools, run: RunId) {
    let config = test_config(db, tools, &[]);
    let engine =
        agentling::app::engine(&config, &db.store(), &Surroundings::default()).await.unwrap();
    let said =
        engine.say(&TenantId::default(), run, (Voice::User, "And hurry.".to_owned(), None)).await;
    assert_eq!(said.unwrap().number, 1);
}

/// A run to which nothing happens: its history and how many commits it takes.
async fn undisturbed(story: Story) -> (Vec<String>, usize) {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let commits = Arc::new(Commits::default());
    let around =
        Surroundings { observer: Arc::<Commits>::clone(&commits), ..Surroundings::default() };
    let run = begin(&db, &tools, story).await;
    // However slow the machine is, nobody takes the run over, which would be a commit more.
    let app = TestApp::on(db, tools, &[("AGENTLING_LEASE_MS", "60000")], around).await;
    tokio::join!(ended(&app, run.id), go_on(&app.db, &app.tools, run.id, story.1));
    assert_invariants(&app.db).await;
    (history(&app.db).await, commits.of(run.id))
}

/// Loses a process at a commit and lets another go on to the end.
async fn survive(story: Story, at: (CommitPoint, usize)) -> TestApp {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let run = begin(&db, &tools, story).await;
    let lost = lose(&db, &tools, &run, at);
    tokio::join!(lost, go_on(&db, &tools, run.id, story.1)).0
}

async fn lose(
    db: &TestDb,
    tools: &FakeTools,
    run: &Run,
    (point, n): (CommitPoint, usize),
) -> TestApp {
    let child = Child::start(&db.url, &tools.host, Some((point, n)));
    assert_eq!(child.died().await.signal(), Some(SIGABRT), "{point:?} {n}");
    assert_invariants(db).await;
    let app = healthy(db, tools).await;
    assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Completed, "{point:?} {n}");
    assert_invariants(&app.db).await;
    app
}

/// Crashes a run at every commit it makes, and hands what is left to a check.
pub(crate) async fn at_every_commit(make: MakeAgent, check: impl AsyncFn(&TestApp, &[String])) {
    at_every_commit_of((make, Told::Never), check).await;
}

async fn at_every_commit_of(story: Story, check: impl AsyncFn(&TestApp, &[String])) {
    let (undisturbed, commits) = undisturbed(story).await;
    let points = (1..=commits).flat_map(|n| [(CommitPoint::Before, n), (CommitPoint::After, n)]);
    // A few at a time: most of it is waiting for leases to run out.
    let mut survivors = futures::stream::iter(points)
        .map(async |at| (at, survive(story, at).await))
        .buffer_unordered(4);
    let mut n_survivors = 0;
    while let Some((at, app)) = survivors.next().await {
        check(&app, &undisturbed).await;
        app.running.stop().await;
        n_survivors += 1;
        assert!(n_survivors <= 2 * commits, "{at:?}");
    }
    assert_eq!(n_survivors, 2 * commits);
}

/// How often each call reached its tool.
fn tries(app: &TestApp) -> Vec<(String, usize)> {
    let seen = app.tools.seen();
    let mut keys: Vec<String> = seen.iter().map(|call| call.key.clone()).collect();
    keys.sort();
    keys.dedup();
    let times = |key: &String| seen.iter().filter(|call| call.key == *key).count();
    keys.iter().map(|key| (key.clone(), times(key))).collect()
}

#[tokio::test]
async fn a_crash_at_any_commit_of_a_text_reply_changes_nothing() {
    at_every_commit(text_only, async |app, undisturbed| {
        assert_eq!(history(&app.db).await, undisturbed);
    })
    .await;
}

#[tokio::test]
async fn a_crash_at_any_commit_with_pure_tools_changes_nothing() {
    at_every_commit(with_pure_tools, async |app, undisturbed| {
        assert_eq!(history(&app.db).await, undisturbed);
        assert_eq!(tries(app).len(), 4, "each call keeps its id");
    })
    .await;
}

#[tokio::test]
async fn a_crash_at_any_commit_leaves_nothing_of_a_budget_set_aside() {
    at_every_commit(with_a_budget, async |app, undisturbed| {
        assert_eq!(history(&app.db).await, undisturbed);
        let held = "SELECT coalesce(sum(reserved), 0)::bigint FROM budget";
        assert_eq!(count(&app.db, held).await, 0);
        let turns = "SELECT used FROM budget WHERE resource = 'turns'";
        assert_eq!(count(&app.db, turns).await, 3, "a turn counts once, however often it is tried");
        let calls = "SELECT used FROM budget WHERE resource = 'tool_calls'";
        assert_eq!(count(&app.db, calls).await, 4);
        // What a lost worker had asked for may have been answered, and counts in full.
        let unpaid = "SELECT count(*) FROM budget b JOIN run r USING (tenant_id)
                       WHERE b.resource = 'tokens' AND b.used < r.usage_input + r.usage_output";
        assert_eq!(count(&app.db, unpaid).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_crash_at_any_commit_repeats_idempotent_calls_with_their_key() {
    at_every_commit(with_idempotent_tools, async |app, undisturbed| {
        assert_eq!(history(&app.db).await, undisturbed);
        let tries = tries(app);
        assert_eq!(tries.len(), 4, "one key a call: {tries:?}");
        assert!(tries.iter().all(|(_, times)| *times <= 2), "{tries:?}");
        let unknown = "SELECT count(*) FROM tool_call WHERE outcome->>'kind' <> 'success'";
        assert_eq!(count(&app.db, unknown).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_crash_at_any_commit_never_repeats_a_call_that_may_run_once() {
    at_every_commit(with_unrepeatable_tools, async |app, undisturbed| {
        let tries = tries(app);
        assert!(tries.iter().all(|(_, times)| *times == 1), "{tries:?}");
        let wrong = "SELECT count(*) FROM tool_call
                      WHERE outcome->>'kind' NOT IN ('success', 'in_doubt')";
        assert_eq!(count(&app.db, wrong).await, 0);
        let successes = "SELECT count(*) FROM tool_call WHERE outcome->>'kind' = 'success'";
        let successes = usize::try_from(count(&app.db, successes).await).unwrap();
        // The crash leaves at most the two calls in doubt that were under way at once, and a busy
        // machine one more, where a lease runs out.
        assert!((1..=tries.len()).contains(&successes), "{successes} of {tries:?}");
        // The same story, whatever became of the calls.
        assert_eq!(history(&app.db).await.len(), undisturbed.len());
    })
    .await;
}

#[tokio::test]
async fn a_crash_at_any_commit_of_a_run_that_is_told_something_changes_nothing() {
    for (story, n_turns) in [
        ((text_only as MakeAgent, Told::BeforeItStarts), 1),
        ((with_pure_tools, Told::BeforeItStarts), 3),
        ((with_pure_tools, Told::WhileItsToolRuns), 3),
    ] {
        at_every_commit_of(story, async |app, undisturbed| {
            assert_eq!(history(&app.db).await, undisturbed);
            let heard = "SELECT count(*) FROM run_message WHERE step_seq IS NOT NULL";
            assert_eq!(count(&app.db, heard).await, 1);
            assert_eq!(count(&app.db, "SELECT turn::bigint FROM run").await, n_turns);
        })
        .await;
    }
}

#[tokio::test]
async fn a_crash_at_any_commit_of_a_conversation_that_is_made_shorter_changes_nothing() {
    for make in [with_a_summary as MakeAgent, with_output_left_out] {
        at_every_commit(make, async |app, undisturbed| {
            assert_eq!(history(&app.db).await, undisturbed);
            let summaries = "SELECT count(*) FROM step WHERE kind = 'summary'";
            assert_eq!(count(&app.db, summaries).await, 1);
        })
        .await;
    }
}

#[tokio::test]
async fn a_run_ends_although_every_process_dies_soon() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let (undisturbed, _) = undisturbed((with_idempotent_tools, Told::Never)).await;
    let run = accept(&db, &tools, &with_idempotent_tools(&tools)).await;
    let store = db.store();
    let mut deaths = 0;
    loop {
        // The first commit of a takeover is that it took over; the second one gets the run on.
        let child = Child::start(&db.url, &tools.host, Some((CommitPoint::After, 2)));
        assert_eq!(child.died().await.signal(), Some(SIGABRT));
        deaths += 1;
        assert_invariants(&db).await;
        let found = agentling::store::runs::get(&store, &TenantId::default(), run.id).await;
        if found.unwrap().unwrap().facts.status.is_ended() {
            break;
        }
        assert!(deaths < 20, "the run does not get on");
    }
    assert!(deaths > 2);
    assert_eq!(history(&db).await, undisturbed);
}

#[tokio::test]
async fn outcomes_that_were_recorded_stay_and_open_calls_follow_their_effect_class() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let effects =
        [("done", "pure"), ("pure", "pure"), ("again", "idempotent"), ("once", "at_most_once")];
    let declared = effects.map(|(name, effect)| fake(&tools, name, effect));
    let agent = agent_with(&[calling(&effects.map(|(name, _)| name)), saying("Done.")], &declared);
    for held in ["pure", "again", "once"] {
        tools.hold(held);
    }
    let run = accept(&db, &tools, &agent).await;
    let child = Child::start(&db.url, &tools.host, None);
    tools.wait_for(4).await;
    until(&db, "SELECT count(*) = 1 FROM tool_call WHERE state = 'ended'").await;
    child.kill().await;
    for held in ["pure", "again", "once"] {
        tools.release(held);
    }
    let app = healthy(&db, &tools).await;
    assert_eq!(ended(&app, run.id).await.facts.status, RunStatus::Completed);
    assert_invariants(&db).await;
    let times = |name: &str| app.tools.seen().iter().filter(|call| call.tool == name).count();
    assert_eq!(effects.map(|(name, _)| times(name)), [1, 2, 2, 1]);
    assert_eq!(tries(&app).len(), 4, "a repeated call keeps its key");
    let kinds = "SELECT count(*) FROM tool_call
                  WHERE (outcome->>'kind' = 'in_doubt') IS DISTINCT FROM (name = 'once')";
    assert_eq!(count(&db, kinds).await, 0);
    let mut fences: Vec<String> = app.tools.seen().iter().map(|call| call.fence.clone()).collect();
    fences.dedup();
    assert_eq!(fences, ["1", "2"], "the fence grows with each claim");
}

#[tokio::test]
async fn a_panic_costs_its_run_a_lease_and_other_runs_nothing() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(accept(&db, &tools, &text_only(&tools)).await.id);
    }
    let around =
        Surroundings { observer: Arc::new(PanicOnce::default()), ..Surroundings::default() };
    let app = TestApp::on(db, tools, Errand::SETTINGS, around).await;
    for run in runs {
        assert_eq!(ended(&app, run).await.facts.status, RunStatus::Completed);
    }
    assert_invariants(&app.db).await;
    assert_eq!(count(&app.db, "SELECT count(*) FROM run WHERE epoch = 2").await, 1);
    assert_eq!(count(&app.db, "SELECT count(*) FROM run WHERE epoch = 1").await, 3);
}
