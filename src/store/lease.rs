//! The right to write a run: claimed, kept alive, taken back when its holder is gone, given up.
//!
//! All expiry is judged by the database's clock. The token that fences writes stands in `run`; the
//! small `run_lease` rows hold only the expiry, so that heartbeats do not rewrite runs.

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::idempotency::interval;
use super::rows::{At, to_json};
use super::{Store, StoreError, patience};
use crate::domain::event::EventData;
use crate::domain::fault::Fault;
use crate::domain::format::RunFormat;
use crate::domain::id::{LeaseToken, RunId, TenantId};
use crate::domain::run::{RunFacts, RunStatus};

/// Claims without progress after which a run is given up as poisoned.
pub const MAX_CLAIMS: i32 = 5;

/// How runs are claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long a claim lasts without a heartbeat.
    pub ttl: Duration,
    /// How many runs of one tenant are held at once, by all servers. What several servers claim in
    /// the same moment may exceed it.
    pub per_tenant: u32,
}

impl From<Duration> for Terms {
    fn from(ttl: Duration) -> Self {
        Self { ttl, per_tenant: u32::MAX }
    }
}

/// A run that a worker now holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its tenant.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// What must be shown with every write.
    pub token: LeaseToken,
    /// Counts the claims of the run; the fence that is told to the outside.
    pub epoch: i64,
    /// Whether the claim has begun its first turn.
    pub begins: bool,
    /// Whether it was claimed more than [`MAX_CLAIMS`] times without getting on.
    pub is_poisoned: bool,
    /// Why the worker before did not end it.
    pub last_fault: Option<Fault>,
    /// What callers asked for while no one held it.
    pub wishes: Wishes,
    /// How long it could have been claimed before it was.
    pub waited: Duration,
}

/// What callers want of a run, as far as it is not done yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wishes {
    /// Whether it is to be cancelled.
    pub cancel: bool,
    /// Whether it is to be interrupted.
    pub interrupt: bool,
}

/// Claims runs that wait for a worker (C1), one for each token.
///
/// The tenant that holds least comes first, and its oldest run. So a tenant's backlog, however long,
/// delays no other tenant's run by more than the runs that are claimed at once.
///
/// Runs of newer formats than this version knows are left to newer workers.
///
/// The first claim of a run also records its first turn (C2) with its events, so that a run without
/// tools costs one more commit and not two. Where messages wait, the worker does that: they come first.
///
/// # Errors
/// When the database does not take it.
pub async fn claim(
    store: &Store,
    tokens: &[Uuid],
    terms: impl Into<Terms>,
    now: DateTime<Utc>,
) -> Result<Vec<Claim>, StoreError> {
    let Terms { ttl, per_tenant } = terms.into();
    let first_turn = to_json(&EventData::Turn { turn: 1, attempt: 1, fallback: None })?;
    let started = |turn, attempt| {
        let facts = RunFacts::accepted();
        let (status, started_at) = (RunStatus::Running, Some(now));
        to_json(&EventData::Run(RunFacts { status, turn, attempt, started_at, ..facts }))
    };
    let rows = sqlx::query_file!(
        "src/store/claim.sql",
        tokens,
        interval(ttl),
        now,
        first_turn,
        started(1, 1)?,
        started(0, 0)?,
        RunFormat::NEWEST.number(),
        i64::from(per_tenant)
    )
    .fetch_all(store.system().worker())
    .await
    .map_err(StoreError::of_write)?;
    rows.into_iter()
        .map(|row| {
            let run = RunId::from(row.run_id);
            let at = At { table: "run", id: &run };
            Ok(Claim {
                tenant: TenantId::parse(&row.tenant_id).map_err(|_| at.wrong("tenant_id"))?,
                run,
                token: LeaseToken(row.lease_token),
                epoch: row.epoch,
                begins: row.begins,
                is_poisoned: row.claims_since_progress > MAX_CLAIMS,
                last_fault: at.label_opt("last_fault", row.last_fault.as_deref())?,
                wishes: Wishes { cancel: row.cancel, interrupt: row.interrupt },
                waited: Duration::from_millis(u64::try_from(row.waited_ms).unwrap_or(0)),
            })
        })
        .collect()
}

/// What a heartbeat learns of a run that is still held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// The lease.
    pub token: LeaseToken,
    /// Whether a caller wants it cancelled.
    pub cancel: bool,
    /// Whether a caller wants it interrupted.
    pub interrupt: bool,
}

/// Extends leases, all in one statement. A lease that is not in the answer is lost.
///
/// # Errors
/// When the database does not take it.
pub async fn heartbeat(
    store: &Store,
    tokens: &[Uuid],
    ttl: Duration,
) -> Result<Vec<Beat>, StoreError> {
    let rows = sqlx::query!(
        r#"WITH beat AS (
               UPDATE run_lease
                  SET expires_at = now() + $2::interval
                WHERE lease_token = ANY($1)
            RETURNING tenant_id, run_id, lease_token
           )
           SELECT b.lease_token, r.cancel_requested_at IS NOT NULL AS "cancel!",
                  r.interrupt_requested_at IS NOT NULL AS "interrupt!"
             FROM beat b
             JOIN run r
               ON r.tenant_id = b.tenant_id
              AND r.run_id = b.run_id
              AND r.lease_token = b.lease_token"#,
        tokens,
        interval(ttl)
    )
    .fetch_all(store.system().critical());
    // A heart that waits for a connection that fell silent would not notice that it has stopped.
    let rows = patience::in_time(ttl / 3, rows).await.map_err(StoreError::of_write)?;
    Ok(rows
        .into_iter()
        .map(|row| Beat {
            token: LeaseToken(row.lease_token),
            cancel: row.cancel,
            interrupt: row.interrupt,
        })
        .collect())
}

/// Puts runs whose lease expired back into the queue; each failed claim makes the next one wait
/// longer. Answers how many.
///
/// # Errors
/// When the database does not take it.
pub async fn sweep(store: &Store) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "WITH expired AS (
             -- Neither a run that somebody has locked nor a lease that is being extended is waited for:
             -- the others of the hundred are not to stand behind it.
             SELECT l.tenant_id, l.run_id, l.lease_token
               FROM run_lease l
               JOIN run r
                 ON r.tenant_id = l.tenant_id
                AND r.run_id = l.run_id
              WHERE l.expires_at < now()
              ORDER BY l.expires_at
              LIMIT 100
                FOR UPDATE OF r, l SKIP LOCKED
         ), gone AS (
             DELETE FROM run_lease l
              USING expired e
              WHERE l.tenant_id = e.tenant_id
                AND l.run_id = e.run_id
         )
         UPDATE run r
            SET status = 'queued',
                lease_token = NULL,
                last_fault = 'worker_lost',
                -- 0, 1, 2, 4 … seconds, at most five minutes.
                available_at = now() + least(300, (1 << least(r.claims_since_progress, 11)) / 4)
                    * interval '1 second'
           FROM expired e
          WHERE r.tenant_id = e.tenant_id
            AND r.run_id = e.run_id
            AND r.lease_token = e.lease_token
            AND r.status = 'running'"
    )
    .execute(store.system().critical())
    .await
    .map_err(StoreError::of_write)?;
    Ok(done.rows_affected())
}

/// Gives a run back to the queue at once, at a boundary, without its having ended.
///
/// # Errors
/// When the database does not take it.
pub async fn release(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
    token: LeaseToken,
) -> Result<(), StoreError> {
    let_go(store, (tenant, run, token), None).await
}

/// Gives a run back to the queue of which something went wrong here. What is held against it makes the
/// next claim wait as long as a lease that ran out does.
///
/// # Errors
/// When the database does not take it; the lease then runs out.
pub async fn abandon(
    store: &Store,
    tenant: &TenantId,
    (run, token): (RunId, LeaseToken),
    fault: Fault,
) -> Result<(), StoreError> {
    let_go(store, (tenant, run, token), Some(fault)).await
}

async fn let_go(
    store: &Store,
    (tenant, run, token): (&TenantId, RunId, LeaseToken),
    fault: Option<Fault>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "WITH released AS (
             UPDATE run
                SET status = 'queued',
                    lease_token = NULL,
                    last_fault = $4,
                    available_at = now() + CASE WHEN $5
                        THEN least(300, (1 << least(claims_since_progress, 11)) / 4) ELSE 0 END
                        * interval '1 second',
                    claims_since_progress = CASE WHEN $5 THEN claims_since_progress
                        ELSE greatest(claims_since_progress - 1, 0) END
              WHERE tenant_id = $1
                AND run_id = $2
                AND lease_token = $3
                AND status = 'running'
          RETURNING tenant_id, run_id
         )
         DELETE FROM run_lease l
          USING released r
          WHERE l.tenant_id = r.tenant_id
            AND l.run_id = r.run_id",
        tenant.as_str(),
        run.uuid(),
        token.0,
        fault.map(Fault::label),
        fault.is_some_and(Fault::is_held_against)
    )
    .execute(store.critical())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// The number of a run's newest claim, for the log of a writer that was fenced off by it.
///
/// # Errors
/// When the database does not answer.
pub async fn epoch(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
) -> Result<Option<i64>, StoreError> {
    sqlx::query_scalar!(
        "SELECT epoch
           FROM run
          WHERE tenant_id = $1
            AND run_id = $2",
        tenant.as_str(),
        run.uuid()
    )
    .fetch_optional(store.critical())
    .await
    .map_err(StoreError::of_read)
}
