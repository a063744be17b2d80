//! Forks: threads whose history begins with steps that are stored with other threads.
//!
//! A fork has segments, each a stretch of its history and the thread that it is stored with, under the
//! same numbers. They are flattened when a thread is forked: the fork of a fork has the segments of that
//! one, and one more for what that one stores itself. So a fork takes as many rows as there are forks
//! behind it, however long the history is, and one statement reads it. An edited step is a step of the
//! fork itself, and no segment covers its place.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::idempotency::{self, IdempotencyKey};
use super::rows::At;
use super::threads::{self, LoadedSteps};
use super::{Conflict, Store, StoreError, loaded};
use crate::domain::agent::Metadata;
use crate::domain::id::{RunId, StepId, TenantId, ThreadId};
use crate::domain::run_message::Voice;
use crate::domain::step::{InputPart, StepContent, StepKind, TaskStep};
use crate::domain::thread::{ForkPoint, Thread};

/// The most stretches that the history of a fork is put together from.
pub const MAX_SEGMENTS: usize = 200;

/// A thread to make from another one.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFork {
    /// Its id.
    pub id: ThreadId,
    /// What it shares, and of which thread.
    pub origin: ForkPoint,
    /// What stands in place of shared steps, in order.
    pub edits: Vec<Edit>,
    /// Whether edits may speak in the system voice.
    pub as_operator: bool,
    /// Its labels; by default those of the other thread.
    pub metadata: Option<Metadata>,
    /// Marks the write.
    pub op_id: Uuid,
    /// The moment.
    pub now: DateTime<Utc>,
    /// The key the request came with.
    pub key: Option<IdempotencyKey>,
}

/// What stands in place of a shared step.
#[derive(Debug, Clone, PartialEq)]
pub struct Edit {
    /// `seq` of the step.
    pub seq: i64,
    /// The id of what stands there.
    pub step_id: StepId,
    /// What it says.
    pub said: Said,
}

/// What is said in place of a shared step, by whoever said that.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// A text, of the user or of the system.
    Text(String),
    /// Input of the user.
    Parts(Vec<InputPart>),
}

impl Said {
    /// The step that stands in place of one of a kind; `None` where that kind says no such thing. What a
    /// model said and what came of it are no one's to say otherwise.
    fn step(&self, kind: StepKind) -> Option<StepContent> {
        match (kind, self) {
            (StepKind::Task, Self::Text(text)) => Some(Voice::User.step(text.clone())),
            (StepKind::Task, Self::Parts(parts)) => {
                Some(StepContent::Task(TaskStep { parts: parts.clone() }))
            }
            (StepKind::System, Self::Text(text)) => Some(Voice::System.step(text.clone())),
            _ => None,
        }
    }
}

/// What became of a fork.
#[derive(Debug, Clone, PartialEq)]
pub enum Forked {
    /// It is there.
    Created(Thread),
    /// There is no such thread to fork.
    NoSuchThread,
    /// The thread has no such step: this is its last one.
    NoSuchStep(i64),
    /// The step at this place of the edits is of a kind that does not say such a thing.
    NotEditable(usize, StepKind),
    /// The step at this place of the edits was erased with its run.
    Erased(usize),
    /// An edit speaks in the system voice, and its caller may not.
    NeedsOperator,
    /// It would be put together from too many stretches.
    TooManySegments,
}

/// A stretch of a thread's history and where it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    from: i64,
    through: i64,
    source: Uuid,
}

/// Makes a thread that shares the steps of another one up to one of them.
///
/// # Errors
/// [`Conflict::ThreadBusy`] when calls of the last steps are still under way.
pub async fn fork(store: &Store, tenant: &TenantId, new: NewFork) -> Result<Forked, StoreError> {
    let mut tx = store.api().begin().await.map_err(StoreError::of_read)?;
    idempotency::hold(&mut tx, tenant, new.key.as_ref(), new.id.uuid().into()).await?;
    let ForkPoint { thread_id, at_seq } = new.origin;
    // While it is locked, the other thread cannot be deleted.
    let Some(other) = threads::lock(&mut tx, tenant, thread_id).await? else {
        return Ok(Forked::NoSuchThread);
    };
    if at_seq > other.head_seq {
        return Ok(Forked::NoSuchStep(other.head_seq));
    }
    refuse_if_open(&mut tx, tenant, new.origin).await?;
    let mut edited = Vec::new();
    for (place, edit) in new.edits.iter().enumerate() {
        let Some(kind) = kind_at(&mut tx, tenant, thread_id, edit.seq).await? else {
            return Ok(Forked::Erased(place));
        };
        match edit.said.step(kind) {
            None => return Ok(Forked::NotEditable(place, kind)),
            Some(StepContent::System(_)) if !new.as_operator => return Ok(Forked::NeedsOperator),
            Some(content) => edited.push((edit, content)),
        }
    }
    let segments = segments(&mut tx, tenant, new.origin).await?;
    let segments = without(segments, new.edits.iter().map(|edit| edit.seq));
    if segments.len() > MAX_SEGMENTS {
        return Ok(Forked::TooManySegments);
    }
    let thread = Thread {
        id: new.id,
        metadata: new.metadata.clone().unwrap_or_else(|| other.metadata.clone()),
        memory_from: memory_from(&mut tx, tenant, &other, at_seq).await?,
        head_seq: at_seq,
        forked_from: Some(new.origin),
        revision: 1,
        created_at: new.now,
        updated_at: new.now,
        ..other
    };
    threads::insert(&mut tx, tenant, &thread).await?;
    insert_segments(&mut tx, tenant, new.id, &segments).await?;
    for (edit, content) in edited {
        let steps =
            LoadedSteps { ids: vec![edit.step_id], contents: vec![content], op_id: new.op_id };
        loaded::insert_steps(&mut tx, tenant, (new.id, edit.seq), &steps, new.now).await?;
    }
    tx.commit().await.map_err(StoreError::of_write)?;
    Ok(Forked::Created(thread))
}

/// Refuses while calls of the steps to share are under way: what is shared does not change any more.
async fn refuse_if_open(
    tx: &mut PgConnection,
    tenant: &TenantId,
    origin: ForkPoint,
) -> Result<(), StoreError> {
    let run = sqlx::query_scalar!(
        "SELECT run_id
           FROM tool_call
          WHERE tenant_id = $1
            AND thread_id = $2
            AND step_seq <= $3
            AND state <> 'ended'
          LIMIT 1",
        tenant.as_str(),
        origin.thread_id.uuid(),
        origin.at_seq
    )
    .fetch_optional(tx)
    .await
    .map_err(StoreError::of_read)?;
    match run.map(RunId::from) {
        None => Ok(()),
        active_run_id => Err(StoreError::Conflict(Conflict::ThreadBusy { active_run_id })),
    }
}

/// The kind of a step of a thread's history; `None` where it was erased with its run.
async fn kind_at(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
    seq: i64,
) -> Result<Option<StepKind>, StoreError> {
    let kind = sqlx::query_scalar!(
        r#"SELECT s.kind
             FROM (SELECT $2::uuid AS source_id
                    UNION ALL
                   SELECT source_id
                     FROM thread_segment
                    WHERE tenant_id = $1
                      AND thread_id = $2
                      AND $3 BETWEEN from_seq AND through_seq) g
             JOIN step s
               ON s.tenant_id = $1
              AND s.thread_id = g.source_id
              AND s.seq = $3"#,
        tenant.as_str(),
        thread.uuid(),
        seq
    )
    .fetch_optional(tx)
    .await
    .map_err(StoreError::of_read)?;
    let at = At { table: "step", id: &thread };
    kind.map(|kind| at.label("kind", &kind)).transpose()
}

/// Where the steps of a thread up to one of them are stored.
async fn segments(
    tx: &mut PgConnection,
    tenant: &TenantId,
    origin: ForkPoint,
) -> Result<Vec<Segment>, StoreError> {
    let elsewhere = sqlx::query!(
        "SELECT from_seq, through_seq, source_id
           FROM thread_segment
          WHERE tenant_id = $1
            AND thread_id = $2
            AND from_seq <= $3
          ORDER BY from_seq",
        tenant.as_str(),
        origin.thread_id.uuid(),
        origin.at_seq
    )
    .fetch_all(tx)
    .await
    .map_err(StoreError::of_read)?;
    let own = origin.thread_id.uuid();
    let mut all = Vec::new();
    let mut next = 1;
    for row in elsewhere {
        all.push(Segment { from: next, through: row.from_seq - 1, source: own });
        let through = row.through_seq.min(origin.at_seq);
        all.push(Segment { from: row.from_seq, through, source: row.source_id });
        next = through + 1;
    }
    all.push(Segment { from: next, through: origin.at_seq, source: own });
    all.retain(|segment| segment.from <= segment.through);
    Ok(all)
}

/// The segments without some places, which are in order.
fn without(mut segments: Vec<Segment>, places: impl Iterator<Item = i64>) -> Vec<Segment> {
    for place in places {
        let cut = |segment: Segment| {
            if (segment.from..=segment.through).contains(&place) {
                let before = Segment { through: place - 1, ..segment };
                [before, Segment { from: place + 1, ..segment }]
            } else {
                [segment, Segment { from: 1, through: 0, ..segment }]
            }
        };
        segments = segments.into_iter().flat_map(cut).collect();
        segments.retain(|segment| segment.from <= segment.through);
    }
    segments
}

/// Where the memory of a thread began when a step was its last one: where it begins now, unless that was
/// moved past the step; then where the last run until then saw it begin.
async fn memory_from(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: &Thread,
    at_seq: i64,
) -> Result<i64, StoreError> {
    if thread.memory_from <= at_seq {
        return Ok(thread.memory_from);
    }
    let seen = sqlx::query_scalar!(
        "SELECT max(memory_from)
           FROM run
          WHERE tenant_id = $1
            AND thread_id = $2
            AND memory_from <= $3",
        tenant.as_str(),
        thread.id.uuid(),
        at_seq
    )
    .fetch_one(tx)
    .await
    .map_err(StoreError::of_read)?;
    Ok(seen.unwrap_or(1))
}

async fn insert_segments(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
    segments: &[Segment],
) -> Result<(), StoreError> {
    let from: Vec<i64> = segments.iter().map(|segment| segment.from).collect();
    let through: Vec<i64> = segments.iter().map(|segment| segment.through).collect();
    let sources: Vec<Uuid> = segments.iter().map(|segment| segment.source).collect();
    sqlx::query!(
        "INSERT INTO thread_segment (tenant_id, thread_id, from_seq, through_seq, source_id)
         SELECT $1, $2, g.from_seq, g.through_seq, g.source_id
           FROM unnest($3::bigint[], $4::bigint[], $5::uuid[])
                AS g(from_seq, through_seq, source_id)",
        tenant.as_str(),
        thread.uuid(),
        &from,
        &through,
        &sources
    )
    .execute(tx)
    .await
    .map_err(StoreError::of_write)?;
    Ok(())
}

/// The threads that are made of the steps of a thread; at most so many.
pub(super) async fn made_of(
    tx: &mut PgConnection,
    tenant: &TenantId,
    thread: ThreadId,
    limit: i64,
) -> Result<Vec<ThreadId>, StoreError> {
    let forks = sqlx::query_scalar!(
        "SELECT DISTINCT thread_id
           FROM thread_segment
          WHERE tenant_id = $1
            AND source_id = $2
          ORDER BY thread_id
          LIMIT $3",
        tenant.as_str(),
        thread.uuid(),
        limit
    )
    .fetch_all(tx)
    .await
    .map_err(StoreError::of_read)?;
    Ok(forks.into_iter().map(ThreadId::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_out_of_the_segments_they_are_in() {
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let segment = |from, through, source| Segment { from, through, source };
        let whole = vec![segment(1, 4, a), segment(5, 5, b), segment(6, 9, a)];
        assert_eq!(without(whole.clone(), [].into_iter()), whole);
        let left = without(whole, [1, 3, 5, 9].into_iter());
        assert_eq!(left, [segment(2, 2, a), segment(4, 4, a), segment(6, 8, a)]);
    }
}
