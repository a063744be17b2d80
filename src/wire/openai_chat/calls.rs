//! Tool calls, merged from fragments whose indexes and ids cannot be trusted.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::domain::id::CallId;
use crate::domain::message::ToolCallPart;
use crate::wire::json::{is_hollow, storable, storable_value, text};

/// The longest arguments that are looked at to tell a new call from the rest of an old one.
const MAX_TELLTALE: usize = 16 * 1024;

/// What is known of an entry, and of its `function`; everything else is echoed.
const KNOWN: &[&str] = &["index", "id", "type", "function", "name", "arguments"];

/// The calls of one reply, in the order in which they began.
#[derive(Debug, Default)]
pub(in crate::wire) struct Calls {
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Slot {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// Members that only the server has words for.
    echo: Map<String, Value>,
}

/// What an entry of `tool_calls` says.
struct Fragment<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: Cow<'a, str>,
    replaces: bool,
    echo: Map<String, Value>,
}

impl<'a> Fragment<'a> {
    fn read(entry: &'a Value) -> Self {
        // Some servers send an absent id as the text `null`.
        let id = text(entry, "id").filter(|id| *id != "null").unwrap_or_default();
        let index = entry.get("index").and_then(Value::as_u64);
        let Some(function) = entry.get("function") else {
            return Self { index, id, ..Self::read_function(entry) };
        };
        let read = Self::read_function(function);
        let mut echo = unknown(entry);
        if !read.echo.is_empty() {
            echo.insert("function".to_owned(), Value::Object(read.echo));
        }
        Self { index, id, echo, ..read }
    }

    /// Reads `{name, arguments}`. Arguments that are a value and not a text are written as text.
    fn read_function(function: &'a Value) -> Self {
        let raw = function.get("arguments").filter(|raw| !raw.is_null());
        let verbatim = raw.and_then(Value::as_str);
        let written = || raw.map(Value::to_string).unwrap_or_default();
        Self {
            index: None,
            id: "",
            name: text(function, "name").unwrap_or_default(),
            arguments: verbatim.map_or_else(|| Cow::Owned(written()), Cow::Borrowed),
            replaces: verbatim.is_none() && raw.is_some(),
            echo: unknown(function),
        }
    }

    fn into_slot(self) -> Slot {
        Slot {
            index: self.index,
            id: self.id.to_owned(),
            name: self.name.to_owned(),
            arguments: self.arguments.into_owned(),
            echo: self.echo,
        }
    }
}

impl Slot {
    /// Whether a fragment goes on with this call.
    fn continues_with(&self, fragment: &Fragment<'_>) -> bool {
        if !fragment.id.is_empty() {
            return self.id.is_empty() || self.id == fragment.id;
        }
        let starts_over = !fragment.name.is_empty() && !fragment.arguments.trim().is_empty();
        !(starts_over && !self.name.is_empty() && is_object(&self.arguments))
    }

    fn take(&mut self, fragment: Fragment<'_>) {
        if self.id.is_empty() {
            fragment.id.clone_into(&mut self.id);
        }
        if self.name.is_empty() {
            fragment.name.clone_into(&mut self.name);
        }
        if fragment.replaces {
            self.arguments.clear();
        }
        self.arguments.push_str(&fragment.arguments);
        self.echo.extend(fragment.echo);
    }

    /// Placeholders of servers that fill in every optional member.
    fn is_placeholder(&self) -> bool {
        self.name.is_empty() && self.arguments.trim().is_empty()
    }
}

impl Calls {
    /// Takes an entry of a whole message, each a call of its own, and gives back its arguments.
    pub(in crate::wire) fn add_whole(&mut self, entry: &Value) -> String {
        let slot = Fragment::read(entry).into_slot();
        let arguments = storable(&slot.arguments);
        self.slots.push(slot);
        arguments
    }

    /// Takes an entry of a delta and gives back the piece of arguments it brings.
    pub(in crate::wire) fn add_fragment(&mut self, entry: &Value) -> String {
        self.merge(Fragment::read(entry))
    }

    /// Takes a `function_call`, the older spelling of the only call of a reply.
    pub(in crate::wire) fn add_function_call(&mut self, function: &Value) -> String {
        self.merge(Fragment::read_function(function))
    }

    fn merge(&mut self, fragment: Fragment<'_>) -> String {
        let piece = storable(&fragment.arguments);
        match self.slot_for(&fragment) {
            Some(slot) => slot.take(fragment),
            None => self.slots.push(fragment.into_slot()),
        }
        piece
    }

    /// The call a fragment belongs to: the one with its id among those with its index, else the last one
    /// with its index, else the one that began last. A new id in a known index is a new call.
    fn slot_for(&mut self, fragment: &Fragment<'_>) -> Option<&mut Slot> {
        let has_id = !fragment.id.is_empty();
        let fits = |slot: &Slot| fragment.index.is_none() || slot.index == fragment.index;
        let is_same = |slot: &Slot| has_id && slot.id == fragment.id && fits(slot);
        if let Some(place) = self.slots.iter().rposition(is_same) {
            return self.slots.get_mut(place);
        }
        let slot = self.slots.iter_mut().rev().find(|slot| fits(slot))?;
        let by_id = fragment.index.is_none() && has_id;
        (!by_id && slot.continues_with(fragment)).then_some(slot)
    }

    /// How many calls have begun. Looking for a fragment's call is linear in them.
    pub(in crate::wire) const fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is no call.
    pub(in crate::wire) fn is_empty(&self) -> bool {
        self.slots.iter().all(Slot::is_placeholder)
    }

    /// The calls with provisional ids by position. An id that repeats an earlier one is left out.
    pub(in crate::wire) fn parts(&self) -> Vec<ToolCallPart> {
        let mut ids = BTreeSet::new();
        let real = self.slots.iter().filter(|slot| !slot.is_placeholder());
        real.enumerate()
            .map(|(position, slot)| ToolCallPart {
                tool_call_id: CallId(format!("call_{}", position + 1)),
                provider_call_id: (!slot.id.is_empty() && ids.insert(slot.id.as_str()))
                    .then(|| storable(&slot.id)),
                name: storable(&slot.name),
                arguments: object_text(&slot.arguments),
                echo: (!slot.echo.is_empty()).then(|| Value::Object(slot.echo.clone())),
            })
            .collect()
    }
}

/// The members of an entry that are not known and say something.
fn unknown(entry: &Value) -> Map<String, Value> {
    let members = entry.as_object().into_iter().flatten();
    let unknown =
        members.filter(|(name, value)| !KNOWN.contains(&name.as_str()) && !is_hollow(value));
    unknown.map(|(name, value)| (storable(name), storable_value(value))).collect()
}

/// Arguments as they came, where nothing and `null` mean none.
fn object_text(arguments: &str) -> String {
    match arguments.trim() {
        "" | "null" => "{}".to_owned(),
        _ => storable(arguments),
    }
}

fn is_object(arguments: &str) -> bool {
    arguments.len() <= MAX_TELLTALE
        && serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object())
}
