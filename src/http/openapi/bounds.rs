//! Says in the document what extractors bound wherever it occurs: parameters and labels.

use serde_json::{Map, Value, json};

use crate::domain::page::MAX_LIMIT;
use crate::http::limits;

/// Bounds parameters: they are left out, never null, and some are bounded by their name.
pub(super) fn bound_parameters(operation: &mut Map<String, Value>) {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut);
    for parameter in parameters.into_iter().flatten() {
        let name = parameter.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(schema) = parameter.get_mut("schema") else { continue };
        leave_out_null(schema);
        let Some(members) = schema.as_object_mut() else { continue };
        let bounds = match name.as_str() {
            "limit" => json!({ "minimum": 1, "maximum": MAX_LIMIT }),
            "Idempotency-Key" => json!({ "pattern": "^[!-~]{1,255}$" }),
            "Last-Event-ID" => json!({ "minimum": 0 }),
            _ => continue,
        };
        members.extend(bounds.as_object().cloned().unwrap_or_default());
    }
}

fn leave_out_null(schema: &mut Value) {
    let present = |variants: &Value| {
        let mut others = variants
            .as_array()?
            .iter()
            .filter(|variant| *variant != "null" && variant["type"] != "null");
        others.next().cloned()
    };
    if let Some(kind) = schema.get("type").and_then(present) {
        schema["type"] = kind;
    } else if let Some(variant) = schema.get("oneOf").and_then(present) {
        *schema = variant;
    }
}

/// Bounds the labels of everything that has some.
pub(super) fn bound_labels(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_labels = name == "metadata" && member.get("additionalProperties").is_some();
                if is_labels && let Some(labels) = member.as_object_mut() {
                    labels.insert("maxProperties".to_owned(), json!(limits::METADATA_PAIRS));
                    let key = json!({ "type": "string", "minLength": 1, "maxLength": limits::METADATA_KEY_CHARS });
                    labels.insert("propertyNames".to_owned(), key);
                    let value =
                        json!({ "type": "string", "maxLength": limits::METADATA_VALUE_CHARS });
                    labels.insert("additionalProperties".to_owned(), value);
                }
                bound_labels(member);
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(bound_labels),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
