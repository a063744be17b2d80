//! Requests of two runs, compared by their bytes.

use std::sync::Arc;

use super::{RequestDiff, RequestFacts, Sameness, WireDiff, paired};
use crate::domain::id::{RequestId, TenantId};
use crate::domain::ledger::{Encoded, LedgerEntry, Purpose};
use crate::domain::request::shared_prefix;
use crate::domain::run::Run;
use crate::engine::Context;
use crate::engine::redaction::Redactors;
use crate::engine::replay::{excerpts, span_at};
use crate::store::StoreError;
use crate::store::ledger::{self, Bytes};

/// How many pairs that differ are looked into.
const MAX_LOOKED_INTO: usize = 10;

/// The place of a request: its turn, the attempt, and what comes first within one.
type Key = (u32, u32, u8);

/// Pairs the requests of two runs, the first so many of each.
pub(super) async fn compared(
    context: &Arc<Context>,
    tenant: &TenantId,
    [(run_a, a), (run_b, b)]: [(&Run, Vec<LedgerEntry>); 2],
    (shown, most): (&Redactors, usize),
) -> Result<Vec<RequestDiff>, StoreError> {
    let mut compared = Vec::new();
    let mut left = MAX_LOOKED_INTO;
    for (_, a, b) in paired(keyed(a, most), keyed(b, most)) {
        let Some(mut pair) = of_pair(a.as_ref(), b.as_ref()) else { continue };
        if pair.status == Sameness::Changed
            && left > 0
            && let (Some(a), Some(b)) = (&pair.a, &pair.b)
        {
            left -= 1;
            let one = body(context, tenant, a.id).await?;
            let other = body(context, tenant, b.id).await?;
            pair.parts =
                one.zip(other).map(|(one, other)| parts((run_a, one), (run_b, other), shown));
        }
        compared.push(pair);
    }
    Ok(compared)
}

fn keyed(entries: Vec<LedgerEntry>, most: usize) -> Vec<(Key, LedgerEntry)> {
    let place = |entry: &LedgerEntry| {
        let rank = match entry.purpose {
            Purpose::Summary => 0,
            Purpose::Reply => 1,
        };
        (entry.turn, entry.attempt, rank)
    };
    entries.into_iter().take(most).map(|entry| (place(&entry), entry)).collect()
}

fn of_pair(a: Option<&LedgerEntry>, b: Option<&LedgerEntry>) -> Option<RequestDiff> {
    let any = a.or(b)?;
    let status = match (a, b) {
        (Some(a), Some(b)) => match (a.sha256, b.sha256) {
            (Some(a), Some(b)) if a == b => Sameness::Equal,
            (Some(_), Some(_)) => Sameness::Changed,
            _ => Sameness::Unknown,
        },
        (Some(_), None) => Sameness::OnlyA,
        (None, _) => Sameness::OnlyB,
    };
    let facts = |entry: &LedgerEntry| RequestFacts {
        id: entry.id,
        sha256: entry.sha256,
        bytes: entry.bytes,
    };
    let (turn, attempt, purpose) = (any.turn, any.attempt, any.purpose);
    let (a, b) = (a.map(facts), b.map(facts));
    Some(RequestDiff { status, turn, attempt, purpose, a, b, parts: None })
}

async fn body(
    context: &Context,
    tenant: &TenantId,
    id: RequestId,
) -> Result<Option<Encoded>, StoreError> {
    match ledger::body(context.store(), tenant, id, true).await? {
        Some(Bytes::Kept(body)) => Ok(Some(body.request)),
        Some(Bytes::NotKept) | None => Ok(None),
    }
}

fn parts((run_a, a): (&Run, Encoded), (run_b, b): (&Run, Encoded), shown: &Redactors) -> WireDiff {
    let offset = shared_prefix(&a.body, &b.body);
    let of = |run: &Run| shown.of((run.thread_id, Some(run.id)));
    let (a_excerpt, b_excerpt) = excerpts((&a.body, of(run_a)), (&b.body, of(run_b)));
    WireDiff {
        offset: u64::try_from(offset).unwrap_or(u64::MAX),
        a_span: span_at(&a, offset),
        b_span: span_at(&b, offset),
        a_excerpt,
        b_excerpt,
    }
}
