//! Pydantic AI messages: requests.
//!
//! What a request says about the agent that made it (its `instructions`, and the parts that record
//! changes of instructions, tools and settings) is not part of a conversation: a thread's runs take
//! all of that from their own agent.

use super::conversation::Conversation;
use super::pydantic_tool::Cause;
use super::{each, files, pydantic_reply, pydantic_tool, tag, unsupported};
use crate::domain::memory::checks::call_id;
use crate::domain::memory::read::{Fields, Node, Read};
use crate::domain::memory::v2_parts::unknown_kind;
use crate::domain::step::{InputPart, InputText, RetryCause, RetryContent, RetryStep, StepContent};

/// The parts that record what the agent was.
const OF_THE_AGENT: [&str; 5] = [
    "instruction-baseline",
    "instruction-delta",
    "tool-availability-delta",
    "capability-load-delta",
    "model-settings-delta",
];

const KINDS: &str = "system-prompt, user-prompt, tool-return, retry-prompt, retry-feedback";

/// Reads a message.
pub(super) fn message<'a>(
    fields: &mut Fields<'a>,
    conversation: &mut Conversation<'a>,
) -> Read<()> {
    let (at, kind) = tag(fields, "kind")?;
    match kind.as_str() {
        "request" => {
            fields.required("parts", |node| each(node, |part| request_part(part, conversation)))
        }
        "response" => pydantic_reply::response(fields, conversation),
        _ => Err(unknown_kind(&at, "request, response")),
    }
}

fn request_part<'a>(node: &Node<'a>, conversation: &mut Conversation<'a>) -> Read<()> {
    let mut fields = node.object()?;
    let (at, kind) = tag(&mut fields, "part_kind")?;
    match kind.as_str() {
        "system-prompt" => system_prompt(&mut fields, conversation),
        "user-prompt" => {
            let (content, parts) =
                fields.required("content", |node| Ok((node.clone(), prompt(node)?)))?;
            conversation.ask(&content, parts)
        }
        "tool-return" => pydantic_tool::tool_return(&mut fields, conversation),
        "retry-prompt" | "retry-feedback" => retry(&mut fields, conversation),
        of_the_agent if OF_THE_AGENT.contains(&of_the_agent) => Ok(()),
        "speech" => Err(unsupported(&at, "speech")),
        _ => Err(unknown_kind(&at, KINDS)),
    }
}

/// A prompt of scope `request` was seen by one reply and by none after it, so it is not in the memory.
fn system_prompt(fields: &mut Fields<'_>, conversation: &mut Conversation<'_>) -> Read<()> {
    let scope = fields.optional("scope", Node::text);
    let text = fields.required("content", Node::text);
    if scope?.as_deref() != Some("request") {
        conversation.say_as_system(text?);
    }
    Ok(())
}

/// What the person said: a text, or a list of texts, files and other content.
fn prompt(node: &Node<'_>) -> Read<Vec<InputPart>> {
    if !node.is_array() {
        return Ok(vec![said(node.text()?)]);
    }
    let mut n_files = 0;
    Ok(node.list(|piece| prompt_piece(piece, &mut n_files))?.into_iter().flatten().collect())
}

/// A piece of a prompt; `None` for what only tells a provider what to cache.
fn prompt_piece(node: &Node<'_>, n_files: &mut usize) -> Read<Option<InputPart>> {
    if !node.is_object() {
        return node.text().map(said).map(Some);
    }
    let mut fields = node.object()?;
    let (at, kind) = tag(&mut fields, "kind")?;
    match kind.as_str() {
        "text-content" | "structured-content" => {
            fields.required("content", Node::text).map(said).map(Some)
        }
        "cache-point" => Ok(None),
        file if files::is_file(file) => {
            *n_files += 1;
            files::content(node, file, &mut fields, *n_files).map(InputPart::File).map(Some)
        }
        _ => Err(unsupported(&at, &format!("content of kind `{kind}`"))),
    }
}

const fn said(text: String) -> InputPart {
    InputPart::Text(InputText { text })
}

/// A request to answer again. One with a tool's name and a call's id is that call's outcome.
///
/// One without a cause is an `error`, and so is `no_output` beside a tool's name or a list of errors.
fn retry<'a>(fields: &mut Fields<'a>, conversation: &mut Conversation<'a>) -> Read<()> {
    let content = fields.required("content", pydantic_tool::retry_content);
    let cause = pydantic_tool::cause(fields);
    let tool = fields.optional("tool_name", |node| Ok((node.clone(), node.text()?)));
    let finished_at = pydantic_tool::timestamp(fields);
    let call = fields.take("tool_call_id").filter(|node| !node.is_null());
    let (content, cause, tool, finished_at) = (content?, cause?, tool?, finished_at?);
    if let (Some((named, name)), Some(place)) = (&tool, &call) {
        let kind = pydantic_tool::kind_of(cause);
        let message = pydantic_tool::message(&content);
        let outcome = pydantic_tool::failed((call_id(place)?, name), kind, message, finished_at);
        conversation.answer(place, Some(named), outcome);
        return Ok(());
    }
    let is_no_output = cause == Some(Cause::NoOutput) && tool.is_none();
    let cause = match content {
        RetryContent::Message(_) if is_no_output => RetryCause::NoOutput,
        RetryContent::Message(_) | RetryContent::Errors(_) => RetryCause::Error,
    };
    conversation.append(StepContent::Retry(RetryStep { cause, content }));
    Ok(())
}
