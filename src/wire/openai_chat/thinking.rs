//! What a server wants back beside the thinking of a reply, on its way in and out.
//!
//! The echo of a thinking part holds the members of the message that the part stands for, as they came.
//! What the reply says elsewhere already is not held twice: `true` stands for it.

use serde_json::{Map, Value};

use crate::domain::ledger::Origin;
use crate::render::prompt::{Block, MarkedText};
use crate::wire::json::{is_hollow, items, present, storable_value, text};

/// The member that holds the steps of thinking, each with what its issuer knows it by.
const DETAILS: &str = "reasoning_details";

/// The members that hold thinking as one text; the first that has any is read.
const PLAIN: &[&str] = &["reasoning_content", "reasoning"];

/// Members of a message that carry a signature over it.
const SIGNED: &[&str] = &["extra_content", "thought_signature"];

/// Members of a step whose values the reply says elsewhere, or whose pieces come one by one.
const TEXTS: &[&str] = &["text", "summary"];

/// What has come beside the text of a reply's thinking.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The member under which the text came.
    name: Option<&'static str>,
    details: Vec<Value>,
    signed: Map<String, Value>,
}

impl Beside {
    /// Takes the members of a message or a delta, and gives back the text they bring.
    pub(super) fn take(&mut self, message: &Value) -> String {
        for name in SIGNED {
            if let Some(value) = message.get(*name).filter(|value| !is_hollow(value)) {
                self.signed.insert((*name).to_owned(), storable_value(value));
            }
        }
        let plain = PLAIN.iter().find_map(|name| Some((*name, text(message, name)?)));
        let mut thought = String::new();
        if let Some((name, plain)) = plain {
            self.name.get_or_insert(name);
            thought.push_str(plain);
        }
        for detail in items(message, DETAILS) {
            if plain.is_none() {
                thought.extend(TEXTS.iter().find_map(|name| text(detail, name)));
            }
            self.add_detail(detail);
        }
        thought
    }

    /// The pieces of a step come one by one, and say by their index which step they belong to.
    fn add_detail(&mut self, detail: &Value) {
        let same = |last: &&mut Value| {
            let known = |name| last.get(name) == detail.get(name);
            TEXTS.iter().any(|name| detail.get(name).is_some() || last.get(name).is_some())
                && known("type")
                && known("index")
        };
        let (Some(last), Some(piece)) = (
            self.details.last_mut().filter(same).and_then(Value::as_object_mut),
            detail.as_object(),
        ) else {
            self.details.push(storable_value(detail));
            return;
        };
        for (name, value) in piece {
            match (last.get_mut(name), value) {
                (Some(Value::String(text)), Value::String(more)) if TEXTS.contains(&&**name) => {
                    text.push_str(more);
                }
                (Some(_), value) if is_hollow(value) => {}
                _ => {
                    last.insert(name.clone(), storable_value(value));
                }
            }
        }
    }

    /// The signature over the thinking.
    pub(super) fn signature(&self) -> Option<String> {
        let signed = self.details.iter().rev().find_map(|detail| text(detail, "signature"));
        signed.map(str::to_owned)
    }

    /// The thinking that only its issuer can read.
    pub(super) fn redacted(&self) -> impl Iterator<Item = String> {
        self.details.iter().filter_map(|detail| text(detail, "data").map(str::to_owned))
    }

    /// Whether anything came that has to be kept even without text.
    pub(super) fn is_sealed(&self) -> bool {
        !(self.details.is_empty() && self.signed.is_empty())
    }

    /// The echo of the thinking with this text.
    pub(super) fn echo(&self, thought: &str) -> Value {
        let mut echo = self.signed.clone();
        if !self.details.is_empty() {
            let signature = self.signature();
            let held = self.details.iter().map(|detail| {
                let thought = Some(thought);
                let signature = ("signature", signature.as_deref());
                held(detail, &[("text", thought), ("summary", thought), signature])
            });
            echo.insert(DETAILS.to_owned(), held.collect());
        } else if let Some(name) = self.name {
            echo.insert(name.to_owned(), Value::Bool(true));
        }
        Value::Object(echo)
    }
}

/// A step without what the reply says elsewhere.
fn held(detail: &Value, elsewhere: &[(&str, Option<&str>)]) -> Value {
    let mut detail = detail.clone();
    for (name, member) in detail.as_object_mut().into_iter().flatten() {
        let is_elsewhere = elsewhere
            .iter()
            .any(|(known, said)| known == name && said.is_some() && member.as_str() == *said);
        if is_elsewhere || (name == "data" && member.is_string()) {
            *member = Value::Bool(true);
        }
    }
    detail
}

/// A step with what the reply says elsewhere.
fn refilled<'d>(detail: &Value, mut elsewhere: impl FnMut(&str) -> Option<&'d str>) -> Value {
    let mut detail = detail.clone();
    let members = detail.as_object_mut().into_iter().flatten();
    for (name, member) in members.filter(|(_, member)| **member == Value::Bool(true)) {
        *member = elsewhere(name).into();
    }
    detail
}

/// What goes back beside a message.
#[derive(Debug, Default)]
pub(super) struct Returned {
    /// Texts, each under its member.
    pub(super) texts: Vec<(String, MarkedText)>,
    /// Members as they came.
    pub(super) members: Map<String, Value>,
}

impl Returned {
    /// What goes back of a turn under the members under which it came. Thinking that came under none
    /// stood in the text, and does not go back.
    pub(super) fn of(blocks: &[Block]) -> Self {
        let mut returned = Self::default();
        let mut data = blocks.iter().filter_map(|block| match block {
            Block::RedactedThinking { data, .. } => Some(data.as_str()),
            Block::Thinking { .. }
            | Block::Said { .. }
            | Block::Text(_)
            | Block::File { .. }
            | Block::Opaque { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. } => None,
        });
        for block in blocks {
            let Block::Thinking { text, signature, echo, .. } = block else { continue };
            let thought = (text, signature.as_deref());
            match echo {
                // Nobody knows whether its server takes it back: some refuse members they do not know.
                None => {}
                Some(echo) => returned.add_echo(echo, thought, &mut data),
            }
        }
        returned.add_rest(data);
        returned
    }

    fn add_echo<'d>(
        &mut self,
        echo: &Value,
        (text, signature): (&MarkedText, Option<&str>),
        data: &mut impl Iterator<Item = &'d str>,
    ) {
        let known = |name: &str| name == DETAILS || PLAIN.contains(&name) || SIGNED.contains(&name);
        for (name, value) in echo.as_object().into_iter().flatten() {
            match value {
                // A loaded history can claim anything to have come.
                _ if !known(name) => {}
                Value::Bool(true) => self.add_text(name, text),
                Value::Array(details) if name == DETAILS => {
                    self.add_details(details, (text, signature), data);
                }
                Value::Null
                | Value::Bool(false)
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_)
                | Value::Object(_) => {
                    self.members.insert(name.clone(), value.clone());
                }
            }
        }
    }

    fn add_text(&mut self, name: &str, text: &MarkedText) {
        match self.texts.iter_mut().find(|(known, _)| known == name) {
            Some((_, before)) => before.append(text),
            None if text.is_empty() => {}
            None => self.texts.push((name.to_owned(), text.clone())),
        }
    }

    fn details(&mut self) -> Option<&mut Vec<Value>> {
        let list = self.members.entry(DETAILS).or_insert_with(|| Value::Array(Vec::new()));
        list.as_array_mut()
    }

    fn add_details<'d>(
        &mut self,
        details: &[Value],
        (text, signature): (&str, Option<&str>),
        data: &mut impl Iterator<Item = &'d str>,
    ) {
        let told: Vec<Value> = details
            .iter()
            .map(|detail| {
                refilled(detail, |name| match name {
                    "text" | "summary" => Some(text),
                    "signature" => signature,
                    "data" => data.next(),
                    _ => None,
                })
            })
            .collect();
        self.details().into_iter().for_each(|list| list.extend(told.iter().cloned()));
    }

    /// Thinking that only its issuer can read, and of which nothing else is known.
    fn add_rest<'d>(&mut self, data: impl Iterator<Item = &'d str>) {
        for data in data {
            let detail = serde_json::json!({"type": "reasoning.encrypted", "data": data});
            self.details().into_iter().for_each(|list| list.push(detail.clone()));
        }
    }
}

/// Where the blocks of a turn come from, for what has no origin of its own.
pub(super) fn origin_of(blocks: &[Block]) -> Origin {
    let of_text = |text: &MarkedText| Some(text.origin().clone());
    let found = blocks.iter().find_map(|block| match block {
        Block::Said { text, .. } | Block::Thinking { text, .. } | Block::Text(text) => {
            of_text(text)
        }
        Block::RedactedThinking { origin, .. }
        | Block::Opaque { origin, .. }
        | Block::ToolCall { origin, .. }
        | Block::File { origin, .. } => Some(origin.clone()),
        Block::ToolResult { text, .. } => of_text(text),
    });
    found.unwrap_or_default()
}

/// Whether a message has a member of this kind that says something.
pub(super) fn has(message: &Value, name: &str) -> bool {
    present(message, name).is_some_and(|value| !is_hollow(value))
}
