//! What a history says that chat messages have no words for.
//!
//! It is found by reading back what was written of each step: what differs then is lost. So the list
//! is right by construction, whatever the format can or cannot say.

use serde_json::Value;

use super::Finding;
use super::chat_export::written;
use super::load::load;
use super::read::Report;
use crate::domain::step::StepContent;

/// Everything in the steps that chat messages cannot say, with pointers into the version 2 document of
/// the same history; as many as a report lists.
pub fn losses(steps: &[StepContent]) -> Vec<Finding> {
    let report = Report::default();
    for (index, step) in steps.iter().enumerate() {
        if report.is_full() {
            break;
        }
        note(&report, index, step);
    }
    report.into_findings()
}

fn note(report: &Report, index: usize, step: &StepContent) {
    let at = format!("/steps/{index}");
    let read = load(&written(std::slice::from_ref(step)));
    let said = read.map(|memory| memory.steps).unwrap_or_default();
    match said.as_slice() {
        [same] if same == step => {}
        [other] if other.kind() == step.kind() => {
            let [was, is] =
                [step, other].map(|step| serde_json::to_value(step).unwrap_or_default());
            compare(report, &at, &was, &is);
        }
        [] => lose(report, &at, "it is left out"),
        _ => lose(report, &at, "it becomes something else"),
    }
}

fn lose(report: &Report, at: &str, what: &str) {
    let message = format!("a chat message has no place for this: {what}");
    report.add(at, "would_be_lost", message);
}

/// Notes every member of what was written that is not what is read back.
fn compare(report: &Report, at: &str, was: &Value, is: &Value) {
    match (was, is) {
        (Value::Object(was), Value::Object(is)) => {
            for (name, was) in was {
                let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                match is.get(name) {
                    Some(is) => compare(report, &at, was, is),
                    None => lose(report, &at, "it is left out"),
                }
            }
        }
        (Value::Array(was), Value::Array(is)) if was.len() == is.len() => {
            for (place, (was, is)) in was.iter().zip(is).enumerate() {
                compare(report, &format!("{at}/{place}"), was, is);
            }
        }
        _ if was == is => {}
        _ => lose(report, at, "it becomes something else"),
    }
}
