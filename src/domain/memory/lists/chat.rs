//! OpenAI chat messages.
//!
//! A `tool` message does not say whether its call failed, so every outcome is a success with that
//! text. Thinking that servers put beside the content says nothing about who issued it.

use super::conversation::Conversation;
use super::{bare_reply, files, tag, unsupported};
use crate::domain::memory::checks::call_id;
use crate::domain::memory::read::{Fields, Node, Read};
use crate::domain::memory::v1::attempts;
use crate::domain::memory::v2_parts::unknown_kind;
use crate::domain::message::{RefusalPart, ReplyPart, TextPart, ThinkingPart, ToolCallPart};
use crate::domain::step::{InputPart, InputText};
use crate::domain::tool::{OutcomeKind, TextOutput, ToolOutcome, ToolOutput};

/// Reads a message.
pub(super) fn message<'a>(
    fields: &mut Fields<'a>,
    conversation: &mut Conversation<'a>,
) -> Read<()> {
    let (at, role) = tag(fields, "role")?;
    match role.as_str() {
        "system" | "developer" => {
            for text in fields.required("content", texts)? {
                conversation.say_as_system(text);
            }
            Ok(())
        }
        "user" => {
            let (content, parts) =
                fields.required("content", |node| Ok((node.clone(), prompt(node)?)))?;
            conversation.ask(&content, parts)
        }
        "assistant" => assistant(fields, conversation),
        "tool" => tool(fields, conversation),
        "function" => Err(unsupported(&at, "a function's result, which names no call")),
        _ => Err(unknown_kind(&at, "system, developer, user, assistant, tool")),
    }
}

/// What a user says: a text, or a list of texts and files.
fn prompt(node: &Node<'_>) -> Read<Vec<InputPart>> {
    let text = |text| InputPart::Text(InputText { text });
    if !node.is_array() {
        return Ok(vec![text(node.text()?)]);
    }
    let mut n_files = 0;
    node.list(|part| {
        let mut fields = part.object()?;
        let (at, kind) = tag(&mut fields, "type")?;
        if kind == "text" {
            return fields.required("text", Node::text).map(text);
        }
        n_files += 1;
        let file = files::chat_part(part, &kind, &mut fields, n_files);
        let other = || Err(unsupported(&at, &format!("a part of type `{kind}`")));
        file.unwrap_or_else(other).map(InputPart::File)
    })
}

/// A text, or the texts of a list of parts.
fn texts(node: &Node<'_>) -> Read<Vec<String>> {
    if !node.is_array() {
        return Ok(vec![node.text()?]);
    }
    node.list(|part| {
        let mut fields = part.object()?;
        let (at, kind) = tag(&mut fields, "type")?;
        if kind == "text" {
            return fields.required("text", Node::text);
        }
        Err(unsupported(&at, &format!("a part of type `{kind}`")))
    })
}

fn assistant<'a>(fields: &mut Fields<'a>, conversation: &mut Conversation<'a>) -> Read<()> {
    let thinking = fields.optional("reasoning_content", Node::text);
    let content = fields.optional("content", said);
    let refusal = fields.optional("refusal", Node::text);
    let calls = fields.optional("tool_calls", |node| node.list(call));
    let lost = ["audio", "function_call"].map(|name| {
        let what = format!("what `{name}` stands for");
        fields.optional(name, |node| Err::<(), _>(unsupported(node, &what)))
    });
    let (thinking, content, refusal) = (thinking?, content?.unwrap_or_default(), refusal?);
    let (places, calls): (Vec<_>, Vec<_>) = calls?.unwrap_or_default().into_iter().unzip();
    for lost in lost {
        lost?;
    }
    let thinking = thinking.map(|text| {
        ReplyPart::Thinking(ThinkingPart {
            text,
            signature: None,
            id: None,
            issuer: None,
            echo: None,
        })
    });
    let refusal = refusal.map(|text| ReplyPart::Refusal(RefusalPart { text }));
    let parts = thinking.into_iter().chain(content).chain(refusal);
    let parts = parts.chain(calls.into_iter().map(ReplyPart::ToolCall)).collect();
    conversation.act(bare_reply(parts), places);
    Ok(())
}

/// What an assistant says: a text, or a list of texts and refusals.
fn said(node: &Node<'_>) -> Read<Vec<ReplyPart>> {
    if !node.is_array() {
        return Ok(vec![ReplyPart::Text(TextPart { text: node.text()?, echo: None })]);
    }
    node.list(|part| {
        let mut fields = part.object()?;
        let (at, kind) = tag(&mut fields, "type")?;
        match kind.as_str() {
            "text" => fields
                .required("text", Node::text)
                .map(|text| ReplyPart::Text(TextPart { text, echo: None })),
            "refusal" => fields
                .required("refusal", Node::text)
                .map(|text| ReplyPart::Refusal(RefusalPart { text })),
            _ => Err(unsupported(&at, &format!("a part of type `{kind}`"))),
        }
    })
}

/// A call, and where its id stands.
fn call<'a>(node: &Node<'a>) -> Read<(Node<'a>, ToolCallPart)> {
    let mut fields = node.object()?;
    let kind = fields.optional("type", |node| match node.text()?.as_str() {
        "function" => Ok(()),
        other => Err(unsupported(node, &format!("a call of type `{other}`"))),
    });
    let id = fields.required("id", |node| Ok((node.clone(), call_id(node)?)));
    kind?;
    let function = fields.required("function", |node| {
        let mut fields = node.object()?;
        let name = fields.required("name", Node::text);
        let arguments = fields.required("arguments", Node::text);
        Ok((name?, arguments?))
    });
    let ((place, id), (name, arguments)) = (id?, function?);
    Ok((
        place,
        ToolCallPart { tool_call_id: id, provider_call_id: None, name, arguments, echo: None },
    ))
}

fn tool<'a>(fields: &mut Fields<'a>, conversation: &mut Conversation<'a>) -> Read<()> {
    let id = fields.required("tool_call_id", |node| Ok((node.clone(), call_id(node)?)));
    let content = fields.required("content", texts);
    let ((place, id), text) = (id?, content?.concat());
    let outcome = ToolOutcome {
        is_error: false,
        output: Some(ToolOutput::Text(TextOutput { text })),
        attempts: attempts(OutcomeKind::Success),
        ..ToolOutcome::not_run(id, "", OutcomeKind::Success, None)
    };
    conversation.answer(&place, None, outcome);
    Ok(())
}
