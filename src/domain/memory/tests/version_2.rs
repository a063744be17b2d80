//! The native version: canonical and without loss.

use proptest::prelude::*;

use super::cases;
use super::generate::memory;
use crate::domain::memory::{MAX_DEPTH, Memory, export_v2, load};
use crate::domain::step::{RetryCause, RetryStep, StepContent};

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn an_export_reads_back_as_the_same_memory_and_the_same_bytes(memory in memory()) {
        let text = export_v2(&memory);
        let loaded = load(&text).unwrap();
        prop_assert_eq!(&loaded, &memory);
        prop_assert_eq!(export_v2(&loaded), text);
    }

    #[test]
    fn a_document_with_a_hole_is_refused_and_never_panics(memory in memory(), cut in any::<prop::sample::Index>()) {
        let text = export_v2(&memory);
        let mut at = cut.index(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let error = load(text.split_at(at).0).unwrap_err();
        prop_assert_eq!(error.findings[0].code.as_str(), "not_json");
    }
}

#[test]
fn an_empty_memory_has_one_spelling() {
    let memory = Memory { metadata: None, framing_policy: None, steps: Vec::new() };
    assert_eq!(export_v2(&memory), r#"{"version":2,"thread":{},"steps":[],"redactions":{}}"#);
}

#[test]
fn a_pretty_document_exports_in_canonical_form() {
    let text = r#"{ "steps": [ {"text": "x", "kind": "system"} ],
        "thread": {"metadata": {"b": "2", "a": "1"}}, "framing_policy": "frames", "version": 2 }"#;
    let canonical = concat!(
        r#"{"version":2,"thread":{"metadata":{"a":"1","b":"2"}},"#,
        r#""steps":[{"kind":"system","text":"x"}],"redactions":{},"framing_policy":"frames"}"#,
    );
    assert_eq!(export_v2(&load(text).unwrap()), canonical);
}

#[test]
fn a_retry_without_a_cause_and_one_with_a_list_read_as_error() {
    let text = r#"{"version":2,"thread":{},"steps":[
        {"kind":"retry","content":"x"},
        {"kind":"retry","cause":"no_output","content":[]},
        {"kind":"retry","cause":"no_output","content":"x"}]}"#;
    let causes: Vec<RetryCause> = load(text)
        .unwrap()
        .steps
        .into_iter()
        .map(|step| match step {
            StepContent::Retry(RetryStep { cause, content: _ }) => cause,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(causes, [RetryCause::Error, RetryCause::Error, RetryCause::NoOutput]);
}

#[test]
fn the_deepest_document_that_loads_also_reads_back_from_a_store() {
    // The output's value starts at the seventh level.
    for (levels, loads) in [(MAX_DEPTH - 6, true), (MAX_DEPTH - 5, false)] {
        let json = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let text = format!(
            r#"{{"version":2,"thread":{{}},"steps":[{{"kind":"action","reply":{{"state":"complete","parts":[
            {{"part_kind":"unknown","raw":{json}}}]}}}}]}}"#
        );
        match load(&text) {
            Ok(memory) => {
                assert!(loads);
                let stored = serde_json::to_string(&memory.steps[0]).unwrap();
                assert_eq!(serde_json::from_str::<StepContent>(&stored).unwrap(), memory.steps[0]);
            }
            Err(error) => {
                assert!(!loads);
                assert_eq!(error.findings[0].code, "too_deep");
            }
        }
    }
}

#[test]
fn nesting_without_end_is_refused_without_a_stack_overflow() {
    let text = format!(r#"{{"version":2,"steps":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let error = load(&text).unwrap_err();
    assert!(error.findings.iter().any(|finding| finding.code == "wrong_type"));
}
