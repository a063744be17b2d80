//! Which calls a person has to agree to first.

use serde_json::Value;

use crate::domain::condition::Condition;
use crate::domain::wait::{Approval, ApprovalPolicy};

/// When somebody is asked about a call.
#[derive(Debug)]
pub(super) enum Asks {
    /// Never.
    Never,
    /// About every call.
    Always,
    /// Where the arguments say so, or do not say what it depends on.
    When(Condition),
}

impl Asks {
    /// Reads a declaration. One that cannot be read asks about every call.
    pub(super) fn of(approval: &Approval) -> Self {
        match approval {
            Approval::Fixed(ApprovalPolicy::Never) => Self::Never,
            Approval::Fixed(ApprovalPolicy::Always) => Self::Always,
            Approval::When(rule) => Condition::parse(&rule.when).map_or(Self::Always, Self::When),
        }
    }

    /// Whether somebody is asked about a call with these arguments.
    pub(super) fn about(&self, arguments: &Value, spelling: &str) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::When(condition) => condition.holds(arguments, spelling).unwrap_or(true),
        }
    }
}

/// What is wrong with the condition of a declaration.
pub(super) fn faults(approval: &Approval, parameters: &Value) -> Vec<String> {
    let Approval::When(rule) = approval else { return Vec::new() };
    let condition = match Condition::parse(&rule.when) {
        Ok(condition) => condition,
        Err(error) => return vec![error.to_string()],
    };
    let Some(Value::Object(known)) = parameters.get("properties") else { return Vec::new() };
    let unknown = condition.arguments().filter(|name| !known.contains_key(name));
    unknown.map(|name| format!("{name:?} is not among the properties of parameters")).collect()
}
