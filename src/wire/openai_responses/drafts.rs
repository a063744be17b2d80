//! Output items on their way: begun, told piece by piece, and ended by the item as a whole.
//!
//! The item as a whole counts. What was told in pieces stands in where it lacks something, since some
//! servers tell an item in one of the two ways only.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::items::{Parts, kind_of};
use crate::domain::event::DeltaKind;
use crate::domain::message::ReplyPart;
use crate::domain::model::Provider;
use crate::wire::DeltaPiece;
use crate::wire::json::{items, present, storable, text};

/// The most items that one reply may hold.
const MAX_ITEMS: usize = 10_000;

/// What a piece is a piece of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Channel {
    Said,
    Refusal,
    Summary,
    Thought,
    Arguments,
}

impl Channel {
    /// How a subscriber is told of it. A refusal is told with the reply.
    const fn delta(self) -> Option<DeltaKind> {
        match self {
            Self::Said => Some(DeltaKind::Text),
            Self::Summary | Self::Thought => Some(DeltaKind::Thinking),
            Self::Arguments => Some(DeltaKind::ToolCall),
            Self::Refusal => None,
        }
    }

    /// The item that has such pieces, its list of them, their type and the member with the text.
    const fn spelling(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Said => ("message", "content", "output_text", "text"),
            Self::Refusal => ("message", "content", "refusal", "refusal"),
            Self::Summary => ("reasoning", "summary", "summary_text", "text"),
            Self::Thought => ("reasoning", "content", "reasoning_text", "text"),
            Self::Arguments => ("function_call", "arguments", "", ""),
        }
    }
}

/// A piece, and whether it is all of its text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Told<'a> {
    Piece(&'a str),
    Whole(&'a str),
}

#[derive(Debug, Default)]
struct Draft {
    /// Where it stands among the others.
    index: u64,
    /// What is known of it.
    item: Value,
    /// `item` is all of it.
    is_whole: bool,
    /// Its texts by place.
    texts: BTreeMap<(u64, Channel), String>,
}

impl Draft {
    fn is_of_another(&self, item: &Value) -> bool {
        let (ours, theirs) = (text(&self.item, "id"), text(item, "id"));
        ours.is_some() && theirs.is_some() && ours != theirs
    }

    /// The item as far as it was told.
    fn drafted(&self) -> Value {
        let mut members = self.item.as_object().cloned().unwrap_or_default();
        let told = || self.texts.iter().filter(|(_, text)| !text.is_empty());
        if let Some(((_, channel), _)) = told().next()
            && !members.contains_key("type")
        {
            members.insert("type".to_owned(), json!(channel.spelling().0));
        }
        let mut lists: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for ((_, channel), text) in told() {
            let (_, list, kind, member) = channel.spelling();
            if *channel == Channel::Arguments {
                members.insert(list.to_owned(), json!(text));
            } else {
                let part = Map::from_iter([
                    ("type".to_owned(), json!(kind)),
                    (member.to_owned(), json!(text)),
                ]);
                lists.entry(list).or_default().push(Value::Object(part));
            }
        }
        members.extend(lists.into_iter().map(|(list, parts)| (list.to_owned(), parts.into())));
        Value::Object(members)
    }

    /// The item as a whole has come.
    fn end(&mut self, item: &Value) {
        let mut whole = item.as_object().cloned().unwrap_or_default();
        if let Value::Object(drafted) = self.drafted() {
            whole.extend(drafted.into_iter().filter(|(name, _)| lacks(item, name)));
        }
        self.item = Value::Object(whole);
        self.is_whole = true;
        self.texts.clear();
    }
}

/// Whether an item says nothing under a name.
fn lacks(item: &Value, name: &str) -> bool {
    let is_list = matches!(name, "content" | "summary");
    let says_nothing = || !items(item, name).iter().any(says) && text(item, name).is_none();
    present(item, name).is_none() || (is_list && says_nothing())
}

/// Whether a part of a list has something in it.
fn says(part: &Value) -> bool {
    let is_known = ["output_text", "refusal", "summary_text", "reasoning_text"]
        .contains(&text(part, "type").unwrap_or_default());
    !is_known || text(part, "text").is_some() || text(part, "refusal").is_some()
}

/// The items of one reply.
#[derive(Debug, Default)]
pub(super) struct Drafts {
    list: Vec<Draft>,
    by_index: BTreeMap<u64, usize>,
    /// Indexes that several items have.
    shared: BTreeSet<u64>,
    by_id: BTreeMap<String, usize>,
}

impl Drafts {
    /// Whether there are more items than a reply may hold.
    pub(super) const fn is_too_many(&self) -> bool {
        self.list.len() > MAX_ITEMS
    }

    /// The item that an event is about: by its index, by its id where several items have that index,
    /// else the one that began last. Some servers give an item another id in every event.
    fn place(&self, event: &Value) -> Option<usize> {
        let index = event.get("output_index").and_then(Value::as_u64);
        let by_index = index.and_then(|index| self.by_index.get(&index)).copied();
        let is_shared = index.is_some_and(|index| self.shared.contains(&index));
        let id = text(event, "item_id").or_else(|| text(event.get("item")?, "id"));
        let by_id = id.and_then(|id| self.by_id.get(id)).copied();
        let last = || self.list.len().checked_sub(1).filter(|_| index.is_none() && id.is_none());
        by_index.filter(|_| !is_shared).or(by_id).or(by_index).or_else(last)
    }

    /// A new item at the place of an event.
    fn open(&mut self, event: &Value) -> usize {
        let place = self.list.len();
        let before = self.list.last().map_or(0, |draft| draft.index);
        let index = event.get("output_index").and_then(Value::as_u64);
        self.list.push(Draft { index: index.unwrap_or(before), ..Draft::default() });
        if let Some(index) = index
            && self.by_index.insert(index, place).is_some()
        {
            self.shared.insert(index);
        }
        if let Some(id) = text(event, "item_id").or_else(|| text(event.get("item")?, "id")) {
            self.by_id.insert(id.to_owned(), place);
        }
        place
    }

    /// The item that an event is about, which begins where none was known.
    fn draft(&mut self, event: &Value) -> Option<&mut Draft> {
        let place = self.place(event).unwrap_or_else(|| self.open(event));
        self.list.get_mut(place)
    }

    /// An item begins.
    pub(super) fn begin(&mut self, event: &Value) {
        let item = event.get("item").unwrap_or(&Value::Null);
        let is_known = text(item, "id").is_some() || event.get("output_index").is_some();
        let known = self.place(event).filter(|_| is_known).and_then(|place| self.list.get(place));
        let is_new = known.is_none_or(|draft| draft.is_of_another(item));
        let place = if is_new { Some(self.open(event)) } else { self.place(event) };
        let draft = place.and_then(|place| self.list.get_mut(place));
        if let Some(draft) = draft.filter(|draft| draft.item.is_null()) {
            draft.item = item.clone();
        }
    }

    /// An item has come as a whole. Gives back what of it was not told before.
    pub(super) fn end(&mut self, event: &Value, issuer: Provider) -> Vec<DeltaPiece> {
        let item = event.get("item").unwrap_or(&Value::Null);
        let known = self.place(event).and_then(|place| self.list.get(place));
        let is_new = known.is_none_or(|draft| draft.is_whole && draft.is_of_another(item));
        let place = if is_new { Some(self.open(event)) } else { self.place(event) };
        let Some(draft) = place.and_then(|place| self.list.get_mut(place)) else {
            return Vec::new();
        };
        if draft.is_whole {
            return Vec::new();
        }
        let is_told = draft.texts.values().any(|text| !text.is_empty());
        draft.end(item);
        if is_told { Vec::new() } else { pieces(&draft.item, issuer) }
    }

    /// The reply has come as a whole: items that have not yet are taken from it. Some servers leave
    /// them out, others tell them here only.
    pub(super) fn end_all(&mut self, output: &[Value]) {
        let order = self.order();
        for (rank, item) in output.iter().enumerate() {
            let by_id = text(item, "id").and_then(|id| self.by_id.get(id)).copied();
            let by_rank = order.get(rank).copied().filter(|place| {
                self.list.get(*place).is_some_and(|it| kind_of(&it.drafted()) == kind_of(item))
            });
            let event = json!({"output_index": u64::try_from(rank).unwrap_or(u64::MAX)});
            let place = by_id.or(by_rank).unwrap_or_else(|| self.open(&event));
            if let Some(draft) = self.list.get_mut(place).filter(|draft| !draft.is_whole) {
                draft.end(item);
            }
            if self.is_too_many() {
                return;
            }
        }
    }

    /// Takes a text of an item, and gives back what a subscriber is told.
    pub(super) fn tell(
        &mut self,
        event: &Value,
        channel: Channel,
        told: Told<'_>,
    ) -> Option<DeltaPiece> {
        let mut at = ["content_index", "summary_index"].into_iter();
        let at = at.find_map(|name| event.get(name)?.as_u64()).unwrap_or(0);
        let draft = self.draft(event).filter(|draft| !draft.is_whole)?;
        let text = draft.texts.entry((at, channel)).or_default();
        let is_first = text.is_empty();
        let piece = match told {
            Told::Piece(piece) => {
                text.push_str(piece);
                Some(piece)
            }
            Told::Whole("") => None,
            Told::Whole(whole) => {
                whole.clone_into(text);
                Some(whole).filter(|_| is_first)
            }
        };
        let piece = piece.filter(|piece| !piece.is_empty())?;
        Some(DeltaPiece { kind: channel.delta()?, text: storable(piece) })
    }

    /// The places of the items, in the order of the reply.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<(u64, usize)> =
            self.list.iter().enumerate().map(|(place, draft)| (draft.index, place)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, place)| place).collect()
    }

    /// The parts of the reply as far as it has come.
    pub(super) fn parts(&self, issuer: Provider) -> Vec<ReplyPart> {
        let mut parts = Parts::new(issuer);
        for draft in self.order().into_iter().filter_map(|place| self.list.get(place)) {
            if draft.is_whole {
                parts.add(&draft.item, true);
            } else {
                parts.add(&draft.drafted(), false);
            }
        }
        parts.list
    }
}

/// What a subscriber is told of an item that comes as a whole.
fn pieces(item: &Value, issuer: Provider) -> Vec<DeltaPiece> {
    let mut parts = Parts::new(issuer);
    parts.add(item, true);
    let told = parts.list.into_iter().filter_map(|part| match part {
        ReplyPart::Text(part) => Some((DeltaKind::Text, part.text)),
        ReplyPart::Thinking(part) => Some((DeltaKind::Thinking, part.text)),
        ReplyPart::ToolCall(part) => Some((DeltaKind::ToolCall, part.arguments)),
        ReplyPart::RedactedThinking(_) | ReplyPart::Refusal(_) | ReplyPart::Unknown(_) => None,
    });
    let told = told.filter(|(_, text)| !text.is_empty());
    told.map(|(kind, text)| DeltaPiece { kind, text }).collect()
}
