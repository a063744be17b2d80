//! Row-level security as an operator applies it, and takes it back.

use agentling::app::{Running, StartError, Surroundings};
use agentling::store::{PoolSettings, Store};

use crate::support::{FakeTools, SYSTEM_ROLE, TENANT_ROLE, TestDb, count, execute, test_config};

/// Tables of tenants that are not held, or not as all are.
const GAPS: &str = "SELECT count(*)
    FROM information_schema.columns c
    JOIN pg_class t ON t.oid = format('public.%I', c.table_name)::regclass
   WHERE c.table_schema = 'public' AND c.column_name = 'tenant_id'
     AND (NOT t.relrowsecurity OR NOT t.relforcerowsecurity
          OR (SELECT array_agg(polname::text ORDER BY polname) FROM pg_policy p
               WHERE p.polrelid = t.oid) IS DISTINCT FROM ARRAY['agentling_system', 'agentling_tenant'])";

const POOLS: PoolSettings = PoolSettings { api: 1, worker: 1, critical: 1 };

#[tokio::test]
async fn it_covers_every_table_with_a_tenant_and_those_that_come_later() {
    let db = TestDb::walled().await;
    assert!(count(&db, "SELECT count(*) FROM pg_policy").await > 50);
    assert_eq!(count(&db, GAPS).await, 0);
    execute(&db, "CREATE TABLE later (tenant_id text NOT NULL, x int)").await;
    execute(&db, "CREATE TABLE nobodys (x int)").await;
    assert_eq!(count(&db, GAPS).await, 1);
    let may = "SELECT count(*) FROM (VALUES ('agentling_system', 'nobodys'), ('agentling_system', 'later'),
                  ('agentling_tenant', 'later'), ('agentling_tenant', 'nobodys')) AS a (role, name)
                WHERE has_table_privilege(role, name, 'INSERT')";
    assert_eq!(count(&db, may).await, 0);
    db.store().migrate().await.unwrap();
    assert_eq!(count(&db, GAPS).await, 0);
    assert_eq!(count(&db, may).await, 3);
}

#[tokio::test]
async fn it_is_applied_again_and_taken_back_and_is_left_out_where_nobody_wants_it() {
    let db = TestDb::plain().await;
    let any = "SELECT count(*) FROM pg_class WHERE relrowsecurity OR relforcerowsecurity";
    for (wanted, is_on) in [
        (None, false),
        (Some(true), true),
        (Some(true), true),
        (None, true),
        (Some(false), false),
        (None, false),
    ] {
        db.store().migrate_with(wanted).await.unwrap();
        assert_eq!(count(&db, any).await > 0, is_on);
        assert_eq!(count(&db, GAPS).await == 0, is_on);
        assert_eq!(count(&db, "SELECT count(*) FROM pg_policy").await > 0, is_on);
    }
}

/// What keeps a server from starting on a database, as these roles.
async fn refusal(db: &TestDb, role: &str, system: Option<&str>) -> Option<StartError> {
    let tools = FakeTools::start().await;
    let store = Store::open(&db.url_of(role), POOLS).unwrap();
    let store = match system {
        Some(system) => store.with_system(&db.url_of(system), POOLS).unwrap(),
        None => store,
    };
    let config = test_config(db, &tools, &[]);
    match Running::start(&config, store, &Surroundings::default()).await {
        Ok(running) => {
            running.stop().await;
            None
        }
        Err(error) => Some(error),
    }
}

#[tokio::test]
async fn a_server_starts_only_behind_a_wall_that_is_there() {
    // It is what makes the roles.
    let walled = TestDb::walled().await;
    let open = TestDb::plain().await;
    execute(
        &open,
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO agentling_tenant, agentling_system",
    )
    .await;
    let refused = async |db, role, system| {
        let refused = refusal(db, role, system).await;
        match refused {
            None => "",
            Some(StartError::NoWall) => "no wall",
            Some(StartError::Hidden) => "hidden",
            Some(other) => panic!("{other}"),
        }
    };
    let owner = "agentling";
    assert_eq!(refused(&walled, TENANT_ROLE, Some(SYSTEM_ROLE)).await, "");
    assert_eq!(refused(&walled, owner, None).await, "", "a superuser is held by nothing");
    assert_eq!(refused(&walled, SYSTEM_ROLE, None).await, "");
    assert_eq!(refused(&walled, TENANT_ROLE, Some(owner)).await, "");
    assert_eq!(refused(&walled, owner, Some(SYSTEM_ROLE)).await, "no wall");
    assert_eq!(refused(&walled, SYSTEM_ROLE, Some(SYSTEM_ROLE)).await, "no wall");
    assert_eq!(refused(&walled, TENANT_ROLE, Some(TENANT_ROLE)).await, "no wall");
    assert_eq!(refused(&open, TENANT_ROLE, Some(SYSTEM_ROLE)).await, "no wall");
    assert_eq!(refused(&open, owner, None).await, "");
    assert_eq!(refused(&walled, TENANT_ROLE, None).await, "hidden");
    execute(&walled, "ALTER TABLE run NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY")
        .await;
    assert_eq!(refused(&walled, TENANT_ROLE, Some(SYSTEM_ROLE)).await, "no wall", "of one table");
}
