//! Golden files: the exact request that every frame becomes, where the system voice has an entry of its
//! own and where it is a frame on the user's channel.
//!
//! A file is a request's body with line breaks between its messages and between its members, to be read
//! and compared by people. JSON text escapes every line break in a string, so a body has none, and a
//! file without its line breaks is the body.

mod cases;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use cases::{Case, cases};

use super::encoded;
use super::wires::{Spoken, WIRES};
use crate::domain::model::{ModelSpec, ProfileOverrides, Provider};
use crate::domain::step::{RetryCause, StepContent, StepKind};
use crate::domain::tool::{OutcomeKind, ToolDefinition, ToolOutcome};
use crate::render::framing::FramingTag;
use crate::render::profile::Profile;
use crate::render::{RenderInput, render};

/// The format that a provider speaks; one that is new has to join the list.
fn wire_of(provider: Provider) -> &'static str {
    provider.wire().label()
}

fn folder(wire: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/render").join(wire)
}

/// The model of a case.
fn reading(case: &Case, model: ModelSpec) -> ModelSpec {
    let profile = ProfileOverrides {
        images: case.reads_files,
        documents: case.reads_files,
        ..ProfileOverrides::default()
    };
    ModelSpec { profile, ..model }
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "Looks things up.".to_owned(),
        parameters: serde_json::json!({"type": "object"}),
    }
}

/// The request that a case becomes.
fn body(case: &Case, model: &ModelSpec) -> String {
    let tools = [tool("look"), tool("a`b")];
    let input = RenderInput {
        model,
        instructions: case.instructions,
        skills: &case.skills,
        steps: &case.steps,
        first_seq: 1,
        tools: &tools,
        closing: case.closing,
        output_schema: None,
        framing: &case.framing,
        limits: &case.limits,
        redactor: &case.redactor,
    };
    let profile = Profile::resolve(model);
    encoded(&render(&input, &profile), model, &profile)
}

/// Every golden file and what it must hold.
fn goldens() -> BTreeMap<PathBuf, String> {
    let mut goldens = BTreeMap::new();
    for wire in WIRES {
        for (place, model) in wire.models() {
            for case in cases() {
                let body = body(&case, &reading(&case, model.clone()));
                let text = laid_out(&body);
                assert_eq!(text.replace('\n', ""), body, "{}", case.name);
                let file = folder(wire.wire()).join(format!("{}.{place}.json", case.name));
                assert_eq!(goldens.insert(file, text), None, "two cases are called {}", case.name);
            }
        }
    }
    goldens
}

/// A body with a line break behind every comma between members of the top level and between the
/// elements of a list there.
fn laid_out(body: &str) -> String {
    let mut out = String::new();
    let (mut depth, mut in_string, mut escaped) = (0, false, false);
    for c in body.chars() {
        out.push(c);
        if in_string {
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            continue;
        }
        match c {
            '"' => in_string = true,
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        if (c == ',' && depth <= 2) || (c == '[' && depth == 2) {
            out.push('\n');
        }
    }
    out.push('\n');
    out
}

#[test]
fn every_frame_is_sent_as_its_golden_file_says() {
    let goldens = goldens();
    let mut rewritten = Vec::new();
    for (file, text) in &goldens {
        if std::fs::read_to_string(file).ok().as_ref() != Some(text) {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
            rewritten.push(file);
        }
    }
    assert!(
        rewritten.is_empty(),
        "golden files were out of date and have been rewritten: look at their diff and commit it: \
         {rewritten:?}"
    );
}

#[test]
fn no_golden_file_is_left_of_a_case_that_is_gone() {
    let goldens = goldens();
    for wire in WIRES {
        for entry in std::fs::read_dir(folder(wire.wire())).unwrap() {
            let file = entry.unwrap().path();
            assert!(goldens.contains_key(&file), "{} belongs to no case", file.display());
        }
    }
}

#[test]
fn every_wire_format_has_golden_files() {
    let spoken: BTreeSet<&str> = Provider::ALL.iter().map(|provider| wire_of(*provider)).collect();
    assert_eq!(spoken, WIRES.iter().map(Spoken::wire).collect());
}

/// Whether an opening tag of ours stands in the request, outside what a case's authors wrote.
fn opens(body: &str, tag: FramingTag) -> bool {
    let framed = |end: &str| body.contains(&format!("<{}{end}", tag.name()));
    framed(">\\n") || framed(" id=") || framed(" tool_name=") || framed(">Please return text.<")
}

fn outcomes_of(step: &StepContent) -> &[ToolOutcome] {
    if let StepContent::Action(action) = step { &action.outcomes } else { &[] }
}

#[test]
fn every_tag_step_outcome_and_cause_has_a_golden_file() {
    let (mut tags, mut steps) = (Vec::new(), BTreeSet::new());
    let (mut outcomes, mut causes) = (BTreeSet::new(), BTreeSet::new());
    for case in cases() {
        let (_, model) = WIRES[0].models().last().unwrap();
        let body = body(&case, &reading(&case, model));
        tags.extend(FramingTag::ALL.iter().filter(|tag| opens(&body, **tag)).map(|t| t.name()));
        for step in &case.steps {
            steps.insert(step.kind().label());
            outcomes.extend(outcomes_of(step).iter().map(|outcome| outcome.kind.label()));
            if let StepContent::Retry(retry) = step {
                causes.insert(retry.cause.label());
            }
        }
    }
    for tag in FramingTag::ALL {
        assert!(tags.contains(&tag.name()), "no case sends a frame of {}", tag.name());
    }
    assert_eq!(steps, StepKind::ALL.iter().map(|kind| kind.label()).collect());
    assert_eq!(outcomes, OutcomeKind::ALL.iter().map(|kind| kind.label()).collect());
    assert_eq!(causes, RetryCause::ALL.iter().map(|cause| cause.label()).collect());
}

#[test]
fn every_kind_of_outcome_has_a_golden_file_of_its_own() {
    let names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
    for kind in OutcomeKind::ALL {
        assert!(names.contains(&format!("observation_{}", kind.label())), "{kind}");
    }
}
