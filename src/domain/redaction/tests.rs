//! Rules as they are written, and what is refused.

use serde_json::json;

use super::*;

fn rules(list: serde_json::Value) -> Vec<RedactionRule> {
    serde_json::from_value(list).unwrap()
}

fn pointers(list: serde_json::Value) -> Vec<String> {
    faults(&rules(list)).into_iter().map(|fault| fault.pointer).collect()
}

#[test]
fn rules_read_and_write_as_documented() {
    let list = json!([
        { "kind": "value", "name": "key", "value": "hunter22", "channels": ["model", "api"] },
        { "kind": "pattern", "name": "card", "pattern": "[0-9]{16}", "channels": ["log"] },
        { "kind": "field", "name": "pin", "field": "pin", "channels": ["export"] },
    ]);
    let read = rules(list.clone());
    assert_eq!(serde_json::to_value(&read).unwrap(), list);
    assert_eq!(faults(&read), []);
    let short = rules(json!([{ "kind": "field", "name": "pin", "field": "pin" }]));
    assert_eq!(*short[0].channels(), every_channel());
    assert!(
        serde_json::from_value::<RedactionRule>(
            json!({ "kind": "field", "name": "pin", "field": "pin", "more": 1 })
        )
        .is_err()
    );
}

#[test]
fn every_mistake_is_found_at_its_place() {
    let found = pointers(json!([
        { "kind": "value", "name": "A", "value": "hunter22" },
        { "kind": "value", "name": "b", "value": "abc" },
        { "kind": "value", "name": "b", "value": "x[redacted:y" },
        { "kind": "pattern", "name": "c", "pattern": "(" },
        { "kind": "pattern", "name": "d", "pattern": "a*" },
        { "kind": "pattern", "name": "e", "pattern": "(?:\\w{1000}){1000}" },
        { "kind": "field", "name": "f", "field": "", "channels": [] },
        { "kind": "field", "name": "secret", "field": "x" },
    ]));
    let expected = [
        "/0/name",
        "/1/value",
        "/2/name",
        "/2/value",
        "/3/pattern",
        "/4/pattern",
        "/5/pattern",
        "/6/channels",
        "/6/field",
        "/7/name",
    ];
    assert_eq!(found, expected);
}

#[test]
fn there_are_at_most_64_rules() {
    let many: Vec<_> = (0..65)
        .map(|n| json!({ "kind": "field", "name": format!("f{n}"), "field": "x" }))
        .collect();
    assert_eq!(pointers(many.into()), [""]);
}

#[test]
fn the_values_have_at_most_16384_characters_together() {
    let many = |last: usize| -> serde_json::Value {
        let value = |n: usize| if n < 4 { "x".repeat(4_095) } else { "x".repeat(last) };
        (0..5)
            .map(|n| json!({ "kind": "value", "name": format!("v{n}"), "value": value(n) }))
            .collect()
    };
    assert_eq!(pointers(many(4)), Vec::<String>::new());
    assert_eq!(pointers(many(5)), [""]);
}

#[test]
fn a_value_is_neither_debugged_nor_part_of_a_message() {
    let list = rules(json!([{ "kind": "value", "name": "B", "value": "x[redacted:hunter22" }]));
    let shown = format!("{list:?} {:?}", faults(&list));
    assert!(!shown.contains("hunter22"), "{shown}");
}

#[test]
fn a_rule_as_it_is_shown_cannot_be_stored() {
    let list = json!([
        { "kind": "value", "name": "a", "value": "hunter22" },
        { "kind": "field", "name": "b", "field": "x" },
    ]);
    let shown: Vec<_> = rules(list).into_iter().map(RedactionRule::without_value).collect();
    assert!(!serde_json::to_string(&shown).unwrap().contains("hunter22"));
    let found: Vec<_> = faults(&shown).into_iter().map(|fault| fault.pointer).collect();
    assert_eq!(found, ["/0/value"]);
}
