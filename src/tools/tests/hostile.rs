//! Schemas and values that are made to take for ever: each is judged all the same. None of these tests would
//! end if one of them took more than a number of steps that grows with its size.

use serde_json::{Value, json};

use crate::tools::pattern::weight;
use crate::tools::schema::{Schema, Unnamed};
use crate::tools::shape::flaws;

/// Judges a value, which must not fit.
fn refused(schema: &Value, value: &Value) {
    assert_eq!(flaws(schema), [], "{schema}");
    let schema = Schema::compile(schema, Unnamed::Refused).unwrap();
    assert!(!schema.problems(value).is_empty());
}

/// A value so many levels deep.
fn nested(levels: usize, inner: Value) -> Value {
    (0..levels).fold(inner, |inner, _| json!({"x": inner}))
}

#[test]
fn patterns_that_backtrack_are_linear() {
    for (pattern, piece, end) in [
        ("^(a+)+$", "a", "!"),
        ("^(a|aa)+$", "a", "!"),
        ("^(a|a?)+$", "a", "!"),
        ("^(.*)*=$", "x", "!"),
        ("^(x+x+)+y$", "x", "!"),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a", "!"),
        (r"^(\w+\s?)*$", "ab ", "!"),
        (r"^(?:a?){200}a{200}$", "a", "!"),
        (r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+$", "a", ""),
    ] {
        let schema = json!({"type": "object", "properties": {"a": {"pattern": pattern}},
                            "propertyNames": {"pattern": pattern},
                            "patternProperties": {pattern: {"not": {}}}});
        let text = format!("{}{end}", piece.repeat((1 << 18) / piece.len()));
        refused(&schema, &json!({"a": text, text.clone(): 1}));
    }
}

#[test]
fn schemas_that_lead_back_to_themselves_are_judged_at_any_depth() {
    let branching = |keyword: &str| {
        let branch = json!({"properties": {"x": {"$ref": "#"}}});
        json!({"type": "object", "properties": {"x": true}, keyword: [branch, branch, branch]})
    };
    for schema in [
        branching("allOf"),
        branching("anyOf"),
        branching("oneOf"),
        json!({"type": "object", "not": {"not": {"properties": {"x": {"$ref": "#"}}}}, "properties": {"x": {}}}),
        json!({"type": "object", "if": {"properties": {"x": {"$ref": "#"}}},
               "then": {"properties": {"x": {"$ref": "#"}}},
               "else": {"properties": {"x": {"$ref": "#"}}}}),
        json!({"type": "object", "dependentSchemas": {"x": {"properties": {"x": {"$ref": "#"}}}},
               "properties": {"x": {"$ref": "#"}}}),
        json!({"type": "object", "allOf": [{"properties": {"x": {"$ref": "#"}}}],
               "unevaluatedProperties": false}),
        json!({"type": "object", "anyOf": [{"properties": {"x": {"$ref": "#"}}}, {"$ref": "#/$defs/a"}],
               "unevaluatedProperties": false,
               "$defs": {"a": {"properties": {"x": {"$ref": "#"}}, "unevaluatedProperties": false}}}),
        json!({"type": "object", "properties": {"x": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"},
               "patternProperties": {"x": {"$ref": "#"}, "^x": {"$ref": "#"}}}),
        json!({"type": "object", "$dynamicAnchor": "a", "allOf": [{"properties": {"x": {"$ref": "#"}}},
               {"properties": {"x": {"$ref": "#"}}}], "unevaluatedProperties": {"$ref": "#"}}),
    ] {
        assert_eq!(flaws(&schema), [], "{schema}");
        let compiled = Schema::compile(&schema, Unnamed::Refused).unwrap();
        for inner in [json!(1), json!({}), json!({"y": 1})] {
            assert!(compiled.problems(&nested(100, inner)).len() <= 21, "{schema}");
        }
    }
}

#[test]
fn wide_values_are_judged_or_refused_unseen() {
    let wide = Value::Array((0..20_000).map(|n| json!(n)).collect());
    let object: Value =
        (0..20_000).map(|n| (format!("k{n}"), json!(n))).collect::<serde_json::Map<_, _>>().into();
    for schema in [
        json!({"type": "object", "properties": {"a": {"items": {"enum": ["x"]}}}}),
        json!({"type": "object", "properties": {"a": {"contains": {"const": -1}}}}),
        json!({"type": "object", "properties": {"a": {"items": {"anyOf": vec![json!({"const": "x"}); 100]}}}}),
        json!({"type": "object", "properties": {"a": {"uniqueItems": true, "maxItems": 1_000}}}),
        json!({"type": "object", "properties": {"a": {"items": {"multipleOf": 1e-300}, "maxItems": 1}}}),
    ] {
        refused(&schema, &json!({"a": wide}));
        refused(&schema, &object);
    }
}

#[test]
fn formats_of_older_drafts_are_linear_as_well() {
    let draft = "http://json-schema.org/draft-07/schema#";
    for (format, text) in [
        ("regex", "((((a{100}){100}){100}){100})".to_owned()),
        ("regex", "(a".repeat(1 << 18)),
        ("email", "a@".repeat(1 << 17)),
        ("hostname", "a.".repeat(1 << 17)),
        ("idn-hostname", "\u{3042}.".repeat(1 << 18)),
        ("uri", format!("http://{}", "a:".repeat(1 << 17))),
        ("uri-template", "{a".repeat(1 << 17)),
        ("date-time", "2020-".repeat(1 << 18)),
        ("json-pointer", "/~".repeat(1 << 17)),
        ("ipv6", "::".repeat(1 << 17)),
    ] {
        let schema =
            json!({"$schema": draft, "type": "object", "properties": {"a": {"format": format}}});
        assert_eq!(flaws(&schema), []);
        let compiled = Schema::compile(&schema, Unnamed::Refused).unwrap();
        assert!(compiled.problems(&json!({"a": text})).len() <= 1, "{format}");
    }
}

#[test]
fn a_pattern_that_is_in_many_states_at_once_judges_only_as_much_as_it_can_in_time() {
    // Whichever `a` comes 4,000 letters before a `c` is not known until then, so that all are followed.
    let schema = json!({"type": "object", "properties": {"a": {"pattern": "[ab]*a[ab]{4000}c"}}});
    let compiled = Schema::compile(&schema, Unnamed::Refused).unwrap();
    let told = |n: usize| compiled.problems(&json!({"a": "ab".repeat(n)})).remove(0).detail.r#type;
    assert_eq!(told(20), "pattern");
    assert_eq!(told(1 << 20), "too_large");
    let plain = json!({"type": "object", "properties": {"a": {"pattern": r"^[\w .,-]{0,64}$"}}});
    let compiled = Schema::compile(&plain, Unnamed::Refused).unwrap();
    assert_eq!(compiled.problems(&json!({"a": "ab".repeat(1 << 16)}))[0].detail.r#type, "pattern");
}

#[test]
fn the_weight_of_a_pattern_is_that_of_all_its_repetitions() {
    for (pattern, expected) in [
        ("", 0),
        ("abc", 3),
        ("a{10}", 10),
        ("a{2,10}b", 11),
        ("a{10,}", 10),
        ("(?:ab{3}){5}", 20),
        ("((a{10}){10}){10}", 1_000),
        (r"[a\]{}]{7}", 7),
        (r"[[a-b]&&[^b]]{7}", 7),
        (r"\w{7}\{3", 9),
        ("(?x) a{ 100 }", 102),
        ("a{18446744073709551615}{9}", u64::MAX),
        ("(((", 0),
        (")){9}", 0),
        ("a{", 1),
    ] {
        assert_eq!(weight(pattern), expected, "{pattern}");
    }
}
