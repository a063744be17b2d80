//! Sub-runs: who started one, which id it has, and what its end tells the call that it was started by.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::id::{CallId, RunId};
use super::run::{RunFacts, RunStatus};
use super::tool::{JsonOutput, TextOutput, ToolFailure, ToolOutput};
use super::wait::CallAnswer;

/// Who started a sub-run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The run.
    pub run: RunId,
    /// The call of it.
    pub call: CallId,
    /// The runs that the parent itself was started for, the outermost first.
    pub above: Vec<RunId>,
}

impl Parent {
    /// All runs that the sub-run was started for, the outermost first and its parent last.
    pub fn ancestors(&self) -> Vec<RunId> {
        self.above.iter().copied().chain([self.run]).collect()
    }

    /// How many runs that are.
    pub const fn depth(&self) -> usize {
        self.above.len().saturating_add(1)
    }
}

/// The sub-run that a call starts.
///
/// It has the id of the call, of which there is one: so a call can start no
/// two, and who has seen the call knows where its run is. `None` for an id that is not of our making.
pub fn run_of(call: &CallId) -> Option<RunId> {
    let hex = call.0.strip_prefix("call_").filter(|hex| hex.len() == 32)?;
    Uuid::try_parse(hex).ok().map(RunId::from)
}

/// A sub-run that a run waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SubRun {
    /// The call that started it.
    pub tool_call_id: CallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The run.
    pub run_id: RunId,
}

/// What the end of a sub-run tells the call that it was started by; `None` while it has not ended.
pub fn answer_of(facts: &RunFacts) -> Option<CallAnswer> {
    let failed = |r#type: &str, message: String| {
        let error = ToolFailure { r#type: r#type.to_owned(), message, redacted: false };
        CallAnswer::Failed { error }
    };
    Some(match facts.status {
        RunStatus::Queued | RunStatus::Running | RunStatus::RequiresAction => return None,
        RunStatus::Completed => CallAnswer::Succeeded { output: Some(output_of(facts)) },
        RunStatus::Failed => {
            let detail = facts.failure.as_ref().map_or("", |failure| failure.detail.as_str());
            failed("SubRunFailed", format!("the agent's run failed: {detail}"))
        }
        RunStatus::Cancelled => {
            let message = "the agent's run was cancelled before it had an answer";
            failed("SubRunCancelled", message.to_owned())
        }
        RunStatus::Interrupted => {
            let message = "the agent's run was interrupted before it had an answer";
            failed("SubRunInterrupted", message.to_owned())
        }
    })
}

/// What a call is told whose sub-run cannot be started: a caller has given its id to another run.
pub fn id_taken() -> ToolFailure {
    ToolFailure {
        r#type: "SubRunIdTaken".to_owned(),
        message: "the agent's run was not started: another run has its id".to_owned(),
        redacted: false,
    }
}

fn output_of(facts: &RunFacts) -> ToolOutput {
    let text = facts.answer.clone().unwrap_or_default();
    match &facts.output {
        // The answer spells the value, unless the value was said otherwise.
        Some(value) => {
            let spelt = JsonOutput::of(&text).ok().filter(|spelt| spelt.json == *value);
            ToolOutput::Json(spelt.unwrap_or_else(|| value.clone().into()))
        }
        None => ToolOutput::Text(TextOutput { text }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sub_run_has_the_id_of_its_call() {
        let hex = "0198f2c4a1b27cde8f00112233445566";
        let run = run_of(&CallId(format!("call_{hex}"))).unwrap();
        assert_eq!(run.to_string(), format!("run_{hex}"));
        for other in ["call_1", "toolu_0198f2c4a1b27cde8f00112233445566", hex] {
            assert_eq!(run_of(&CallId(other.to_owned())), None, "{other}");
        }
    }

    #[test]
    fn a_value_is_told_as_json_and_text_as_text() {
        let ended = |answer: &str, output| RunFacts {
            status: RunStatus::Completed,
            answer: Some(answer.to_owned()),
            output,
            ..RunFacts::accepted()
        };
        let told = |facts: &RunFacts| match answer_of(facts) {
            Some(CallAnswer::Succeeded { output: Some(output) }) => output,
            other => panic!("{other:?}"),
        };
        assert_eq!(told(&ended("4", None)), ToolOutput::from(json!("4")));
        let exact = told(&ended(r#"{"n": 1.10}"#, Some(json!({"n": 1.1}))));
        let ToolOutput::Json(exact) = exact else { panic!("{exact:?}") };
        assert_eq!(exact.text(), r#"{"n":1.10}"#);
        assert_eq!(answer_of(&RunFacts::accepted()), None);
    }
}
