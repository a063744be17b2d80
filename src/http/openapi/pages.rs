//! Gives pages of lists a name of their own, and makes them refer to what they list: utoipa writes a
//! generic type's argument out in place.

use serde_json::{Map, Value, json};

use super::unions::component;

const GENERIC: &str = "Page_";

/// Rewrites every `Page_X` to `XPage`, whose items are references to `X`.
pub(super) fn name(document: &mut Value) {
    let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut)
    else {
        return;
    };
    let mut renamed = Map::new();
    let entries = std::mem::take(schemas);
    for (name, mut schema) in entries {
        let Some(listed) = name.strip_prefix(GENERIC) else {
            schemas.insert(name, schema);
            continue;
        };
        if let Some(items) = schema.pointer_mut("/properties/items/items") {
            let written_out = std::mem::replace(items, json!({ "$ref": component(listed) }));
            // What is only ever listed has no component of its own yet.
            schemas.entry(listed.to_owned()).or_insert(written_out);
        }
        // The member is always there; it is null on the last page.
        schema
            .as_object_mut()
            .map(|page| page.insert("required".to_owned(), json!(["items", "next_cursor"])));
        let new_name = format!("{listed}Page");
        renamed.insert(component(&name), json!(component(&new_name)));
        schemas.insert(new_name, schema);
    }
    point_to(document, &renamed);
}

fn point_to(value: &mut Value, renamed: &Map<String, Value>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| point_to(item, renamed)),
        Value::Object(members) => {
            for (name, member) in members {
                let new_name = member.as_str().and_then(|target| renamed.get(target));
                match new_name {
                    Some(target) if name == "$ref" => *member = target.clone(),
                    _ => point_to(member, renamed),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_refers_to_what_it_lists_and_is_named_after_it() {
        let page =
            json!({"type": "object", "properties": {"items": {"items": {"type": "object"}}}});
        let mut document = json!({
            "paths": {"/x": {"schema": {"$ref": "#/components/schemas/Page_Run"}}},
            "components": {"schemas": {"Page_Run": page, "Run": {"type": "object"}}},
        });
        name(&mut document);
        let run = json!({"$ref": "#/components/schemas/Run"});
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["RunPage"]["properties"]["items"]["items"], run);
        assert_eq!(document["paths"]["/x"]["schema"]["$ref"], "#/components/schemas/RunPage");
        assert!(schemas.get("Page_Run").is_none());
    }
}
