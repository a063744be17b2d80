//! Rates of requests: how fast a key, and a tenant, may ask.
//!
//! Every bucket belongs to one tenant, so that none of them slows another down. Answers tell where they
//! stand (`RateLimit` and `RateLimit-Policy`, draft-ietf-httpapi-ratelimit-headers). Buckets are those of
//! one server; what is shared by all of them is bounded where it is stored.

mod bucket;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::config::{Rate, Rates};
use crate::domain::caller::Caller;
use crate::domain::id::{KeyId, TenantId};
use crate::http::AppState;
use crate::http::problem::{Problem, ProblemKind};
use bucket::{Bucket, Standing};

/// How many buckets are kept at most.
const CAPACITY: usize = 20_000;

/// Whose bucket it is, and of what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    /// Requests of a key. Callers without one, such as those with a token, share theirs in their tenant.
    Key(TenantId, Option<KeyId>),
    /// Requests of a tenant.
    Tenant(TenantId),
    /// Runs that a tenant starts.
    Runs(TenantId),
}

impl Owner {
    const fn policy(&self) -> &'static str {
        match self {
            Self::Key(..) => "key",
            Self::Tenant(_) => "tenant",
            Self::Runs(_) => "runs",
        }
    }
}

/// The rates of all callers.
#[derive(Debug)]
pub struct RateLimits {
    rates: Rates,
    buckets: Mutex<BTreeMap<Owner, Bucket>>,
}

/// Where a caller stands after a request.
#[derive(Debug, PartialEq, Eq)]
struct Verdict {
    standings: Vec<(&'static str, Rate, Standing)>,
    /// How long to wait, and how many are allowed at once, if it is one too many.
    refused: Option<(Duration, u32)>,
}

impl RateLimits {
    /// With every bucket full.
    pub fn new(rates: Rates) -> Self {
        Self { rates, buckets: Mutex::default() }
    }

    /// Takes a request from all buckets that it belongs to, or from none of them.
    fn take(&self, caller: &Caller, starts_run: bool, now: Duration) -> Verdict {
        let applicable = self.applicable(caller, starts_run);
        let mut buckets = self.lock();
        let after: Vec<_> = applicable
            .into_iter()
            .map(|(owner, rate)| {
                let before = buckets.get(&owner).copied().unwrap_or_default();
                (owner, rate, before, before.take(rate, now))
            })
            .collect();
        let waits = after
            .iter()
            .filter_map(|(_, rate, _, taken)| Some((*taken.as_ref().err()?, rate.burst)));
        let refused = waits.max();
        let mut standings = Vec::with_capacity(after.len());
        for (owner, rate, before, taken) in after {
            let bucket = taken.ok().filter(|_| refused.is_none());
            standings.push((owner.policy(), rate, bucket.unwrap_or(before).standing(rate, now)));
            if let Some(bucket) = bucket {
                keep(&mut buckets, owner, bucket, now);
            }
        }
        Verdict { standings, refused }
    }

    /// The rates that a request counts for.
    fn applicable(&self, caller: &Caller, starts_run: bool) -> Vec<(Owner, Rate)> {
        let Rates { key, tenant, runs } = self.rates;
        let of = || caller.tenant.clone();
        let key = key.map(|rate| (Owner::Key(of(), caller.key), rate));
        let tenant = tenant.map(|rate| (Owner::Tenant(of()), rate));
        let runs = runs.filter(|_| starts_run).map(|rate| (Owner::Runs(of()), rate));
        key.into_iter().chain(tenant).chain(runs).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Owner, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a bucket. One that is full again need not be kept: it is like one that was never used. When there
/// is no room all the same, the one that is full soonest goes, which gives its owner a little more.
fn keep(buckets: &mut BTreeMap<Owner, Bucket>, owner: Owner, bucket: Bucket, now: Duration) {
    if buckets.len() >= CAPACITY && !buckets.contains_key(&owner) {
        buckets.retain(|_, bucket| !bucket.is_full(now));
        let soonest = buckets.iter().min_by_key(|(_, bucket)| **bucket).map(|(owner, _)| owner);
        if let Some(soonest) = soonest.filter(|_| buckets.len() >= CAPACITY).cloned() {
            buckets.remove(&soonest);
        }
    }
    buckets.insert(owner, bucket);
}

impl Verdict {
    fn headers(&self) -> Option<RateHeaders> {
        let list = |item: &dyn Fn(&(&'static str, Rate, Standing)) -> String| {
            let items: Vec<String> = self.standings.iter().map(item).collect();
            HeaderValue::try_from(items.join(", ")).ok().filter(|value| !value.is_empty())
        };
        let policy = list(&|(name, rate, _)| {
            format!("\"{name}\";q={};w={}", rate.burst, seconds(rate.every * rate.burst))
        })?;
        let limit = list(&|(name, _, standing)| {
            format!("\"{name}\";r={};t={}", standing.remaining, seconds(standing.full_in))
        })?;
        Some(RateHeaders { policy, limit })
    }

    fn problem(&self) -> Option<Problem> {
        let (wait, limit) = self.refused?;
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        let detail = "requests come faster than they may";
        Some(Problem::new(ProblemKind::RateLimited, detail).member(|view| {
            view.limit = Some(limit.into());
            view.retry_after_ms = Some(wait);
        }))
    }
}

/// A span in whole seconds, rounded up.
fn seconds(span: Duration) -> u64 {
    span.as_secs() + u64::from(span.subsec_nanos() > 0)
}

/// What an answer says of rates. Whoever writes the answer adds it, because a problem is written anew.
#[derive(Debug, Clone)]
pub(super) struct RateHeaders {
    policy: HeaderValue,
    limit: HeaderValue,
}

impl RateHeaders {
    /// Adds them.
    pub(super) fn add_to(self, headers: &mut HeaderMap) {
        headers.insert(HeaderName::from_static("ratelimit-policy"), self.policy);
        headers.insert(HeaderName::from_static("ratelimit"), self.limit);
    }
}

/// Refuses callers who ask faster than they may, and tells all others where they stand.
pub(super) async fn limit(State(app): State<AppState>, request: Request, next: Next) -> Response {
    let Some(caller) = request.extensions().get::<Caller>() else { return next.run(request).await };
    let verdict = app.rates.take(caller, starts_run(&request), app.clock.monotonic());
    let mut response = match verdict.problem() {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    };
    if let Some(headers) = verdict.headers() {
        response.extensions_mut().insert(headers);
    }
    response
}

fn starts_run(request: &Request) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST && ["/v1/runs", "/v1/runs/stream"].contains(&path)
}
