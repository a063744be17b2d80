//! Properties of requests over generated histories.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;

use super::{encoded, messages};
use crate::domain::file::{FilePart, FileSource, FileText};
use crate::domain::redaction::RedactionRule;
use crate::domain::step::{InputPart, InputText, RetryCause, StepContent, TaskStep};
use crate::domain::tool::ToolOutcome;
use crate::render::framing::{contains_tag, neutralize_tags};
use crate::render::observation::OutputLimits;
use crate::render::redact::{PlaceholderKey, Redactor, RuleSet};
use crate::render::tests::properties::{Reading, config, foreign_text, history, readings};
use crate::render::tests::support::{acted, call, retry, success, summary, task, text, thinking};
use crate::render::{RenderInput, render};

/// The texts that a request says, as a reader of its JSON finds them.
fn said(body: &str) -> Vec<String> {
    let body: Value = serde_json::from_str(body).unwrap();
    let contents = body["messages"].as_array().unwrap().iter().map(|message| &message["content"]);
    let parts = |content: &Value| -> Vec<Value> {
        content.as_array().map_or_else(
            || vec![content.clone()],
            |parts| parts.iter().map(|part| part["text"].clone()).collect(),
        )
    };
    contents.flat_map(parts).filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// A history that says a text in every channel of someone else: first where it is told as it is, then
/// where it is framed.
fn spread(said: &str) -> [Vec<StepContent>; 2] {
    let file = FilePart {
        id: "f".to_owned(),
        media_type: "text/plain".to_owned(),
        source: FileSource::Text(FileText { text: said.to_owned() }),
    };
    let parts = [InputPart::Text(InputText { text: said.to_owned() })];
    let asked = StepContent::Task(TaskStep { parts: parts.to_vec() });
    let outcome = |files| ToolOutcome { files, ..success("c", said) };
    let called = || call("c", "t", "{}");
    let plain = vec![asked, acted(vec![text(said), called()], vec![outcome(Vec::new())])];
    let framed = vec![
        task("?"),
        summary(1, said),
        StepContent::Task(TaskStep { parts: vec![InputPart::File(file)] }),
        acted(vec![thinking(said, None), called()], vec![success("c", "x")]),
        retry(RetryCause::Error, said),
        retry(RetryCause::NoOutput, said),
    ];
    [plain, framed]
}

/// The request of a history, from which this is kept.
fn request(reading: &Reading, steps: &[StepContent], redactor: &Redactor) -> String {
    encoded(&reading.prompt(steps, redactor), &reading.model, &reading.profile)
}

/// One that keeps nothing from the model, and one that keeps a lot. Patterns take long to read.
static REDACTORS: LazyLock<[Redactor; 2]> = LazyLock::new(|| {
    let rules = serde_json::json!([
        {"kind": "value", "name": "task", "value": "FOREIGN task"},
        {"kind": "pattern", "name": "word", "pattern": "[a-f]{2,}"},
    ]);
    let rules = RuleSet::of(&serde_json::from_value::<Vec<RedactionRule>>(rules).unwrap());
    [Redactor::none(), Redactor::new([&rules], PlaceholderKey::of(&[7; 32], "thread"))]
});

/// The request of a history whose outputs are shown whole.
fn whole(reading: &Reading, steps: &[StepContent]) -> String {
    let input = RenderInput {
        model: &reading.model,
        instructions: None,
        steps,
        first_seq: 1,
        tools: &[],
        closing: false,
        framing: &reading.framing,
        limits: &OutputLimits::default(),
        redactor: &Redactor::none(),
    };
    encoded(&render(&input, &reading.profile), &reading.model, &reading.profile)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_longer_history_begins_with_the_bytes_of_a_shorter_one(
        steps in history(),
        readings in readings(),
        redacts in any::<bool>(),
    ) {
        for reading in readings {
            // Nothing is asked before the first task.
            let first = steps.iter().position(|step| matches!(step, StepContent::Task(_)));
            let first = first.map_or(steps.len(), |first| first + 1);
            let body = |n: usize| request(&reading, &steps[..n], &REDACTORS[usize::from(redacts)]);
            let bodies: Vec<String> = (first..=steps.len()).map(body).collect();
            for pair in bodies.windows(2) {
                let (shorter, longer) = (messages(&pair[0]), messages(&pair[1]));
                prop_assert!(longer.starts_with(shorter), "{shorter}\n{longer}");
                // What follows begins a message of its own.
                prop_assert!(matches!(longer.as_bytes().get(shorter.len()), None | Some(b',')));
            }
        }
    }

    #[test]
    fn two_requests_of_one_history_are_equal_to_the_byte(
        steps in history(),
        readings in readings(),
        redacts in any::<bool>(),
    ) {
        for reading in readings {
            let body = || request(&reading, &steps, &REDACTORS[usize::from(redacts)]);
            prop_assert_eq!(body(), body());
        }
    }

    #[test]
    fn text_outside_frames_is_sent_as_it_was_stored(
        any in prop_oneof![any::<String>(), foreign_text()],
        readings in readings(),
    ) {
        prop_assume!(!any.trim().is_empty());
        for reading in readings {
            let steps = &spread(&any)[0];
            let body = whole(&reading, steps);
            let n_said = said(&body).iter().filter(|text| **text == any).count();
            prop_assert_eq!(n_said, 3, "{}", body);
        }
    }

    #[test]
    fn text_without_tags_is_framed_as_it_was_stored(
        any in foreign_text(),
        readings in readings(),
    ) {
        let expected = neutralize_tags(&any);
        prop_assert_eq!(contains_tag(&any), *expected != *any);
        for reading in readings {
            let steps = &spread(&any)[1];
            let body = whole(&reading, steps);
            let framed = format!("\n{expected}\n");
            let n_framed = said(&body).iter().filter(|text| text.contains(&framed)).count();
            prop_assert_eq!(n_framed, 5, "{}", body);
        }
    }
}
