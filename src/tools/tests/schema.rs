//! Which schemas are taken, and what they say about values.

use serde_json::{Value, json};

use crate::tools::schema::{Schema, SchemaCache, Unnamed};
use crate::tools::shape::flaws;
use crate::tools::spec::SpecProblem;

fn codes(schema: &Value) -> Vec<(SpecProblem, String)> {
    flaws(schema).into_iter().map(|flaw| (flaw.code, flaw.pointer)).collect()
}

fn problems(schema: &Value, value: &Value) -> Vec<String> {
    let schema = Schema::compile(schema, Unnamed::Refused).unwrap();
    schema.problems(value).iter().map(ToString::to_string).collect()
}

#[test]
fn references_and_addresses_outside_of_a_schema_are_refused() {
    for (schema, pointer) in [
        (json!({"$ref": "https://evil.example/s.json"}), "/$ref"),
        (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "/properties/a/$ref"),
        (json!({"allOf": [{"$ref": "other.json#/x"}]}), "/allOf/0/$ref"),
        (json!({"$ref": "#anchor"}), "/$ref"),
        (json!({"$ref": "//evil.example/x"}), "/$ref"),
        (json!({"$dynamicRef": "https://evil.example/#m"}), "/$dynamicRef"),
        (json!({"$recursiveRef": "urn:x"}), "/$recursiveRef"),
        (json!({"$id": "https://me.example/"}), "/$id"),
        (json!({"properties": {"const": {"$ref": "x:y"}}}), "/properties/const/$ref"),
        (json!({"$defs": {"a/b": {"$id": "x"}}}), "/$defs/a~1b/$id"),
    ] {
        let expected = vec![(SpecProblem::RemoteRefForbidden, pointer.to_owned())];
        assert_eq!(codes(&schema), expected, "{schema}");
    }
}

#[test]
fn local_references_and_data_that_looks_like_references_are_taken() {
    for schema in [
        json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
        json!({"properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}}),
        json!({"const": {"$ref": "https://evil.example/"}}),
        json!({"enum": [{"$id": "https://evil.example/"}]}),
        json!({"properties": {"a": {"default": {"$ref": "x:"}, "examples": [{"$ref": "x:"}]}}}),
    ] {
        assert_eq!(codes(&schema), [], "{schema}");
        assert!(Schema::compile(&schema, Unnamed::Refused).is_ok(), "{schema}");
    }
}

fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({}), |inner, _| json!({"not": inner}))
}

#[test]
fn a_schema_is_taken_at_its_bounds_and_refused_beyond() {
    let values = |n: usize| json!({"enum": vec![1; n - 2]});
    let bytes = |n: usize| json!({"title": "x".repeat(n - r#"{"title":""}"#.len())});
    let patterns = |n: usize| json!({"allOf": vec![json!({"pattern": "x"}); n]});
    let pattern = |n: usize| json!({"pattern": "x".repeat(n)});
    for (fits, exceeds) in [
        (nested(32), nested(33)),
        (values(2_000), values(2_001)),
        (bytes(65_536), bytes(65_537)),
        (patterns(50), patterns(51)),
        (pattern(512), pattern(513)),
    ] {
        assert_eq!(codes(&fits), []);
        let found = codes(&exceeds);
        assert_eq!((found.len(), found[0].0), (1, SpecProblem::SchemaTooComplex));
    }
    assert_eq!(codes(&nested(1_000))[0].0, SpecProblem::SchemaTooComplex);
}

#[test]
fn definitions_that_double_at_every_step_are_refused() {
    let mut definitions = serde_json::Map::new();
    for n in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        definitions.insert(format!("d{n}"), json!({"allOf": [next, next]}));
    }
    definitions.insert("d40".to_owned(), json!({"type": "object"}));
    let schema = json!({"$ref": "#/$defs/d0", "$defs": definitions});
    assert_eq!(codes(&schema), [(SpecProblem::SchemaTooComplex, String::new())]);
}

#[test]
fn patterns_run_in_linear_time_and_look_around_is_refused() {
    let schema = json!({"properties": {"a": {"pattern": "^(a+)+$"}}});
    let told = problems(&schema, &json!({"a": format!("{}!", "a".repeat(50_000))}));
    assert_eq!(told.len(), 1);
    for pattern in ["(?=a)b", "(?!a)b", "(?<=a)b", r"(a)\1", "[", "((((a{100}){100}){100}){100})"] {
        let schema = json!({"properties": {"a": {"pattern": pattern}}});
        let error = Schema::compile(&schema, Unnamed::Refused).unwrap_err();
        assert_eq!(error.instance_path().as_str(), "/properties/a/pattern", "{pattern}");
    }
}

#[test]
fn a_schema_that_refers_to_itself_without_end_still_answers() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}),
        json!({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#"}}}}),
    ] {
        assert_eq!(codes(&schema), []);
        // Which answer it gives says nothing; that it gives one does.
        let compiled = Schema::compile(&schema, Unnamed::AsDeclared).unwrap();
        assert!(compiled.problems(&json!({})).len() <= 21, "{schema}");
    }
}

#[test]
fn recursion_that_branches_at_every_level_still_answers() {
    let branch = json!({"type": "object", "properties": {"x": {"$ref": "#"}}, "required": ["x"]});
    let schema = json!({"anyOf": [branch, branch, {"const": 1}]});
    let value = (0..40).fold(json!(2), |inner, _| json!({"x": inner}));
    let compiled = Schema::compile(&schema, Unnamed::AsDeclared).unwrap();
    assert!(!compiled.problems(&value).is_empty());
}

#[test]
fn unnamed_members_are_refused_unless_the_schema_says_otherwise() {
    let value = json!({"a": 1, "b": 2});
    let named = json!({"properties": {"a": {}}});
    assert_eq!(problems(&named, &value), ["/b is unknown"]);
    let open = json!({"properties": {"a": {}}, "additionalProperties": true});
    assert_eq!(problems(&open, &value), [""; 0]);
    let composed = json!({"allOf": [{"properties": {"a": {}}}], "properties": {"b": {}}});
    assert_eq!(problems(&composed, &value), [""; 0]);
    assert_eq!(problems(&composed, &json!({"c": 1})), ["/c is unknown"]);
}

#[test]
fn at_most_twenty_problems_are_listed() {
    let value: Value =
        (0..30).map(|n| (format!("k{n}"), json!(n))).collect::<serde_json::Map<_, _>>().into();
    let told = problems(&json!({"type": "object"}), &value);
    assert_eq!(told.len(), 21, "{told:?}");
    assert_eq!(told[20], "the whole has more problems than are listed");
}

#[test]
fn a_value_that_is_too_large_for_its_schema_is_refused_unseen() {
    let schema = json!({"type": "object", "enum": vec![1; 1_990], "additionalProperties": true});
    let value = json!({"a": vec![1; 30_000]});
    assert_eq!(problems(&schema, &value), ["the whole is too large to be validated"]);
}

#[test]
fn the_cache_keeps_one_schema_for_both_uses_apart() {
    let cache = SchemaCache::default();
    let schema = json!({"type": "object"});
    let closed = cache.get(&schema, Unnamed::Refused).unwrap();
    let open = cache.get(&schema, Unnamed::AsDeclared).unwrap();
    assert_eq!(closed.problems(&json!({"a": 1})).len(), 1);
    assert_eq!(open.problems(&json!({"a": 1})).len(), 0);
    let again = cache.get(&schema, Unnamed::Refused).unwrap();
    assert!(std::sync::Arc::ptr_eq(&closed, &again));
    for n in 0..1_100 {
        assert!(cache.get(&json!({"minProperties": n}), Unnamed::AsDeclared).is_ok());
    }
    let later = cache.get(&schema, Unnamed::Refused).unwrap();
    assert!(!std::sync::Arc::ptr_eq(&closed, &later), "the oldest one has left");
}
