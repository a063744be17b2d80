//! Which usage is asked for, as a query says it.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;

use crate::domain::memory::Finding;
use crate::domain::usage::{UsageGroups, UsageQuery};
use crate::http::problem::{Problem, ProblemKind};

/// What is told where the query does not say from when.
const WINDOW: TimeDelta = TimeDelta::days(30);
/// The longest time that one answer is about.
const MAX_WINDOW: TimeDelta = TimeDelta::days(366);

/// Which usage.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageParams {
    /// Calls that were sent at this moment or later; by default 30 days before `to`.
    #[serde(default)]
    from: Option<DateTime<Utc>>,
    /// Calls that were sent before this moment, at most 366 days after `from`; by default now.
    #[serde(default)]
    to: Option<DateTime<Utc>>,
    /// What calls are told apart by, with commas between them: `hour` or `day` (UTC), `provider`, `model`,
    /// `agent`, `key`. By default all are added up.
    #[serde(default, deserialize_with = "with_commas")]
    #[param(value_type = String, required = false, example = "day,model",
        pattern = "^(hour|day|provider|model|agent|key)(,(hour|day|provider|model|agent|key))*$")]
    group_by: UsageGroups,
}

fn with_commas<'de, D: Deserializer<'de>>(deserializer: D) -> Result<UsageGroups, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl UsageParams {
    /// The query, unless its time is none or too long.
    pub(super) fn checked(self, now: DateTime<Utc>) -> Result<UsageQuery, Problem> {
        let to = self.to.unwrap_or(now);
        let earliest = |window| to.checked_sub_signed(window).unwrap_or(DateTime::<Utc>::MIN_UTC);
        let from = self.from.unwrap_or_else(|| earliest(WINDOW));
        if from >= to {
            return Err(wrong(
                "from",
                "out_of_range",
                "must be before `to`, which is now by default",
            ));
        }
        if from < earliest(MAX_WINDOW) {
            return Err(wrong("from", "out_of_range", "must be at most 366 days before `to`"));
        }
        Ok(UsageQuery { from, to, groups: self.group_by })
    }
}

/// A refusal that names a parameter.
pub(super) fn wrong(parameter: &str, code: &'static str, message: &str) -> Problem {
    let finding = Finding::new(parameter, code, message);
    Problem::with_errors(ProblemKind::InvalidParameter, vec![finding])
}
