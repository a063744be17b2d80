//! Short ways to build steps and their parts.

use serde_json::Value;

use crate::domain::id::CallId;
use crate::domain::message::{
    RefusalPart, Reply, ReplyPart, ReplyState, TextPart, ThinkingPart, ToolCallPart,
};
use crate::domain::model::Provider;
use crate::domain::step::{
    ActionStep, ContextStep, FinalStep, InputPart, InputText, Replaces, RetryCause, RetryContent,
    RetryStep, StepContent, SummaryStep, SystemStep, TaskStep, ToolsStep,
};
use crate::domain::tool::{
    JsonOutput, OutcomeKind, TextOutput, ToolFailure, ToolOutcome, ToolOutput,
};

pub(crate) fn action(parts: Vec<ReplyPart>, outcomes: Vec<ToolOutcome>) -> ActionStep {
    let reply = Reply {
        host: None,
        provider: Some(Provider::Openai),
        model: None,
        response_id: None,
        finish_reason: None,
        usage: None,
        state: ReplyState::Complete,
        parts,
    };
    ActionStep { reply, outcomes, v1: None }
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> ReplyPart {
    ReplyPart::ToolCall(ToolCallPart {
        echo: None,
        tool_call_id: CallId(id.to_owned()),
        provider_call_id: None,
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

pub(crate) fn text(text: &str) -> ReplyPart {
    ReplyPart::Text(TextPart { text: text.to_owned(), echo: None })
}

pub(crate) fn refusal(text: &str) -> ReplyPart {
    ReplyPart::Refusal(RefusalPart { text: text.to_owned() })
}

pub(crate) fn thinking(text: &str, issuer: Option<Provider>) -> ReplyPart {
    ReplyPart::Thinking(ThinkingPart {
        text: text.to_owned(),
        signature: None,
        id: None,
        issuer,
        echo: None,
    })
}

fn outcome(id: &str, kind: OutcomeKind) -> ToolOutcome {
    ToolOutcome::not_run(CallId(id.to_owned()), "t", kind, None)
}

fn with_output(id: &str, output: ToolOutput) -> ToolOutcome {
    let base = outcome(id, OutcomeKind::Success);
    ToolOutcome { is_error: false, output: Some(output), attempts: 1, ..base }
}

pub(crate) fn success(id: &str, text: &str) -> ToolOutcome {
    with_output(id, ToolOutput::Text(TextOutput { text: text.to_owned() }))
}

pub(crate) fn json_output(id: &str, json: Value) -> ToolOutcome {
    with_output(id, ToolOutput::Json(JsonOutput::from(json)))
}

pub(crate) fn failed(id: &str, kind: OutcomeKind, message: &str) -> ToolOutcome {
    let failure = ToolFailure {
        r#type: "HttpStatus".to_owned(),
        message: message.to_owned(),
        redacted: false,
    };
    ToolOutcome { error: Some(failure), ..outcome(id, kind) }
}

pub(crate) fn task(text: &str) -> StepContent {
    let part = InputPart::Text(InputText { text: text.to_owned() });
    StepContent::Task(TaskStep { parts: vec![part] })
}

pub(crate) fn acted(parts: Vec<ReplyPart>, outcomes: Vec<ToolOutcome>) -> StepContent {
    StepContent::Action(action(parts, outcomes))
}

pub(crate) fn retry(cause: RetryCause, text: &str) -> StepContent {
    StepContent::Retry(RetryStep { cause, content: RetryContent::Message(text.to_owned()) })
}

pub(crate) fn system(text: &str) -> StepContent {
    StepContent::System(SystemStep { text: text.to_owned() })
}

pub(crate) fn context(id: &str, text: Option<&str>) -> ContextStep {
    ContextStep { id: id.parse().unwrap(), text: text.map(str::to_owned) }
}

pub(crate) fn tools(added: &[&str], removed: &[&str]) -> StepContent {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    StepContent::Tools(ToolsStep { added: owned(added), removed: owned(removed) })
}

pub(crate) fn summary(through_seq: i64, text: &str) -> StepContent {
    let text = Some(text.to_owned());
    StepContent::Summary(SummaryStep { replaces: Replaces::Steps, through_seq, text, usage: None })
}

pub(crate) fn dropped(through_seq: i64) -> StepContent {
    let replaces = Replaces::ToolOutput;
    StepContent::Summary(SummaryStep { replaces, through_seq, text: None, usage: None })
}

pub(crate) fn answer(text: &str) -> StepContent {
    StepContent::Final(FinalStep { answer: text.to_owned(), output: None, stop_reason: None })
}
