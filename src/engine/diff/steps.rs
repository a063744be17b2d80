//! Steps of two runs, compared by what they say.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Difference, Sameness, StepDiff, paired};
use crate::domain::step::{Step, StepContent, StepKind};
use crate::engine::redaction::Redactors;

/// The most places of a step that are told.
const MAX_DIFFERENCES: usize = 20;

/// How much of what stands at a place is told, in characters.
const MAX_CHARS: usize = 200;

/// Members that differ from run to run whatever is said.
const OWN: [&str; 5] =
    ["tool_call_id", "provider_call_id", "response_id", "started_at", "finished_at"];

/// The place of a step: its turn, the rank of its kind, and its number among those of that kind.
type Key = (u32, u8, usize);

/// Pairs the steps of two runs.
pub(super) fn compared(a: Vec<Step>, b: Vec<Step>, shown: &Redactors) -> Vec<StepDiff> {
    let pairs = paired(keyed(a), keyed(b)).into_iter();
    pairs.filter_map(|(key, a, b)| of_pair(key.0, (a, b), shown)).collect()
}

fn keyed(steps: Vec<Step>) -> Vec<(Key, Step)> {
    let mut counts: BTreeMap<(u32, u8), usize> = BTreeMap::new();
    let keyed = steps.into_iter().map(|step| {
        let place = (step.turn, rank(step.content.kind()));
        let n = counts.entry(place).or_default();
        *n += 1;
        ((place.0, place.1, *n), step)
    });
    keyed.collect()
}

/// Where a kind stands within a turn: what is asked and told after a reply comes behind it.
const fn rank(kind: StepKind) -> u8 {
    match kind {
        StepKind::Summary => 0,
        StepKind::Action => 1,
        StepKind::Retry => 2,
        StepKind::Task => 3,
        StepKind::System => 4,
        StepKind::Context => 5,
        StepKind::Tools => 6,
        StepKind::Final => 7,
    }
}

fn of_pair(turn: u32, (a, b): (Option<Step>, Option<Step>), shown: &Redactors) -> Option<StepDiff> {
    let kind = a.as_ref().or(b.as_ref())?.content.kind();
    let ids = (a.as_ref().map(|step| step.id), b.as_ref().map(|step| step.id));
    let (status, differences) = match (a, b) {
        (Some(a), Some(b)) => {
            let mut found = Vec::new();
            walk("", (&said(&a.content), &said(&b.content)), &mut found);
            let (a, b) = (said(&shown.step(a).content), said(&shown.step(b).content));
            let status = if found.is_empty() { Sameness::Equal } else { Sameness::Changed };
            found.truncate(MAX_DIFFERENCES);
            let told = |pointer: String| Difference {
                a: a.pointer(&pointer).map(shortened),
                b: b.pointer(&pointer).map(shortened),
                pointer,
            };
            (status, found.into_iter().map(told).collect())
        }
        (Some(_), None) => (Sameness::OnlyA, Vec::new()),
        (None, _) => (Sameness::OnlyB, Vec::new()),
    };
    Some(StepDiff { status, turn, kind, a: ids.0, b: ids.1, differences })
}

/// What a step says.
fn said(content: &StepContent) -> Value {
    serde_json::to_value(content).unwrap_or_default()
}

/// Finds the places where two values differ, the innermost ones.
fn walk(at: &str, (a, b): (&Value, &Value), found: &mut Vec<String>) {
    match (a, b) {
        _ if a == b || found.len() > MAX_DIFFERENCES => {}
        (Value::Object(a), Value::Object(b)) => {
            let more = b.keys().filter(|name| !a.contains_key(*name));
            for name in a.keys().chain(more).filter(|name| !OWN.contains(&name.as_str())) {
                let place = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                let of = |members: &serde_json::Map<String, Value>| members.get(name).cloned();
                member(place, (of(a), of(b)), found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for place in 0..a.len().max(b.len()) {
                let items = (a.get(place).cloned(), b.get(place).cloned());
                member(format!("{at}/{place}"), items, found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

fn member(at: String, pair: (Option<Value>, Option<Value>), found: &mut Vec<String>) {
    match pair {
        (Some(a), Some(b)) => walk(&at, (&a, &b), found),
        _ => found.push(at),
    }
}

fn shortened(value: &Value) -> String {
    value.to_string().chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(a: &Value, b: &Value) -> Vec<String> {
        let mut found = Vec::new();
        walk("", (a, b), &mut found);
        found
    }

    #[test]
    fn the_innermost_places_that_differ_are_found_and_ids_and_times_are_none() {
        let a = json!({ "x": [1, { "y/z": "a" }], "tool_call_id": "1", "same": {} });
        let b = json!({ "x": [1, { "y/z": "b" }, 3], "tool_call_id": "2", "same": {}, "more": 1 });
        assert_eq!(found(&a, &b), ["/x/1/y~1z", "/x/2", "/more"]);
        assert_eq!(found(&a, &a), Vec::<String>::new());
        assert_eq!(found(&json!(1), &json!("1")), [""]);
    }
}
