//! What waits: for a budget, and for its due time.

use agentling::store::{budget, lease, schedules};

use super::lease::claim;
use crate::support::{TestDb, accepted, count, execute};

#[tokio::test]
async fn a_budget_that_was_set_while_a_run_was_accepted_is_found_when_it_is_claimed() {
    let db = TestDb::new().await;
    let store = db.store();
    accepted(&store).await;
    // Whoever set it did not see the run, and whoever accepted the run did not see the budget.
    let set = "INSERT INTO budget (tenant_id, scope, owner_id, period, resource, bound)
               SELECT tenant_id, 'thread', thread_id, 'total', 'turns', 1 FROM run";
    execute(&db, set).await;
    let [claimed] = claim(&store, 1).await.try_into().unwrap();
    assert!(!claimed.begins, "its first turn has to find room");
    assert_eq!(count(&db, "SELECT count(*) FROM run WHERE budgeted AND turn = 0").await, 1);
    lease::release(&store, &claimed.tenant, claimed.run, claimed.token).await.unwrap();
}

#[tokio::test]
async fn a_budget_of_a_run_further_up_is_found_when_a_sub_run_is_claimed() {
    for (scope, owners) in
        [("run", "ancestors"), ("agent", "ancestor_owners"), ("thread", "ancestor_owners")]
    {
        let db = TestDb::new().await;
        let store = db.store();
        accepted(&store).await;
        // It was interrupted while the budget was set, say.
        let sub_run = "UPDATE run SET ancestors = ARRAY[gen_random_uuid(), thread_id],
                                      ancestor_owners = ARRAY[gen_random_uuid()],
                                      parent_run_id = thread_id, parent_call_id = 'call_1'";
        execute(&db, sub_run).await;
        // What is looked up is the budget; that its owner is there does not matter.
        let set = format!(
            "SET session_replication_role = replica;
             INSERT INTO budget (tenant_id, scope, owner_id, period, resource, bound)
             SELECT tenant_id, '{scope}', {owners}[1], 'total', 'turns', 1 FROM run"
        );
        let set = sqlx::raw_sql(sqlx::AssertSqlSafe(set));
        set.execute(&mut db.connect().await).await.unwrap();
        let [claimed] = claim(&store, 1).await.try_into().unwrap();
        assert!(!claimed.begins, "its first turn has to find room");
        assert_eq!(count(&db, "SELECT count(*) FROM run WHERE budgeted AND turn = 0").await, 1);
    }
}

#[tokio::test]
async fn a_run_that_can_never_go_on_holds_up_nobody_who_waits_for_the_same_budget() {
    let db = TestDb::new().await;
    let store = db.store();
    for _ in 0..2 {
        accepted(&store).await;
    }
    assert_eq!(claim(&store, 2).await.len(), 2);
    let rests = "UPDATE run SET status = 'requires_action', lease_token = NULL,
                                requires_action = '{\"reason\": \"budget_exhausted\"}'";
    execute(&db, rests).await;
    execute(&db, "DELETE FROM run_lease").await;
    // The first of them asks its thread for more than there can be.
    let budgets = "INSERT INTO budget (tenant_id, scope, owner_id, period, resource, bound)
                   SELECT 'default', 'tenant', '00000000-0000-0000-0000-000000000000'::uuid, 'total',
                          'turns', 1
                    UNION ALL
                   (SELECT tenant_id, 'thread', thread_id, 'total', 'tokens', 10
                      FROM run ORDER BY run_id LIMIT 1)";
    execute(&db, budgets).await;
    let waits =
        "INSERT INTO budget_wait (tenant_id, run_id, scope, owner_id, resource, needs, since)
                 SELECT r.tenant_id, r.run_id, b.scope, b.owner_id, b.resource,
                        CASE b.scope WHEN 'tenant' THEN 1 ELSE 100 END,
                        now() + row_number() OVER (ORDER BY r.run_id) * interval '1 second'
                   FROM run r JOIN budget b
                     ON b.scope = 'tenant' OR b.owner_id = r.thread_id";
    assert_eq!(execute(&db, waits).await, 3);
    assert_eq!(budget::wake(&store).await.unwrap(), 1);
    let woken = "SELECT count(*) FROM run
                  WHERE status = 'queued' AND run_id = (SELECT run_id FROM run ORDER BY run_id DESC LIMIT 1)";
    assert_eq!(count(&db, woken).await, 1);
}

#[tokio::test]
async fn schedules_of_a_tenant_that_stay_due_hold_up_no_other_tenant() {
    let db = TestDb::new().await;
    let store = db.store();
    for statement in [
        "INSERT INTO agent (tenant_id, agent_id, name, version, created_at, updated_at)
         SELECT tenant, gen_random_uuid(), 'a', 1, now(), now()
           FROM unnest(ARRAY['default', 'other']) AS tenant",
        "INSERT INTO schedule (tenant_id, schedule_id, cron, timezone, agent_id, input, on_overlap, enabled,
                               metadata, next_at, created_at, updated_at)
         SELECT a.tenant_id, gen_random_uuid(), '* * * * *', 'UTC', a.agent_id, '[]', 'skip', true, '{}',
                now() - CASE a.tenant_id WHEN 'default' THEN interval '1 day' ELSE interval '1 second' END,
                now(), now()
           FROM agent a, generate_series(1, 150) AS n
          WHERE a.tenant_id = 'default' OR n = 1",
    ] {
        execute(&db, statement).await;
    }
    let due = schedules::due(&store).await.unwrap();
    assert_eq!(due.len(), 100);
    assert_eq!(due.iter().filter(|due| due.tenant.as_str() == "other").count(), 1);
}
