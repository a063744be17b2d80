//! Output items → the parts of a reply.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::domain::id::CallId;
use crate::domain::message::{
    RefusalPart, ReplyPart, TextPart, ThinkingPart, ToolCallPart, UnknownPart,
};
use crate::domain::model::Provider;
use crate::wire::json::{items, present, storable, text};

/// Members of a message that are told otherwise or can be left out.
const OF_MESSAGE: &[&str] = &["type", "role", "status", "content"];

/// Members of a call that are told otherwise or can be left out.
const OF_CALL: &[&str] = &["type", "status", "call_id", "name", "arguments"];

/// Members of reasoning that are told otherwise or can be left out.
const OF_REASONING: &[&str] = &["type", "status", "id", "summary", "content", "encrypted_content"];

/// The parts of one reply, in the order of its items.
#[derive(Debug)]
pub(super) struct Parts {
    issuer: Provider,
    /// The parts so far.
    pub(super) list: Vec<ReplyPart>,
    n_calls: usize,
    ids: BTreeSet<String>,
}

/// What an item is; some servers leave its type out.
pub(super) fn kind_of(item: &Value) -> &str {
    text(item, "type").unwrap_or_else(|| {
        let has = |name: &str| item.get(name).is_some();
        match (has("arguments"), has("summary"), has("content")) {
            (true, _, _) => "function_call",
            (false, true, _) => "reasoning",
            (false, false, true) => "message",
            (false, false, false) => "",
        }
    })
}

impl Parts {
    pub(super) const fn new(issuer: Provider) -> Self {
        Self { issuer, list: Vec::new(), n_calls: 0, ids: BTreeSet::new() }
    }

    /// Takes an item. One that has not come whole is only of use where its members are known.
    pub(super) fn add(&mut self, item: &Value, is_whole: bool) {
        match kind_of(item) {
            "message" => self.add_message(item),
            "reasoning" => self.add_reasoning(item),
            "function_call" => self.add_call(item),
            _ if is_whole && item.as_object().is_some_and(|it| !it.is_empty()) => {
                self.add_unknown(item.clone());
            }
            _ => {}
        }
    }

    fn add_unknown(&mut self, raw: Value) {
        self.list.push(ReplyPart::Unknown(UnknownPart { issuer: Some(self.issuer), raw }));
    }

    fn add_message(&mut self, item: &Value) {
        let mut members = others(item, OF_MESSAGE);
        if let Some(said) = text(item, "content") {
            self.add_text(said, members);
            return;
        }
        for part in items(item, "content") {
            match text(part, "type").unwrap_or("output_text") {
                "output_text" | "text" | "input_text" => {
                    // Beside the parts after the first there is only what says where they belong.
                    let id = members.get("id").map(|id| ("id".to_owned(), id.clone()));
                    let members = std::mem::replace(&mut members, id.into_iter().collect());
                    let beside = present(part, "annotations").cloned();
                    let beside = beside.map(|it| ("annotations".to_owned(), it));
                    let echo = members.into_iter().chain(beside).collect();
                    self.add_text(text(part, "text").unwrap_or_default(), echo);
                }
                "refusal" => {
                    let said = storable(text(part, "refusal").unwrap_or_default());
                    self.list.push(ReplyPart::Refusal(RefusalPart { text: said }));
                }
                _ => {
                    // It goes back where it stood: in a message.
                    let raw = json!({"type": "message", "role": "assistant", "content": [part]});
                    self.add_unknown(raw);
                }
            }
        }
    }

    fn add_text(&mut self, said: &str, echo: Map<String, Value>) {
        if !said.is_empty() {
            let text = storable(said);
            self.list.push(ReplyPart::Text(TextPart { text, echo: as_echo(echo) }));
        }
    }

    /// The texts of one item are parts with one id. The first bears what seals them all.
    fn add_reasoning(&mut self, item: &Value) {
        let mut echo = others(item, OF_REASONING);
        let thoughts = |name: &str| {
            let list = items(item, name).iter().filter_map(|part| text(part, "text"));
            list.chain(text(item, name)).map(storable).collect::<Vec<String>>()
        };
        let (summary, raw) = (thoughts("summary"), thoughts("content"));
        let is_raw = summary.is_empty() && !raw.is_empty();
        if is_raw {
            echo.insert("content".to_owned(), json!(true));
        } else if !raw.is_empty() {
            echo.extend(item.get("content").map(|raw| ("content".to_owned(), raw.clone())));
        }
        let mut texts = if is_raw { raw } else { summary };
        let mut signature = text(item, "encrypted_content").map(storable);
        if texts.is_empty() {
            texts.extend((signature.is_some() || !echo.is_empty()).then(String::new));
        }
        for text_of_part in texts {
            self.list.push(ReplyPart::Thinking(ThinkingPart {
                text: text_of_part,
                signature: signature.take(),
                id: text(item, "id").map(storable),
                issuer: Some(self.issuer),
                echo: as_echo(std::mem::take(&mut echo)),
            }));
            echo.extend(is_raw.then(|| ("content".to_owned(), json!(true))));
        }
    }

    /// An id that repeats an earlier one is left out.
    fn add_call(&mut self, item: &Value) {
        let name = text(item, "name").unwrap_or_default();
        let arguments = arguments_of(item);
        if name.is_empty() && arguments == "{}" {
            return;
        }
        self.n_calls = self.n_calls.saturating_add(1);
        let id = text(item, "call_id").filter(|id| *id != "null").map(storable);
        self.list.push(ReplyPart::ToolCall(ToolCallPart {
            tool_call_id: CallId(format!("call_{}", self.n_calls)),
            provider_call_id: id.filter(|id| self.ids.insert(id.clone())),
            name: storable(name),
            arguments,
            echo: as_echo(others(item, OF_CALL)),
        }));
    }
}

/// Arguments as they came, where nothing and `null` mean none.
fn arguments_of(item: &Value) -> String {
    match item.get("arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if matches!(text.trim(), "" | "null") => "{}".to_owned(),
        Some(Value::String(text)) => storable(text),
        Some(value) => storable(&value.to_string()),
    }
}

/// The members that say something and have no place of their own.
fn others(item: &Value, known: &[&str]) -> Map<String, Value> {
    let members = item.as_object().into_iter().flatten();
    members
        .filter(|(name, _)| !known.contains(&name.as_str()) && present(item, name).is_some())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn as_echo(members: Map<String, Value>) -> Option<Value> {
    (!members.is_empty()).then_some(Value::Object(members))
}
