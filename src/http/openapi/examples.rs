//! Gives every body of a request and of a success an example: the one that its type names, or else one
//! that is put together from those of its fields.

use serde_json::{Map, Value, json};

/// How deep an example goes; what is deeper refers to itself.
const MOST_LEVELS: usize = 12;

/// A skill as a file.
const SKILL_MD: &str = "---\nname: invoices\ndescription: How invoices are checked and booked.\n---\nAdd up the lines first.\n";

/// Adds the examples.
pub(super) fn add(document: &mut Value) {
    let maker = Maker(document.clone());
    super::for_each_operation(document, |_, operation| {
        if let Some(body) = operation.get_mut("requestBody") {
            maker.add_to(body);
        }
        let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
        for (status, response) in responses.into_iter().flatten() {
            if status.starts_with('2') {
                maker.add_to(response);
            }
        }
    });
}

/// Makes examples of the schemas of a document.
struct Maker(Value);

impl Maker {
    /// Adds an example to each media type of a body that has none.
    fn add_to(&self, body: &mut Value) {
        let content = body.get_mut("content").and_then(Value::as_object_mut);
        for (name, media) in content.into_iter().flatten() {
            let Some(media) = media.as_object_mut() else { continue };
            if media.contains_key("example") || media.contains_key("examples") {
                continue;
            }
            let made = match name.as_str() {
                "text/markdown" => Some(json!(SKILL_MD)),
                _ => media.get("schema").and_then(|schema| self.of(schema, 0)),
            };
            if let Some(example) = made {
                media.insert("example".to_owned(), example);
            }
        }
    }

    fn of(&self, schema: &Value, level: usize) -> Option<Value> {
        if level > MOST_LEVELS {
            return None;
        }
        if let Some(named) = named(schema) {
            return Some(named);
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            return self.of(self.0.pointer(target.trim_start_matches('#'))?, level + 1);
        }
        if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
            let present = variants.iter().find(|variant| variant["type"] != "null");
            return self.of(present?, level + 1);
        }
        match kind(schema) {
            "object" => Some(self.object(schema, level)),
            "array" => Some(self.array(schema, level)),
            "string" => Some(json!(text(schema))),
            "integer" | "number" => {
                Some(schema.get("minimum").cloned().unwrap_or_else(|| json!(1)))
            }
            "boolean" => Some(json!(false)),
            // Anything at all.
            _ => Some(json!({})),
        }
    }

    /// What has to be there, and what else names an example of its own.
    fn object(&self, schema: &Value, level: usize) -> Value {
        let required: Vec<&Value> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().collect();
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut example = Map::new();
        for (name, property) in properties.into_iter().flatten() {
            let is_required = required.iter().any(|required| *required == name);
            let made = if is_required { self.of(property, level + 1) } else { named(property) };
            if let Some(value) = made {
                example.insert(name.clone(), value);
            }
        }
        Value::Object(example)
    }

    fn array(&self, schema: &Value, level: usize) -> Value {
        let element = schema.get("items").and_then(|items| self.of(items, level + 1));
        Value::Array(element.into_iter().collect())
    }
}

/// The example, default or only value that a schema itself names.
fn named(schema: &Value) -> Option<Value> {
    let first = |member: &str| schema.get(member).and_then(|list| list.get(0));
    let named = first("examples").or_else(|| schema.get("example"));
    named.or_else(|| schema.get("default")).or_else(|| first("enum")).cloned()
}

/// The type of a schema, where it may be null besides, the other one.
fn kind(schema: &Value) -> &str {
    let declared = schema.get("type");
    let several = declared.and_then(Value::as_array).into_iter().flatten();
    let mut several = several.filter_map(Value::as_str).filter(|name| *name != "null");
    declared.and_then(Value::as_str).or_else(|| several.next()).unwrap_or_default()
}

fn text(schema: &Value) -> &'static str {
    match schema.get("format").and_then(Value::as_str) {
        Some("date-time") => "2026-11-30T10:51:30.099Z",
        Some("binary") => "the bytes as they are",
        _ => "text",
    }
}
