//! What calls of models took, as it is asked for.

use std::collections::BTreeSet;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use super::label::UnknownLabel;
use crate::labels;

labels! {
    /// What usage is told apart by.
    UsageGroup {
        /// The hour, UTC.
        Hour = "hour",
        /// The day, UTC.
        Day = "day",
        /// Who was asked.
        Provider = "provider",
        /// The model, as its agent names it.
        Model = "model",
        /// The agent of the run, whatever its version.
        Agent = "agent",
        /// The key that the run was started with.
        Key = "key",
    }
}

/// A set of groups: labels with a comma between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageGroups(BTreeSet<UsageGroup>);

impl UsageGroups {
    /// Whether it is one of them.
    pub fn has(&self, group: UsageGroup) -> bool {
        self.0.contains(&group)
    }

    /// Whether everything is added up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for UsageGroups {
    type Err = UnknownLabel;

    fn from_str(text: &str) -> Result<Self, UnknownLabel> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

/// Which usage is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageQuery {
    /// Calls that were sent at this moment or later.
    pub from: DateTime<Utc>,
    /// Calls that were sent before this one.
    pub to: DateTime<Utc>,
    /// What they are told apart by.
    pub groups: UsageGroups,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_labels_with_commas_in_any_order() {
        let groups: UsageGroups = "model,day".parse().unwrap();
        assert_eq!(groups, "day,model,day".parse().unwrap());
        assert!(groups.has(UsageGroup::Day) && !groups.has(UsageGroup::Hour));
        for wrong in ["", "day,", "days", "day model"] {
            assert!(wrong.parse::<UsageGroups>().is_err(), "{wrong}");
        }
    }
}
