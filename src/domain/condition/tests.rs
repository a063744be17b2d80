//! What conditions say of arguments, and what is none.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn holds(condition: &str, arguments: &str) -> Option<bool> {
    let value: Value = serde_json::from_str(arguments).unwrap();
    Condition::parse(condition).unwrap().holds(&value, arguments)
}

#[test]
fn a_condition_says_yes_no_or_nothing_of_arguments() {
    let order = r#"{"amount": 100, "rate": 0.5, "to": "ops@x", "tags": ["a", 1], "deep": {"a/b": [7]},
                    "none": null, "ok": true, "big": 9007199254740993}"#;
    for (condition, expected) in [
        ("/amount > 99", Some(true)),
        ("/amount > 100", Some(false)),
        ("/amount >= 100 and /amount <= 1e2", Some(true)),
        ("/amount == 100.0", Some(true)),
        ("/amount<101", Some(true)),
        ("/amount != 100", Some(false)),
        ("/rate > 0.4", Some(true)),
        ("/big == 9007199254740993", Some(true)),
        ("/big > 9007199254740992", Some(true)),
        ("arguments.amount > 99", Some(true)),
        ("arguments.tags.1 == 1", Some(true)),
        ("/deep/a~1b/0 == 7", Some(true)),
        ("/to starts_with 'ops@'", Some(true)),
        (r#"/to contains "@y""#, Some(false)),
        ("/to in ['a', 'ops@x']", Some(true)),
        ("/amount in [1, 2]", Some(false)),
        ("/tags contains 'a'", Some(true)),
        ("/ok == true and not /ok == false", Some(true)),
        ("/none == null", Some(true)),
        ("/to == null", Some(false)),
        ("/none exists", Some(true)),
        ("/gone exists", Some(false)),
        ("/gone exists and /gone > 5", Some(false)),
        ("/amount > 5 or /gone > 5", Some(true)),
        ("not (/amount > 500 or /ok == false)", Some(true)),
        ("/ok == false and /ok == false or /ok == true", Some(true)),
        ("/ok == true or /ok == true and /ok == false", Some(true)),
        // What is missing or of another type says nothing, and so does its opposite.
        ("/gone > 5", None),
        ("/gone != 5", None),
        ("not /gone > 5", None),
        ("/to > 5", None),
        ("/amount == '100'", None),
        ("/amount starts_with '1'", None),
        ("/amount contains 1", None),
        ("/tags contains 'b'", None),
        ("/to in [1]", None),
        ("/deep == 1", None),
        ("/amount > 5 and /gone > 5", None),
        ("/amount > 500 or /gone > 5", None),
        ("/none > 5", None),
    ] {
        assert_eq!(holds(condition, order), expected, "{condition}");
    }
}

#[test]
fn a_number_that_is_rounded_to_its_bound_says_nothing() {
    for (spelling, expected) in [
        ("100", Some(false)),
        ("100.0", Some(false)),
        ("100.00000000000000001", None),
        ("100.5", Some(true)),
        ("1e300", Some(true)),
        ("99.99999999999999999999", None),
    ] {
        let arguments = format!("{{\"n\":{spelling}}}");
        assert_eq!(holds("/n > 100", &arguments), expected, "{spelling}");
    }
    assert_eq!(holds("/n == 9007199254740993.0", r#"{"n":9007199254740992}"#), None);
}

#[test]
fn what_is_no_condition_is_refused_at_its_column() {
    for (text, column, expected) in [
        ("", 1, "a JSON pointer, `arguments.…`, `not` or `(`"),
        ("  ", 3, "a JSON pointer, `arguments.…`, `not` or `(`"),
        ("/a", 3, "a comparison"),
        ("/a =", 4, "a JSON pointer, `arguments.…`, a literal or an operator"),
        ("/a > 'x'", 6, "a number"),
        ("/a starts_with 5", 16, "a text"),
        ("/a == ", 7, "a text, a number, true, false or null"),
        ("/a == /b", 7, "a text, a number, true, false or null"),
        ("5 == /a", 1, "a JSON pointer, `arguments.…`, `not` or `(`"),
        ("/a == 5 /b == 6", 9, "`and`, `or` or the end"),
        ("/a and /b", 4, "a comparison"),
        ("(/a == 5", 9, "`)`"),
        ("/a in 5", 7, "`[`"),
        ("/a in []", 8, "a text, a number, true, false or null"),
        ("/a in [1 2]", 10, "`,` or `]`"),
        ("/a == 'x", 7, "a text that ends"),
        ("/a == \"x\\\"", 7, "a text that ends"),
        ("é == 5", 1, "a JSON pointer, `arguments.…`, a literal or an operator"),
        ("/é == 5 & 6", 9, "a JSON pointer, `arguments.…`, a literal or an operator"),
        ("/a~2 == 5", 1, "a JSON pointer, in which `~` is written `~0`"),
        ("/a == NaN", 7, "a JSON pointer, `arguments.…`, a literal or an operator"),
        ("/a == {}", 7, "a JSON pointer, `arguments.…`, a literal or an operator"),
        ("os.system == 5", 1, "a JSON pointer, `arguments.…`, a literal or an operator"),
    ] {
        let Err(found) = Condition::parse(text) else { panic!("{text} is one") };
        assert_eq!(found, ConditionError { column, expected }, "{text}");
    }
}

#[test]
fn a_condition_is_taken_at_its_bounds_and_refused_beyond() {
    let long = |n: usize| format!("/a == '{}'", "x".repeat(n - "/a == ''".len()));
    assert!(Condition::parse(&long(1_024)).is_ok());
    assert_eq!(Condition::parse(&long(1_025)).unwrap_err().expected, "at most 1,024 characters");
    for (open, close) in [("(", ")"), ("not ", "")] {
        let deep = |n: usize| format!("{}/a == 1{}", open.repeat(n), close.repeat(n));
        assert!(Condition::parse(&deep(16)).is_ok());
        assert_eq!(Condition::parse(&deep(17)).unwrap_err().expected, "at most 16 levels");
    }
    assert!(Condition::parse(&"(".repeat(1_024)).is_err());
}

#[test]
fn the_arguments_that_are_looked_at_are_named_once() {
    let condition = Condition::parse("/b/c > 1 or arguments.a.b exists and /a == 1 or /x~1y == 2");
    let names: Vec<_> = condition.unwrap().arguments().collect();
    assert_eq!(names, ["a", "b", "x/y"]);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_and_any_condition_is_judged(
        text in prop_oneof![
            any::<String>(),
            "(/a|/b|arguments.c|==|<|in|\\[1,'x'\\]|1|'x'|null|not|and|or|\\(|\\)|exists|contains| ){0,12}",
        ],
        a in prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!([1, "x"])), Just(json!(null))],
    ) {
        if let Ok(condition) = Condition::parse(&text) {
            let arguments = json!({"a": a});
            let verdict = condition.holds(&arguments, &arguments.to_string());
            let denied = Condition::parse(&format!("not ({text})"));
            if let Ok(denied) = denied {
                let opposite = denied.holds(&arguments, &arguments.to_string());
                prop_assert_eq!(opposite, verdict.map(|holds| !holds));
            }
        }
    }
}
