//! What callers say of a key.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::caller::Scope;
use crate::error::AgentlingError;
use crate::http::auth::ApiKey;
use crate::http::extract::Checks;

/// The longest that a key can be made for.
const LONGEST: TimeDelta = TimeDelta::days(3_650);

/// How long a key that is rotated goes on working when its caller says nothing, in seconds.
const OVERLAP_SECS: u64 = 86_400;

/// The longest that it can, in seconds.
const OVERLAP_MAX: u64 = 30 * 86_400;

/// A key to be made. It acts for the tenant of the caller.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewKey {
    /// What people call it: 1–64 characters, none of them a control character.
    #[serde(default = "unnamed")]
    #[schema(default = "unnamed", min_length = 1, max_length = 64)]
    pub(super) name: String,
    /// What it allows: at least one.
    #[schema(min_items = 1)]
    pub(super) scopes: BTreeSet<Scope>,
    /// When it stops working, within ten years; absent: never.
    #[serde(default)]
    pub(super) expires_at: Option<DateTime<Utc>>,
}

/// How a key is rotated.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RotateKey {
    /// How long the key that is replaced goes on working, in seconds: up to 30 days, 0 for not at all.
    #[serde(default)]
    #[schema(default = 86_400, minimum = 0, maximum = 2_592_000)]
    pub(super) overlap_secs: Option<u64>,
    /// When the new key stops working, within ten years. Absent: it lives as long as the one that it
    /// replaces was made for.
    #[serde(default)]
    pub(super) expires_at: Option<DateTime<Utc>>,
}

fn unnamed() -> String {
    "unnamed".to_owned()
}

impl NewKey {
    /// Refuses what cannot be a key.
    pub(super) fn check(&self, now: DateTime<Utc>) -> Result<(), AgentlingError> {
        let mut checks = Checks::new();
        let message = "must have 1–64 characters, none of them a control character";
        checks.require(ApiKey::name_fits(&self.name), "/name", "invalid_value", message);
        let message = "must name at least one scope";
        checks.require(!self.scopes.is_empty(), "/scopes", "too_few", message);
        check_end(&mut checks, self.expires_at, now);
        checks.finish()
    }
}

impl RotateKey {
    /// Refuses what cannot be done to a key.
    pub(super) fn check(&self, now: DateTime<Utc>) -> Result<(), AgentlingError> {
        let mut checks = Checks::new();
        checks.range("/overlap_secs", self.overlap_secs.unwrap_or_default(), 0..=OVERLAP_MAX);
        check_end(&mut checks, self.expires_at, now);
        checks.finish()
    }

    /// Until when the key that is replaced works.
    pub(super) fn until(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        now + std::time::Duration::from_secs(self.overlap_secs.unwrap_or(OVERLAP_SECS))
    }
}

fn check_end(checks: &mut Checks, end: Option<DateTime<Utc>>, now: DateTime<Utc>) {
    let fits = end.is_none_or(|end| now < end && end <= now + LONGEST);
    checks.require(fits, "/expires_at", "out_of_range", "must lie ahead, within ten years");
}
