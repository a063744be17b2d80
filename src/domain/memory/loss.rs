//! What a history says that version 1 has no words for.

use super::Finding;
use super::read::{Node, Report};
use super::v1::{ERROR_KINDS, attempts};
use crate::domain::message::{Reply, ReplyPart, ReplyState, ToolCallPart};
use crate::domain::model::Usage;
use crate::domain::step::{ActionStep, FinalStep, StepContent, V1Extras};
use crate::domain::tool::{OutcomeKind, ToolOutcome, ToolOutput};

/// How deep `arguments` stand in a document of version 1.
const ARGUMENTS_DEPTH: usize = 8;

/// What would be lost if a history were written as version 1. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the history cannot be written as version 1 without loss")]
pub struct LossReport {
    /// What would be lost, with pointers into the version 2 document of the same history; at most
    /// [`super::MAX_FINDINGS`] entries.
    pub findings: Vec<Finding>,
}

/// Everything in the steps that version 1 cannot say; as many as a report lists.
pub fn losses(steps: &[StepContent]) -> Vec<Finding> {
    let report = Report::default();
    for (index, step) in steps.iter().enumerate() {
        if report.is_full() {
            break;
        }
        Loss { report: &report, at: format!("/steps/{index}") }.step(step);
    }
    report.into_findings()
}

/// A place whose losses are noted.
struct Loss<'a> {
    report: &'a Report,
    at: String,
}

impl Loss<'_> {
    fn at(&self, path: &str) -> Self {
        Self { report: self.report, at: format!("{}/{path}", self.at) }
    }

    /// Notes a loss at a member of this place if there is one.
    fn when(&self, lost: bool, path: &str, what: &str) {
        if lost {
            let message = format!("version 1 has no place for {what}");
            self.report.add(&self.at(path).at, "would_be_lost", message);
        }
    }

    fn whole(&self, what: &str) {
        let message = format!("version 1 has no place for {what}");
        self.report.add(&self.at, "would_be_lost", message);
    }

    fn step(&self, step: &StepContent) {
        match step {
            StepContent::Task(task) => {
                self.when(task.parts.len() != 1, "parts", "the bounds of several parts");
                let has_file = task.parts.iter().any(|part| part.text().is_none());
                self.when(has_file, "parts", "files: they are left out");
            }
            StepContent::Action(action) => self.action(action),
            StepContent::Retry(_) => self.whole("a retry: it becomes a task with the same text"),
            StepContent::System(_) => self.whole("text in the system voice: it is left out"),
            StepContent::Context(_) => self.whole("a block of context: it is left out"),
            StepContent::Tools(_) => self.whole("a change of tools: it is left out"),
            StepContent::Summary(_) => self.whole("a summary: it is left out, its steps are not"),
            StepContent::Final(FinalStep { answer: _, output, stop_reason }) => {
                self.when(output.is_some(), "output", "an answer as a value");
                self.when(stop_reason.is_some(), "stop_reason", "why the run ended");
            }
        }
    }

    fn action(&self, ActionStep { reply, outcomes, v1 }: &ActionStep) {
        self.at("reply").reply(reply, v1.as_ref());
        for (index, outcome) in outcomes.iter().enumerate() {
            self.at(&format!("outcomes/{index}")).outcome(outcome);
        }
        for (index, call) in reply.tool_calls().enumerate() {
            let answered = outcomes.iter().any(|o| o.tool_call_id == call.tool_call_id);
            self.when(!answered, &format!("outcomes/{index}"), "a call that is still under way");
        }
    }

    fn reply(&self, reply: &Reply, v1: Option<&V1Extras>) {
        let Reply { provider, host, model, response_id, finish_reason, usage, state, parts } =
            reply;
        self.when(host.is_some(), "host", "where the provider was reached");
        self.when(provider.is_some(), "provider", "who answered");
        self.when(model.is_some(), "model", "the model's name");
        self.when(response_id.is_some(), "response_id", "the provider's id of the reply");
        self.when(finish_reason.is_some(), "finish_reason", "why the model stopped");
        self.when(*state != ReplyState::Complete, "state", "that the reply was interrupted");
        if v1.is_none() {
            self.usage(usage.unwrap_or_default());
        }
        let mut texts = 0;
        let mut calls = 0;
        for (index, part) in parts.iter().enumerate() {
            let at = self.at(&format!("parts/{index}"));
            match part {
                ReplyPart::Text(text) => {
                    at.when(text.echo.is_some(), "echo", "what the provider wants back");
                    at.when(texts > 0 || calls > 0, "text", "text that is not first");
                    texts += 1;
                }
                ReplyPart::ToolCall(call) => {
                    at.call(call);
                    calls += 1;
                }
                ReplyPart::Thinking(_) => at.whole("thinking"),
                ReplyPart::RedactedThinking(_) => at.whole("thinking that only its issuer reads"),
                ReplyPart::Refusal(_) => at.whole("a refusal"),
                ReplyPart::Unknown(_) => at.whole("a part of no known kind"),
            }
        }
    }

    fn usage(&self, Usage { input: _, output: _, cache_read, cache_write, reasoning }: Usage) {
        self.when(cache_read > 0, "usage/cache_read", "tokens read from a cache");
        self.when(cache_write > 0, "usage/cache_write", "tokens written to a cache");
        self.when(reasoning > 0, "usage/reasoning", "tokens of reasoning");
    }

    fn call(&self, call: &ToolCallPart) {
        let ToolCallPart { tool_call_id: _, provider_call_id, name: _, arguments, echo } = call;
        self.when(echo.is_some(), "echo", "what the provider wants back");
        self.when(provider_call_id.is_some(), "provider_call_id", "the provider's id of the call");
        self.when(!is_object(arguments), "arguments", "arguments that are not a JSON object");
    }

    fn outcome(&self, outcome: &ToolOutcome) {
        let ToolOutcome {
            tool_call_id: _,
            name: _,
            is_error: _,
            kind,
            output,
            files,
            error,
            attempts: tries,
            started_at,
            finished_at,
            sanitised,
        } = outcome;
        let named = *kind == OutcomeKind::Success || ERROR_KINDS.iter().any(|(_, k)| k == kind);
        self.when(!named, "kind", "this kind of failure");
        let is_json = matches!(output, Some(ToolOutput::Json(_)));
        self.when(is_json, "output", "output as JSON: it becomes text");
        self.when(!files.is_empty(), "files", "files: they are left out");
        let redacted = error.as_ref().is_some_and(|error| error.redacted);
        self.when(redacted, "error/redacted", "that a message was withheld");
        let typed = error.as_ref().is_some_and(|error| !error.r#type.is_empty());
        self.when(typed, "error/type", "a failure's type apart from its message");
        self.when(*tries != attempts(*kind), "attempts", "how often the tool was tried");
        self.when(started_at.is_some(), "started_at", "when the call began");
        self.when(finished_at.is_some(), "finished_at", "when the call ended");
        self.when(*sanitised, "sanitised", "that characters were replaced");
    }
}

/// Whether a text is a JSON object that reads back from a document of version 1.
pub(super) fn is_object(text: &str) -> bool {
    let report = Report::default();
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let node = Node::root(text, &report).at_depth(ARGUMENTS_DEPTH);
    is_json && node.object_value().is_ok() && report.into_findings().is_empty()
}
