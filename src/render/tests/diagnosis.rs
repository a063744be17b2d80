//! Each repair has its finding, and nothing else has one.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::compatible;
use super::support::{acted, answer, call, failed, refusal, success, system, task, text, thinking};
use crate::domain::diagnosis::RepairCode;
use crate::domain::message::{RedactedThinkingPart, ReplyPart, UnknownPart};
use crate::domain::model::Provider;
use crate::domain::step::{InputPart, InputText, StepContent, TaskStep};
use crate::domain::tool::{OutcomeKind, ToolOutcome};
use crate::render::framing::{FramingTag, open_tag};
use crate::render::profile::ROWS;
use crate::render::prompt::Block;
use crate::render::repair::{Reader, diagnose};

fn found(steps: &[StepContent], family: &str) -> Vec<(i64, RepairCode, String)> {
    let diagnosis = diagnose(steps, 1, Reader::of(family).unwrap());
    assert_eq!(diagnosis.profile, family);
    diagnosis.repairs.into_iter().map(|r| (r.seq, r.code, r.pointer)).collect()
}

fn expect(steps: &[StepContent], family: &str, expected: &[(i64, RepairCode, &str)]) {
    let found = found(steps, family);
    let found: Vec<_> = found.iter().map(|(seq, code, at)| (*seq, *code, at.as_str())).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_row_of_the_profiles_has_a_reader_and_no_other_name_has_one() {
    assert!(ROWS.iter().all(|row| Reader::of(row.family).is_some()));
    assert!(Reader::of(Reader::CONSERVATIVE).is_some());
    assert!(Reader::of("oracle").is_none());
}

#[test]
fn a_history_that_is_acceptable_has_no_findings() {
    let steps = [
        task("q"),
        system("s"),
        acted(
            vec![text("a"), call("c1", "t", "{}"), call("c2", "t", "{ \"a\": 1 }")],
            vec![success("c1", ""), failed("c2", OutcomeKind::Execution, "")],
        ),
        answer("done"),
    ];
    expect(&steps, "openai", &[]);
}

#[test]
fn calls_and_outcomes_that_do_not_pair_are_found_at_their_places() {
    let steps = [
        task("q"),
        acted(
            vec![text("a"), call("c1", "t", "{}"), call("c2", "t", "{}")],
            vec![success("x", ""), success("c2", "1"), success("c2", "2")],
        ),
    ];
    expect(
        &steps,
        "openai",
        &[
            (2, RepairCode::UnansweredCall, "/reply/parts/1"),
            (2, RepairCode::OrphanOutcome, "/outcomes/0"),
            (2, RepairCode::DuplicateOutcome, "/outcomes/2"),
        ],
    );
}

#[test]
fn ids_names_and_arguments_that_a_provider_refuses_are_found() {
    let long = "i".repeat(65);
    let calls = vec![call("c", "a.b", "[1]"), call("c", "t", ""), call(&long, "", "{")];
    let outcomes = ["c", "c", &long].map(|id| success(id, ""));
    let steps = [task("q"), acted(calls, outcomes.to_vec())];
    let shared = [
        (2, RepairCode::InvalidToolName, "/reply/parts/0/name"),
        (2, RepairCode::InvalidArguments, "/reply/parts/0/arguments"),
        (2, RepairCode::ReusedCallId, "/reply/parts/1/tool_call_id"),
        (2, RepairCode::InvalidArguments, "/reply/parts/1/arguments"),
        (2, RepairCode::UnfitCallId, "/reply/parts/2/tool_call_id"),
        (2, RepairCode::InvalidToolName, "/reply/parts/2/name"),
        (2, RepairCode::InvalidArguments, "/reply/parts/2/arguments"),
    ];
    expect(&steps, "openai", &shared);
    let lenient: Vec<_> =
        shared.into_iter().filter(|(_, code, _)| *code != RepairCode::UnfitCallId).collect();
    expect(&steps, "scripted", &lenient);
}

#[test]
fn blank_texts_are_found_and_the_one_of_a_blank_task_is_told() {
    let blank = |text: &str| InputPart::Text(InputText { text: text.to_owned() });
    let steps = [
        task(" "),
        StepContent::Task(TaskStep { parts: vec![blank("\n"), blank("x"), blank("")] }),
        acted(vec![text(" "), refusal("\t"), thinking(" ", None)], vec![]),
        system("\u{3000}"),
        answer(""),
    ];
    expect(
        &steps,
        "openai",
        &[
            (2, RepairCode::BlankText, "/parts/0/text"),
            (2, RepairCode::BlankText, "/parts/2/text"),
            (3, RepairCode::BlankText, "/reply/parts/0/text"),
            (3, RepairCode::BlankText, "/reply/parts/1/text"),
            (3, RepairCode::BlankText, "/reply/parts/2/text"),
            (4, RepairCode::BlankText, "/text"),
            (5, RepairCode::BlankText, "/answer"),
        ],
    );
}

#[test]
fn thinking_is_judged_by_who_reads_it() {
    let redacted = RedactedThinkingPart { data: "x".to_owned(), issuer: None };
    let unknown = UnknownPart { issuer: None, raw: serde_json::Value::Null };
    let parts = vec![
        thinking("a", None),
        thinking("b", Some(Provider::Openai)),
        thinking("c", Some(Provider::Scripted)),
        ReplyPart::RedactedThinking(redacted),
        ReplyPart::Unknown(unknown),
    ];
    let steps = [task("q"), acted(parts, vec![])];
    let codes = |family: &str| -> Vec<(RepairCode, String)> {
        found(&steps, family).into_iter().map(|(_, code, at)| (code, at)).collect()
    };
    let at = |place: usize| format!("/reply/parts/{place}");
    let (foreign, left_out) = (RepairCode::ForeignThinking, RepairCode::LeftOutPart);
    let rest = [(left_out, at(3)), (left_out, at(4))];
    let scripted = [vec![(foreign, at(0)), (foreign, at(1))], rest.to_vec()].concat();
    assert_eq!(codes("scripted"), scripted);
    let openai = vec![(foreign, at(0)), (left_out, at(1)), (foreign, at(2))];
    assert_eq!(codes("openai"), [openai, rest.to_vec()].concat());
}

fn any_action() -> impl Strategy<Value = StepContent> {
    let id = || select(vec!["a", "b", "call_2", "", "x y"]);
    let name = select(vec!["t", "a.b", ""]);
    let arguments = select(vec!["{}", " {\"a\":1.0}", "", "[]", "{"]);
    let said = select(vec!["", " ", "text"]);
    let thought = (select(vec![" ", "hm"]), option::of(select(Provider::ALL)));
    let part = prop_oneof![
        1 => said.prop_map(text),
        1 => thought.prop_map(|(text, issuer)| thinking(text, issuer)),
        3 => (id(), name, arguments).prop_map(|(id, name, given)| call(id, name, given)),
    ];
    (vec(part, 0..6), vec(id(), 0..6)).prop_map(|(parts, answered)| {
        let given = |(n, id): (usize, &str)| success(id, &format!("given {n}"));
        acted(parts, answered.into_iter().enumerate().map(given).collect())
    })
}

/// How often what is stored differs from what is told, by what is repaired: ids, names, arguments,
/// unanswered calls, outcomes that are left out, thinking in a frame, texts that are left out.
fn differences(steps: &[StepContent]) -> [usize; 7] {
    let mut n = [0; 7];
    let turns = compatible(steps);
    let told = || turns.iter().flat_map(|turn| &turn.blocks);
    let calls = told().filter_map(|block| {
        if let Block::ToolCall { id, name, arguments, .. } = block {
            Some([id, name, arguments])
        } else {
            None
        }
    });
    let actions = || {
        steps.iter().filter_map(|step| {
            if let StepContent::Action(action) = step { Some(action) } else { None }
        })
    };
    let stored = actions().flat_map(|action| action.reply.tool_calls());
    for (told, call) in calls.zip(stored) {
        let stored = [call.tool_call_id.as_str(), &call.name, &call.arguments];
        for (place, (told, stored)) in told.into_iter().zip(stored).enumerate() {
            n[place] += usize::from(told != stored);
        }
    }
    let results: Vec<&str> = told()
        .filter_map(|block| {
            if let Block::ToolResult { text, .. } = block { Some(text.as_str()) } else { None }
        })
        .collect();
    n[3] = results.iter().filter(|text| !text.starts_with("given")).count();
    let outcomes: Vec<&ToolOutcome> = actions().flat_map(|action| &action.outcomes).collect();
    n[4] = outcomes.len() - (results.len() - n[3]);
    let texts: Vec<&str> = told()
        .filter_map(|block| {
            if let Block::Text(text) | Block::Said { text, .. } | Block::Thinking { text, .. } =
                block
            {
                Some(text.as_str())
            } else {
                None
            }
        })
        .collect();
    let frame = open_tag(FramingTag::AssistantThinking, &[]);
    n[5] = texts.iter().filter(|text| text.starts_with(&frame)).count();
    let parts = actions().flat_map(|action| &action.reply.parts);
    let n_texts = parts.filter(|part| !matches!(part, ReplyPart::ToolCall(_))).count();
    // The task is a text as well.
    n[6] = n_texts + 1 - texts.len();
    n
}

proptest! {
    #[test]
    fn what_is_found_is_what_differs_between_the_stored_and_the_told(
        actions in vec(any_action(), 0..4)
    ) {
        let steps: Vec<StepContent> = std::iter::once(task("q")).chain(actions).collect();
        let found = found(&steps, Reader::CONSERVATIVE);
        let count = |codes: &[RepairCode]| {
            found.iter().filter(|(_, code, _)| codes.contains(code)).count()
        };
        let counted = [
            count(&[RepairCode::ReusedCallId, RepairCode::UnfitCallId]),
            count(&[RepairCode::InvalidToolName]),
            count(&[RepairCode::InvalidArguments]),
            count(&[RepairCode::UnansweredCall]),
            count(&[RepairCode::OrphanOutcome, RepairCode::DuplicateOutcome]),
            count(&[RepairCode::ForeignThinking]),
            count(&[RepairCode::BlankText, RepairCode::LeftOutPart]),
        ];
        prop_assert_eq!(counted, differences(&steps));
        prop_assert_eq!(counted.iter().sum::<usize>(), found.len());
    }
}
