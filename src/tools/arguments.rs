//! Arguments of a call, whose numbers reach the tool as the model spelt them.

use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::domain::json::{members, spelt};

/// The members of an argument object, in their order, each with its own spelling.
pub(super) type Arguments = IndexMap<String, Box<RawValue>>;

/// One argument.
pub(super) type Argument<'a> = (&'a String, &'a RawValue);

/// Whether a name comes twice in one object, so that `value` does not hold all that `text` says.
/// A tool might take the member that was not judged, so such arguments are not sent.
pub(super) fn is_ambiguous(text: &str, value: &Value) -> bool {
    members(text) != count(value)
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.len() + members.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

/// An object of these arguments.
pub(super) fn object<'a>(
    arguments: impl Iterator<Item = Argument<'a>>,
) -> Result<String, serde_json::Error> {
    let object: IndexMap<_, _> = arguments.collect();
    serde_json::to_string(&object).map(|text| spelt(&text))
}

pub(super) fn is_null(argument: &RawValue) -> bool {
    argument.get() == "null"
}

/// What an argument becomes in a URL: the characters of a string, anything else as it is spelt.
pub(super) fn plain_text(argument: &RawValue) -> String {
    serde_json::from_str(argument.get()).unwrap_or_else(|_| spelt(argument.get()))
}

/// The texts that an argument becomes in a query: one an item of an array, none for null.
pub(super) fn query_values(argument: &RawValue) -> Vec<String> {
    if is_null(argument) {
        return Vec::new();
    }
    match serde_json::from_str::<Vec<&RawValue>>(argument.get()) {
        Ok(items) => items.into_iter().map(plain_text).collect(),
        Err(_) => vec![plain_text(argument)],
    }
}
