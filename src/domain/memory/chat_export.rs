//! A list of OpenAI chat messages: writing.
//!
//! The format has messages where a history has steps, so much of a history has no place in it. What is
//! said is told all the same; what is not said by anyone, such as why a run ended, is left out.

use serde::Serialize;

use super::Memory;
use super::chat_files::ChatFile;
use super::chat_loss::losses;
use super::loss::LossReport;
use super::v1_export::result_text;
use crate::domain::id::CallId;
use crate::domain::message::{Reply, ReplyPart};
use crate::domain::retry::plain_retry_text;
use crate::domain::step::{ActionStep, InputPart, StepContent, TaskStep};

/// A message.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub(super) enum Message<'a> {
    System { content: &'a str },
    User { content: Content<'a> },
    Assistant(Box<Assistant<'a>>),
    Tool { tool_call_id: &'a CallId, content: String },
}

/// What a message says.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Content<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Part<'a> {
    Text { r#type: &'static str, text: &'a str },
    Refusal { r#type: &'static str, refusal: &'a str },
    File(ChatFile<'a>),
}

#[derive(Serialize)]
pub(super) struct Assistant<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a CallId,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// Writes a memory as a list of OpenAI chat messages.
///
/// With `lossy`, what the format cannot say is left out or said in plain text; without it, the first
/// thing that would be lost refuses the export.
pub fn export_chat(memory: &Memory, lossy: bool) -> Result<String, LossReport> {
    if !lossy {
        let findings = losses(&memory.steps);
        if !findings.is_empty() {
            return Err(LossReport { findings });
        }
    }
    Ok(written(&memory.steps))
}

/// The messages of steps as JSON.
pub(super) fn written(steps: &[StepContent]) -> String {
    let mut said = None;
    let messages: Vec<Message<'_>> = steps
        .iter()
        .flat_map(|step| {
            let messages = messages_of(step, said.as_deref());
            said = text_of(step);
            messages
        })
        .collect();
    // Writing into memory fails only for keys that are no text, and there are none.
    serde_json::to_string(&messages).unwrap_or_default()
}

fn text_of(step: &StepContent) -> Option<String> {
    if let StepContent::Action(action) = step { action.reply.text() } else { None }
}

/// The messages of a step. `said` is what the reply right before it says.
fn messages_of<'a>(step: &'a StepContent, said: Option<&str>) -> Vec<Message<'a>> {
    match step {
        StepContent::Task(task) => vec![Message::User { content: prompt(task) }],
        StepContent::Action(action) => exchange(action),
        StepContent::Retry(retry) => {
            vec![Message::User { content: Content::Text(plain_retry_text(retry)) }]
        }
        StepContent::System(step) => vec![Message::System { content: &step.text }],
        StepContent::Context(step) => {
            step.text.iter().map(|text| Message::System { content: text }).collect()
        }
        // What a summary stands for is in the list itself.
        StepContent::Tools(_) | StepContent::Summary(_) => Vec::new(),
        // The answer is the last reply, unless the history was loaded from a format that says it apart.
        StepContent::Final(step) if said == Some(&step.answer) => Vec::new(),
        StepContent::Final(step) => vec![Message::Assistant(Box::new(Assistant {
            reasoning_content: None,
            content: Some(Content::Text(step.answer.clone())),
            refusal: None,
            tool_calls: Vec::new(),
        }))],
    }
}

fn prompt(task: &TaskStep) -> Content<'_> {
    if let [InputPart::Text(part)] = task.parts.as_slice() {
        return Content::Text(part.text.clone());
    }
    let parts = task.parts.iter().map(|part| match part {
        InputPart::Text(part) => Part::Text { r#type: "text", text: &part.text },
        InputPart::File(file) => Part::File(ChatFile::of(file)),
    });
    Content::Parts(parts.collect())
}

fn exchange(action: &ActionStep) -> Vec<Message<'_>> {
    let results = action.outcomes.iter().map(|outcome| Message::Tool {
        tool_call_id: &outcome.tool_call_id,
        content: result_text(outcome),
    });
    let reply = Message::Assistant(Box::new(assistant(&action.reply)));
    std::iter::once(reply).chain(results).collect()
}

fn assistant(reply: &Reply) -> Assistant<'_> {
    let thinking: Vec<&str> = reply.parts.iter().filter_map(thought).collect();
    let mut content: Vec<Part<'_>> = reply.parts.iter().filter_map(said).collect();
    let refusal = if let Some(Part::Refusal { refusal, .. }) = content.last() {
        Some(*refusal)
    } else {
        None
    };
    if refusal.is_some() {
        content.pop();
    }
    let content = match content.as_slice() {
        [] => None,
        [Part::Text { text, .. }] => Some(Content::Text((*text).to_owned())),
        _ => Some(Content::Parts(content)),
    };
    let calls = reply.tool_calls().map(|call| Call {
        id: &call.tool_call_id,
        r#type: "function",
        function: Function { name: &call.name, arguments: &call.arguments },
    });
    Assistant {
        reasoning_content: (!thinking.is_empty()).then(|| thinking.join("\n\n")),
        content,
        refusal,
        tool_calls: calls.collect(),
    }
}

fn thought(part: &ReplyPart) -> Option<&str> {
    if let ReplyPart::Thinking(part) = part { Some(&part.text) } else { None }
}

fn said(part: &ReplyPart) -> Option<Part<'_>> {
    match part {
        ReplyPart::Text(part) => Some(Part::Text { r#type: "text", text: &part.text }),
        ReplyPart::Refusal(part) => Some(Part::Refusal { r#type: "refusal", refusal: &part.text }),
        ReplyPart::Thinking(_)
        | ReplyPart::RedactedThinking(_)
        | ReplyPart::ToolCall(_)
        | ReplyPart::Unknown(_) => None,
    }
}
