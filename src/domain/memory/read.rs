//! A strict reader of JSON: every finding at its pointer, the reading goes on after it.

use std::str::FromStr;

use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::MAX_DEPTH;
use super::entries::Entries;
use super::repair::RepairCode;
pub(super) use super::report::{Flawed, Read, Report};
use crate::domain::label::UnknownLabel;

/// A value of the document and its place. The text has been found to be JSON before the first node
/// is made.
#[derive(Debug, Clone)]
pub(super) struct Node<'a> {
    text: &'a str,
    pointer: String,
    depth: usize,
    report: &'a Report,
}

impl<'a> Node<'a> {
    /// The whole document.
    pub(super) fn root(text: &'a str, report: &'a Report) -> Self {
        Self { text: text.trim(), pointer: String::new(), depth: 1, report }
    }

    /// The same value as if it stood at a depth of the document.
    pub(super) fn at_depth(self, depth: usize) -> Self {
        Self { depth, ..self }
    }

    /// The findings it reports to.
    pub(super) fn report(&self) -> &'a Report {
        self.report
    }

    /// The exact text it was written with.
    pub(super) fn exact(&self) -> String {
        self.text.to_owned()
    }

    /// Reports a finding at this place.
    pub(super) fn flaw(&self, code: &str, message: impl Into<String>) -> Flawed {
        self.report.add(&self.pointer, code, message)
    }

    /// Reports something below it, at a pointer that starts from here.
    pub(super) fn flaw_below(&self, path: &str, code: &str, message: &str) -> Flawed {
        self.report.add(&format!("{}{path}", self.pointer), code, message)
    }

    /// Notes that something was mended here. The same is a finding where nothing may be.
    pub(super) fn mend(&self, code: RepairCode) -> Read<()> {
        self.report.mend(&self.pointer, code)
    }

    /// Whether it is `null`.
    pub(super) fn is_null(&self) -> bool {
        self.text == "null"
    }

    /// Whether it is an object.
    pub(super) fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    /// Whether it is an array.
    pub(super) fn is_array(&self) -> bool {
        self.text.starts_with('[')
    }

    fn is_text(&self) -> bool {
        self.text.starts_with('"')
    }

    fn child(&self, token: &str, raw: &'a RawValue) -> Self {
        let token = token.replace('~', "~0").replace('/', "~1");
        Self {
            text: raw.get(),
            pointer: format!("{}/{token}", self.pointer),
            depth: self.depth + 1,
            report: self.report,
        }
    }

    fn wrong_type(&self, expected: &str) -> Flawed {
        let found = match self.text.as_bytes().first() {
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'"') => "a text",
            Some(b't' | b'f') => "a boolean",
            Some(b'n') => "null",
            _ => "a number",
        };
        self.flaw("wrong_type", format!("{expected} is expected here, not {found}"))
    }

    fn checked_depth(&self) -> Read<()> {
        if self.depth > MAX_DEPTH {
            return Err(self.flaw("too_deep", format!("nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(())
    }

    /// Its members. A name that is given twice is reported and read once.
    pub(super) fn object(&self) -> Read<Fields<'a>> {
        if !self.is_object() {
            return Err(self.wrong_type("an object"));
        }
        self.checked_depth()?;
        let Entries(entries) = serde_json::from_str(self.text).map_err(|_| self.not_storable())?;
        let mut left: Vec<(String, Self)> = Vec::with_capacity(entries.len());
        let mut names = std::collections::BTreeSet::new();
        for (name, raw) in entries {
            let node = self.child(&name, raw);
            if name.contains('\0') {
                node.not_storable();
            } else if names.insert(name.clone()) {
                left.push((name, node));
            } else {
                node.flaw("duplicate_key", "this name is given twice in one object");
            }
        }
        Ok(Fields { node: self.clone(), left })
    }

    /// The names of its members; none when it is not an object. Nothing is reported.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = if self.is_object() { serde_json::from_str(self.text).ok() } else { None };
        entries.map_or_else(Vec::new, |Entries(entries)| {
            entries.into_iter().map(|(name, _)| name).collect()
        })
    }

    /// Its elements, each of which becomes a node when it is looked at: a document may have very many.
    pub(super) fn array(&self) -> Read<Elements<'a>> {
        if !self.is_array() {
            return Err(self.wrong_type("an array"));
        }
        self.checked_depth()?;
        let raws: Vec<&'a RawValue> =
            serde_json::from_str(self.text).map_err(|_| self.not_storable())?;
        Ok(Elements { node: self.clone(), raws })
    }

    /// All elements read, or none; each flawed element is reported.
    pub(super) fn list<T>(&self, mut read: impl FnMut(&Self) -> Read<T>) -> Read<Vec<T>> {
        let read: Vec<_> = self.array()?.iter().map(|node| read(&node)).collect();
        read.into_iter().collect()
    }

    fn not_storable(&self) -> Flawed {
        self.flaw("text_not_storable", "U+0000 and unpaired surrogates cannot be stored")
    }

    /// Its text, which must be storable.
    pub(super) fn text(&self) -> Read<String> {
        if !self.is_text() {
            return Err(self.wrong_type("a text"));
        }
        // The text is JSON, so all that can fail is an escape without a character.
        match serde_json::from_str::<String>(self.text) {
            Ok(text) if !text.contains('\0') => Ok(text),
            _ => Err(self.not_storable()),
        }
    }

    /// One of a vocabulary's labels.
    pub(super) fn label<T: FromStr<Err = UnknownLabel>>(&self) -> Read<T> {
        self.text()?
            .parse()
            .map_err(|error: UnknownLabel| self.flaw("invalid_value", error.to_string()))
    }

    /// A boolean.
    pub(super) fn boolean(&self) -> Read<bool> {
        match self.text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.wrong_type("a boolean")),
        }
    }

    /// A whole number from 0 to the largest of `T`.
    pub(super) fn count<T: TryFrom<u64>>(&self) -> Read<T> {
        match self.value()? {
            Value::Number(number) if number.is_f64() => Err(self.wrong_type("a whole number")),
            Value::Number(number) => number
                .as_u64()
                .and_then(|count| T::try_from(count).ok())
                .ok_or_else(|| self.flaw("invalid_value", "the number is out of range")),
            _ => Err(self.wrong_type("a whole number")),
        }
    }

    /// Any finite number.
    pub(super) fn number(&self) -> Read<Value> {
        let value = self.value()?;
        if value.is_number() { Ok(value) } else { Err(self.wrong_type("a number")) }
    }

    /// An object as a value, with its own key order.
    pub(super) fn object_value(&self) -> Read<Value> {
        if self.is_object() { self.value() } else { Err(self.wrong_type("an object")) }
    }

    /// Any value, with its own key order.
    pub(super) fn value(&self) -> Read<Value> {
        if self.is_object() {
            let members = self.object()?.take_all().into_iter();
            let members: Vec<_> = members.map(|(k, v)| Ok((k, v.value()?))).collect();
            return members.into_iter().collect::<Read<Map<_, _>>>().map(Value::Object);
        }
        if self.is_array() {
            return self.list(Self::value).map(Value::Array);
        }
        if self.is_text() {
            return self.text().map(Value::String);
        }
        match self.text {
            "null" => Ok(Value::Null),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            digits => number_of(digits)
                .map(Value::Number)
                .ok_or_else(|| self.flaw("invalid_value", "the number is out of range")),
        }
    }
}

/// The number that reads back as it is written: whole numbers exactly, others as the nearest `f64`.
fn number_of(digits: &str) -> Option<Number> {
    let is_whole = digits != "-0" && !digits.contains(['.', 'e', 'E']);
    if is_whole {
        if let Ok(number) = digits.parse::<u64>() {
            return Some(number.into());
        }
        if let Ok(number) = digits.parse::<i64>() {
            return Some(number.into());
        }
    }
    digits.parse().ok().and_then(Number::from_f64)
}

/// The elements of an array.
#[derive(Debug)]
pub(super) struct Elements<'a> {
    node: Node<'a>,
    raws: Vec<&'a RawValue>,
}

impl<'a> Elements<'a> {
    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.raws.len()
    }

    /// One after the other.
    pub(super) fn iter(&self) -> impl Iterator<Item = Node<'a>> {
        let nodes = self.raws.iter().enumerate();
        nodes.map(|(place, raw)| self.node.child(&place.to_string(), raw))
    }
}

/// The members of an object that have not been read yet. What has not been read when they go is noted
/// as left out.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    node: Node<'a>,
    left: Vec<(String, Node<'a>)>,
}

impl<'a> Fields<'a> {
    /// The findings they report to.
    pub(super) fn report(&self) -> &'a Report {
        self.node.report
    }

    /// Takes a member out; `None` when it is not there.
    pub(super) fn take(&mut self, name: &str) -> Option<Node<'a>> {
        let at = self.left.iter().position(|(key, _)| key == name)?;
        Some(self.left.remove(at).1)
    }

    /// Reads a member that must be there.
    pub(super) fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Node<'a>) -> Read<T>,
    ) -> Read<T> {
        if let Some(node) = self.take(name) {
            return read(&node);
        }
        let pointer = format!("{}/{name}", self.node.pointer);
        Err(self.node.report.add(&pointer, "missing_field", format!("`{name}` is missing")))
    }

    /// Reads a member that may be absent or null.
    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Node<'a>) -> Read<T>,
    ) -> Read<Option<T>> {
        match self.take(name) {
            Some(node) if !node.is_null() => read(&node).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads a member that must be there and may be null.
    pub(super) fn nullable<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&Node<'a>) -> Read<T>,
    ) -> Read<Option<T>> {
        self.required(name, |node| if node.is_null() { Ok(None) } else { read(node).map(Some) })
    }

    /// Reads a switch that is off when absent.
    pub(super) fn switch(&mut self, name: &str) -> Read<bool> {
        Ok(self.optional(name, Node::boolean)?.unwrap_or(false))
    }

    /// Takes all members that are left.
    pub(super) fn take_all(&mut self) -> Vec<(String, Node<'a>)> {
        std::mem::take(&mut self.left)
    }

    /// Reports what is left as unknown.
    pub(super) fn finish(mut self) -> Read<()> {
        let mut read = Ok(());
        for (name, node) in self.take_all() {
            read = Err(node.flaw("unknown_field", format!("`{name}` is not known here")));
        }
        read
    }
}

impl Drop for Fields<'_> {
    fn drop(&mut self) {
        for (name, node) in &self.left {
            node.report.leave_out(&node.pointer, name);
        }
    }
}
