//! The blocks of a reply, by their place in it, whether they come whole or in pieces.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::wire::json::{items, present, storable, text};

/// A block as far as it has come.
#[derive(Debug)]
pub(super) enum Block {
    /// What is said, and what backs it.
    Text { said: String, citations: Vec<Value> },
    /// Thinking and its signature.
    Thinking { thought: String, signature: Option<String> },
    /// Thinking that only its issuer can read, in pieces of base64.
    Redacted { pieces: Vec<String> },
    /// A call for the agent to run.
    Call { id: String, name: String, input: String },
    /// Anything else, as the block it would be in a whole reply. The input of a call that the provider
    /// runs itself comes as a text in pieces.
    Item { members: Map<String, Value>, input: String },
}

/// The blocks of a reply in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    list: Vec<Block>,
    /// Where in the list the block of an index is.
    places: BTreeMap<u64, usize>,
    n_calls: usize,
}

impl Blocks {
    /// The blocks.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Block> {
        self.list.iter()
    }

    /// How many calls have begun, placeholders with them.
    pub(super) const fn n_calls(&self) -> usize {
        self.n_calls
    }

    /// Begins a block. A later block of the same index is one of its own.
    pub(super) fn begin(&mut self, index: Option<u64>, block: Block) {
        if let Some(index) = index {
            self.places.insert(index, self.list.len());
        }
        self.n_calls += usize::from(matches!(block, Block::Call { .. }));
        self.list.push(block);
    }

    /// The block of an index that a piece goes on with, else a new one. Where no index is given, it is
    /// the last block.
    pub(super) fn entry(
        &mut self,
        index: Option<u64>,
        is_meant: impl Fn(&Block) -> bool,
        new: impl FnOnce() -> Block,
    ) -> Option<&mut Block> {
        let place = match index {
            Some(index) => self.places.get(&index).copied(),
            None => self.list.len().checked_sub(1),
        };
        let known = place.filter(|place| self.list.get(*place).is_some_and(is_meant));
        let place = known.unwrap_or_else(|| {
            self.begin(index, new());
            self.list.len().saturating_sub(1)
        });
        self.list.get_mut(place)
    }
}

impl Block {
    /// A block of text that nothing was said in yet.
    pub(super) const fn text() -> Self {
        Self::Text { said: String::new(), citations: Vec::new() }
    }

    /// A block of thinking that nothing was thought in yet.
    pub(super) const fn thinking() -> Self {
        Self::Thinking { thought: String::new(), signature: None }
    }

    /// Any other block.
    pub(super) fn item(members: &Value) -> Self {
        let members = members.as_object().cloned().unwrap_or_default();
        Self::Item { members, input: String::new() }
    }

    /// A call, for the agent or for the provider itself; its input may still come.
    pub(super) fn call(call: &Value) -> Self {
        // The provider says of the calls that it runs itself that they are its own.
        if text(call, "type").is_some_and(|kind| kind != "tool_use") {
            return Self::item(&json!({"toolUse": call}));
        }
        Self::Call {
            id: storable(text(call, "toolUseId").unwrap_or_default()),
            name: storable(text(call, "name").unwrap_or_default()),
            input: call.get("input").map(input_text).unwrap_or_default(),
        }
    }

    /// A block of a whole reply.
    pub(super) fn whole(block: &Value) -> Self {
        if let Some(said) = block.get("text").and_then(Value::as_str) {
            return Self::Text { said: storable(said), citations: Vec::new() };
        }
        if let Some(call) = present(block, "toolUse") {
            return Self::call(call);
        }
        let reasoning = block.get("reasoningContent");
        reasoning
            .and_then(Self::reasoning)
            .or_else(|| Self::cited(block))
            .unwrap_or_else(|| Self::item(block))
    }

    fn reasoning(reasoning: &Value) -> Option<Self> {
        if let Some(data) = text(reasoning, "redactedContent") {
            return Some(Self::Redacted { pieces: vec![storable(data)] });
        }
        let thought = reasoning.get("reasoningText")?;
        Some(Self::Thinking {
            thought: storable(text(thought, "text").unwrap_or_default()),
            signature: text(thought, "signature").map(storable),
        })
    }

    /// Citations of a text that is said with them. Without one they are an item.
    fn cited(block: &Value) -> Option<Self> {
        let cited = block.get("citationsContent")?;
        let said = items(cited, "content").iter().filter_map(|part| text(part, "text"));
        let said = storable(&said.collect::<String>());
        let citations = items(cited, "citations").to_vec();
        (!said.is_empty()).then_some(Self::Text { said, citations })
    }
}

/// The input of a call as text, whether it comes as text or as a value.
pub(super) fn input_text(input: &Value) -> String {
    match input {
        Value::Null => String::new(),
        Value::String(text) => storable(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            storable(&input.to_string())
        }
    }
}

/// The block that an item stands for.
pub(super) fn item_value(members: &Map<String, Value>, input: &str) -> Value {
    let mut members = members.clone();
    if let Some(call) = members.get_mut("toolUse").and_then(Value::as_object_mut)
        && !input.is_empty()
    {
        let read = serde_json::from_str(input).unwrap_or_else(|_| Value::from(input));
        call.insert("input".to_owned(), read);
    }
    Value::Object(members)
}

/// Puts a piece of an item to what has come of it: texts and lists are continued, members join.
pub(super) fn join(known: &mut Value, piece: &Value) {
    match (known, piece) {
        (Value::String(known), Value::String(piece)) => known.push_str(piece),
        (Value::Array(known), Value::Array(piece)) => known.extend(piece.iter().cloned()),
        (Value::Object(known), Value::Object(piece)) => {
            for (name, piece) in piece {
                join(known.entry(name).or_insert(Value::Null), piece);
            }
        }
        (known, piece) => *known = piece.clone(),
    }
}

/// Pieces of base64 as one: each may end in padding of its own.
pub(super) fn base64(pieces: &[String]) -> String {
    if let [only] = pieces {
        return only.clone();
    }
    let decoded: Option<Vec<Vec<u8>>> =
        pieces.iter().map(|piece| BASE64_STANDARD.decode(piece).ok()).collect();
    decoded.map_or_else(|| pieces.concat(), |bytes| BASE64_STANDARD.encode(bytes.concat()))
}
