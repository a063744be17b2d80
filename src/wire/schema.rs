//! Facts about the JSON Schema of an answer that wires ask for.

use serde_json::{Map, Value};

/// The longest name that providers take.
const MAX_NAME: usize = 64;

/// What a schema is called: its title, in the letters that providers take.
pub fn name(schema: &Value) -> String {
    let title = schema.get("title").and_then(Value::as_str).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String =
        title.chars().take(MAX_NAME).map(|c| if is_plain(c) { c } else { '_' }).collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

/// Keywords that mean nothing to the strict mode, or that it knows.
const PLAIN: &[&str] = &[
    "$schema",
    "title",
    "description",
    "type",
    "enum",
    "const",
    "$ref",
    "required",
    "additionalProperties",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
];

/// Whether providers accept a schema in their strict mode: every object in it is closed and asks for
/// all its properties, and nothing else is said than what that mode knows.
pub fn is_strict(schema: &Value) -> bool {
    schema.get("type") == Some(&Value::from("object")) && holds(schema)
}

fn holds(schema: &Value) -> bool {
    let Some(members) = schema.as_object() else { return false };
    let all_hold = |value: &Value| match value {
        Value::Object(schemas) => schemas.values().all(holds),
        Value::Array(schemas) => schemas.iter().all(holds),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    is_closed(members)
        && members.iter().all(|(keyword, value)| match keyword.as_str() {
            "properties" | "$defs" | "definitions" | "anyOf" => all_hold(value),
            "items" => holds(value),
            keyword => PLAIN.contains(&keyword),
        })
}

fn is_closed(schema: &Map<String, Value>) -> bool {
    let is_object = |kind: &Value| {
        kind == "object"
            || kind.as_array().is_some_and(|kinds| kinds.iter().any(|it| it == "object"))
    };
    if !schema.get("type").is_some_and(is_object) {
        return true;
    }
    let required = schema.get("required").and_then(Value::as_array);
    let asks_for = |name: &String| required.is_some_and(|list| list.iter().any(|it| it == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.is_some_and(|properties| properties.keys().all(asks_for))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_is_strict_when_all_its_objects_are_closed_and_complete() {
        let closed = |properties: Value, required: Value| {
            json!({"type": "object", "properties": properties, "required": required,
                "additionalProperties": false})
        };
        let inner = closed(json!({"b": {"type": "string"}}), json!(["b"]));
        assert!(is_strict(&closed(json!({"a": inner, "default": {}}), json!(["a", "default"]))));
        let open = json!({"type": "object", "properties": {"b": {}}});
        for lax in [
            closed(json!({"a": {}}), json!([])),
            closed(json!({"a": open}), json!(["a"])),
            closed(json!({"a": {"default": 1}}), json!(["a"])),
            open,
            json!({"type": "object"}),
            json!({"type": "array"}),
            json!({}),
        ] {
            assert!(!is_strict(&lax), "{lax}");
        }
    }

    #[test]
    fn a_schema_is_called_by_its_title() {
        assert_eq!(name(&json!({"title": "Big Answer"})), "Big_Answer");
        assert_eq!(name(&json!({"title": "x".repeat(80)})).len(), 64);
        assert_eq!(name(&json!({})), "answer");
    }
}
