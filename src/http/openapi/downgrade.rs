//! The same document in OpenAPI 3.0.3, for tools that do not read 3.1.

use serde_json::{Map, Value, json};

/// Converts a 3.1 document.
pub fn to_3_0(document: &Value) -> Value {
    let mut document = document.clone();
    if let Some(members) = document.as_object_mut() {
        members.insert("openapi".to_owned(), json!("3.0.3"));
    }
    if let Some(license) = document.pointer_mut("/info/license").and_then(Value::as_object_mut) {
        license.remove("identifier");
    }
    convert(&mut document);
    document
}

fn convert(value: &mut Value) {
    match value {
        Value::Object(members) => {
            convert_schema(members);
            members.values_mut().for_each(convert);
        }
        Value::Array(elements) => elements.iter_mut().for_each(convert),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Rewrites what 3.0 says differently. Objects that are no schemas have none of it.
fn convert_schema(members: &mut Map<String, Value>) {
    convert_types(members);
    convert_nullable_union(members);
    convert_reference(members);
    // In 3.1 a schema has a list of examples, in 3.0 one example; elsewhere `examples` is a map.
    if let Some(Value::Array(examples)) = members.get("examples") {
        let first = examples.first().cloned();
        members.remove("examples");
        if let Some(first) = first {
            members.insert("example".to_owned(), first);
        }
    }
    // 3.0 has no word for what the keys of an object look like.
    if members.get("propertyNames").is_some_and(Value::is_object) {
        members.remove("propertyNames");
    }
    if let Some(only) = members.remove("const") {
        members.insert("enum".to_owned(), json!([only]));
    }
}

fn convert_types(members: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = members.get("type") else { return };
    let nullable = types.iter().any(|name| name == "null");
    let mut others = types.iter().filter(|name| *name != "null").cloned();
    match (others.next(), others.next()) {
        (Some(only), None) => members.insert("type".to_owned(), only),
        // A choice of several types is "anything" in 3.0.
        _ => members.remove("type"),
    };
    if nullable {
        members.insert("nullable".to_owned(), json!(true));
    }
}

/// `oneOf` of null and one schema becomes that schema, nullable.
fn convert_nullable_union(members: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = members.get("oneOf") else { return };
    let is_null = |variant: &Value| variant.get("type").is_some_and(|name| name == "null");
    if !variants.iter().any(is_null) {
        return;
    }
    let others: Vec<Value> = variants.iter().filter(|variant| !is_null(variant)).cloned().collect();
    let name = if others.len() == 1 { "allOf" } else { "oneOf" };
    members.remove("oneOf");
    members.insert(name.to_owned(), Value::Array(others));
    members.insert("nullable".to_owned(), json!(true));
}

/// In 3.0 whatever stands beside a reference is ignored, so the reference moves inside.
fn convert_reference(members: &mut Map<String, Value>) {
    if members.len() > 1
        && let Some(target) = members.get("$ref").filter(|target| target.is_string()).cloned()
    {
        members.remove("$ref");
        members.insert("allOf".to_owned(), json!([{ "$ref": target }]));
    }
}
