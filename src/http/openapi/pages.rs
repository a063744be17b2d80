//! Gives pages of lists the form that SDK generators read: entries by reference, not written out.

use serde_json::{Value, json};

use super::unions::component;

/// What the names of pages start with; the name of their entries follows.
const PAGE: &str = "Page_";

/// Replaces the entries of every page by a reference to their component.
pub(super) fn link(document: &mut Value) {
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    let Some(schemas) = schemas else { return };
    let mut entries = Vec::new();
    for (name, page) in schemas.iter_mut() {
        let entry = name.strip_prefix(PAGE);
        let items = page.pointer_mut("/properties/items/items");
        if let (Some(entry), Some(items)) = (entry, items) {
            let written_out = std::mem::replace(items, json!({ "$ref": component(entry) }));
            entries.push((entry.to_owned(), written_out));
        }
    }
    for (entry, schema) in entries {
        schemas.entry(entry).or_insert(schema);
    }
}
