//! Every condition of a guarded statement is taken out of it once, on its way to the database, and a
//! scene that is played fails then: no guard is there for nothing.

mod callers;
mod clock;
mod family;
mod worker;

use std::panic::AssertUnwindSafe;

use agentling::store::Store;
use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::support::{PgProxy, TestDb};

/// What is played: it fails when the guard is gone.
type Scene = fn(TestDb, Store) -> BoxFuture<'static, ()>;

/// A guarded statement.
struct Statement {
    /// Its source.
    source: &'static str,
    /// What it alone contains.
    mark: &'static str,
    /// Where its conditions begin, and what comes behind the last of them.
    conditions: (&'static str, &'static str),
    /// Each guard, and the scene that fails without it.
    guards: &'static [(&'static str, Scene)],
    /// Conditions that only say which row is meant, or join one to another.
    keys: &'static [&'static str],
}

/// Something else that is taken out of a statement: the statement, what is replaced, what by, and the
/// scene that fails then.
type Change = (&'static str, &'static str, &'static str, Scene);

/// A scene out of a function.
macro_rules! scene {
    ($scene:expr) => {
        |db, store| Box::pin($scene(db, store))
    };
}
use scene;

const TENANT_AND_RUN: [&str; 2] = ["tenant_id = $1", "run_id = $2"];

const PARTS: [(&[Statement], &[Change]); 4] = [
    (worker::STATEMENTS, worker::CHANGES),
    (callers::STATEMENTS, callers::CHANGES),
    (clock::STATEMENTS, clock::CHANGES),
    (family::STATEMENTS, family::CHANGES),
];

fn statements() -> impl Iterator<Item = &'static Statement> {
    PARTS.iter().flat_map(|(statements, _)| statements.iter())
}

/// Plays a scene, with a statement changed or not; whether it comes to its end.
async fn plays(scene: Scene, change: Option<[&'static str; 3]>) -> bool {
    let db = TestDb::new().await;
    let proxy = PgProxy::to(&db.url).await;
    if let Some([mark, from, to]) = change {
        proxy.change(mark, from, to);
    }
    let store = TestDb { url: proxy.url.clone() }.store();
    let played = AssertUnwindSafe(scene(db, store)).catch_unwind().await.is_ok();
    assert!(change.is_none() || proxy.times() > 0, "the statement was used: {change:?}");
    let failures = proxy.failures();
    let unreadable = failures.iter().any(|state| state.starts_with("42"));
    assert!(!unreadable, "it is still a statement: {change:?}");
    played
}

#[tokio::test]
async fn without_any_one_of_its_guards_a_statement_does_harm() {
    let mut survivors = Vec::new();
    let guards = statements().flat_map(|statement| {
        statement.guards.iter().map(|(guard, scene)| (statement.mark, *guard, *scene))
    });
    for (mark, guard, scene) in guards {
        assert!(plays(scene, None).await, "{guard}");
        // What it refers to keeps its type, which the client names.
        if plays(scene, Some([mark, guard, "true"])).await {
            survivors.push((mark, guard));
        }
    }
    assert!(survivors.is_empty(), "nothing fails without {survivors:?}");
}

#[tokio::test]
async fn without_its_lock_a_statement_does_harm() {
    for (mark, from, to, scene) in PARTS.iter().flat_map(|(_, changes)| changes.iter()) {
        assert!(plays(*scene, None).await, "{mark}");
        let plays = plays(*scene, Some([mark, from, to])).await;
        assert!(!plays, "nothing fails without `{from}` of {mark}");
    }
}

/// The conditions of a statement: what stands behind each `WHERE`, `AND` and `ON`.
fn conditions(statement: &Statement) -> Vec<&'static str> {
    let text = statement.source.split_once(statement.mark).expect("it is there").1;
    let (begin, end) = statement.conditions;
    let text = text.get(text.find(begin).expect("it has conditions")..).unwrap();
    let text = text.split_once(end).expect("they end").0;
    let condition = |line: &'static str| {
        let line = line.trim();
        line.strip_prefix("WHERE ").or_else(|| line.strip_prefix("AND "))
    };
    text.lines().filter_map(condition).collect()
}

/// Whether a line is a condition, save for the brackets that close something around it.
fn is(line: &str, condition: &str) -> bool {
    line.strip_prefix(condition).is_some_and(|rest| rest.chars().all(|c| c == ')'))
}

#[test]
fn every_condition_of_a_guarded_statement_is_a_guard_with_a_scene_or_a_key() {
    for statement in statements() {
        let found = conditions(statement);
        let guards = statement.guards.iter().map(|(guard, _)| *guard);
        let mut known: Vec<&str> = guards.chain(statement.keys.iter().copied()).collect();
        for condition in &found {
            let place = known.iter().position(|known| is(condition, known));
            assert!(place.is_some(), "`{condition}` of {} is not planted", statement.mark);
            known.remove(place.unwrap());
        }
        // A key may stand in several places.
        known.retain(|known| !found.iter().any(|condition| is(condition, known)));
        assert_eq!(known, Vec::<&str>::new(), "{} has these no more", statement.mark);
    }
}
