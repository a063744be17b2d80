//! Everything at once, for a while: processes are killed and stopped, and the database restarts, while
//! runs come in. `make soak` does it for longer.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentling::app::Surroundings;
use agentling::clock::{Clock as _, System};
use agentling::domain::id::TenantId;
use agentling::engine::Engine;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};

use crate::support::{
    Child, FakeTools, OwnCluster, TestApp, TestDb, agent_with, assert_called, assert_invariants,
    calling, count, request, saying, test_config, tool, until,
};

/// How long, unless more is asked for.
const SHORT: Duration = Duration::from_secs(12);

/// How many runs are under way at once.
const LOAD: i64 = 24;

const ACTIVE: &str = "SELECT count(*) FROM run WHERE status IN ('queued', 'running')";
const ALL_ENDED: &str = "SELECT count(*) = 0 FROM run WHERE status IN ('queued', 'running')";
const QUIET: &str = "SELECT count(*) = 0 FROM pg_stat_activity
                      WHERE datname = current_database() AND application_name LIKE 'agentling-%'
                        AND state LIKE 'idle in transaction%'";
const HELD: &str = "SELECT run_id::text, epoch FROM run WHERE status = 'running'";

#[expect(clippy::disallowed_methods, reason = "tests read the environment themselves")]
fn duration() -> Duration {
    let asked = std::env::var("AGENTLING_SOAK_SECS").ok();
    asked.map_or(SHORT, |secs| Duration::from_secs(secs.parse().expect("a number of seconds")))
}

/// Says the figures, whatever becomes of the output of a test that passes.
fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

fn agent(tools: &FakeTools) -> Value {
    let parameters = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let mut declared = [
        tool(tools, "look", "pure", &parameters),
        tool(tools, "again", "idempotent", &parameters),
        tool(tools, "once", "at_most_once", &parameters),
        tool(tools, "alone", "at_most_once", &parameters),
    ];
    declared[3]["parallel_safe"] = json!(false);
    let script = [
        calling(&["look", "again", "once"]),
        json!({"text": "A moment.", "delay_ms": 150}),
        calling(&["alone", "again"]),
        saying("Done."),
    ];
    // A text would end the run, so the slow turn calls as well.
    let mut script = script;
    script[1]["tool_calls"] = json!([{"name": "look", "arguments": {"n": 9}}]);
    agent_with(&script, &declared)
}

/// How a storm went.
#[derive(Debug, Default)]
struct Figures {
    kills: usize,
    stops: usize,
    /// From a harm to the moment when another worker has the run.
    recoveries: Vec<Duration>,
    fenced: Vec<Arc<AtomicUsize>>,
}

impl Figures {
    fn fenced(&self) -> usize {
        self.fenced.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Two processes that are harmed in turn.
struct Storm<'a> {
    db: &'a TestDb,
    tools: &'a FakeTools,
    children: Vec<Child>,
    figures: Figures,
    clock: System,
    /// The runs that were held when the last harm was done, with their epochs.
    orphans: BTreeMap<String, i64>,
    harmed_at: Duration,
}

impl Storm<'_> {
    async fn child(&mut self) -> Child {
        let mut child = Child::start(&self.db.url, &self.tools.host, None);
        self.figures.fenced.push(child.fenced());
        child.address().await;
        child
    }

    async fn held(&self) -> BTreeMap<String, i64> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as(HELD).fetch_all(&mut self.db.connect().await).await.unwrap();
        rows.into_iter().collect()
    }

    /// Notes which orphans have a worker again.
    async fn look(&mut self) {
        let held = self.held().await;
        let since = self.clock.monotonic().saturating_sub(self.harmed_at);
        let taken = |(run, epoch): &(&String, &i64)| held.get(*run).is_some_and(|now| now > epoch);
        let taken: Vec<String> =
            self.orphans.iter().filter(taken).map(|(run, _)| run.clone()).collect();
        for run in taken {
            self.orphans.remove(&run);
            self.figures.recoveries.push(since);
        }
    }

    /// Kills a process and starts another, or stops one for longer than its leases.
    async fn harm(&mut self, n: usize) {
        self.orphans = self.held().await;
        self.harmed_at = self.clock.monotonic();
        let victim = self.children.remove(0);
        if n % 3 == 2 {
            victim.signal(Signal::STOP);
            self.figures.stops += 1;
            let gone =
                "SELECT count(*) = 0 FROM run_lease WHERE expires_at < now() - interval '1 second'";
            // It sleeps until others have taken what it held.
            let mut tick = interval(Duration::from_millis(1_500));
            tick.tick().await;
            tick.tick().await;
            until(self.db, gone).await;
            self.look().await;
            victim.signal(Signal::CONT);
            self.children.push(victim);
        } else {
            victim.kill().await;
            self.figures.kills += 1;
            let child = self.child().await;
            self.children.push(child);
        }
    }
}

/// Keeps so many runs under way.
async fn top_up(db: &TestDb, engine: &Engine, agent: &Value) {
    for _ in count(db, ACTIVE).await..LOAD {
        engine.start(&TenantId::default(), request(agent)).await.unwrap();
    }
}

fn percentile(sorted: &[Duration], share: usize) -> Duration {
    let at = (sorted.len() * share / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

#[tokio::test]
async fn processes_that_are_killed_and_stopped_under_load_lose_and_double_nothing() {
    let (db, tools) = (TestDb::new().await, FakeTools::start().await);
    let config = test_config(&db, &tools, &[]);
    let (store, around) = (db.store(), Surroundings::default());
    let engine = agentling::app::engine(&config, &store, &around).await.unwrap();
    let agent = agent(&tools);
    let (children, clock) = (Vec::new(), System::new());
    let (orphans, harmed_at) = (BTreeMap::new(), Duration::ZERO);
    let figures = Figures::default();
    let mut storm = Storm { db: &db, tools: &tools, children, figures, clock, orphans, harmed_at };
    for _ in 0..2 {
        let child = storm.child().await;
        storm.children.push(child);
    }
    let (end, mut next, mut n) = (storm.clock.monotonic() + duration(), Duration::ZERO, 0);
    let mut tick = interval(Duration::from_millis(50));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while storm.clock.monotonic() < end {
        tick.tick().await;
        top_up(&db, &engine, &agent).await;
        storm.look().await;
        if storm.clock.monotonic() > next {
            storm.harm(n).await;
            n += 1;
            next = storm.clock.monotonic() + Duration::from_secs(2);
        }
    }
    until(&db, ALL_ENDED).await;
    let figures = std::mem::take(&mut storm.figures);
    for child in storm.children {
        child.kill().await;
    }
    report(&db, &tools, figures).await;
}

/// Says how it went, and fails where anything was lost or doubled.
async fn report(db: &TestDb, tools: &FakeTools, figures: Figures) {
    let runs = count(db, "SELECT count(*) FROM run").await;
    let completed = count(db, "SELECT count(*) FROM run WHERE status = 'completed'").await;
    let in_doubt =
        count(db, "SELECT count(*) FROM tool_call WHERE outcome->>'kind' = 'in_doubt'").await;
    let twice = "SELECT count(*) FROM tool_call WHERE effect = 'at_most_once'";
    let once = count(db, twice).await;
    let mut recoveries = figures.recoveries.clone();
    recoveries.sort();
    let (median, worst) = (percentile(&recoveries, 50), percentile(&recoveries, 100));
    say(&format!(
        "soak: {} kills, {} stops; {runs} runs, {completed} completed; {} taken over, after {} ms \
         (median) and {} ms (longest); {} fenced writes; {once} calls that must not run twice, \
         {in_doubt} of them in doubt, {} doubled",
        figures.kills,
        figures.stops,
        recoveries.len(),
        median.as_millis(),
        worst.as_millis(),
        figures.fenced(),
        doubled(tools),
    ));
    assert_eq!(completed, runs);
    assert_eq!(doubled(tools), 0);
    assert!(!recoveries.is_empty(), "the storm hit something");
    assert_invariants(db).await;
    assert_called(db, tools).await;
    until(db, QUIET).await;
    assert_eq!(count(db, "SELECT count(*) FROM run_lease").await, 0);
}

/// How many calls that must not run twice were seen twice.
fn doubled(tools: &FakeTools) -> usize {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let seen = tools.seen();
    for call in seen.iter().filter(|call| matches!(call.tool.as_str(), "once" | "alone")) {
        *times.entry(call.key.clone()).or_default() += 1;
    }
    times.values().filter(|n| **n > 1).count()
}

#[tokio::test]
async fn f21_a_database_that_restarts_again_and_again_loses_and_doubles_nothing() {
    let (mut cluster, tools) = (OwnCluster::start().await, FakeTools::start().await);
    let settings = [("AGENTLING_LEASE_MS", "60000"), ("AGENTLING_HEARTBEAT_MS", "200")];
    let app = TestApp::on(cluster.seen(), tools.clone(), &settings, Surroundings::default()).await;
    let body = json!({"agent": agent(&tools), "input": "go"});
    let clock = System::new();
    let (end, mut runs, mut n_restarts) = (clock.monotonic() + duration(), Vec::new(), 0);
    while clock.monotonic() < end || n_restarts < 2 {
        for _ in 0..8 {
            runs.push(app.start_run(&body).await["id"].as_str().unwrap().to_owned());
        }
        tools.wait_for(6 * (runs.len() - 8) + 1).await;
        let signal = if n_restarts % 2 == 0 { Signal::INT } else { Signal::QUIT };
        cluster.stop(signal).await;
        cluster.start_again().await;
        n_restarts += 1;
        // Until connections that died are found out, runs are refused.
        while app.get("/readyz").await.status != 200 {
            tokio::task::yield_now().await;
        }
        for run in runs.iter().rev().take(8) {
            assert_eq!(app.ended(run).await["status"], "completed");
        }
    }
    let db = cluster.db();
    let in_doubt =
        count(&db, "SELECT count(*) FROM tool_call WHERE outcome->>'kind' = 'in_doubt'").await;
    say(&format!(
        "soak: {n_restarts} restarts of the database; {} runs completed, {in_doubt} calls in doubt, \
         {} doubled",
        runs.len(),
        doubled(&tools)
    ));
    assert_eq!((in_doubt, doubled(&tools)), (0, 0), "no process died, so nobody is in doubt");
    assert_invariants(&db).await;
    assert_called(&db, &tools).await;
    app.running.stop().await;
}
