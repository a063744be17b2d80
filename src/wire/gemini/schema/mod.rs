//! JSON Schema as the subset of it that Google's older models read.
//!
//! References are told where they stand, unions as `anyOf`, and what the subset has no words for is left
//! out: a schema that is too wide is judged again when the arguments come, one that is refused stops the
//! thread.

mod shape;

use serde_json::{Map, Value, json};

use shape::Shape;

/// The most schemas that one is told as; references multiply them.
const MAX_SCHEMAS: usize = 5_000;

/// The deepest nesting that is told.
const MAX_DEPTH: usize = 32;

/// The schema of a tool's parameters; `None` where it has none, which has to be said by silence.
pub(super) fn parameters(schema: &Value) -> Option<Value> {
    let told = subset(schema);
    let has_any =
        told.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    (has_any || told.get("anyOf").is_some()).then_some(told)
}

/// A schema in the subset.
pub(super) fn subset(schema: &Value) -> Value {
    Value::Object(Teller { root: schema, n_told: 0, depth: 0 }.told(&Shape::of(schema, schema)))
}

struct Teller<'s> {
    root: &'s Value,
    n_told: usize,
    depth: usize,
}

impl<'s> Teller<'s> {
    fn told(&mut self, shape: &Shape<'s>) -> Map<String, Value> {
        self.n_told += 1;
        if self.n_told > MAX_SCHEMAS || self.depth > MAX_DEPTH {
            return object([("type", json!(shape.kinds().first().unwrap_or(&"object")))]);
        }
        self.depth += 1;
        let told = self.told_within(shape);
        self.depth -= 1;
        told
    }

    fn told_within(&mut self, shape: &Shape<'s>) -> Map<String, Value> {
        let mut is_nullable = shape.is_nullable();
        let mut variants: Vec<Map<String, Value>> = Vec::new();
        for variant in shape.variants() {
            let variant = shape.within(variant, self.root);
            if variant.is_only_null() {
                is_nullable = true;
            } else {
                variants.push(self.told(&variant));
            }
        }
        if variants.is_empty() && shape.kinds().len() > 1 {
            for kind in shape.kinds() {
                variants.push(self.told_as(shape, Some(kind)));
            }
        }
        let mut told = match variants.len() {
            0 => self.told_as(shape, shape.kinds().first().copied()),
            1 => {
                let mut only = variants.remove(0);
                only.extend(self.told_as(shape, shape.kinds().first().copied()));
                only
            }
            _ => return union(variants, shape.description(), is_nullable),
        };
        if is_nullable {
            told.insert("nullable".to_owned(), json!(true));
        }
        told
    }

    /// The schema as one of its kinds.
    fn told_as(&mut self, shape: &Shape<'s>, kind: Option<&'s str>) -> Map<String, Value> {
        let mut told = Map::new();
        let mut put = |name: &str, value: Value| drop(told.insert(name.to_owned(), value));
        if let Some(kind) = kind {
            put("type", json!(kind));
        }
        let choices = shape.choices();
        if let Some(description) = described(shape.description(), &choices) {
            put("description", json!(description));
        }
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        for (name, value) in shape.limits(&kind) {
            put(name, value.clone());
        }
        match kind.as_str() {
            "string" if is_all_text(&choices) => put("enum", json!(choices)),
            "array" => put("items", Value::Object(self.items(shape))),
            "object" => {
                let properties = self.properties(shape);
                let required = shape.required();
                let required: Vec<_> =
                    required.into_iter().filter(|name| properties.contains_key(*name)).collect();
                if !properties.is_empty() {
                    put("properties", Value::Object(properties));
                }
                if !required.is_empty() {
                    put("required", json!(required));
                }
            }
            _ => {}
        }
        told
    }

    fn properties(&mut self, shape: &Shape<'s>) -> Map<String, Value> {
        let mut told = Map::new();
        for (name, schema) in shape.properties() {
            if !told.contains_key(name) {
                let property = self.told(&shape.within(schema, self.root));
                told.insert(name.clone(), Value::Object(property));
            }
        }
        told
    }

    /// A list has to say what it is a list of.
    fn items(&mut self, shape: &Shape<'s>) -> Map<String, Value> {
        let items = shape.items();
        let mut told: Vec<_> =
            items.into_iter().map(|item| self.told(&shape.within(item, self.root))).collect();
        told.dedup();
        match told.len() {
            0 => object([("type", json!("string"))]),
            1 => told.remove(0),
            _ => union(told, None, false),
        }
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// A union, which may have no members beside it.
fn union(
    mut variants: Vec<Map<String, Value>>,
    description: Option<&str>,
    is_nullable: bool,
) -> Map<String, Value> {
    for variant in &mut variants {
        if is_nullable {
            variant.insert("nullable".to_owned(), json!(true));
        }
        if let Some(description) = description {
            variant.entry("description").or_insert_with(|| json!(description));
        }
    }
    object([("anyOf", json!(variants))])
}

fn is_all_text(choices: &[&Value]) -> bool {
    !choices.is_empty() && choices.iter().all(|choice| choice.is_string())
}

/// Choices other than texts can only be told in words.
fn described(description: Option<&str>, choices: &[&Value]) -> Option<String> {
    if choices.is_empty() || is_all_text(choices) {
        return description.map(str::to_owned);
    }
    let choices: Vec<String> = choices.iter().map(ToString::to_string).collect();
    let choices = format!("One of: {}.", choices.join(", "));
    Some(description.map_or_else(|| choices.clone(), |told| format!("{told} {choices}")))
}

#[cfg(test)]
mod tests;
