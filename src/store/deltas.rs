//! Deltas on their way to readers on other servers, and who watches what from where.
//!
//! Nothing here is durable: what is lost costs a reader deltas, never an event.

use std::time::Duration;

use uuid::Uuid;

use super::idempotency::interval;
use super::rows::At;
use super::{Store, StoreError};
use crate::domain::event::{Delta, DeltaKind};
use crate::domain::id::{RunId, TenantId};

/// A piece of a reply and its place in it: 0, 1, 2 …
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its place.
    pub place: u32,
    /// The piece.
    pub delta: Delta,
}

/// A stored piece.
pub(super) struct PieceRow {
    pub(super) turn: i32,
    pub(super) attempt: i32,
    pub(super) place: i32,
    pub(super) kind: String,
    pub(super) piece: String,
}

impl PieceRow {
    pub(super) fn read(self, run: RunId) -> Result<Piece, StoreError> {
        let at = At { table: "run_delta", id: &run };
        let delta = Delta {
            turn: at.count("turn", self.turn)?,
            attempt: at.count("attempt", self.attempt)?,
            kind: at.label("kind", &self.kind)?,
            text: self.piece,
        };
        Ok(Piece { place: at.count("place", self.place)?, delta })
    }
}

/// A number of a turn, an attempt or a place as the tables have it.
pub(super) fn stored(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Stores pieces of one attempt, in order from a place on. What is left of the attempts before goes once
/// every reader has had the time to see it.
///
/// # Errors
/// When the database does not take it.
pub async fn append(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
    ((turn, attempt), first): ((u32, u32), u32),
    pieces: &[(DeltaKind, String)],
) -> Result<(), StoreError> {
    let places: Vec<i32> = (first..).take(pieces.len()).map(stored).collect();
    let kinds: Vec<String> = pieces.iter().map(|(kind, _)| kind.label().to_owned()).collect();
    // What the database cannot hold is replaced as it is in the step.
    let texts: Vec<String> =
        pieces.iter().map(|(_, text)| text.replace('\0', "\u{fffd}")).collect();
    sqlx::query!(
        "WITH over AS (
             DELETE FROM run_delta
              WHERE tenant_id = $1
                AND run_id = $2
                AND (turn, attempt) < ($3, $4)
                AND created_at < now() - interval '5 seconds'
         )
         INSERT INTO run_delta (tenant_id, run_id, turn, attempt, place, kind, piece, created_at)
         SELECT $1, $2, $3, $4, p.place, p.kind, p.piece, now()
           FROM unnest($5::integer[], $6::text[], $7::text[]) p (place, kind, piece)
             ON CONFLICT (tenant_id, run_id, turn, attempt, place) DO NOTHING",
        tenant.as_str(),
        run.uuid(),
        stored(turn),
        stored(attempt),
        &places,
        &kinds,
        &texts
    )
    .execute(store.worker())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Which of some runs are watched from another server than this one.
///
/// # Errors
/// When the database does not answer.
pub async fn watched(
    store: &Store,
    runs: &[(TenantId, RunId)],
    server: Uuid,
) -> Result<Vec<RunId>, StoreError> {
    let tenants: Vec<String> = runs.iter().map(|(tenant, _)| tenant.as_str().to_owned()).collect();
    let ids: Vec<Uuid> = runs.iter().map(|(_, run)| run.uuid()).collect();
    let found = sqlx::query_scalar!(
        r#"SELECT r.run_id AS "run_id!"
             FROM unnest($1::text[], $2::uuid[]) r (tenant_id, run_id)
            WHERE EXISTS (
                SELECT
                  FROM run_watch w
                 WHERE w.tenant_id = r.tenant_id
                   AND w.run_id = r.run_id
                   AND w.server_id <> $3
                   AND w.expires_at > now())"#,
        &tenants,
        &ids,
        server
    )
    .fetch_all(store.system().worker())
    .await
    .map_err(StoreError::of_read)?;
    Ok(found.into_iter().map(RunId::from).collect())
}

/// Says that a run is watched from a server for some time from now on.
///
/// # Errors
/// When the database does not take it.
pub async fn watch(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
    server: Uuid,
    time: Duration,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO run_watch (tenant_id, run_id, server_id, expires_at)
         VALUES ($1, $2, $3, now() + $4::interval)
             ON CONFLICT (tenant_id, run_id, server_id)
             DO UPDATE SET expires_at = excluded.expires_at",
        tenant.as_str(),
        run.uuid(),
        server,
        interval(time)
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Says that a run is no longer watched from a server.
///
/// # Errors
/// When the database does not take it.
pub async fn unwatch(
    store: &Store,
    tenant: &TenantId,
    run: RunId,
    server: Uuid,
) -> Result<(), StoreError> {
    sqlx::query!(
        "DELETE FROM run_watch
          WHERE tenant_id = $1
            AND run_id = $2
            AND server_id = $3",
        tenant.as_str(),
        run.uuid(),
        server
    )
    .execute(store.api())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// Forgets watches that have run out, and pieces of replies that are over for as long as a minute; at
/// most 10,000 a call.
///
/// # Errors
/// When the database does not take it.
pub async fn forget_old(store: &Store) -> Result<(), StoreError> {
    sqlx::query!(
        "WITH over AS (
             DELETE FROM run_watch
              WHERE expires_at < now()
         )
         DELETE FROM run_delta
          WHERE (tenant_id, run_id, turn, attempt, place) IN (
                SELECT d.tenant_id, d.run_id, d.turn, d.attempt, d.place
                  FROM run_delta d
                  LEFT JOIN run r
                    ON r.tenant_id = d.tenant_id
                   AND r.run_id = d.run_id
                 WHERE d.created_at < now() - interval '1 minute'
                   AND (r.status, r.turn, r.attempt)
                       IS DISTINCT FROM ('running', d.turn, d.attempt)
                 ORDER BY d.created_at
                 LIMIT 10000)"
    )
    .execute(store.system().critical())
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}
