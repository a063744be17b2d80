//! Connections that come back to their pool.

use agentling::domain::id::TenantId;
use agentling::domain::run_message::Voice;
use agentling::domain::wait::WaitReason;
use agentling::store::answers::{self, NewAnswers};
use agentling::store::messages::{self, Added};
use agentling::store::{PoolSettings, Store};

use crate::support::{TestDb, accepted, count};

async fn a_few(yields: u32) {
    for _ in 0..yields {
        tokio::task::yield_now().await;
    }
}

/// Whoever goes away while a transaction begins leaves it open, and the next one on the connection would
/// write into it: what was acknowledged would be gone with it.
#[tokio::test]
async fn what_is_acknowledged_is_stored_although_callers_before_it_went_away() {
    let db = TestDb::new().await;
    let one = PoolSettings { api: 1, worker: 1, critical: 1 };
    let store = Store::open(&db.url, one).unwrap();
    let new = accepted(&store).await;
    let (tenant, run, now) = (TenantId::default(), new.run.id, new.run.created_at);
    let (reason, answers) = (WaitReason::Approval, Vec::new());
    let given = NewAnswers { reason, answers, may_repeat: false, key: None, now };
    for n in 0..60_u32 {
        tokio::select! {
            biased;
            given = answers::give(&store, &tenant, run, &given) => drop(given.unwrap()),
            () = a_few(n) => {}
        }
        let said =
            messages::add(&store, &tenant, run, (Voice::User, n.to_string(), None), now).await;
        assert!(matches!(said.unwrap(), Added::Waits(_)));
        let stored = count(&db, "SELECT count(*) FROM run_message").await;
        assert_eq!(stored, i64::from(n) + 1, "what was acknowledged is there for everyone");
    }
}
