//! What a document must keep to so that generated SDKs are usable.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::PROBLEMS;
use crate::http::problem::ProblemKind;

/// Unions that have no tag on purpose: they are told apart by their JSON type.
const UNTAGGED: &[&str] =
    &["RetryContent", "RunInput", "LoadableMemory", "Approval", "HeaderSource", "SkillRef"];

/// Everything that is wrong with a document.
pub fn findings(document: &Value) -> Vec<String> {
    let mut check = Check { document, found: Vec::new(), operations: BTreeSet::new() };
    check.references("#", document);
    check.unions();
    for (path, item) in members(document, "/paths") {
        for (method, operation) in item.as_object().into_iter().flatten() {
            check.operation(&format!("{method} {path}"), operation);
        }
    }
    check.found
}

struct Check<'a> {
    document: &'a Value,
    found: Vec<String>,
    operations: BTreeSet<&'a str>,
}

fn members<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flatten()
}

impl<'a> Check<'a> {
    fn references(&mut self, place: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                if let Some(target) = members.get("$ref").and_then(Value::as_str)
                    && self.document.pointer(target.trim_start_matches('#')).is_none()
                {
                    self.found.push(format!("{place}: {target} leads nowhere"));
                }
                for (key, member) in members {
                    self.references(&format!("{place}/{key}"), member);
                }
            }
            Value::Array(elements) => {
                for element in elements {
                    self.references(place, element);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn unions(&mut self) {
        for (name, schema) in members(self.document, "/components/schemas") {
            if !UNTAGGED.contains(&name.as_str()) {
                self.union(name, schema);
            }
            self.inline_objects(name, schema);
        }
    }

    fn union(&mut self, place: &str, schema: &Value) {
        if let Some(variants) = schema.get("oneOf").and_then(Value::as_array) {
            let nullable = variants.iter().any(|variant| variant["type"] == "null");
            let named = variants.iter().all(|variant| variant.get("$ref").is_some());
            let optional = nullable && variants.len() == 2;
            let tagged = named && schema.get("discriminator").is_some();
            if tagged {
                self.tags(place, schema);
            } else if !optional {
                self.found.push(format!("{place}: a union without a discriminator"));
            }
        }
        for (key, member) in schema.as_object().into_iter().flatten() {
            self.union(&format!("{place}/{key}"), member);
        }
        for member in schema.as_array().into_iter().flatten() {
            self.union(place, member);
        }
    }

    /// Each variant has the tag, with the one value that leads to it.
    fn tags(&mut self, place: &str, union: &Value) {
        let tag = union.pointer("/discriminator/propertyName").and_then(Value::as_str);
        let tag = tag.unwrap_or_default();
        let mapped: Vec<(&String, &Value)> = members(union, "/discriminator/mapping").collect();
        for variant in union["oneOf"].as_array().into_iter().flatten() {
            let target = variant["$ref"].as_str().unwrap_or_default();
            let value =
                mapped.iter().find(|(_, mapped)| *mapped == target).map(|(value, _)| *value);
            let schema = self.document.pointer(target.trim_start_matches('#'));
            let is_tagged = schema.zip(value).is_some_and(|(schema, value)| {
                let is_required = schema["required"]
                    .as_array()
                    .is_some_and(|names| names.iter().any(|name| name == tag));
                let only = schema.pointer(&format!("/properties/{tag}/enum"));
                is_required && only == Some(&json!([value]))
            });
            if !is_tagged {
                self.found.push(format!("{place}: {target} does not have its tag `{tag}`"));
            }
        }
    }

    /// Objects within others have a name of their own.
    fn inline_objects(&mut self, place: &str, schema: &Value) {
        for (key, member) in schema.as_object().into_iter().flatten() {
            if ["example", "examples", "default"].contains(&key.as_str()) {
                continue;
            }
            if member.get("properties").is_some_and(Value::is_object) && key != "properties" {
                self.found.push(format!("{place}/{key}: an object without a name"));
            }
            self.inline_objects(&format!("{place}/{key}"), member);
        }
        for member in schema.as_array().into_iter().flatten() {
            self.inline_objects(place, member);
        }
    }

    fn operation(&mut self, name: &str, operation: &'a Value) {
        match operation.get("operationId").and_then(Value::as_str) {
            Some(id) if self.operations.insert(id) => {}
            Some(id) => self.found.push(format!("{name}: operationId {id} is taken")),
            None => self.found.push(format!("{name}: no operationId")),
        }
        for (member, missing) in [("summary", "no summary"), ("tags", "no tag")] {
            if operation
                .get(member)
                .is_none_or(|value| value == "" || value == &Value::Array(vec![]))
            {
                self.found.push(format!("{name}: {missing}"));
            }
        }
        for slug in operation[PROBLEMS].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if ProblemKind::by_slug(slug).is_none() {
                self.found.push(format!("{name}: {slug} is no problem"));
            }
        }
        if operation["responses"].get("default").is_some() {
            self.found.push(format!("{name}: problems under `default`"));
        }
        for (media, body) in members(operation, "/requestBody/content") {
            self.body(&format!("{name} {media}"), body);
        }
        for (status, response) in members(operation, "/responses") {
            self.response(&format!("{name} {status}"), response);
        }
    }

    fn body(&mut self, name: &str, body: &Value) {
        if body.get("example").is_none() {
            self.found.push(format!("{name}: no example"));
        }
    }

    fn response(&mut self, name: &str, response: &Value) {
        let content: Option<&Map<String, Value>> = response["content"].as_object();
        if content.is_some_and(|content| content.len() > 1) {
            self.found.push(format!("{name}: several content types"));
        }
        for (media, body) in content.into_iter().flatten() {
            if !name.ends_with("XX") && !media.ends_with("problem+json") {
                self.body(&format!("{name} {media}"), body);
            }
            let schema = &body["schema"];
            let inline =
                schema.get("properties").is_some() || schema.pointer("/items/properties").is_some();
            if inline {
                self.found.push(format!("{name} {media}: an object without a name"));
            }
        }
    }
}
