//! Checks a body against the schema that the OpenAPI document publishes for it.
//!
//! The decoder stops at its first error and loses its way inside tagged unions; this walk finds all
//! errors at once, each with its pointer, and so the published schema is what is enforced.

use serde_json::{Map, Value};

use super::pointer::Pointer;
use crate::domain::label::KNOWN_VALUES;
use crate::domain::memory::Finding;
use crate::http::problem::MAX_ERRORS;

/// The code of a field that is not known.
pub(super) const UNKNOWN_FIELD: &str = "unknown_field";

/// A schema with the components that it refers to.
#[derive(Debug)]
pub(super) struct Shape {
    /// The schema.
    pub(super) schema: Value,
    /// The document with `components.schemas`.
    pub(super) document: Value,
}

impl Shape {
    /// Everything that is wrong with a value, at most [`MAX_ERRORS`] findings.
    pub(super) fn findings(&self, value: &Value) -> Vec<Finding> {
        let mut walk = Walk { root: &self.document, place: Pointer::default(), found: Vec::new() };
        walk.check(&self.schema, value);
        walk.found
    }
}

struct Walk<'a> {
    root: &'a Value,
    place: Pointer,
    found: Vec<Finding>,
}

impl<'a> Walk<'a> {
    fn check(&mut self, schema: &'a Value, value: &Value) {
        let schema = self.resolve(schema);
        if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
            return self.check_union(schema, variants, value);
        }
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.check(part, value);
        }
        if !accepts_type(schema, value) {
            let message = format!("expected {}, found {}", expected(schema), name_of(value));
            return self.note(self.place.to_string(), "invalid_type", message);
        }
        match value {
            Value::Object(members) => self.check_object(schema, members),
            Value::Array(elements) => self.check_array(schema, elements),
            Value::String(text) => self.check_text(schema, text),
            Value::Number(number) => self.check_number(schema, number),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn check_union(&mut self, schema: &'a Value, variants: &'a [Value], value: &Value) {
        if let Some(tag) = schema.pointer("/discriminator/propertyName").and_then(Value::as_str) {
            return self.check_tagged(schema, tag, value);
        }
        let root = self.root;
        let fitting: Vec<&Value> =
            variants.iter().filter(|variant| accepts_type(resolve(root, variant), value)).collect();
        match fitting.as_slice() {
            [] => {
                let all: Vec<String> =
                    variants.iter().map(|variant| expected(resolve(root, variant))).collect();
                let message = format!("expected {}, found {}", all.join(" or "), name_of(value));
                self.note(self.place.to_string(), "invalid_type", message);
            }
            [only] => self.check(only, value),
            several => self.check_any(several, value),
        }
    }

    /// Accepts a value that fits any of the variants, else says what the first one misses.
    fn check_any(&mut self, variants: &[&'a Value], value: &Value) {
        let mut first = None;
        for variant in variants {
            let mut walk = Walk { root: self.root, place: self.place.clone(), found: Vec::new() };
            walk.check(variant, value);
            if walk.found.is_empty() {
                return;
            }
            first.get_or_insert(walk.found);
        }
        self.found.extend(first.unwrap_or_default());
    }

    fn check_tagged(&mut self, schema: &'a Value, tag: &str, value: &Value) {
        let Some(members) = value.as_object() else {
            let message = format!("expected an object, found {}", name_of(value));
            return self.note(self.place.to_string(), "invalid_type", message);
        };
        let mapping = schema.pointer("/discriminator/mapping").and_then(Value::as_object);
        let known = || mapping.into_iter().flatten().map(|(name, _)| name.as_str());
        let place = self.place.member(tag);
        match members.get(tag) {
            None => self.note(place, "missing_field", format!("`{tag}` is missing")),
            Some(Value::String(name)) => {
                match mapping.and_then(|mapping| mapping.get(name)).and_then(Value::as_str) {
                    Some(target) => self.check(lookup(self.root, target), value),
                    None => self.note(place, "unknown_value", one_of(known())),
                }
            }
            Some(other) => {
                let message = format!("expected text, found {}", name_of(other));
                self.note(place, "invalid_type", message);
            }
        }
    }

    fn check_object(&mut self, schema: &'a Value, members: &Map<String, Value>) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let rest = schema.get("additionalProperties");
        for (key, member) in members {
            if let Some(property) = properties.and_then(|properties| properties.get(key)) {
                self.inside(key, |walk| walk.check(property, member));
            } else if rest == Some(&Value::Bool(false)) {
                let message = "this field is not known, or cannot be set".to_owned();
                self.note(self.place.member(key), UNKNOWN_FIELD, message);
            } else if let Some(rest) = rest.filter(|rest| rest.is_object()) {
                self.inside(key, |walk| walk.check(rest, member));
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        for key in required.into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(key) {
                self.note(self.place.member(key), "missing_field", format!("`{key}` is missing"));
            }
        }
    }

    fn check_array(&mut self, schema: &'a Value, elements: &[Value]) {
        self.check_count(schema, ["minItems", "maxItems"], elements.len(), "elements");
        let Some(items) = schema.get("items") else { return };
        for (index, element) in elements.iter().enumerate() {
            self.place.push_index(index);
            self.check(items, element);
            self.place.pop();
        }
    }

    fn check_text(&mut self, schema: &Value, text: &str) {
        self.check_count(schema, ["minLength", "maxLength"], text.chars().count(), "characters");
        let known = schema.get(KNOWN_VALUES).or_else(|| schema.get("enum"));
        let Some(known) = known.and_then(Value::as_array) else { return };
        if !known.iter().any(|value| value.as_str() == Some(text)) {
            let message = one_of(known.iter().filter_map(Value::as_str));
            self.note(self.place.to_string(), "unknown_value", message);
        }
    }

    fn check_number(&mut self, schema: &Value, number: &serde_json::Number) {
        let value = number.as_f64().unwrap_or(f64::NAN);
        let bound = |name: &str| schema.get(name).filter(|bound| bound.is_number());
        if let Some(least) =
            bound("minimum").filter(|least| value < least.as_f64().unwrap_or(value))
        {
            let message = format!("must be at least {least}");
            self.note(self.place.to_string(), "out_of_range", message);
        }
        if let Some(most) = bound("maximum").filter(|most| value > most.as_f64().unwrap_or(value)) {
            self.note(self.place.to_string(), "out_of_range", format!("must be at most {most}"));
        }
    }

    fn check_count(&mut self, schema: &Value, names: [&str; 2], count: usize, what: &str) {
        let count = count as u64;
        let [least, most] = names.map(|name| schema.get(name).and_then(Value::as_u64));
        if let Some(least) = least.filter(|least| count < *least) {
            let message = format!("must have at least {least} {what}");
            self.note(self.place.to_string(), "too_short", message);
        }
        if let Some(most) = most.filter(|most| count > *most) {
            let message = format!("must have at most {most} {what}");
            self.note(self.place.to_string(), "too_long", message);
        }
    }

    fn inside(&mut self, key: &str, check: impl FnOnce(&mut Self)) {
        self.place.push_key(key);
        check(self);
        self.place.pop();
    }

    fn note(&mut self, pointer: String, code: &str, message: String) {
        if self.found.len() < MAX_ERRORS {
            self.found.push(Finding::new(pointer, code, message));
        }
    }

    fn resolve(&self, schema: &'a Value) -> &'a Value {
        resolve(self.root, schema)
    }
}

/// Follows references, a few at most: a schema cannot make the walk endless.
fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..8 {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(target) => schema = lookup(root, target),
            None => break,
        }
    }
    schema
}

fn lookup<'a>(root: &'a Value, target: &str) -> &'a Value {
    root.pointer(target.trim_start_matches('#')).unwrap_or(&Value::Null)
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ if schema.get("discriminator").is_some() => vec!["object"],
        _ => Vec::new(),
    }
}

fn accepts_type(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    let fits = |name: &&str| match *name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    types.is_empty() || types.iter().any(fits)
}

fn expected(schema: &Value) -> String {
    let names: Vec<&str> = types(schema)
        .into_iter()
        .map(|name| match name {
            "boolean" => "true or false",
            "integer" => "a whole number",
            "number" => "a number",
            "string" => "text",
            "array" => "an array",
            "object" => "an object",
            other => other,
        })
        .collect();
    names.join(" or ")
}

const fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn one_of<'a>(known: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = known.collect();
    format!("expected one of: {}", names.join(", "))
}
