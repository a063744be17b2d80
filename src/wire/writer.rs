//! The JSON writer that records, while it writes, where each byte comes from.
//!
//! Members are written in the order in which they are given, so the same prompt gives the same bytes.

use serde_json::Value;

pub use crate::domain::ledger::Encoded;
use crate::domain::ledger::{Origin, Span};
use crate::render::prompt::MarkedText;

/// Writes one JSON document.
#[derive(Debug, Default)]
pub struct Writer {
    out: Encoded,
}

impl Writer {
    /// A document that is an object.
    pub fn object(write: impl FnOnce(&mut Object<'_>)) -> Encoded {
        let mut writer = Self::default();
        writer.braces(write);
        writer.out
    }

    fn raw(&mut self, bytes: &str, origin: &Origin) {
        if bytes.is_empty() {
            return;
        }
        let start = count(self.out.body.len());
        self.out.body.extend_from_slice(bytes.as_bytes());
        let end = count(self.out.body.len());
        match self.out.spans.last_mut() {
            Some(last) if last.origin == *origin => last.end = end,
            _ => self.out.spans.push(Span { start, end, origin: origin.clone() }),
        }
    }

    fn syntax(&mut self, bytes: &str) {
        self.raw(bytes, Origin::WIRE);
    }

    fn braces(&mut self, write: impl FnOnce(&mut Object<'_>)) {
        self.syntax("{");
        write(&mut Object { writer: self, is_empty: true });
        self.syntax("}");
    }

    fn brackets(&mut self, write: impl FnOnce(&mut Array<'_>)) {
        self.syntax("[");
        write(&mut Array { writer: self, is_empty: true });
        self.syntax("]");
    }

    fn value(&mut self, value: &Value, origin: &Origin) {
        self.raw(&value.to_string(), origin);
    }

    fn text(&mut self, text: &MarkedText) {
        self.syntax("\"");
        for (piece, origin) in text.pieces() {
            self.raw(&escaped(piece), origin);
        }
        self.syntax("\"");
    }

    fn string(&mut self, text: &str, origin: &Origin) {
        self.syntax("\"");
        self.raw(&escaped(text), origin);
        self.syntax("\"");
    }
}

/// The inside of a JSON string.
fn escaped(text: &str) -> String {
    let mut quoted = Value::from(text).to_string();
    quoted.pop();
    if !quoted.is_empty() {
        quoted.remove(0);
    }
    quoted
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// The members of an object.
#[derive(Debug)]
pub struct Object<'w> {
    writer: &'w mut Writer,
    is_empty: bool,
}

impl Object<'_> {
    fn name(&mut self, name: &str) -> &mut Writer {
        let comma = if self.is_empty { "" } else { "," };
        self.is_empty = false;
        self.writer.syntax(&format!("{comma}\"{}\":", escaped(name)));
        self.writer
    }

    /// A member that the codec decides on.
    pub fn wire(&mut self, name: &str, value: impl Into<Value>) {
        self.name(name).value(&value.into(), Origin::WIRE);
    }

    /// A member that is a value of someone.
    pub fn value(&mut self, name: &str, value: &Value, origin: &Origin) {
        self.name(name).value(value, origin);
    }

    /// A member that is JSON text already, which is taken over as it is.
    pub fn json(&mut self, name: &str, json: &str, origin: &Origin) {
        self.name(name).raw(json, origin);
    }

    /// A member that is a text of one origin.
    pub fn string(&mut self, name: &str, text: &str, origin: &Origin) {
        self.name(name).string(text, origin);
    }

    /// A member that is a text.
    pub fn text(&mut self, name: &str, text: &MarkedText) {
        self.name(name).text(text);
    }

    /// A member that is an object.
    pub fn object(&mut self, name: &str, write: impl FnOnce(&mut Object<'_>)) {
        self.name(name).braces(write);
    }

    /// A member that is a list.
    pub fn array(&mut self, name: &str, write: impl FnOnce(&mut Array<'_>)) {
        self.name(name).brackets(write);
    }

    /// The list that is the conversation. It comes last, so that a request begins with the bytes of
    /// the one before it up to where that one's conversation ends.
    pub fn conversation(&mut self, name: &str, write: impl FnOnce(&mut Array<'_>)) {
        self.name(name).brackets(|array| {
            array.writer.out.conversation_at = array.writer.out.body.len();
            write(array);
        });
    }
}

/// The items of a list.
#[derive(Debug)]
pub struct Array<'w> {
    writer: &'w mut Writer,
    is_empty: bool,
}

impl Array<'_> {
    fn next(&mut self) -> &mut Writer {
        if !self.is_empty {
            self.writer.syntax(",");
        }
        self.is_empty = false;
        self.writer
    }

    /// An item that is a value of someone.
    pub fn value(&mut self, value: &Value, origin: &Origin) {
        self.next().value(value, origin);
    }

    /// An item that is a text.
    pub fn text(&mut self, text: &MarkedText) {
        self.next().text(text);
    }

    /// An item that is an object.
    pub fn object(&mut self, write: impl FnOnce(&mut Object<'_>)) {
        self.next().braces(write);
    }

    /// An item that is a list.
    pub fn array(&mut self, write: impl FnOnce(&mut Array<'_>)) {
        self.next().brackets(write);
    }
}
