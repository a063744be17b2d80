//! What the scripted model says, written as Chat Completions would write it.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::domain::model::FinishReason;
use crate::domain::script::{ScriptCall, ScriptTurn};

/// One reply, ready to be written whole or as a stream.
pub(super) struct Line<'a> {
    entry: &'a ScriptTurn,
    turn: u32,
    model: Value,
    said: String,
    prompt_size: u64,
}

impl<'a> Line<'a> {
    pub(super) fn of(entry: &'a ScriptTurn, request: &[u8], turn: u32) -> Self {
        let request: Value = serde_json::from_slice(request).unwrap_or(Value::Null);
        let messages = request.get("messages").unwrap_or(&Value::Null);
        let said = if entry.echo { Some(last_user_text(messages)) } else { entry.text.clone() };
        Self {
            entry,
            turn,
            model: request.get("model").cloned().unwrap_or(Value::Null),
            said: said.unwrap_or_default(),
            prompt_size: tokens(&messages.to_string()),
        }
    }

    /// The reply as one body.
    pub(super) fn body(&self) -> Bytes {
        let calls: Vec<Value> = self.calls().map(|(_, call)| call).collect();
        let mut message = json!({"role": "assistant", "content": self.said});
        if let Some(thinking) = &self.entry.thinking {
            message = with(message, "reasoning_content", json!(thinking));
        }
        if !calls.is_empty() {
            message = with(message, "tool_calls", json!(calls));
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": self.finish_reason()});
        let body = self.envelope("chat.completion", &json!([choice]));
        let body = with(body, "usage", self.usage());
        Bytes::from(body.to_string())
    }

    /// The reply as a stream, one event a chunk.
    pub(super) fn events(&self) -> Vec<Bytes> {
        let finish = json!({"index": 0, "delta": {}, "finish_reason": self.finish_reason()});
        let counts = self.envelope("chat.completion.chunk", &json!([]));
        let counts = with(counts, "usage", self.usage());
        let mut events = self.deltas(self.entry.chunks.unwrap_or(1));
        events.push(self.event(&finish));
        events.push(data(&counts.to_string()));
        events.push(data("[DONE]"));
        events
    }

    /// The first half of the pieces. The text has at least two, so that something was said.
    pub(super) fn first_events(&self) -> Vec<Bytes> {
        let mut events = self.deltas(self.entry.chunks.unwrap_or(1).max(2));
        events.truncate(events.len().div_ceil(2));
        events
    }

    fn deltas(&self, pieces: u32) -> Vec<Bytes> {
        let thinking = self.entry.thinking.iter().map(|text| json!({"reasoning_content": text}));
        let said = split(&self.said, pieces).into_iter().map(|text| json!({"content": text}));
        let calls = self
            .calls()
            .map(|(index, call)| json!({"tool_calls": [with(call, "index", json!(index))]}));
        let choice = |delta: Value| json!({"index": 0, "delta": delta, "finish_reason": null});
        thinking.chain(said).chain(calls).map(|delta| self.event(&choice(delta))).collect()
    }

    fn event(&self, choice: &Value) -> Bytes {
        data(&self.envelope("chat.completion.chunk", &json!([choice])).to_string())
    }

    fn envelope(&self, object: &str, choices: &Value) -> Value {
        let id = format!("chatcmpl-scripted-{}", self.turn);
        json!({"id": id, "object": object, "created": 0, "model": self.model, "choices": choices})
    }

    fn calls(&self) -> impl Iterator<Item = (usize, Value)> {
        self.entry.tool_calls.iter().enumerate().map(|(index, call)| {
            let made = format!("call_{}_{}", self.turn, index + 1);
            let id = call.id.clone().unwrap_or(made);
            let function = json!({"name": call.name, "arguments": arguments(call)});
            (index, json!({"id": id, "type": "function", "function": function}))
        })
    }

    fn finish_reason(&self) -> FinishReason {
        let calls = !self.entry.tool_calls.is_empty();
        let usual = if calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        self.entry.finish_reason.unwrap_or(usual)
    }

    fn usage(&self) -> Value {
        let (input, output) = match self.entry.usage {
            Some(usage) => (usage.input, usage.output),
            None => (self.prompt_size, self.answer_size()),
        };
        let total = input.saturating_add(output);
        json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": total})
    }

    fn answer_size(&self) -> u64 {
        let mut written = self.said.clone();
        written.push_str(self.entry.thinking.as_deref().unwrap_or_default());
        written.extend(self.entry.tool_calls.iter().map(arguments));
        tokens(&written)
    }
}

fn arguments(call: &ScriptCall) -> String {
    let object = || json!(call.arguments.clone().unwrap_or_default()).to_string();
    call.raw_arguments.clone().unwrap_or_else(object)
}

fn data(text: &str) -> Bytes {
    Bytes::from(format!("data: {text}\n\n"))
}

/// One token for every four characters, rounded up.
fn tokens(text: &str) -> u64 {
    u64::try_from(text.chars().count().div_ceil(4)).unwrap_or(u64::MAX)
}

/// A text in as many pieces of about the same length, none of them empty.
fn split(text: &str, pieces: u32) -> Vec<String> {
    let length = text.chars().count();
    let pieces = usize::try_from(pieces.max(1)).unwrap_or(1);
    let mut split: Vec<(usize, String)> = Vec::new();
    for (position, letter) in text.chars().enumerate() {
        let piece = position.saturating_mul(pieces) / length;
        match split.last_mut() {
            Some((last, text)) if *last == piece => text.push(letter),
            _ => split.push((piece, letter.to_string())),
        }
    }
    split.into_iter().map(|(_, text)| text).collect()
}

/// An object with one more member.
fn with(mut object: Value, key: &str, member: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert(key.to_owned(), member);
    }
    object
}

/// The last thing a person said in a request.
fn last_user_text(messages: &Value) -> String {
    let said = |message: &&Value| message.get("role").and_then(Value::as_str) == Some("user");
    let last = messages.as_array().and_then(|all| all.iter().rfind(said));
    let Some(content) = last.and_then(|message| message.get("content")) else {
        return String::new();
    };
    let parts = content.as_array().into_iter().flatten();
    let texts = parts.filter_map(|part| part.get("text").and_then(Value::as_str));
    content.as_str().map_or_else(|| texts.collect(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_into_exactly_as_many_pieces_while_it_has_letters() {
        for (text, pieces, want) in [
            ("abcdefg", 3, vec!["abc", "de", "fg"]),
            ("abcd", 2, vec!["ab", "cd"]),
            ("é😀", 5, vec!["é", "😀"]),
            ("abc", 0, vec!["abc"]),
            ("", 4, vec![]),
        ] {
            assert_eq!(split(text, pieces), want);
        }
    }
}
