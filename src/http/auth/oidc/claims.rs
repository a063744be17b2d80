//! What a token has to say to be believed, and who its caller is.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::Refusal;
use crate::config;
use crate::domain::caller::{Caller, Scope};
use crate::domain::id::TenantId;

/// How far the clocks of an issuer and of this server may be apart, in seconds.
const LEEWAY_SECS: f64 = 60.0;

/// What tokens are held against.
#[derive(Debug)]
pub(super) struct Expected {
    audience: String,
    tenant_claim: String,
    scope_claim: String,
    /// The issuers' words for scopes; when there are none, they use ours.
    scopes: BTreeMap<String, BTreeSet<Scope>>,
}

impl Expected {
    pub(super) fn of(settings: &config::Oidc) -> Self {
        let mut scopes: BTreeMap<String, BTreeSet<Scope>> = BTreeMap::new();
        for (word, scope) in &settings.scopes {
            scopes.entry(word.clone()).or_default().insert(*scope);
        }
        Self {
            audience: settings.audience.clone(),
            tenant_claim: settings.tenant_claim.clone(),
            scope_claim: settings.scope_claim.clone(),
            scopes,
        }
    }

    /// The caller of a token whose signature is right.
    pub(super) fn caller(
        &self,
        claims: &Map<String, Value>,
        now: DateTime<Utc>,
    ) -> Result<Caller, Refusal> {
        check_times(claims, now)?;
        if !words(claims.get("aud")).any(|audience| audience == self.audience) {
            return Err("it is for somebody else");
        }
        let tenant = claims.get(&self.tenant_claim).and_then(Value::as_str);
        let tenant = tenant.and_then(|tenant| TenantId::parse(tenant).ok());
        let tenant = tenant.ok_or("it names no tenant")?;
        Ok(Caller { tenant, key: None, scopes: self.scopes(claims.get(&self.scope_claim)) })
    }

    fn scopes(&self, claim: Option<&Value>) -> BTreeSet<Scope> {
        let said = words(claim).flat_map(str::split_whitespace);
        if self.scopes.is_empty() {
            return said.filter_map(|word| word.parse().ok()).collect();
        }
        said.filter_map(|word| self.scopes.get(word)).flatten().copied().collect()
    }
}

/// A claim that is a text, or a list of texts.
fn words(claim: Option<&Value>) -> impl Iterator<Item = &str> {
    let one = claim.and_then(Value::as_str);
    let many = claim.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    one.into_iter().chain(many)
}

/// A token has an end. A time that is no number is no time: it must not be taken for one that is absent.
#[expect(clippy::cast_precision_loss, reason = "times of day are far from where seconds are lost")]
fn check_times(claims: &Map<String, Value>, now: DateTime<Utc>) -> Result<(), Refusal> {
    let now = now.timestamp_millis() as f64 / 1_000.0;
    let end = claims.get("exp").and_then(Value::as_f64).ok_or("it has no end")?;
    if now >= end + LEEWAY_SECS {
        return Err("it has expired");
    }
    let Some(begin) = claims.get("nbf") else { return Ok(()) };
    let begin = begin.as_f64().ok_or("its beginning cannot be read")?;
    if now < begin - LEEWAY_SECS { Err("it does not count yet") } else { Ok(()) }
}
