//! Version 2, the smaller pieces: replies and their parts, input parts, error details.

use super::checks::call_id;
use super::read::{Fields, Flawed, Node, Read};
use super::v1;
use crate::domain::file::{FileBytes, FilePart, FileSource, FileText, FileUrl};
use crate::domain::message::{
    RedactedThinkingPart, RefusalPart, Reply, ReplyPart, TextPart, ThinkingPart, ToolCallPart,
    UnknownPart,
};
use crate::domain::model::Usage;
use crate::domain::step::{ErrorDetail, InputPart, InputText, V1Extras};

/// Reports a tag that names nothing.
pub(super) fn unknown_kind(tag: &Node<'_>, known: &str) -> Flawed {
    tag.flaw("unknown_kind", format!("expected one of: {known}"))
}

/// A piece of input.
pub(super) fn input_part(node: &Node<'_>) -> Read<InputPart> {
    let mut fields = node.object()?;
    let kind = fields.required("part_kind", |kind| Ok((kind.clone(), kind.text()?)))?;
    let part = match kind.1.as_str() {
        "text" => {
            fields.required("text", Node::text).map(|text| InputPart::Text(InputText { text }))
        }
        "file" => file_fields(node, &mut fields).map(InputPart::File),
        _ => return Err(unknown_kind(&kind.0, "text, file")),
    };
    fields.finish()?;
    part
}

/// A file of a tool.
pub(super) fn file(node: &Node<'_>) -> Read<FilePart> {
    let mut fields = node.object()?;
    let file = file_fields(node, &mut fields);
    fields.finish()?;
    file
}

fn file_fields(node: &Node<'_>, fields: &mut Fields<'_>) -> Read<FilePart> {
    let id = fields.required("id", Node::text);
    let media_type = fields.required("media_type", Node::text);
    let source = fields.required("source", file_source);
    let file = FilePart { id: id?, media_type: media_type?, source: source? };
    match file.flaw() {
        None => Ok(file),
        Some(flaw) => Err(node.flaw_below(flaw.pointer, "invalid_value", flaw.message)),
    }
}

fn file_source(node: &Node<'_>) -> Read<FileSource> {
    let mut fields = node.object()?;
    let kind = fields.required("source_kind", |kind| Ok((kind.clone(), kind.text()?)))?;
    let source = match kind.1.as_str() {
        "text" => {
            fields.required("text", Node::text).map(|text| FileSource::Text(FileText { text }))
        }
        "base64" => fields
            .required("base64", Node::text)
            .map(|base64| FileSource::Base64(FileBytes { base64 })),
        "url" => fields.required("url", Node::text).map(|url| FileSource::Url(FileUrl { url })),
        _ => return Err(unknown_kind(&kind.0, "text, base64, url")),
    };
    fields.finish()?;
    source
}

/// A model's reply.
pub(super) fn reply(node: &Node<'_>) -> Read<Reply> {
    let mut fields = node.object()?;
    let provider = fields.optional("provider", Node::label);
    let model = fields.optional("model", Node::text);
    let host = fields.optional("host", Node::text);
    let response_id = fields.optional("response_id", Node::text);
    let finish_reason = fields.optional("finish_reason", Node::label);
    let usage = fields.optional("usage", usage);
    let state = fields.required("state", Node::label);
    let parts = fields.required("parts", |node| node.list(reply_part));
    fields.finish()?;
    Ok(Reply {
        provider: provider?,
        model: model?,
        host: host?,
        response_id: response_id?,
        finish_reason: finish_reason?,
        usage: usage?,
        state: state?,
        parts: parts?,
    })
}

pub(super) fn usage(node: &Node<'_>) -> Read<Usage> {
    let mut fields = node.object()?;
    let input = fields.required("input", Node::count);
    let output = fields.required("output", Node::count);
    let mut more = |name| Ok(fields.optional(name, Node::count)?.unwrap_or(0));
    let (cache_read, cache_write) = (more("cache_read"), more("cache_write"));
    let reasoning = more("reasoning");
    fields.finish()?;
    Ok(Usage {
        input: input?,
        output: output?,
        cache_read: cache_read?,
        cache_write: cache_write?,
        reasoning: reasoning?,
    })
}

fn reply_part(node: &Node<'_>) -> Read<ReplyPart> {
    let mut fields = node.object()?;
    let kind = fields.required("part_kind", |kind| Ok((kind.clone(), kind.text()?)))?;
    let part = match kind.1.as_str() {
        "text" => {
            let text = fields.required("text", Node::text);
            let echo = fields.optional("echo", Node::value);
            Ok(ReplyPart::Text(TextPart { text: text?, echo: echo? }))
        }
        "refusal" => {
            fields.required("text", Node::text).map(|text| ReplyPart::Refusal(RefusalPart { text }))
        }
        "thinking" => thinking(&mut fields).map(ReplyPart::Thinking),
        "redacted_thinking" => redacted_thinking(&mut fields).map(ReplyPart::RedactedThinking),
        "tool_call" => tool_call(&mut fields).map(ReplyPart::ToolCall),
        "unknown" => unknown(&mut fields).map(ReplyPart::Unknown),
        _ => {
            let known = "text, thinking, redacted_thinking, tool_call, refusal, unknown";
            return Err(unknown_kind(&kind.0, known));
        }
    };
    fields.finish()?;
    part
}

fn thinking(fields: &mut Fields<'_>) -> Read<ThinkingPart> {
    let text = fields.required("text", Node::text);
    let signature = fields.optional("signature", Node::text);
    let id = fields.optional("id", Node::text);
    let issuer = fields.optional("issuer", Node::label);
    let echo = fields.optional("echo", Node::value);
    Ok(ThinkingPart { text: text?, signature: signature?, id: id?, issuer: issuer?, echo: echo? })
}

fn redacted_thinking(fields: &mut Fields<'_>) -> Read<RedactedThinkingPart> {
    let data = fields.required("data", Node::text);
    let issuer = fields.optional("issuer", Node::label);
    Ok(RedactedThinkingPart { data: data?, issuer: issuer? })
}

fn tool_call(fields: &mut Fields<'_>) -> Read<ToolCallPart> {
    let tool_call_id = fields.required("tool_call_id", call_id);
    let provider_call_id = fields.optional("provider_call_id", Node::text);
    let name = fields.required("name", Node::text);
    let arguments = fields.required("arguments", Node::text);
    let echo = fields.optional("echo", Node::value);
    Ok(ToolCallPart {
        tool_call_id: tool_call_id?,
        provider_call_id: provider_call_id?,
        name: name?,
        arguments: arguments?,
        echo: echo?,
    })
}

fn unknown(fields: &mut Fields<'_>) -> Read<UnknownPart> {
    let issuer = fields.optional("issuer", Node::label);
    let raw = fields.required("raw", Node::value);
    Ok(UnknownPart { issuer: issuer?, raw: raw? })
}

/// A list of validation errors.
pub(super) fn error_details(node: &Node<'_>) -> Read<Vec<ErrorDetail>> {
    node.list(|node| {
        let mut fields = node.object()?;
        let r#type = fields.required("type", Node::text);
        let loc = fields.required("loc", |node| node.list(Node::value));
        let msg = fields.required("msg", Node::text);
        // A null is the value in question, not an absent one.
        let input = fields.take("input").map(|node| node.value()).transpose();
        fields.finish()?;
        Ok(ErrorDetail { r#type: r#type?, loc: loc?, msg: msg?, input: input? })
    })
}

/// What a step keeps of a version 1 document.
pub(super) fn v1_extras(node: &Node<'_>) -> Read<V1Extras> {
    let mut fields = node.object()?;
    let role = fields.optional("role", v1::role);
    let content_is_empty_text = fields.switch("content_is_empty_text");
    let tool_call_id = fields.optional("tool_call_id", Node::text);
    let message_usage = fields.optional("message_usage", v1::usage);
    let error = fields.optional("error", Node::text);
    let usage = fields.optional("usage", v1::usage);
    let duration = fields.optional("duration", Node::number);
    let untyped_errors = fields.optional("untyped_errors", |node| node.list(call_id));
    fields.finish()?;
    Ok(V1Extras {
        role: role?,
        content_is_empty_text: content_is_empty_text?,
        tool_call_id: tool_call_id?,
        message_usage: message_usage?,
        error: error?,
        usage: usage?,
        duration: duration?,
        untyped_errors: untyped_errors?.unwrap_or_default(),
    })
}
