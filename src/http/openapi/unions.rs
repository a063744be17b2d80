//! Gives unions the form that SDK generators read: named variants, a discriminator, and the tag as a
//! required field with one value inside each variant.

use serde_json::{Map, Value, json};

/// The reference to a component.
pub(crate) fn component(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// Rewrites every union of `components.schemas` that is written as "a variant and a tag".
pub(crate) fn untangle(document: &mut Value) {
    let paths = document.get("paths").cloned().unwrap_or_default();
    let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut)
    else {
        return;
    };
    let unions: Vec<(String, Vec<Variant>)> = schemas
        .iter()
        .filter_map(|(name, schema)| Some((name.clone(), variants(schema)?)))
        .collect();
    for (name, variants) in unions {
        let mapping = add_tags(schemas, &paths, &name, &variants);
        rewrite(schemas, &name, &variants, &mapping);
    }
}

/// One variant of a union: the component it refers to, and the tag that names it.
#[derive(Debug)]
struct Variant {
    component: String,
    tag: String,
    value: String,
    description: Option<Value>,
}

/// The variants of a schema when all of them are "a reference and a tag".
fn variants(schema: &Value) -> Option<Vec<Variant>> {
    let entries = schema.get("oneOf")?.as_array()?;
    entries.iter().map(variant).collect()
}

fn variant(entry: &Value) -> Option<Variant> {
    let [reference, tagged] = entry.get("allOf")?.as_array()?.as_slice() else { return None };
    let target = reference.get("$ref")?.as_str()?;
    let (tag, schema) = tagged.get("properties")?.as_object()?.iter().next()?;
    Some(Variant {
        component: target.rsplit('/').next()?.to_owned(),
        tag: tag.clone(),
        value: schema.get("enum")?.get(0)?.as_str()?.to_owned(),
        description: entry.get("description").cloned(),
    })
}

/// Puts the tag into each variant's component and returns the mapping from tags to components.
fn add_tags(
    schemas: &mut Map<String, Value>,
    paths: &Value,
    union: &str,
    variants: &[Variant],
) -> Map<String, Value> {
    let mut mapping = Map::new();
    for variant in variants {
        let shared = refers_to(paths, &component(&variant.component))
            || is_used_elsewhere(schemas, union, &variant.component);
        let Some(mut schema) = schemas.get(&variant.component).cloned() else { continue };
        tag_schema(&mut schema, variant);
        // A component that is also used without the tag stays as it is, beside its tagged copy.
        let name = if shared {
            format!("{union}{}", variant.component)
        } else {
            variant.component.clone()
        };
        mapping.insert(variant.value.clone(), Value::String(component(&name)));
        schemas.insert(name, schema);
    }
    mapping
}

fn tag_schema(schema: &mut Value, variant: &Variant) {
    let tag = json!({ "type": "string", "enum": [variant.value] });
    let Some(members) = schema.as_object_mut() else { return };
    if let Some(properties) =
        members.entry("properties").or_insert_with(|| json!({})).as_object_mut()
    {
        properties.shift_insert(0, variant.tag.clone(), tag);
    }
    if let Some(required) = members.entry("required").or_insert_with(|| json!([])).as_array_mut() {
        required.insert(0, Value::String(variant.tag.clone()));
    }
}

fn rewrite(
    schemas: &mut Map<String, Value>,
    union: &str,
    variants: &[Variant],
    mapping: &Map<String, Value>,
) {
    let Some(schema) = schemas.get_mut(union).and_then(Value::as_object_mut) else { return };
    let references = variants.iter().filter_map(|variant| {
        let target = mapping.get(&variant.value)?;
        let mut reference = json!({ "$ref": target });
        if let (Some(text), Some(members)) = (&variant.description, reference.as_object_mut()) {
            members.insert("description".to_owned(), text.clone());
        }
        Some(reference)
    });
    let references: Vec<Value> = references.collect();
    let tag = variants.first().map(|variant| variant.tag.clone()).unwrap_or_default();
    schema.insert("oneOf".to_owned(), Value::Array(references));
    schema.insert("discriminator".to_owned(), json!({ "propertyName": tag, "mapping": mapping }));
}

/// Whether a component is referred to from outside one union.
fn is_used_elsewhere(schemas: &Map<String, Value>, union: &str, name: &str) -> bool {
    let target = component(name);
    schemas
        .iter()
        .filter(|(user, _)| user.as_str() != union && user.as_str() != name)
        .any(|(_, schema)| refers_to(schema, &target))
}

/// Whether a schema refers to a component.
pub(crate) fn refers_to(schema: &Value, target: &str) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(key, value)| {
            (key == "$ref" && value.as_str() == Some(target)) || refers_to(value, target)
        }),
        Value::Array(elements) => elements.iter().any(|element| refers_to(element, target)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
