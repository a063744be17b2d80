//! What two runs of the same agent have in common: everything but ids, times and hashes.

use std::collections::BTreeMap;

use serde_json::Value;

/// The same values with each id replaced by its place among those of its kind, and each time and
/// hash by a mark.
pub(crate) fn normalised(values: &[Value]) -> Vec<Value> {
    let mut seen = BTreeMap::new();
    values.iter().cloned().map(|value| normal(value, &mut seen)).collect()
}

fn normal(value: Value, seen: &mut BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => Value::String(named(text, seen)),
        Value::Array(items) => items.into_iter().map(|item| normal(item, seen)).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(key, member)| {
                // A hash is of a request that holds ids.
                let is_own = key.ends_with("_at") || key == "sha256";
                let is_own = is_own && member.is_string();
                let member = if is_own { Value::from("its own") } else { normal(member, seen) };
                (key, member)
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

fn named(text: String, seen: &mut BTreeMap<String, String>) -> String {
    let Some((prefix, id)) = text.split_once('_') else { return text };
    if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return text;
    }
    let place = seen.keys().filter(|known| known.starts_with(prefix)).count() + 1;
    let name = format!("{prefix} {place}");
    seen.entry(text).or_insert(name).clone()
}
