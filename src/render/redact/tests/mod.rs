//! What is replaced, and that nothing else is.

mod properties;
mod shapes;
mod stream;

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::json;

use super::rules::everything;
use super::*;
use crate::domain::message::{ReplyPart, ThinkingPart};
use crate::domain::model::Provider;
use crate::domain::redaction::RedactionChannel::{Api, Export, Log, Model};
use crate::domain::redaction::{RedactionRule, every_channel};
use crate::domain::step::{InputPart, TaskStep};
use crate::render::tests::support::{acted, call, json_output, success, task, text};

pub(super) const VALUE: &str = "p/ä \"w\\d+1";

pub(super) fn rules(list: Value) -> RuleSet {
    let rules: Vec<RedactionRule> = serde_json::from_value(list).unwrap();
    assert_eq!(crate::domain::redaction::faults(&rules), []);
    RuleSet::of(&rules)
}

pub(super) fn key(thread: &str) -> PlaceholderKey {
    PlaceholderKey::of(&[7; 32], thread)
}

pub(super) fn redactor(list: Value) -> Redactor {
    Redactor::new([&rules(list)], key("thread_1"))
}

pub(super) fn values(values: &[&str]) -> Redactor {
    let rule = |(n, value): (usize, &&str)| json!({ "kind": "value", "name": format!("v{n}"), "value": value });
    redactor(values.iter().enumerate().map(rule).collect())
}

fn placeholder(redactor: &Redactor, value: &str) -> String {
    redactor.text(Model, value).into_owned()
}

#[test]
fn every_form_of_a_value_becomes_the_same_placeholder() {
    let redactor = values(&[VALUE]);
    let expected = placeholder(&redactor, VALUE);
    assert!(expected.starts_with("[redacted:v0:") && expected.len() == 22, "{expected}");
    let quoted = serde_json::to_string(VALUE).unwrap();
    let twice = serde_json::to_string(&quoted).unwrap();
    let form: String = url::form_urlencoded::byte_serialize(VALUE.as_bytes()).collect();
    let forms = [
        quoted.trim_matches('"').to_owned(),
        twice.trim_matches(['"', '\\']).to_owned(),
        "\\u0070\\/\\u00E4 \\\"w\\\\d\\u002b1".to_owned(),
        "p%2Fä%20%22w%5Cd%2B1".to_owned(),
        "p%2fä%20%22w%5cd%2b1".to_owned(),
        form.replace('%', "%25"),
        form,
    ];
    for form in forms {
        assert_eq!(redactor.text(Model, &form), expected, "{form}");
        assert_eq!(
            redactor.text(Model, &format!("<{form}> {form}")),
            format!("<{expected}> {expected}")
        );
    }
}

#[test]
fn base64_is_found_in_every_alignment_and_alphabet() {
    let redactor = values(&[VALUE, "\u{3ff}\u{3fe}>>>???"]);
    let edges = |a: &'static str| ["", "z", "zy"].map(|b| (a, b));
    for value in [VALUE, "\u{3ff}\u{3fe}>>>???"] {
        let expected = placeholder(&redactor, value);
        for (before, after) in ["", "a", "ab", "abc"].into_iter().flat_map(edges) {
            let whole = format!("{before}{value}{after}");
            let standard = STANDARD.encode(&whole);
            for encoded in [&standard, &URL_SAFE_NO_PAD.encode(&whole)] {
                let shown = redactor.text(Model, encoded);
                assert!(shown.contains(&expected), "{whole}: {shown}");
                // What stays is of the neighbours, but for two characters at each edge.
                let left = shown.replace(&expected, "").trim_end_matches('=').len();
                assert!(left <= (before.len() + after.len()) * 4 / 3 + 4, "{whole}: {shown}");
            }
            let in_url = url::form_urlencoded::byte_serialize(standard.as_bytes());
            assert!(redactor.text(Model, &in_url.collect::<String>()).contains(&expected));
        }
    }
}

#[test]
fn a_placeholder_belongs_to_a_value_of_a_rule_in_a_thread() {
    let list = json!([
        { "kind": "value", "name": "a", "value": "hunter22" },
        { "kind": "pattern", "name": "b", "pattern": "[0-9]{6}" },
    ]);
    let one = redactor(list.clone());
    assert_eq!(
        one.text(Model, "hunter22 123456 654321"),
        redactor(list.clone()).text(Api, "hunter22 123456 654321")
    );
    let shown = one.text(Model, "123456 123456 654321").into_owned();
    let words: Vec<&str> = shown.split(' ').collect();
    assert!(words[0] == words[1] && words[1] != words[2], "{shown}");
    let other = Redactor::new([&rules(list)], key("thread_2"));
    assert_ne!(one.text(Model, "hunter22"), other.text(Model, "hunter22"));
}

#[test]
fn a_rule_applies_on_its_channels_only() {
    let redactor = redactor(json!([
        { "kind": "value", "name": "a", "value": "hunter22", "channels": ["model"] },
        { "kind": "pattern", "name": "b", "pattern": "[0-9]{6}", "channels": ["log", "export"] },
        { "kind": "field", "name": "c", "field": "pin", "channels": ["api"] },
    ]));
    let said = r#"{"pin":1,"x":"hunter22 123456"}"#;
    let shown = |channel| redactor.json_text(channel, said).into_owned();
    assert!(!shown(Model).contains("hunter22") && shown(Model).contains("\"pin\":1,"));
    assert!(!shown(Log).contains("123456") && shown(Log).contains("hunter22"));
    assert!(!shown(Export).contains("123456"));
    assert!(shown(Api).contains("hunter22 123456") && !shown(Api).contains("\"pin\":1,"));
}

#[test]
fn the_first_and_longest_place_wins_and_leaves_no_fragment() {
    let redactor = values(&["abcdef", "defghi", "abcd", "aaaa"]);
    let stands_for = |value: &str| placeholder(&redactor, value);
    let (first, second, repeated) =
        (stands_for("abcdef"), stands_for("defghi"), stands_for("aaaa"));
    assert_eq!(redactor.text(Model, "-abcdefghi-"), format!("-{first}{second}-"));
    assert_eq!(redactor.text(Model, "abcdabcdef"), format!("{}{first}", stands_for("abcd")));
    assert_eq!(redactor.text(Model, "aaaaaaa."), format!("{repeated}."));
    let mut tally = Tally::new();
    redactor.text_counted(Model, "abcdefghi aaaaaaaaa abcdef", &mut tally);
    assert_eq!(tally, Tally::from([("v0".into(), 2), ("v1".into(), 1), ("v3".into(), 1)]));
}

#[test]
fn of_two_origins_the_earlier_one_names_the_value() {
    let named = rules(
        json!([{ "kind": "value", "name": "mine", "value": "hunter22", "channels": ["api"] }]),
    );
    let redactor = Redactor::new([&named, &RuleSet::secrets(["hunter22"])], key("t"));
    assert!(redactor.text(Api, "hunter22").starts_with("[redacted:mine:"));
    assert!(redactor.text(Log, "hunter22").starts_with("[redacted:secret:"));
}

#[test]
fn a_placeholder_of_its_own_is_not_redacted_again() {
    let redactor = redactor(json!([
        { "kind": "value", "name": "v", "value": "redacted" },
        { "kind": "pattern", "name": "p", "pattern": "[0-9]{9,}|.*x" },
    ]));
    let once = redactor.text(Model, "redacted 123456789 [redacted:p:12345678]").into_owned();
    assert!(once.ends_with(" [redacted:p:12345678]"), "{once}");
    assert!(matches!(redactor.text(Model, &once), Cow::Borrowed(_)));
}

#[test]
fn what_only_looks_like_a_placeholder_hides_nothing() {
    let redactor = redactor(json!([
        { "kind": "value", "name": "v", "value": "hunter22" },
        { "kind": "value", "name": "n", "value": "00001234" },
        { "kind": "value", "name": "w", "value": "pass[" },
        { "kind": "pattern", "name": "p", "pattern": "[0-9]{4,}" },
        { "kind": "field", "name": "pin", "field": "pin" },
    ]));
    for forged in [
        "[redacted:hunter22:00000000]",
        "[redacted:other:00001234]",
        "[redacted:v:00001234]",
        "[redacted:p:00001234]",
        "[redacted:pin:87651234]",
        "[redacted:p:1234567] [redacted:P:12345678] [redacted:p:123456789]",
        "pass[redacted:pin:87651234]",
    ] {
        let shown = redactor.text(Model, forged).into_owned();
        for held in ["hunter22", "1234", "pass["] {
            assert!(!shown.contains(held), "{forged}: {shown}");
        }
    }
    let forged =
        json!({ "pin": "[redacted:pin:4711]", "list": { "pin": "[redacted:pin:00004711]" } });
    let shown = redactor.json(Model, &forged).into_owned().to_string();
    assert!(!shown.contains("4711"), "{shown}");
}

#[test]
fn a_text_with_too_many_places_becomes_one_placeholder() {
    let redactor = redactor(json!([
        { "kind": "pattern", "name": "p", "pattern": "[a-z]*!|y" },
        { "kind": "value", "name": "v", "value": "hunter22" },
    ]));
    let many = ["y".repeat(20_000), "hunter22 ".repeat(20_000)];
    for text in many {
        let shown = redactor.text(Model, &text).into_owned();
        assert_eq!(shown.len(), "[redacted:p:12345678]".len(), "{shown}");
    }
    let tokens = format!("[{}0]", "\"y\",".repeat(20_000));
    let shown = redactor.json_text(Model, &tokens).into_owned();
    assert_eq!(shown.len(), "'[redacted:p:12345678]'".len(), "{shown}");
}

#[test]
fn a_match_is_found_wherever_a_window_begins() {
    let redactor = redactor(json!([{ "kind": "pattern", "name": "p", "pattern": "<[^>]*>" }]));
    for ahead in (12_000..20_500).step_by(1_000) {
        let text =
            format!("{}<{}>{}", "ä".repeat(ahead / 2), "k".repeat(4_000), "z".repeat(40_000));
        let shown = redactor.text(Model, &text).into_owned();
        assert!(!shown.contains('k') && shown.len() > 40_000, "{ahead}");
    }
}

#[test]
fn json_stays_json_and_keeps_the_spelling_of_what_stays() {
    let redactor = redactor(json!([
        { "kind": "value", "name": "v", "value": "12345" },
        { "kind": "value", "name": "q", "value": "say \"hi\"\n" },
        { "kind": "field", "name": "pin", "field": "PIN" },
        { "kind": "pattern", "name": "p", "pattern": "x\ny" },
    ]));
    let said =
        r#"{ "a":1.10,"b": 12345 , "c":["say \"hi\"\u000a!", true], "Pin" : {"d":[1]}, "x\ny":0}"#;
    let shown = redactor.json_text(Model, said).into_owned();
    let value: Value = serde_json::from_str(&shown).unwrap();
    assert!(shown.starts_with(r#"{ "a":1.10,"b": "[redacted:v:"#), "{shown}");
    assert!(value["c"][0].as_str().unwrap().ends_with("]!") && value["c"][1] == true, "{shown}");
    assert!(value["Pin"].as_str().unwrap().starts_with("[redacted:pin:"), "{shown}");
    assert!(
        value.as_object().unwrap().keys().next_back().unwrap().starts_with("[redacted:p:"),
        "{shown}"
    );
    let clean = r#"{"a" : 1.10, "pi":"\u0041"}"#;
    assert!(matches!(redactor.json_text(Model, clean), Cow::Borrowed(_)));
}

#[test]
fn members_are_found_at_any_depth_and_in_json_inside_strings() {
    let redactor = redactor(json!([{ "kind": "field", "name": "pin", "field": "pin" }]));
    let deep = format!("{}{{\"pin\":\"4711\"}}{}", "[".repeat(500), "]".repeat(500));
    assert!(!redactor.json_text(Model, &deep).contains("4711"));
    let inner = json!({ "pin": "4711", "a": 1 }).to_string();
    let shown = redactor.json(Model, &json!({ "body": inner })).into_owned();
    let inner: Value = serde_json::from_str(shown["body"].as_str().unwrap()).unwrap();
    assert!(inner["a"] == 1 && inner["pin"].as_str().unwrap().starts_with("[redacted:"));
    let text_form = redactor.json(Api, &json!({ "pin": "4711" })).into_owned();
    assert_eq!(inner["pin"], text_form["pin"]);
    assert_eq!(redactor.text(Model, "{\"pin\":4711}"), "{\"pin\":4711}", "a text is no JSON");
}

#[test]
fn a_secret_that_is_a_json_document_goes_as_a_whole() {
    let secret = r#"{"type":"service_account","key":"x"}"#;
    let redactor = values(&[secret]);
    let shown = redactor.json_text(Model, secret);
    assert_eq!(shown, serde_json::to_string(&redactor.text(Model, secret)).unwrap());
    let wrapped = redactor.json(Model, &json!({ "file": secret })).into_owned();
    assert_eq!(wrapped, json!({ "file": redactor.text(Model, secret) }));
}

#[test]
fn a_schema_keeps_its_words() {
    let redactor = redactor(json!([
        { "kind": "field", "name": "pin", "field": "pin" },
        { "kind": "value", "name": "v", "value": "hunter22" },
    ]));
    let schema = json!({ "properties": { "pin": { "type": "string", "default": "hunter22" } } });
    let shown = redactor.schema(Model, &schema).into_owned();
    assert_eq!(shown["properties"]["pin"]["type"], "string");
    assert!(shown["properties"]["pin"]["default"].as_str().unwrap().starts_with("[redacted:v:"));
}

#[test]
fn steps_are_redacted_wherever_they_hold_text() {
    let redactor = values(&["hunter22"]);
    let outcome = json_output("c", json!({ "n": [{ "k": "hunter22" }], "e": 1.5 }));
    let steps = [
        task("hunter22"),
        acted(
            vec![text("hunter22"), call("c", "hunter22", r#"{"a":"hunter\u00322","b":1e2}"#)],
            vec![outcome, success("d", "aHVudGVyMjI=")],
        ),
    ];
    let mut tally = Tally::new();
    let shown = steps.map(|step| redactor.step_counted(Model, &step, &mut tally).into_owned());
    let shown = serde_json::to_string(&shown).unwrap();
    assert!(!shown.contains("hunter22") && !shown.contains("aHVudGVyMjI"), "{shown}");
    assert!(shown.contains(r#"\"b\":1e2}"#), "{shown}");
    assert_eq!(tally, Tally::from([("v0".to_owned(), 6)]));
    let clean = task("nothing");
    assert!(matches!(redactor.step(Model, &clean), Cow::Borrowed(_)));
}

#[test]
fn signed_and_sealed_parts_are_dropped_and_never_edited() {
    let thinking = |text: &str, signature: Option<&str>| {
        ReplyPart::Thinking(ThinkingPart {
            echo: None,
            text: text.to_owned(),
            signature: signature.map(str::to_owned),
            id: None,
            issuer: Some(Provider::Openai),
        })
    };
    let parts = vec![
        thinking("hunter22", Some("s")),
        thinking("clean", Some("s")),
        thinking("hunter22", None),
        text("said"),
    ];
    let shown = values(&["hunter22"]).step(Model, &acted(parts, vec![])).into_owned();
    let shown = serde_json::to_value(shown).unwrap();
    let parts = shown["reply"]["parts"].as_array().unwrap();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[0]["text"], "clean");
    assert!(parts[1]["text"].as_str().unwrap().starts_with("[redacted:v0:"));
}

#[test]
fn names_of_tools_that_a_model_is_told_about_stay() {
    let redactor = redactor(json!([{ "kind": "pattern", "name": "p", "pattern": "send|leak" }]));
    let step = acted(
        vec![call("c", "send_mail", "{}"), call("d", "leak_it", "{}")],
        vec![success("c", "send")],
    );
    let shown = redactor.told(&step, &BTreeSet::from(["send_mail"])).into_owned();
    let shown = serde_json::to_value(shown).unwrap();
    assert_eq!(shown["reply"]["parts"][0]["name"], "send_mail");
    assert!(shown["reply"]["parts"][1]["name"].as_str().unwrap().starts_with("[redacted:p:"));
    assert!(!shown["outcomes"].to_string().contains(r#""text":"send""#), "{shown}");
}

#[test]
fn bytes_that_are_no_text_are_searched_for_known_values_alone() {
    let redactor = redactor(json!([
        { "kind": "pattern", "name": "p", "pattern": "[a-z]{4}" },
        { "kind": "value", "name": "v", "value": "hunter22" },
    ]));
    let file = |bytes: &[u8]| {
        let source = json!({ "source_kind": "base64", "base64": STANDARD.encode(bytes) });
        let file = json!({ "id": "f", "media_type": "image/png", "source": source });
        let parts = vec![InputPart::File(serde_json::from_value(file).unwrap())];
        let step = StepContent::Task(TaskStep { parts });
        serde_json::to_string(&redactor.step(Model, &step)).unwrap()
    };
    assert!(file(b"\xffabcd").contains("base64"));
    assert!(file(b"\xffabcd hunter22").contains("[redacted:v:"));
    assert!(file(b"abcd").contains("[redacted:p:"));
}

#[test]
fn short_values_have_no_row_that_base64_holds_by_chance() {
    let redactor = values(&["1234"]);
    assert!(matches!(redactor.text(Model, "xMTIzNx"), Cow::Borrowed(_)));
    assert!(values(&["12345"]).text(Model, &STANDARD.encode("12345")).contains("[redacted:"));
}

#[test]
fn what_a_provider_names_is_searched_for_known_values() {
    let mut step = acted(vec![call("c", "n", "{}")], vec![]);
    if let StepContent::Action(action) = &mut step {
        action.reply.model = Some("hunter22".to_owned());
        action.reply.response_id = Some("hunter22".to_owned());
        for part in &mut action.reply.parts {
            let ReplyPart::ToolCall(call) = part else { continue };
            call.provider_call_id = Some("hunter22".to_owned());
        }
    }
    let shown = serde_json::to_string(&values(&["hunter22"]).step(Api, &step)).unwrap();
    assert!(!shown.contains("hunter22"), "{shown}");
}

#[test]
fn a_pattern_that_no_longer_compiles_hides_everything() {
    let everything = everything();
    assert!(everything.is_match("\n") && !everything.is_match(""));
    let broken = RedactionRule::Pattern(crate::domain::redaction::PatternRule {
        name: "p".to_owned(),
        pattern: "(".to_owned(),
        channels: every_channel(),
    });
    let redactor = Redactor::new([&RuleSet::of(&[broken])], key("t"));
    assert!(redactor.text(Model, "any\nthing").starts_with("[redacted:p:"));
}
