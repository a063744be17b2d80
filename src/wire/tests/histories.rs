//! Properties of requests over generated histories.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::wires::{Spoken, WIRES};
use super::{encoded, open};
use crate::domain::file::{FilePart, FileSource, FileText};
use crate::domain::model::ModelSpec;
use crate::domain::redaction::RedactionRule;
use crate::domain::step::{InputPart, InputText, RetryCause, StepContent, TaskStep};
use crate::domain::tool::ToolOutcome;
use crate::render::framing::{contains_tag, neutralize_tags};
use crate::render::observation::OutputLimits;
use crate::render::profile::{OwnEnd, Profile};
use crate::render::prompt::{Prompt, PromptTurn, Role};
use crate::render::redact::{PlaceholderKey, Redactor, RuleSet};
use crate::render::tests::properties::{self, Reading, config, foreign_text, history};
use crate::render::tests::support::{acted, call, retry, success, summary, task, text, thinking};
use crate::render::{RenderInput, render};

/// Every model of a wire, under one of the rules of framing.
fn readings() -> impl Strategy<Value = Vec<(&'static Spoken, Reading)>> {
    let wires = 0..WIRES.len();
    (properties::readings(), wires).prop_map(|(any, wire)| {
        let framing = &any[0].framing;
        let of = |(_, model): (&str, ModelSpec)| {
            let profile = Profile::resolve(&model);
            Reading { model, profile, framing: framing.clone() }
        };
        let models = |wire: &'static Spoken| wire.models().map(move |it| (wire, of(it)));
        WIRES.get(wire).into_iter().flat_map(models).collect()
    })
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
        skills: &[],
        steps,
        first_seq: 1,
        tools: &[],
        closing: false,
        output_schema: None,
        framing: &reading.framing,
        limits: &OutputLimits::default(),
        redactor: &Redactor::none(),
    };
    encoded(&render(&input, &reading.profile), &reading.model, &reading.profile)
}

/// Whether a filler of the user stands behind the model's last turn.
fn is_filled(prompt: &Prompt, reading: &Reading) -> bool {
    let last = prompt.turns.iter().rfind(|turn| !turn.blocks.is_empty());
    let is_continued = reading.profile.own_end == OwnEnd::IsContinued;
    is_continued && last.is_some_and(|turn| turn.role == Role::Assistant)
}

/// Whether a conversation ends with what every other may go on from: the user's turn, with nothing that
/// has to stand behind it.
fn is_asked(prompt: &Prompt, reading: &Reading) -> bool {
    let is_of_user = |turn: &PromptTurn| matches!(turn.role, Role::User | Role::Tool);
    !reading.profile.native_system && prompt.turns.last().is_some_and(is_of_user)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_longer_history_begins_with_the_bytes_of_a_shorter_one(
        steps in history(),
        readings in readings(),
        redacts in any::<bool>(),
    ) {
        for (wire, reading) in readings {
            // Nothing is asked before the first task.
            let first = steps.iter().position(|step| matches!(step, StepContent::Task(_)));
            let first = first.map_or(steps.len(), |first| first + 1);
            let redactor = &REDACTORS[usize::from(redacts)];
            let prompt = |n: usize| reading.prompt(&steps[..n], redactor);
            let prompts: Vec<Prompt> = (first..=steps.len()).map(prompt).collect();
            let body = |prompt: &Prompt| encoded(prompt, &reading.model, &reading.profile);
            let bodies: Vec<String> = prompts.iter().map(body).collect();
            for (at, shorter) in bodies.iter().enumerate() {
                let shorter = open(shorter);
                for (longer, later) in bodies.iter().zip(&prompts).skip(at + 1) {
                    let next = later.turns.get(prompts[at].turns.len());
                    let is_answered = next.is_some_and(|turn| turn.role == Role::Assistant);
                    let goes_on = wire.begins_with_all && !is_filled(&prompts[at], &reading);
                    if !(goes_on || is_answered || is_asked(&prompts[at], &reading)) {
                        continue;
                    }
                    prop_assert!(longer.starts_with(shorter), "{shorter}\n{longer}");
                    // What follows is no more of the last text.
                    let goes_on = matches!(longer.as_bytes()[shorter.len()], b',' | b']' | b'}');
                    prop_assert!(goes_on, "{shorter}\n{longer}");
                }
            }
        }
    }

    #[test]
    fn two_requests_of_one_history_are_equal_to_the_byte(
        steps in history(),
        readings in readings(),
        redacts in any::<bool>(),
    ) {
        for (_, reading) in readings {
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
        for (wire, reading) in readings {
            let steps = &spread(&any)[0];
            let body = whole(&reading, steps);
            let n_said = wire.said(&body).iter().filter(|text| **text == any).count();
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
        for (wire, reading) in readings {
            let steps = &spread(&any)[1];
            let body = whole(&reading, steps);
            let framed = format!("\n{expected}\n");
            let n_framed = wire.said(&body).iter().filter(|text| text.contains(&framed)).count();
            prop_assert_eq!(n_framed, 5, "{}", body);
        }
    }
}
