//! The schema of the answer, and whether the host can be held to it.

use serde_json::{Map, Value};

use crate::domain::ledger::{AgentPart, Origin};
use crate::wire::writer::Object;

/// What the schema is called; hosts want a name.
const NAME: &str = "answer";

/// Keywords that a strict schema may have.
const STRICT_KEYWORDS: &[&str] = &[
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
];

/// Writes the members of `text.format`.
pub(super) fn add(format: &mut Object<'_>, schema: &Value) {
    format.wire("type", "json_schema");
    format.wire("name", NAME);
    format.value("schema", schema, &Origin::agent(AgentPart::OutputSchema));
    // A schema outside the strict subset is refused under `strict`, and is a guide without it.
    format.wire("strict", is_object(schema) && is_strict(schema));
}

fn is_object(schema: &Value) -> bool {
    let kind = schema.get("type").unwrap_or(&Value::Null);
    kind == "object" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|it| it == "object"))
}

/// Whether a schema is one that hosts compile: objects are closed and lack nothing.
fn is_strict(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else { return false };
    let of = |name: &str| members.get(name).and_then(Value::as_object);
    let inner = ["properties", "$defs", "definitions"].into_iter().filter_map(of);
    let inner = inner.flat_map(Map::values);
    let any = members.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    members.keys().all(|key| STRICT_KEYWORDS.contains(&key.as_str()))
        && says_something(members)
        && (!is_object(schema) || is_closed(members))
        && inner.chain(any).chain(members.get("items")).all(is_strict)
}

fn says_something(members: &Map<String, Value>) -> bool {
    ["type", "anyOf", "$ref", "enum", "const"].iter().any(|key| members.contains_key(*key))
}

fn is_closed(members: &Map<String, Value>) -> bool {
    let properties = members.get("properties").and_then(Value::as_object);
    let required = members.get("required").and_then(Value::as_array);
    let is_required =
        |name: &String| required.is_some_and(|list| list.iter().any(|it| it == name.as_str()));
    members.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_some_and(|properties| properties.keys().all(is_required))
}
