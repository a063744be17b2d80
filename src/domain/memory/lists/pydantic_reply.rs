//! Pydantic AI messages: responses.
//!
//! Parts that no step of ours has words for (tools that the provider ran itself, files, speech,
//! compactions) are kept as they came; no other reader is shown them.

use super::conversation::Conversation;
use super::{each, tag};
use crate::domain::json::spelt;
use crate::domain::memory::checks::call_id;
use crate::domain::memory::read::{Fields, Node, Read};
use crate::domain::memory::v2_parts::unknown_kind;
use crate::domain::message::{
    RedactedThinkingPart, Reply, ReplyPart, ReplyState, TextPart, ThinkingPart, ToolCallPart,
    UnknownPart,
};
use crate::domain::model::{FinishReason, Provider, Usage};

/// The parts that are kept as they came.
const KEPT: [&str; 5] =
    ["builtin-tool-call", "builtin-tool-return", "file", "speech", "compaction"];

/// How deep such a part stands in a document of version 2, in which it must be readable again.
const RAW_DEPTH: usize = 7;

/// What the id of thinking says when its signature is all there is of it.
const REDACTED: &str = "redacted_thinking";

/// Reads a response.
pub(super) fn response<'a>(
    fields: &mut Fields<'a>,
    conversation: &mut Conversation<'a>,
) -> Read<()> {
    let (mut parts, mut places) = (Vec::new(), Vec::new());
    let read = fields.required("parts", |node| {
        each(node, |node| {
            let (part, place) = part(node)?;
            parts.push(part);
            places.extend(place);
            Ok(())
        })
    });
    let reply = facts(fields);
    read?;
    conversation.act(Reply { parts, ..reply? }, places);
    Ok(())
}

/// A reply without its parts.
fn facts(fields: &mut Fields<'_>) -> Read<Reply> {
    let provider = provider(fields);
    let model = fields.optional("model_name", Node::text);
    let response_id = either(fields, ["provider_response_id", "vendor_id"], Node::text);
    let finish_reason = fields.optional("finish_reason", finish_reason);
    let usage = fields.optional("usage", usage);
    let state = fields.optional("state", state);
    Ok(Reply {
        host: None,
        provider: provider?,
        model: model?,
        response_id: response_id?,
        finish_reason: finish_reason?,
        usage: usage?.flatten(),
        state: state?.unwrap_or(ReplyState::Complete),
        parts: Vec::new(),
    })
}

/// Who answered, when it is a provider that this server knows.
fn provider(fields: &mut Fields<'_>) -> Read<Option<Provider>> {
    let name = fields.optional("provider_name", Node::text)?;
    Ok(name.and_then(|name| name.parse().ok()))
}

/// A member under its name of today or of yesterday.
fn either<'a, T>(
    fields: &mut Fields<'a>,
    names: [&str; 2],
    read: impl Fn(&Node<'a>) -> Read<T>,
) -> Read<Option<T>> {
    let [new, old] = names.map(|name| fields.optional(name, &read));
    Ok(new?.or(old?))
}

fn finish_reason(node: &Node<'_>) -> Read<FinishReason> {
    let text = node.text()?;
    Ok(if text == "tool_call" {
        FinishReason::ToolCalls
    } else {
        text.parse().unwrap_or(FinishReason::Other)
    })
}

/// Every state but `complete` is that of a reply whose end never came.
fn state(node: &Node<'_>) -> Read<ReplyState> {
    let is_complete = node.text()? == ReplyState::Complete.label();
    Ok(if is_complete { ReplyState::Complete } else { ReplyState::Interrupted })
}

/// Token counts; `None` when they say nothing of what was read and written.
fn usage(node: &Node<'_>) -> Read<Option<Usage>> {
    let mut fields = node.object()?;
    let input = either(&mut fields, ["input_tokens", "request_tokens"], Node::count);
    let output = either(&mut fields, ["output_tokens", "response_tokens"], Node::count);
    let cache_read = fields.optional("cache_read_tokens", Node::count);
    let cache_write = fields.optional("cache_write_tokens", Node::count);
    let reasoning =
        fields.optional("details", |node| node.object()?.optional("reasoning_tokens", Node::count));
    let written = fields.optional("output_reasoning_tokens", Node::count);
    let (input, output) = (input?, output?);
    let written = written?.filter(|count| *count > 0);
    let usage = Usage {
        input: input.unwrap_or_default(),
        output: output.unwrap_or_default(),
        cache_read: cache_read?.unwrap_or_default(),
        cache_write: cache_write?.unwrap_or_default(),
        reasoning: written.or(reasoning?.flatten()).unwrap_or_default(),
    };
    Ok(input.or(output).map(|_| usage))
}

/// A part, and where the id stands if it is a call.
fn part<'a>(node: &Node<'a>) -> Read<(ReplyPart, Option<Node<'a>>)> {
    let mut fields = node.object()?;
    let (at, kind) = tag(&mut fields, "part_kind")?;
    let part = match kind.as_str() {
        "text" => fields
            .required("content", Node::text)
            .map(|text| ReplyPart::Text(TextPart { text, echo: None }))?,
        "thinking" => thinking(&mut fields)?,
        "tool-call" => {
            let (place, call) = tool_call(&mut fields)?;
            return Ok((ReplyPart::ToolCall(call), Some(place)));
        }
        kept if KEPT.contains(&kept) => {
            let raw = node.clone().at_depth(RAW_DEPTH).value()?;
            // It is spelt as that package spells it, which its issuer would not understand.
            provider(&mut fields)?;
            // All of it is kept.
            fields.take_all();
            ReplyPart::Unknown(UnknownPart { issuer: None, raw })
        }
        _ => {
            let known = format!("text, thinking, tool-call, {}", KEPT.join(", "));
            return Err(unknown_kind(&at, &known));
        }
    };
    Ok((part, None))
}

fn thinking(fields: &mut Fields<'_>) -> Read<ReplyPart> {
    let text = fields.required("content", Node::text);
    let signature = fields.optional("signature", Node::text);
    let id = fields.optional("id", Node::text);
    let issuer = provider(fields);
    let (text, signature, id, issuer) = (text?, signature?, id?, issuer?);
    Ok(match (signature, id) {
        (Some(data), Some(id)) if id == REDACTED && text.is_empty() => {
            ReplyPart::RedactedThinking(RedactedThinkingPart { data, issuer })
        }
        (signature, id) => {
            ReplyPart::Thinking(ThinkingPart { text, signature, id, issuer, echo: None })
        }
    })
}

/// A call, and where its id stands. A call may come without arguments.
fn tool_call<'a>(fields: &mut Fields<'a>) -> Read<(Node<'a>, ToolCallPart)> {
    let id = fields.required("tool_call_id", |node| Ok((node.clone(), call_id(node)?)));
    let name = fields.required("tool_name", Node::text);
    let arguments = fields.optional("args", arguments);
    let ((place, tool_call_id), name) = (id?, name?);
    let arguments = arguments?.unwrap_or_default();
    Ok((place, ToolCallPart { tool_call_id, provider_call_id: None, name, arguments, echo: None }))
}

/// Arguments: the exact text where they came as text, else the object in compact form.
fn arguments(node: &Node<'_>) -> Read<String> {
    if node.is_object() {
        // The whole value is looked at, but its own text is what is kept.
        return node.object_value().map(|_| spelt(&node.exact()));
    }
    node.text()
}
