//! Content of spans, where the operator wants it: in the form that the conventions give to messages,
//! redacted text by text and then cut, so that nothing that is cut off hides from redaction.

use serde_json::{Value, json};

use crate::domain::message::{Reply, ReplyPart};
use crate::domain::model::FinishReason;
use crate::domain::tool::ToolOutcome;
use crate::render::prompt::{Block, Prompt, PromptTurn, Role};

/// The most bytes of texts in one attribute. Of a longer conversation the newest messages are kept.
const MAX_BYTES: usize = 32 * 1024;

/// What makes a text one that may be traced.
type Redact<'a> = &'a dyn Fn(&str) -> String;

/// What stands for what is cut off.
const CUT: &str = "…";

/// A text that is not too long.
pub(super) fn cut(text: String) -> String {
    Room(MAX_BYTES).fit(text)
}

/// What is left of the bytes of an attribute.
struct Room(usize);

impl Room {
    fn fit(&mut self, mut text: String) -> String {
        if text.len() > self.0 {
            text.truncate(text.floor_char_boundary(self.0));
            text.push_str(CUT);
        }
        self.0 = self.0.saturating_sub(text.len());
        text
    }
}

/// Standing instructions.
pub(super) fn system(text: &str, redact: Redact<'_>) -> String {
    json!([{ "type": "text", "content": cut(redact(text)) }]).to_string()
}

/// What a model is sent.
pub(super) fn input(prompt: &Prompt, redact: Redact<'_>) -> String {
    let mut room = Room(MAX_BYTES);
    let mut newest_first = Vec::new();
    for turn in prompt.turns.iter().rev() {
        if room.0 == 0 {
            break;
        }
        newest_first.push(message(turn, (redact, &mut room)));
    }
    newest_first.reverse();
    Value::Array(newest_first).to_string()
}

fn message(turn: &PromptTurn, (redact, room): (Redact<'_>, &mut Room)) -> Value {
    let role = match turn.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut shown = |text: &str| room.fit(redact(text));
    let parts: Vec<Value> = turn.blocks.iter().map(|block| part(block, &mut shown)).collect();
    json!({ "role": role, "parts": parts })
}

fn part(block: &Block, shown: &mut dyn FnMut(&str) -> String) -> Value {
    match block {
        Block::Text(text) | Block::Said { text, .. } => text_part(&shown(text.as_str())),
        Block::Thinking { text, .. } => thinking(&shown(text.as_str())),
        Block::ToolCall { call_id, name, arguments, .. } => {
            call(&call_id.0, &shown(name), &shown(arguments))
        }
        Block::ToolResult { call_id, text, .. } => {
            let result = shown(text.as_str());
            json!({ "type": "tool_call_response", "id": call_id.0, "response": result })
        }
        // Files and what only its issuer can read say nothing to whoever reads a trace.
        Block::File { .. } => json!({ "type": "file" }),
        Block::RedactedThinking { .. } | Block::Opaque { .. } => json!({ "type": "opaque" }),
    }
}

fn text_part(content: &str) -> Value {
    json!({ "type": "text", "content": content })
}

fn thinking(content: &str) -> Value {
    json!({ "type": "reasoning", "content": content })
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "type": "tool_call", "id": id, "name": name, "arguments": arguments })
}

/// What a model answers.
pub(super) fn output(reply: &Reply, redact: Redact<'_>) -> String {
    let mut room = Room(MAX_BYTES);
    let mut shown = |text: &str| room.fit(redact(text));
    let parts: Vec<Value> = reply.parts.iter().map(|part| reply_part(part, &mut shown)).collect();
    let reason = reply.finish_reason.map(FinishReason::label);
    json!([{ "role": "assistant", "parts": parts, "finish_reason": reason }]).to_string()
}

fn reply_part(part: &ReplyPart, shown: &mut dyn FnMut(&str) -> String) -> Value {
    match part {
        ReplyPart::Text(part) => text_part(&shown(&part.text)),
        ReplyPart::Refusal(part) => text_part(&shown(&part.text)),
        ReplyPart::Thinking(part) => thinking(&shown(&part.text)),
        ReplyPart::ToolCall(part) => {
            call(&part.tool_call_id.0, &shown(&part.name), &shown(&part.arguments))
        }
        ReplyPart::RedactedThinking(_) | ReplyPart::Unknown(_) => json!({ "type": "opaque" }),
    }
}

/// What came of a call, as it is stored.
pub(super) fn result(outcome: &ToolOutcome, redact: Redact<'_>) -> String {
    let result = match (&outcome.output, &outcome.error) {
        (Some(output), _) => serde_json::to_string(output),
        (None, error) => serde_json::to_string(error),
    };
    cut(redact(&result.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ledger::Origin;
    use crate::render::prompt::MarkedText;

    fn said(text: &str) -> PromptTurn {
        let text = MarkedText::of(text, Origin::WIRE.clone());
        PromptTurn { role: Role::User, blocks: vec![Block::Text(text)] }
    }

    #[test]
    fn of_a_long_conversation_the_newest_is_kept_and_all_of_it_is_redacted_before_it_is_cut() {
        let secret = "hunter22";
        // The cut goes through the middle of the secret.
        let older = format!("{}{secret}{}", "x".repeat(MAX_BYTES - 14), "y".repeat(100));
        let turns = vec![said("oldest"), said(&older), said("newest")];
        let prompt = Prompt { turns, ..Prompt::default() };
        let redact = |text: &str| text.replace(secret, "[gone]");
        let text = input(&prompt, &redact);
        let messages: Vec<Value> = serde_json::from_str(&text).unwrap();
        assert_eq!(messages.len(), 2, "the oldest has no room");
        assert_eq!(messages[1]["parts"][0]["content"], "newest");
        assert!(text.len() < MAX_BYTES + 1_000 && text.contains(CUT) && !text.contains("hunt"));
    }
}
