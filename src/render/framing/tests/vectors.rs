//! The shared vector file: every operation that this version has words for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::*;
use crate::domain::ledger::Origin;
use crate::domain::step::{RetryCause, RetryContent, RetryStep};
use crate::render::announce::{ToolChange, announcement, is_nameable};
use crate::render::context::ContextChange;
use crate::render::framing::lookalike::resembled;
use crate::render::retry::{RetryText, plain_retry_text, retry_text};

/// Vectors that predate the tag `conversation_summary`: they take it for plain text.
const OLDER_THAN_THE_SUMMARY_TAG: usize = 2;

#[expect(clippy::disallowed_methods, reason = "tests find the shared data through the environment")]
fn vector_file(name: &str) -> Option<PathBuf> {
    let shared = std::env::var("AGENTLING_SHARED")
        .map_or_else(|_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    Some(shared.join("data").join(name)).filter(|file| file.is_file())
}

fn text<'v>(case: &'v Value, member: &str) -> &'v str {
    case[member].as_str().unwrap_or_else(|| panic!("{member} of {case}"))
}

fn tag(case: &Value) -> FramingTag {
    let name = text(case, "tag");
    *FramingTag::ALL.iter().find(|tag| tag.name() == name).expect("a built-in tag")
}

/// Attribute names are constants in the product; the vectors bring their own.
fn attrs(case: &Value) -> Vec<(&'static str, Option<&str>)> {
    let attrs = case["attrs"].as_object();
    let constant = |name: &String| -> &'static str { Box::leak(name.clone().into_boxed_str()) };
    attrs.into_iter().flatten().map(|(name, value)| (constant(name), value.as_str())).collect()
}

fn retry(case: &Value) -> RetryStep {
    let mut content = case["content"].clone();
    for error in content.as_array_mut().into_iter().flatten() {
        // The validator's context is no part of our error details.
        error.as_object_mut().and_then(|error| error.remove("ctx"));
    }
    let content: RetryContent = serde_json::from_value(content).expect("a retry's content");
    let cause = match text(case, "cause") {
        "no_output" => RetryCause::NoOutput,
        _ => RetryCause::Error,
    };
    RetryStep { cause, content }
}

fn tool_names(case: &Value) -> Vec<&str> {
    case["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// What we give for a case, in the shape of its `expect`; `None` where we have no words for it.
fn ours(case: &Value) -> Option<Value> {
    Some(match text(case, "op") {
        "neutralize" => json!({"out": neutralize_tags(text(case, "text"))}),
        "neutralize_voice" => json!({"out": neutralize_voice(text(case, "text"))}),
        "wrap" => json!({"out": wrap(tag(case), text(case, "body"), &attrs(case))}),
        "open" => json!({"out": open_tag(tag(case), &attrs(case))}),
        "close" => json!({"out": close_tag(tag(case))}),
        "nameable" => json!({"out": is_nameable(text(case, "name"))}),
        "announce" => {
            let out = announcement(ToolChange::Added, tool_names(case));
            let fallback = out.as_deref().map(|text| wrap(FramingTag::System, text, &[]));
            json!({"out": out, "fallback": fallback})
        }
        "thinking" => {
            json!({"out": crate::render::lower::framed_thinking(text(case, "content"), Tags::BUILT_IN, Origin::WIRE).as_str()})
        }
        "tool_result_tags" => {
            let attrs =
                ["tool_name", "tool_call_id", "file_id"].map(|name| (name, case[name].as_str()));
            let tag = FramingTag::ToolResult;
            json!({"out": [open_tag(tag, &attrs), close_tag(tag)]})
        }
        "context" => {
            let [id, text, previous] =
                ["block", "content", "previous"].map(|name| case[name].as_str());
            let change = ContextChange { id, text, previous };
            json!({"out": change.told(case["inline"] == true, Tags::BUILT_IN, Origin::WIRE).as_str()})
        }
        "feedback" => match retry_text(&retry(case), Tags::BUILT_IN, Origin::WIRE) {
            RetryText::System(text) => json!({"out": text.as_str(), "voice": "system"}),
            RetryText::User(text) => json!({"out": text.as_str(), "voice": "user"}),
        },
        // A retry that answers a tool call is that call's outcome, not a retry.
        "legacy_retry" if case["tool_name"].is_null() => {
            json!({"out": plain_retry_text(&retry(case))})
        }
        _ => return None,
    })
}

#[expect(clippy::print_stderr, reason = "whoever runs the test must see what it did not check")]
fn report(line: &str) {
    eprintln!("{line}");
}

#[test]
fn framing_agrees_with_every_shared_vector() {
    let Some(file) = vector_file("framing_cases.jsonl") else {
        report("SKIPPED: the shared framing vectors are not there; set AGENTLING_SHARED");
        return;
    };
    let lines = std::fs::read_to_string(file).expect("the vector file");
    let (mut passed, mut left_out) = (BTreeMap::new(), BTreeMap::new());
    let mut older = 0;
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).expect("a vector");
        let op = text(&case, "op").to_owned();
        let Some(ours) = ours(&case) else {
            *left_out.entry(op).or_insert(0) += 1;
            continue;
        };
        if op == "neutralize" && text(&case, "text").starts_with("<conversation_summary") {
            assert_ne!(ours, case["expect"], "{line}");
            older += 1;
            continue;
        }
        assert_eq!(ours, case["expect"], "{line}");
        *passed.entry(op).or_insert(0) += 1;
    }
    report(&format!("passed {passed:?}; not covered {left_out:?}; older than a tag: {older}"));
    assert_eq!(older, OLDER_THAN_THE_SUMMARY_TAG);
    assert_eq!(passed.get("context"), Some(&10));
    assert!(left_out.keys().all(|op| op == "legacy_retry"));
}

/// The name that we have for a tag which a vector expects. One of them qualifies its context tag with a
/// namespace and expects it as the attacker spelt it, with a dotless `i`; ours is called by its
/// canonical name, which has no namespace, since no word of an attacker's may enter a note.
fn canonical(expected: &str) -> &str {
    if expected == "pya\u{131}:context" { FramingTag::Context.name() } else { expected }
}

#[test]
fn lookalikes_of_framing_tags_agree_with_every_shared_vector() {
    let Some(file) = vector_file("lookalike_cases.jsonl") else {
        report("SKIPPED: the shared lookalike vectors are not there; set AGENTLING_SHARED");
        return;
    };
    let lines = std::fs::read_to_string(file).expect("the vector file");
    let mut passed = 0;
    for line in lines.lines() {
        let case: Value = serde_json::from_str(line).expect("a vector");
        let expected = case["expect"]["out"].as_array().expect("a list of tags");
        let expected: Vec<&str> =
            expected.iter().filter_map(Value::as_str).map(canonical).collect();
        let ours: Vec<&str> =
            resembled(text(&case, "text")).into_iter().map(FramingTag::name).collect();
        assert_eq!(ours, expected, "{line}");
        passed += 1;
    }
    assert_eq!(passed, 51);
}
