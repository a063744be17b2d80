//! Conditions on the arguments of a call: a small language that always comes to an end.
//!
//! ```text
//! /amount > 100 or not /currency in ["EUR", "USD"]
//! arguments.to exists and not (arguments.to starts_with "ops@" or /urgent == true)
//! ```
//!
//! A place is a JSON pointer into the arguments (`/items/0/price`), or a path of plain names
//! (`arguments.items.0.price`). Comparisons are `==`, `!=`, `<`, `<=`, `>`, `>=`, `in [ … ]`, `contains`
//! (a text a text, an array an element), `starts_with` and `exists`. They compare a place with JSON literals;
//! texts may stand in single quotes as well. They are joined by `not`, `and` and `or`, which bind in
//! this order, and by parentheses.
//!
//! A comparison with a place that is missing, or that holds another type, is neither true nor false. What
//! depends on it is neither, and whoever asks has to take the careful side.

mod parse;
mod token;

#[cfg(test)]
mod tests;

use std::cmp::Ordering;

use serde_json::{Number, Value};

pub use parse::{ConditionError, MAX_CHARS};

use super::json::spelt;

/// Integers up to here are the same number as an `f64`.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A condition on arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    root: Node,
    places: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Test { place: String, check: Check },
}

/// What is asked about the value at a place.
#[derive(Debug, Clone, PartialEq)]
enum Check {
    Exists,
    Equals(Value),
    Differs(Value),
    /// The order of the value and a number is one of these.
    Orders(Number, &'static [Ordering]),
    In(Vec<Value>),
    Contains(Value),
    StartsWith(String),
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// With the column at which it is none.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        parse::condition(text)
    }

    /// The names of the arguments that it looks at, without repetition.
    pub fn arguments(&self) -> impl Iterator<Item = String> {
        let first = |place: &String| {
            let key = place.split('/').nth(1).unwrap_or_default();
            key.replace("~1", "/").replace("~0", "~")
        };
        let names: std::collections::BTreeSet<_> = self.places.iter().map(first).collect();
        names.into_iter()
    }

    /// Whether it holds of arguments with this spelling; `None` when that cannot be said.
    pub fn holds(&self, arguments: &Value, spelling: &str) -> Option<bool> {
        let shown = arguments.to_string();
        let is_exact = spelt(spelling) == shown;
        Subject { arguments, is_exact }.judge(&self.root)
    }
}

/// The arguments that are judged.
struct Subject<'a> {
    arguments: &'a Value,
    /// Whether the value says all that was spelt: numbers can have lost digits.
    is_exact: bool,
}

impl Subject<'_> {
    fn judge(&self, node: &Node) -> Option<bool> {
        match node {
            Node::All(nodes) => agree(nodes.iter().map(|node| self.judge(node)), false),
            Node::Any(nodes) => agree(nodes.iter().map(|node| self.judge(node)), true),
            Node::Not(node) => self.judge(node).map(|holds| !holds),
            Node::Test { place, check } => self.test(self.arguments.pointer(place), check),
        }
    }

    fn test(&self, value: Option<&Value>, check: &Check) -> Option<bool> {
        match check {
            Check::Exists => Some(value.is_some()),
            Check::Equals(literal) => self.equal(value?, literal),
            Check::Differs(literal) => self.equal(value?, literal).map(|equal| !equal),
            Check::Orders(bound, wanted) => {
                self.compare(value?.as_number()?, bound).map(|order| wanted.contains(&order))
            }
            Check::In(literals) => {
                agree(literals.iter().map(|literal| self.equal(value?, literal)), true)
            }
            Check::Contains(literal) => self.contains(value?, literal),
            Check::StartsWith(head) => Some(value?.as_str()?.starts_with(head)),
        }
    }

    fn contains(&self, value: &Value, literal: &Value) -> Option<bool> {
        match (value, literal) {
            (Value::String(text), Value::String(part)) => Some(text.contains(part)),
            (Value::Array(items), _) => {
                agree(items.iter().map(|item| self.equal(item, literal)), true)
            }
            _ => None,
        }
    }

    fn equal(&self, value: &Value, literal: &Value) -> Option<bool> {
        match (value, literal) {
            (Value::String(value), Value::String(literal)) => Some(value == literal),
            (Value::Bool(value), Value::Bool(literal)) => Some(value == literal),
            (Value::Number(value), Value::Number(literal)) => {
                self.compare(value, literal).map(Ordering::is_eq)
            }
            (value, Value::Null) => Some(value.is_null()),
            _ => None,
        }
    }

    /// Which of two numbers is larger. Rounding never swaps two numbers, but it can make one of two that
    /// differ; where that is possible, nothing is said.
    fn compare(&self, value: &Number, bound: &Number) -> Option<Ordering> {
        if let (Some(value), Some(bound)) = (integer(value), integer(bound)) {
            return Some(value.cmp(&bound));
        }
        let (value, bound) = (value.as_f64()?, bound.as_f64()?);
        let order = value.partial_cmp(&bound)?;
        let is_known = order.is_ne() || (self.is_exact && value.abs() < MAX_EXACT);
        is_known.then_some(order)
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// What several verdicts come to: one of the deciding kind decides, else one that is not known leaves
/// all of it open.
fn agree(verdicts: impl Iterator<Item = Option<bool>>, decides: bool) -> Option<bool> {
    let mut all = Some(!decides);
    for verdict in verdicts {
        match verdict {
            Some(holds) if holds == decides => return Some(decides),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}
