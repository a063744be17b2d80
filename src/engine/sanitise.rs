//! What models say is stored as text, and Postgres text holds no U+0000: it becomes U+FFFD.

use serde_json::Value;

use crate::domain::message::{Reply, ReplyPart};

/// Replaces what cannot be stored in a reply. The provider's own bytes are kept beside it.
pub(super) fn reply(reply: &mut Reply) {
    for text in [&mut reply.host, &mut reply.model, &mut reply.response_id].into_iter().flatten() {
        clean(text);
    }
    for part in &mut reply.parts {
        match part {
            ReplyPart::Text(part) => {
                clean(&mut part.text);
                part.echo.iter_mut().for_each(value);
            }
            ReplyPart::Thinking(part) => {
                clean(&mut part.text);
                part.echo.iter_mut().for_each(value);
            }
            ReplyPart::RedactedThinking(part) => clean(&mut part.data),
            ReplyPart::ToolCall(part) => {
                clean(&mut part.name);
                clean(&mut part.arguments);
                part.echo.iter_mut().for_each(value);
                if let Some(id) = &mut part.provider_call_id {
                    clean(id);
                }
            }
            ReplyPart::Refusal(part) => clean(&mut part.text),
            ReplyPart::Unknown(part) => value(&mut part.raw),
        }
    }
}

fn clean(text: &mut String) {
    if text.contains('\0') {
        *text = text.replace('\0', "\u{FFFD}");
    }
}

fn value(json: &mut Value) {
    match json {
        Value::String(text) => clean(text),
        Value::Array(items) => items.iter_mut().for_each(value),
        Value::Object(members) => {
            let entries = std::mem::take(members);
            members.extend(entries.into_iter().map(|(mut key, mut member)| {
                clean(&mut key);
                value(&mut member);
                (key, member)
            }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::message::{ReplyState, TextPart, UnknownPart};

    #[test]
    fn what_cannot_be_stored_is_replaced_everywhere() {
        let mut said = Reply {
            host: None,
            provider: None,
            model: Some("m\0".to_owned()),
            response_id: None,
            finish_reason: None,
            usage: None,
            state: ReplyState::Complete,
            parts: vec![
                ReplyPart::Text(TextPart { text: "a\0b".to_owned(), echo: None }),
                ReplyPart::Unknown(UnknownPart {
                    issuer: None,
                    raw: serde_json::json!({"k\u{0}": ["\u{0}", 1, null]}),
                }),
            ],
        };
        reply(&mut said);
        assert!(!serde_json::to_string(&said).unwrap().contains("\\u0000"));
        assert_eq!(said.text().as_deref(), Some("a\u{FFFD}b"));
    }
}
