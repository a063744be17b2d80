//! The blocks of a reply, whole or as far as they have come.

use serde_json::{Map, Value};

use crate::domain::event::DeltaKind;
use crate::wire::json::{items, present, storable, text};

/// A block of a reply.
#[derive(Debug)]
pub(super) enum Block {
    /// What the model says, and what it refers to.
    Text { text: String, citations: Vec<Value> },
    /// What the model thinks.
    Thinking { text: String, signature: String },
    /// Thinking that only the provider can read.
    Redacted { data: String },
    /// A call of one of the agent's tools.
    Call(Call),
    /// Anything else, as it came: above all the provider's own tools and their results. `partial` is
    /// the text of its `input`.
    Other { raw: Map<String, Value>, partial: String },
}

/// A call of one of the agent's tools.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    /// The arguments as the block began.
    input: Value,
    /// The arguments as they came in pieces.
    partial: String,
    pub(super) echo: Option<Value>,
}

/// A piece of a block, of one of the kinds that are told while they come.
pub(super) type Piece = (DeltaKind, String);

impl Block {
    /// Reads a block that is whole or begins.
    pub(super) fn read(block: &Value) -> Self {
        let member = |name: &str| text(block, name).map(storable).unwrap_or_default();
        match text(block, "type").unwrap_or_default() {
            "text" => Self::Text {
                text: member("text"),
                citations: items(block, "citations").iter().map(clean).collect(),
            },
            "thinking" => {
                Self::Thinking { text: member("thinking"), signature: member("signature") }
            }
            "redacted_thinking" => Self::Redacted { data: member("data") },
            "tool_use" => Self::Call(Call::read(block)),
            _ => {
                let raw = clean(block).as_object().cloned().unwrap_or_default();
                Self::Other { raw, partial: String::new() }
            }
        }
    }

    /// The block that a piece belongs to when nothing said that it begins.
    pub(super) fn for_delta(delta: &Value) -> Option<Self> {
        let (text, signature) = (String::new(), String::new());
        match super::reply::kind_of(delta) {
            "text_delta" | "citations_delta" => Some(Self::Text { text, citations: Vec::new() }),
            "thinking_delta" | "signature_delta" => Some(Self::Thinking { text, signature }),
            _ => None,
        }
    }

    /// What of it can be told already.
    pub(super) fn begun(&self) -> Option<Piece> {
        match self {
            Self::Text { text, .. } => Some((DeltaKind::Text, text.clone())),
            Self::Thinking { text, .. } => Some((DeltaKind::Thinking, text.clone())),
            Self::Redacted { .. } | Self::Call(_) | Self::Other { .. } => None,
        }
    }

    /// Takes a piece and gives back what can be told of it.
    pub(super) fn add(&mut self, delta: &Value) -> Option<Piece> {
        let piece = |name: &str| text(delta, name).map(storable).unwrap_or_default();
        match (self, super::reply::kind_of(delta)) {
            (Self::Text { text, .. }, "text_delta") => {
                let piece = piece("text");
                text.push_str(&piece);
                Some((DeltaKind::Text, piece))
            }
            (Self::Text { citations, .. }, "citations_delta") => {
                citations.extend(present(delta, "citation").map(clean));
                None
            }
            (Self::Thinking { text, .. }, "thinking_delta") => {
                let piece = piece("thinking");
                text.push_str(&piece);
                Some((DeltaKind::Thinking, piece))
            }
            (Self::Thinking { signature, .. }, "signature_delta") => {
                *signature = piece("signature");
                None
            }
            (Self::Call(call), "input_json_delta") => {
                let piece = piece("partial_json");
                call.partial.push_str(&piece);
                Some((DeltaKind::ToolCall, piece))
            }
            (Self::Other { partial, .. }, "input_json_delta") => {
                partial.push_str(&piece("partial_json"));
                None
            }
            (Self::Other { raw, .. }, _) => {
                add_members(raw, delta);
                None
            }
            (
                Self::Text { .. } | Self::Thinking { .. } | Self::Redacted { .. } | Self::Call(_),
                _,
            ) => None,
        }
    }
}

impl Call {
    fn read(block: &Value) -> Self {
        // A call that the model makes itself is called directly, which needs no word.
        let caller = present(block, "caller").filter(|it| text(it, "type") != Some("direct"));
        let echo = caller.map(|caller| Value::from_iter([("caller", clean(caller))]));
        Self {
            id: text(block, "id").map(storable).unwrap_or_default(),
            name: text(block, "name").map(storable).unwrap_or_default(),
            input: block.get("input").cloned().unwrap_or(Value::Null),
            partial: String::new(),
            echo,
        }
    }

    /// The arguments: what came in pieces, else what the block began with.
    pub(super) fn arguments(&self) -> String {
        match self.partial.trim() {
            "null" => "{}".to_owned(),
            "" => match &self.input {
                Value::Null => "{}".to_owned(),
                Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
                Value::String(text) => storable(text),
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    clean(&self.input).to_string()
                }
            },
            _ => self.partial.clone(),
        }
    }
}

/// The block as it came, with its `input` where that came in pieces.
pub(super) fn whole(raw: &Map<String, Value>, partial: &str) -> Value {
    let mut raw = raw.clone();
    if let Ok(input) = serde_json::from_str(partial) {
        raw.insert("input".to_owned(), clean(&input));
    }
    Value::Object(raw)
}

/// Adds the members of a piece to a block of a kind that is not known: texts go on, lists grow, and
/// anything else replaces what was there.
fn add_members(raw: &mut Map<String, Value>, delta: &Value) {
    let members = delta.as_object().into_iter().flatten();
    for (name, value) in members.filter(|(name, _)| *name != "type") {
        match (raw.get_mut(name), clean(value)) {
            (Some(Value::String(text)), Value::String(more)) => text.push_str(&more),
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (_, value) => {
                raw.insert(name.clone(), value);
            }
        }
    }
}

/// A value that can be stored.
fn clean(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(storable(text)),
        Value::Array(list) => list.iter().map(clean).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (storable(name), clean(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
