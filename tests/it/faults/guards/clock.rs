//! What is done because it is due: deliveries, schedules, chores.

use std::time::Duration;

use agentling::clock::{Clock as _, System};
use agentling::domain::id::{ScheduleId, TenantId};
use agentling::domain::schedule::{Firing, SkipReason};
use agentling::domain::webhook::Attempted;
use agentling::store::chores::{self, Chore};
use agentling::store::outbox::{self, DueDelivery};
use agentling::store::{Store, runs, schedules};

use super::{Change, Statement, scene};
use crate::support::{TestDb, accepted, count, execute, new_run, uuid};

pub(super) const STATEMENTS: &[Statement] = &[
    Statement {
        source: include_str!("../../../../src/store/outbox.sql"),
        mark: "WITH due AS (\n    SELECT d.tenant_id, d.webhook_id, d.run_id",
        conditions: ("            WHERE p.tenant_id = w.tenant_id", "), numbered AS"),
        guards: &[
            ("p.state = 'pending'", scene!(a_delivery_that_was_made_is_claimed)),
            ("p.due_at <= now()", scene!(a_delivery_is_claimed_before_its_time)),
            ("u.lease_token IS NOT NULL", scene!(deliveries_that_wait_do_not_count_as_under_way)),
            ("u.due_at > now()", scene!(deliveries_of_the_dead_do_not_count_as_under_way)),
            ("w.disabled_at IS NULL", scene!(a_disabled_endpoint_is_told_something)),
        ],
        keys: &[
            "p.tenant_id = w.tenant_id",
            "p.webhook_id = w.webhook_id",
            "u.tenant_id = w.tenant_id",
            "u.webhook_id = w.webhook_id",
        ],
    },
    Statement {
        source: include_str!("../../../../src/store/outbox.rs"),
        mark: "SET state = $4, lease_token = NULL",
        conditions: ("          WHERE tenant_id = $1", "\","),
        guards: &[("lease_token = $3", scene!(a_delivery_of_another_is_settled))],
        keys: &["tenant_id = $1", "delivery_id = $2"],
    },
    Statement {
        source: include_str!("../../../../src/store/outbox.rs"),
        mark: "SET state = 'pending', n_attempts = 0",
        conditions: ("          WHERE tenant_id = $1", "\","),
        guards: &[("lease_token IS NULL", scene!(a_delivery_under_way_is_made_again))],
        keys: &["tenant_id = $1", "webhook_id = $2", "delivery_id = $3"],
    },
    Statement {
        source: include_str!("../../../../src/store/schedules.rs"),
        mark: "last_run_id = $5, last_skip = NULL",
        conditions: ("          WHERE tenant_id = $1", "\","),
        guards: &[
            ("enabled", scene!(a_schedule_that_is_off_starts_a_run)),
            ("next_at = $3", scene!(a_due_time_starts_two_runs)),
        ],
        keys: &["tenant_id = $1", "schedule_id = $2"],
    },
    Statement {
        source: include_str!("../../../../src/store/schedules.rs"),
        mark: "last_at = $3, last_skip = $5",
        conditions: ("          WHERE tenant_id = $1", "\","),
        guards: &[
            ("enabled", scene!(a_schedule_that_is_off_passes)),
            ("next_at = $3", scene!(a_due_time_passes_twice)),
        ],
        keys: &["tenant_id = $1", "schedule_id = $2"],
    },
    Statement {
        source: include_str!("../../../../src/store/chores.rs"),
        mark: "SET due_at = now() + $2::interval",
        conditions: ("          WHERE name = $1", "      RETURNING"),
        guards: &[("due_at <= now()", scene!(a_chore_is_taken_twice))],
        keys: &["name = $1"],
    },
];

pub(super) const CHANGES: &[Change] = &[(
    "WITH due AS (\n    SELECT d.tenant_id, d.webhook_id, d.run_id",
    "$3 - (",
    "9 - (",
    scene!(an_endpoint_is_told_too_much_at_once),
)];

const SOON: Duration = Duration::from_mins(1);

/// An endpoint, and as many deliveries to it as are named.
async fn deliveries(db: &TestDb, store: &Store, n: usize) {
    let endpoint = "INSERT INTO webhook (tenant_id, webhook_id, url, events, all_runs, metadata,
                                         created_at, updated_at)
                    VALUES ('default', gen_random_uuid(), 'https://a.example/', '{run.created}', true,
                            '{}', now(), now())";
    for _ in 0..n {
        accepted(store).await;
    }
    execute(db, endpoint).await;
    let deliveries = "INSERT INTO webhook_delivery (tenant_id, webhook_id, run_id, event_seq, delivery_id,
                                                    event, state, due_at, created_at)
                      SELECT r.tenant_id, w.webhook_id, r.run_id, 1, gen_random_uuid(), 'run.created',
                             'pending', now(), now()
                        FROM run r JOIN webhook w ON w.tenant_id = r.tenant_id";
    execute(db, deliveries).await;
}

async fn claim(store: &Store, n: usize) -> Vec<DueDelivery> {
    let tokens: Vec<_> = (0..n).map(|_| uuid()).collect();
    outbox::claim(store, &tokens, SOON).await.unwrap()
}

async fn a_delivery_that_was_made_is_claimed(db: TestDb, store: Store) {
    deliveries(&db, &store, 1).await;
    execute(&db, "UPDATE webhook_delivery SET state = 'delivered'").await;
    assert_eq!(claim(&store, 1).await, []);
}

async fn a_delivery_is_claimed_before_its_time(db: TestDb, store: Store) {
    deliveries(&db, &store, 1).await;
    execute(&db, "UPDATE webhook_delivery SET due_at = now() + interval '1 hour'").await;
    assert_eq!(claim(&store, 1).await, []);
}

async fn deliveries_that_wait_do_not_count_as_under_way(db: TestDb, store: Store) {
    deliveries(&db, &store, 6).await;
    let later = "UPDATE webhook_delivery SET due_at = now() + interval '1 hour'
                  WHERE delivery_id IN (SELECT delivery_id FROM webhook_delivery LIMIT 5)";
    execute(&db, later).await;
    assert_eq!(claim(&store, 1).await.len(), 1);
}

async fn deliveries_of_the_dead_do_not_count_as_under_way(db: TestDb, store: Store) {
    deliveries(&db, &store, 4).await;
    assert_eq!(claim(&store, 4).await.len(), 4);
    execute(&db, "UPDATE webhook_delivery SET due_at = now() - interval '1 second'").await;
    assert_eq!(claim(&store, 4).await.len(), 4);
}

async fn a_disabled_endpoint_is_told_something(db: TestDb, store: Store) {
    deliveries(&db, &store, 1).await;
    execute(&db, "UPDATE webhook SET disabled_at = now()").await;
    assert_eq!(claim(&store, 1).await, []);
}

async fn an_endpoint_is_told_too_much_at_once(db: TestDb, store: Store) {
    deliveries(&db, &store, 6).await;
    assert_eq!(claim(&store, 3).await.len(), 3);
    assert_eq!(claim(&store, 3).await.len(), 1, "four in all");
}

async fn a_delivery_of_another_is_settled(db: TestDb, store: Store) {
    deliveries(&db, &store, 1).await;
    let [delivery] = claim(&store, 1).await.try_into().unwrap();
    execute(&db, "UPDATE webhook_delivery SET lease_token = gen_random_uuid()").await;
    outbox::settle(&store, &delivery, Attempted::answered(200), None).await.unwrap();
    let held = "SELECT count(*) FROM webhook_delivery WHERE lease_token IS NOT NULL";
    assert_eq!(count(&db, held).await, 1);
}

async fn a_delivery_under_way_is_made_again(db: TestDb, store: Store) {
    deliveries(&db, &store, 1).await;
    let [delivery] = claim(&store, 1).await.try_into().unwrap();
    let asked =
        outbox::redeliver(&store, &delivery.tenant, (delivery.webhook, delivery.id), None).await;
    assert!(asked.unwrap().is_some());
    assert_eq!(count(&db, "SELECT n_attempts::bigint FROM webhook_delivery").await, 1);
}

/// A schedule that is due, and what its run or its passing would be written with.
async fn due(db: &TestDb) -> Firing {
    let schedule = "WITH agent AS (
                        INSERT INTO agent (tenant_id, agent_id, name, created_at, updated_at, version)
                        VALUES ('default', gen_random_uuid(), 'a', now(), now(), 1)
                        RETURNING agent_id)
                    INSERT INTO schedule (tenant_id, schedule_id, cron, timezone, agent_id, input,
                                          on_overlap, enabled, metadata, next_at, created_at, updated_at)
                    SELECT 'default', gen_random_uuid(), '* * * * *', 'UTC', agent_id, '[]', 'skip', true,
                           '{}', date_trunc('second', now()), now(), now()
                      FROM agent";
    execute(db, schedule).await;
    let (id, due_at) = sqlx::query_as("SELECT schedule_id, next_at FROM schedule")
        .fetch_one(&mut db.connect().await)
        .await
        .unwrap();
    let id: uuid::Uuid = id;
    Firing { schedule: ScheduleId::from(id), due_at, next_at: Some(System::new().now()) }
}

/// How many runs are started for a due time by so many servers.
async fn started(db: &TestDb, store: &Store, n: usize) -> i64 {
    let firing = due(db).await;
    if n == 1 {
        execute(db, "UPDATE schedule SET enabled = false").await;
    }
    for _ in 0..n {
        let mut new = new_run();
        new.firing = Some(firing);
        drop(runs::accept(store, &TenantId::default(), &new).await);
    }
    count(db, "SELECT count(*) FROM run").await
}

async fn a_schedule_that_is_off_starts_a_run(db: TestDb, store: Store) {
    assert_eq!(started(&db, &store, 1).await, 0);
}

async fn a_due_time_starts_two_runs(db: TestDb, store: Store) {
    assert_eq!(started(&db, &store, 2).await, 1);
}

const UNSKIPPED: &str = "SELECT count(*) FROM schedule WHERE last_skip IS NULL";

async fn a_schedule_that_is_off_passes(db: TestDb, store: Store) {
    let firing = due(&db).await;
    execute(&db, "UPDATE schedule SET enabled = false").await;
    let tenant = TenantId::default();
    schedules::pass(&store, &tenant, &firing, SkipReason::Overlap).await.unwrap();
    assert_eq!(count(&db, UNSKIPPED).await, 1);
}

async fn a_due_time_passes_twice(db: TestDb, store: Store) {
    let firing = due(&db).await;
    execute(&db, "UPDATE schedule SET next_at = next_at + interval '1 minute'").await;
    let tenant = TenantId::default();
    schedules::pass(&store, &tenant, &firing, SkipReason::Overlap).await.unwrap();
    assert_eq!(count(&db, UNSKIPPED).await, 1);
}

async fn a_chore_is_taken_twice(_: TestDb, store: Store) {
    assert!(chores::take(&store, Chore::Ledger, SOON).await.unwrap().is_some());
    assert_eq!(chores::take(&store, Chore::Ledger, SOON).await.unwrap(), None);
}
