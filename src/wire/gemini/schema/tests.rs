//! What schemas become.

use serde_json::{Value, json};

use super::{parameters, subset};

#[test]
fn what_the_subset_has_no_words_for_is_left_out() {
    for (schema, told) in [
        (
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "T",
                "type": "object", "additionalProperties": false, "default": {},
                "properties": {"a": {"type": "string", "title": "A", "examples": ["x"]}}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        ),
        (
            json!({"type": "string", "properties": {"a": {}}, "required": ["a"], "minLength": 1}),
            json!({"type": "string", "minLength": 1}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]}),
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["b"]}),
            json!({"type": "object", "properties": {"a": {"type": "integer"}}}),
        ),
        (json!({"type": "string", "format": "uuid"}), json!({"type": "string"})),
        (
            json!({"type": "string", "format": "date-time"}),
            json!({"type": "string", "format": "date-time"}),
        ),
        (
            json!({"type": "integer", "format": "int64", "minimum": 1, "exclusiveMaximum": 9}),
            json!({"type": "integer", "format": "int64", "minimum": 1}),
        ),
        (json!(true), json!({})),
    ] {
        assert_eq!(subset(&schema), told, "{schema}");
    }
}

#[test]
fn a_reference_is_told_where_it_stands_with_what_stands_beside_it() {
    let schema = json!({
        "type": "object",
        "properties": {
            "home": {"$ref": "#/$defs/Place", "description": "where to"},
            "work": {"allOf": [{"$ref": "#/$defs/Place"}, {"required": ["city"]}]},
            "away": {"$ref": "https://elsewhere.example/schema", "description": "unknown"},
        },
        "$defs": {"Place": {
            "type": "object", "description": "a place", "properties": {"city": {"type": "string"}},
        }},
    });
    let city = json!({"city": {"type": "string"}});
    assert_eq!(
        subset(&schema)["properties"],
        json!({
            "home": {"type": "object", "description": "where to", "properties": city},
            "work": {"type": "object", "description": "a place", "properties": city,
                "required": ["city"]},
            "away": {"description": "unknown"},
        })
    );
}

#[test]
fn a_reference_that_leads_back_ends_there() {
    let schema = json!({
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {
            "type": "object",
            "properties": {
                "label": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
        }},
    });
    assert_eq!(
        subset(&schema),
        json!({"type": "object", "properties": {
            "label": {"type": "string"},
            "children": {"type": "array", "items": {"type": "object"}},
        }})
    );
    let itself = json!({"$ref": "#"});
    assert_eq!(subset(&itself), json!({"type": "object"}));
}

#[test]
fn choices_are_an_enumeration_of_texts_or_told_in_words() {
    for (schema, told) in [
        (json!({"const": "a"}), json!({"type": "string", "enum": ["a"]})),
        (
            json!({"type": "string", "enum": ["a", "b", null]}),
            json!({"type": "string", "enum": ["a", "b"], "nullable": true}),
        ),
        (
            json!({"type": "integer", "enum": [1, 2], "description": "How many."}),
            json!({"type": "integer", "description": "How many. One of: 1, 2."}),
        ),
        (json!({"const": 3}), json!({"type": "integer", "description": "One of: 3."})),
        (json!({"const": 0.5}), json!({"type": "number", "description": "One of: 0.5."})),
        (json!({"enum": [true]}), json!({"type": "boolean", "description": "One of: true."})),
        (json!({"enum": [1, "a"]}), json!({"description": "One of: 1, \"a\"."})),
    ] {
        assert_eq!(subset(&schema), told, "{schema}");
    }
}

#[test]
fn unions_are_told_as_any_of_with_nothing_beside_it() {
    for (schema, told) in [
        (json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true})),
        (
            json!({"type": ["string", "integer"], "description": "d"}),
            json!({"anyOf": [{"type": "string", "description": "d"},
                {"type": "integer", "description": "d"}]}),
        ),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"}),
            json!({"type": "string", "description": "d", "nullable": true}),
        ),
        (
            json!({"oneOf": [{"const": "a"}, {"type": "integer"}, {"const": null}], "description": "d"}),
            json!({"anyOf": [
                {"type": "string", "enum": ["a"], "nullable": true, "description": "d"},
                {"type": "integer", "nullable": true, "description": "d"},
            ]}),
        ),
    ] {
        assert_eq!(subset(&schema), told, "{schema}");
    }
}

#[test]
fn a_list_says_what_it_is_a_list_of() {
    for (schema, told) in [
        (json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}})),
        (
            json!({"items": {"type": "number"}, "maxItems": 3}),
            json!({"type": "array", "maxItems": 3, "items": {"type": "number"}}),
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": false}),
            json!({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "string"}]}}),
        ),
    ] {
        assert_eq!(subset(&schema), told, "{schema}");
    }
}

#[test]
fn a_tool_without_parameters_says_nothing_about_them() {
    for schema in [
        json!({}),
        json!({"type": "object"}),
        json!({"type": "object", "properties": {}, "required": []}),
        json!({"type": "OBJECT", "properties": {}}),
        Value::Null,
    ] {
        assert_eq!(parameters(&schema), None, "{schema}");
    }
    let one = json!({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}});
    assert_eq!(parameters(&one), Some(one.clone()));
}

#[test]
fn a_schema_whose_references_multiply_stays_bounded() {
    let mut definitions = serde_json::Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        let members = json!({"a": next, "b": next});
        definitions.insert(format!("d{n}"), json!({"type": "object", "properties": members}));
    }
    definitions.insert("d40".to_owned(), json!({"type": "string"}));
    let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    assert!(subset(&schema).to_string().len() < 1_000_000);
}
