//! Arguments of a call that come in pieces, each with the path of the value that it belongs to.
//!
//! They only come when they are asked for, which this codec does not do; a proxy may.

use serde_json::{Map, Value, json};

use crate::wire::json::items;

/// The deepest path that is followed.
const MAX_DEPTH: usize = 64;

/// Takes the pieces of a part into the arguments.
pub(super) fn add_pieces(arguments: &mut Value, call: &Value) {
    for piece in items(call, "partialArgs") {
        let path = piece.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        if let (Some(steps), Some(value)) = (steps(path), value(piece)) {
            put(arguments, &steps, value);
        }
    }
}

/// One step of a path.
#[derive(Debug, PartialEq, Eq)]
enum Step<'t> {
    Member(&'t str),
    Item(usize),
}

/// The steps of a path such as `$.a['b'][0]`.
fn steps(path: &str) -> Option<Vec<Step<'_>>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() && steps.len() < MAX_DEPTH {
        let (step, tail) = if let Some(named) = rest.strip_prefix('.') {
            let end = named.find(['.', '[']).unwrap_or(named.len());
            let (name, tail) = named.split_at_checked(end)?;
            (Step::Member(name), tail)
        } else {
            bracketed(rest.strip_prefix('[')?)?
        };
        steps.push(step);
        rest = tail;
    }
    (rest.is_empty() && !steps.is_empty()).then_some(steps)
}

fn bracketed(rest: &str) -> Option<(Step<'_>, &str)> {
    for (quote, end) in [('\'', "']"), ('"', "\"]")] {
        if let Some(quoted) = rest.strip_prefix(quote) {
            let (name, tail) = quoted.split_once(end)?;
            return Some((Step::Member(name), tail));
        }
    }
    let (number, tail) = rest.split_once(']')?;
    Some((Step::Item(number.parse().ok()?), tail))
}

/// What a piece says. An empty one only ends what it belongs to.
fn value(piece: &Value) -> Option<Value> {
    let told = |name| piece.get(name).filter(|value: &&Value| !value.is_null()).cloned();
    let named = ["stringValue", "numberValue", "boolValue"].into_iter().find_map(told);
    named.or_else(|| piece.get("nullValue").map(|_| Value::Null))
}

/// Puts a value where a path leads; a text goes on with the text that is there.
fn put(within: &mut Value, steps: &[Step<'_>], value: Value) {
    let Some((step, rest)) = steps.split_first() else {
        match (within, value) {
            (Value::String(text), Value::String(more)) => text.push_str(&more),
            (place, value) => *place = value,
        }
        return;
    };
    if let Some(place) = place(within, step) {
        put(place, rest, value);
    }
}

/// The value at a step, made where it is missing. An item can only be added at the end of a list.
fn place<'v>(within: &'v mut Value, step: &Step<'_>) -> Option<&'v mut Value> {
    match step {
        Step::Member(name) => {
            if !within.is_object() {
                *within = Value::Object(Map::new());
            }
            Some(within.as_object_mut()?.entry(*name).or_insert(Value::Null))
        }
        Step::Item(index) => {
            if !within.is_array() {
                *within = json!([]);
            }
            let list = within.as_array_mut()?;
            if *index == list.len() {
                list.push(Value::Null);
            }
            list.get_mut(*index)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_put_where_their_paths_lead() {
        let mut arguments = json!({});
        for call in [
            json!({"partialArgs": [{"jsonPath": "$.to.city", "stringValue": "Os", "willContinue": true}]}),
            json!({"partialArgs": [
                {"jsonPath": "$.to.city", "stringValue": "lo"},
                {"jsonPath": "$['to']['n.o']", "numberValue": 2},
                {"jsonPath": "$.list[0]", "boolValue": false},
                {"jsonPath": "$.list[1].x", "nullValue": "NULL_VALUE"},
                {"jsonPath": "$.list[9]", "stringValue": "too far"},
                {"jsonPath": "to", "stringValue": "no path"},
                {"jsonPath": "$.end"},
            ]}),
            json!({"partialArgs": null}),
        ] {
            add_pieces(&mut arguments, &call);
        }
        let expected = json!({"to": {"city": "Oslo", "n.o": 2}, "list": [false, {"x": null}]});
        assert_eq!(arguments, expected);
    }
}
