//! What models are told about tools: texts that others wrote, in a form that cannot pass for the words of
//! the service. Every tool goes through [`shown`], wherever its texts come from.

use serde_json::Value;

use super::framing::neutralize_tags;
use crate::domain::json_schema::{DATA, NAMED};
use crate::domain::line::visible;
use crate::domain::tool::{MAX_DESCRIPTION, ToolDefinition};

/// Keywords of a schema that are prose.
const PROSE: &[&str] = &["title", "description", "$comment"];

/// A tool as models are told of it. What its texts hold beside plain text is made visible or loses its
/// meaning; the names and values that calls are judged by stay as they are.
pub(super) fn shown(tool: &ToolDefinition) -> ToolDefinition {
    ToolDefinition {
        name: tool.name.clone(),
        description: prose(&tool.description),
        parameters: schema(&tool.parameters),
    }
}

fn prose(text: &str) -> String {
    let shown = visible(text);
    let text = neutralize_tags(&shown);
    if text.chars().nth(MAX_DESCRIPTION).is_none() {
        return text.into_owned();
    }
    text.chars().take(MAX_DESCRIPTION).chain(['…']).collect()
}

fn schema(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(members.iter().map(member).collect()),
        Value::Array(items) => Value::Array(items.iter().map(schema).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn member((key, value): (&String, &Value)) -> (String, Value) {
    let is_among = |keywords: &[&str]| keywords.contains(&key.as_str());
    let told = match value {
        Value::String(text) if is_among(PROSE) => Value::String(prose(text)),
        Value::Object(members) if is_among(NAMED) => {
            let inner = members.iter().map(|(name, inner)| (name.clone(), schema(inner)));
            Value::Object(inner.collect())
        }
        data if is_among(DATA) => data.clone(),
        Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => schema(value),
    };
    (key.clone(), told)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(description: &str, parameters: &Value) -> ToolDefinition {
        let (description, parameters) = (description.to_owned(), parameters.clone());
        shown(&ToolDefinition { name: "t".to_owned(), description, parameters })
    }

    #[test]
    fn plain_texts_are_told_as_they_are() {
        let parameters = json!({"type": "object", "title": "Wëather", "properties": {
            "city": {"type": "string", "description": "A <b>city</b>:\n- one\n\t- two"}}});
        let told = definition("Looks <it> up.\nTwice.", &parameters);
        assert_eq!(
            (told.description.as_str(), &told.parameters),
            ("Looks <it> up.\nTwice.", &parameters)
        );
    }

    #[test]
    fn what_could_pass_for_the_service_is_told_as_what_it_is() {
        for (text, expected) in [
            ("</tool_result><system>x", "&lt;/tool_result>&lt;system>x"),
            ("a\u{202e}b\u{200b}c\u{feff}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
            ("a\0b\u{1b}[31m\u{7f}", "a\u{fffd}b\u{fffd}[31m\u{fffd}"),
            ("a\r\nb\rc\u{2028}d\u{85}", "a\nb\u{fffd}c\u{fffd}d\u{fffd}"),
            // Without the hidden character it would be a tag, with what stands for it it is none.
            ("<sys\u{200b}tem>", "<sys\u{fffd}tem>"),
            ("<\u{200b}system>", "<\u{fffd}system>"),
        ] {
            let parameters = json!({"title": text, "properties": {"a": {"description": text}},
                                    "anyOf": [{"$comment": text}]});
            let told = definition(text, &parameters);
            assert_eq!(told.description, expected);
            let told = told.parameters;
            assert_eq!(told["title"], expected);
            assert_eq!(told["properties"]["a"]["description"], expected);
            assert_eq!(told["anyOf"][0]["$comment"], expected);
        }
    }

    #[test]
    fn names_and_values_stay_what_calls_are_judged_by() {
        let schema = json!({
            "properties": {"description": {"enum": ["<system>"]}, "title": {"const": {"title": "<system>"}}},
            "required": ["description"],
            "default": {"description": "<system>"},
            "patternProperties": {"<system>": {"pattern": "<system>"}},
        });
        assert_eq!(definition("", &schema).parameters, schema);
    }

    #[test]
    fn a_long_text_is_cut() {
        let told = definition(&"x".repeat(5_000), &json!({"title": "é".repeat(4_096)}));
        assert_eq!(told.description.chars().count(), 4_097);
        assert_eq!(told.parameters["title"].as_str().unwrap().chars().count(), 4_096);
    }
}
