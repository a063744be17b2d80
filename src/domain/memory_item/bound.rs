//! The namespace that a tool is bound to: by whoever makes the agent, with labels of the run where they say
//! so, and never by a model.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::name::is_part;
use super::{InvalidNamespace, Namespace};
use crate::domain::agent::Metadata;
use crate::domain::limits::NAMESPACE_PARTS;

/// What stands around the name of a label.
const BEGIN: &str = "{{metadata.";
const END: &str = "}}";

/// The namespace of a tool that remembers: 1–8 parts.
///
/// A part is a plain one, or `{{metadata.key}}` and nothing else, which is the value of that label of the run.
/// A call fails where the run has no such label, or one that cannot be a part: nothing is made to fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Vec<String>, min_items = 1, max_items = 8)]
pub struct BoundNamespace(Vec<String>);

/// The labels of a run do not give the namespace of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run's label `{label}` is missing or cannot be a part of a namespace")]
pub struct UnboundNamespace {
    /// The label that is at fault.
    pub label: String,
}

/// The label that a part names.
fn label_of(part: &str) -> Option<&str> {
    part.strip_prefix(BEGIN)?.strip_suffix(END).filter(|label| !label.is_empty())
}

impl BoundNamespace {
    /// Whether its parts are such that a run with the right labels has a namespace.
    ///
    /// # Errors
    /// When there are too many parts or none, or one that is neither plain nor the name of a label.
    pub fn check(&self) -> Result<(), InvalidNamespace> {
        let fits = |part: &String| label_of(part).is_some() || is_part(part);
        let is_whole = (1..=NAMESPACE_PARTS).contains(&self.0.len()) && self.0.iter().all(fits);
        if is_whole { Ok(()) } else { Err(InvalidNamespace) }
    }

    /// The namespace of a run with these labels.
    ///
    /// # Errors
    /// When one of them is missing, or is not a plain part.
    pub fn of(&self, labels: &Metadata) -> Result<Namespace, UnboundNamespace> {
        let part = |part: &String| {
            let Some(label) = label_of(part) else { return Ok(part.clone()) };
            let value = labels.get(label).filter(|value| is_part(value));
            value.cloned().ok_or_else(|| UnboundNamespace { label: label.to_owned() })
        };
        let parts: Vec<String> = self.0.iter().map(part).collect::<Result<_, _>>()?;
        Namespace::try_from(parts).map_err(|_| UnboundNamespace { label: String::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(parts: &[&str]) -> BoundNamespace {
        BoundNamespace(parts.iter().map(|part| (*part).to_owned()).collect())
    }

    fn labels(pairs: &[(&str, &str)]) -> Metadata {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_part_is_plain_or_a_label_and_nothing_in_between() {
        for parts in [&["a", "b"][..], &["users", "{{metadata.user id}}"]] {
            assert_eq!(bound(parts).check(), Ok(()), "{parts:?}");
        }
        for parts in [
            &[][..],
            &["a"; 9],
            &["x{{metadata.u}}"],
            &["{{metadata.u}}y"],
            &["{{metadata.}}"],
            &["{{ metadata.u }}"],
            &["{{run.id}}"],
            &["a/b"],
        ] {
            assert_eq!(bound(parts).check(), Err(InvalidNamespace), "{parts:?}");
        }
    }

    #[test]
    fn a_label_that_cannot_be_a_part_is_no_way_into_another_namespace() {
        let bound = bound(&["users", "{{metadata.user}}"]);
        let of = |value| bound.of(&labels(&[("user", value)]));
        assert_eq!(of("42").unwrap().to_string(), "users/42");
        for value in ["", "a/b", "../x", "a b", "{{metadata.user}}", "é", &"x".repeat(65)] {
            assert_eq!(of(value), Err(UnboundNamespace { label: "user".into() }), "{value}");
        }
        assert!(bound.of(&Metadata::new()).is_err());
    }
}
