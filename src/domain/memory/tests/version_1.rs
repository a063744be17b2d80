//! The seed framework's version: documents of its making come back as they were.

use proptest::prelude::*;
use serde_json::Value;

use super::cases;
use super::generate::memory;
use crate::domain::memory::{Memory, export_v1, export_v2, load};
use crate::domain::message::ReplyPart;
use crate::domain::step::StepContent;
use crate::domain::tool::OutcomeKind;

const DOCUMENTS: [(&str, &str); 4] = [
    ("edges", include_str!("../../../../tests/data/memory_v1/edges.json")),
    ("plain", include_str!("../../../../tests/data/memory_v1/plain.json")),
    ("redacted_loop", include_str!("../../../../tests/data/memory_v1/redacted_loop.json")),
    ("tools", include_str!("../../../../tests/data/memory_v1/tools.json")),
];

fn document(name: &str) -> &'static str {
    DOCUMENTS.iter().find(|(known, _)| *known == name).unwrap().1
}

fn arguments(memory: &Memory) -> Vec<&str> {
    let actions = memory.steps.iter().filter_map(|step| {
        if let StepContent::Action(action) = step { Some(action) } else { None }
    });
    actions.flat_map(|action| action.reply.tool_calls()).map(|c| c.arguments.as_str()).collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn documents_of_the_seed_framework_come_back_as_they_were() {
    for (name, text) in DOCUMENTS {
        let memory = load(text).unwrap();
        let exported = export_v1(&memory, false).unwrap();
        assert_eq!(parsed(&exported), parsed(text), "{name}");
        assert_eq!(load(&exported).unwrap(), memory, "{name}");
    }
}

#[test]
fn they_survive_a_way_through_version_2() {
    for (name, text) in DOCUMENTS {
        let memory = load(&export_v2(&load(text).unwrap())).unwrap();
        assert_eq!(parsed(&export_v1(&memory, false).unwrap()), parsed(text), "{name}");
    }
}

#[test]
fn arguments_keep_the_spelling_of_their_numbers() {
    let text = document("edges");
    let memory = load(text).unwrap();
    let spelt = r#"{"z": 1.50, "a": 1E+2, "big": 10000000000000000000000000.0, "nested": {"b": [-0, 0.10]}}"#;
    assert_eq!(arguments(&memory), [spelt, "{ }"]);
    assert!(export_v1(&memory, false).unwrap().contains(spelt));

    let memory = load(document("tools")).unwrap();
    assert!(arguments(&memory).contains(&r#"{"x": 123456789012345678901234567890}"#));
    assert!(arguments(&memory).contains(&r#"{"harbour": "Brest", "metres": 1e-07}"#));
}

#[test]
fn its_kinds_of_failure_get_our_names() {
    let memory = load(document("tools")).unwrap();
    let kinds: Vec<OutcomeKind> = memory
        .steps
        .iter()
        .filter_map(|step| if let StepContent::Action(a) = step { Some(&a.outcomes) } else { None })
        .flatten()
        .map(|outcome| outcome.kind)
        .collect();
    assert_eq!(
        kinds,
        [
            OutcomeKind::Success,
            OutcomeKind::Execution,
            OutcomeKind::InvalidArguments,
            OutcomeKind::UnknownTool,
            OutcomeKind::Timeout,
            OutcomeKind::Success,
        ]
    );
}

#[test]
fn a_document_without_a_version_is_read_as_version_1() {
    let memory = load(r#"{"steps":[{"type":"task","data":{"task":"hi"}}]}"#).unwrap();
    assert_eq!(
        export_v1(&memory, false).unwrap(),
        r#"{"version":1,"steps":[{"type":"task","data":{"task":"hi"}}]}"#
    );
}

#[test]
fn loading_invents_nothing() {
    for (name, text) in DOCUMENTS {
        let memory = load(text).unwrap();
        assert_eq!((&memory.metadata, &memory.framing_policy), (&None, &None), "{name}");
        for step in &memory.steps {
            let StepContent::Action(action) = step else { continue };
            assert_eq!((action.reply.provider, action.reply.model.as_deref()), (None, None));
            assert!(
                action.outcomes.iter().all(|o| o.started_at.is_none() && o.finished_at.is_none())
            );
        }
    }
}

#[test]
fn what_version_1_cannot_say_refuses_the_export_and_is_listed() {
    let text = r#"{"version":2,"thread":{"metadata":{"a":"b"}},"framing_policy":"frames","steps":[
        {"kind":"task","parts":[{"part_kind":"text","text":"a"},{"part_kind":"text","text":"b"}]},
        {"kind":"action","reply":{"provider":"openai","model":"m","response_id":"r","finish_reason":"stop",
          "usage":{"input":3,"output":2,"cache_read":1,"cache_write":1,"reasoning":1},"state":"interrupted","parts":[
            {"part_kind":"thinking","text":"hm"},{"part_kind":"text","text":"A"},{"part_kind":"text","text":"B"},
            {"part_kind":"tool_call","tool_call_id":"c","provider_call_id":"p","name":"t","arguments":"[1"}]},
          "outcomes":[{"tool_call_id":"c","name":"t","is_error":true,"kind":"in_doubt",
            "error":{"type":"T","message":"m"},"attempts":3,"started_at":"2026-01-01T00:00:00Z"}]},
        {"kind":"system","text":"s"},
        {"kind":"context","id":"c","text":"t"},
        {"kind":"final","answer":"x","stop_reason":"final_answer"}]}"#;
    let memory = load(text).unwrap();
    let report = export_v1(&memory, false).unwrap_err();
    assert!(report.findings.iter().all(|finding| finding.code == "would_be_lost"));
    let pointers: Vec<&str> = report.findings.iter().map(|f| f.pointer.as_str()).collect();
    assert_eq!(
        pointers,
        [
            "/steps/0/parts",
            "/steps/1/reply/provider",
            "/steps/1/reply/model",
            "/steps/1/reply/response_id",
            "/steps/1/reply/finish_reason",
            "/steps/1/reply/state",
            "/steps/1/reply/usage/cache_read",
            "/steps/1/reply/usage/cache_write",
            "/steps/1/reply/usage/reasoning",
            "/steps/1/reply/parts/0",
            "/steps/1/reply/parts/2/text",
            "/steps/1/reply/parts/3/provider_call_id",
            "/steps/1/reply/parts/3/arguments",
            "/steps/1/outcomes/0/kind",
            "/steps/1/outcomes/0/error/type",
            "/steps/1/outcomes/0/attempts",
            "/steps/1/outcomes/0/started_at",
            "/steps/2",
            "/steps/3",
            "/steps/4/stop_reason",
        ]
    );
    assert_eq!(
        parsed(&export_v1(&memory, true).unwrap()),
        parsed(
            r#"{"version":1,"steps":[
            {"type":"task","data":{"task":"a\nb"}},
            {"type":"action","data":{"model_message":{"role":"assistant","content":"AB",
              "tool_calls":[{"id":"c","name":"t","arguments":{}}],"tool_call_id":null,
              "usage":{"input_tokens":3,"output_tokens":2}},
              "tool_results":[{"tool_call_id":"c","name":"t","content":"T: m","is_error":true,"error_kind":"execution"}],
              "error":null,"usage":{"input_tokens":3,"output_tokens":2},"duration":null}},
            {"type":"final","data":{"answer":"x"}}]}"#
        )
    );
}

#[test]
fn a_retry_is_told_in_the_words_of_the_seed_framework() {
    let told = |step: &str| {
        let text = format!(r#"{{"version":2,"thread":{{}},"steps":[{step}]}}"#);
        let memory = load(&text).unwrap();
        assert_eq!(export_v1(&memory, false).unwrap_err().findings[0].pointer, "/steps/0");
        let exported = parsed(&export_v1(&memory, true).unwrap());
        exported["steps"][0]["data"]["task"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        told(r#"{"kind":"retry","cause":"error","content":"too short"}"#),
        "Validation feedback:\ntoo short\n\nFix the errors and try again."
    );
    assert_eq!(
        told(r#"{"kind":"retry","cause":"no_output","content":"Please return text."}"#),
        "Please return text."
    );
    let list = told(
        r#"{"kind":"retry","cause":"error","content":[{"type":"missing","loc":["a",0],"msg":"no"}]}"#,
    );
    assert!(list.starts_with("1 validation error:\n```json\n[\n"), "{list}");
    assert!(list.ends_with("\n]\n```\n\nFix the errors and try again."), "{list}");
    let list = told(r#"{"kind":"retry","cause":"error","content":[]}"#);
    assert!(list.starts_with("0 validation errors:\n"), "{list}");
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_lossy_export_of_any_history_is_a_version_1_document(memory in memory()) {
        let exported = export_v1(&memory, true).unwrap();
        let loaded = load(&exported).unwrap();
        prop_assert_eq!(export_v1(&loaded, false).unwrap(), exported);
    }

    #[test]
    fn what_exports_without_loss_keeps_every_word(memory in memory()) {
        let Ok(exported) = export_v1(&memory, false) else { return Ok(()) };
        let loaded = load(&exported).unwrap();
        prop_assert_eq!(loaded.steps.len(), memory.steps.len());
        for (loaded, stored) in loaded.steps.iter().zip(&memory.steps) {
            prop_assert_eq!(loaded.kind(), stored.kind());
            let (StepContent::Action(loaded), StepContent::Action(stored)) = (loaded, stored) else {
                prop_assert_eq!(loaded, stored);
                continue;
            };
            let said = |part: &&ReplyPart| **part != ReplyPart::Text(crate::domain::message::TextPart { text: String::new(), echo: None });
            let parts: Vec<&ReplyPart> = stored.reply.parts.iter().filter(said).collect();
            prop_assert_eq!(loaded.reply.parts.iter().collect::<Vec<_>>(), parts);
        }
    }
}
