//! Describes what streams send: the durable events of a run, and those that only a stream has.

use serde_json::{Map, Value, json};

use super::unions::component;

/// The component that every event of a stream is.
pub(super) const STREAM_EVENT: &str = "RunStreamEvent";

const MEANING: &str = "An event of a stream, as one server-sent event: its `event:` line, its `data:` line read as JSON, and the \
    number of its `id:` line where there is one.";

/// Events without an id, which do not come again: their name, their component, what their facts are, and
/// what they mean.
const LIVE: &[(&str, &str, &str, &str)] = &[
    ("text.delta", "TextDeltaEvent", "Delta", "A piece of the reply's text."),
    ("thinking.delta", "ThinkingDeltaEvent", "Delta", "A piece of the model's thinking."),
    ("tool_call.delta", "ToolCallDeltaEvent", "Delta", "A piece of a tool call's arguments."),
    (
        "snapshot",
        "SnapshotEvent",
        "Snapshot",
        "What had arrived of the turn when the stream began.",
    ),
];

/// Adds the union of all events, and says of every stream that it consists of them.
pub(super) fn describe(document: &mut Value) {
    let Some(schemas) = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut)
    else {
        return;
    };
    let Some(mut union) = schemas.get("RunEvent").cloned() else { return };
    if let Some(members) = union.as_object_mut() {
        members.insert("description".to_owned(), json!(MEANING));
    }
    for (name, event, facts, meaning) in LIVE {
        schemas.insert((*event).to_owned(), live(name, facts, meaning));
        add_variant(&mut union, name, event);
    }
    schemas.insert(STREAM_EVENT.to_owned(), union);
    super::for_each_operation(document, |_, operation| refer(operation));
}

fn live(name: &str, facts: &str, meaning: &str) -> Value {
    json!({
        "type": "object",
        "description": meaning,
        "required": ["event", "data"],
        "properties": {
            "event": { "type": "string", "enum": [name] },
            "data": { "$ref": component(facts), "description": "The facts." },
        },
    })
}

fn add_variant(union: &mut Value, name: &str, event: &str) {
    if let Some(variants) = union.get_mut("oneOf").and_then(Value::as_array_mut) {
        variants.push(json!({ "$ref": component(event) }));
    }
    let mapping = union.pointer_mut("/discriminator/mapping").and_then(Value::as_object_mut);
    if let Some(mapping) = mapping {
        mapping.insert(name.to_owned(), json!(component(event)));
    }
}

fn refer(operation: &mut Map<String, Value>) {
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
    for (_, response) in responses.into_iter().flatten() {
        if let Some(media) = response.pointer_mut("/content/text~1event-stream") {
            media["schema"] = json!({ "$ref": component(STREAM_EVENT) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::DeltaKind;

    #[test]
    fn every_kind_of_delta_is_described() {
        for kind in DeltaKind::ALL {
            assert!(LIVE.iter().any(|(name, ..)| *name == kind.label()), "{kind}");
        }
    }
}
