//! Message lists of others: those of Pydantic AI, and plain OpenAI chat messages.
//!
//! A list is recognised by its first message that says what it is: one with a `role` is a chat
//! message, one with a `kind` is Pydantic AI's. Both formats belong to others, have many versions and
//! carry much that a history has no place for, so members that are not read are tolerated, unlike in
//! our own formats. What is read is as strict as there: wrong types, ids that are missing, and calls
//! without outcomes are refused, and nothing is invented in their stead. No list says how a run ended,
//! so none gives a `final` step.

mod chat;
mod conversation;
mod files;
mod pydantic;
mod pydantic_reply;
mod pydantic_tool;

use super::load::{MemoryFormat, too_many};
use super::read::{Fields, Flawed, Node, Read};
use super::{MAX_STEPS, Memory};
use crate::domain::message::{Reply, ReplyPart, ReplyState};
use conversation::Conversation;

/// Whose messages a list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// OpenAI chat messages, by `role`.
    Chat,
    /// Pydantic AI messages, by `kind`.
    Pydantic,
}

impl Format {
    const fn as_labelled(self) -> MemoryFormat {
        match self {
            Self::Chat => MemoryFormat::OpenaiChat,
            Self::Pydantic => MemoryFormat::PydanticAi,
        }
    }

    fn of(message: &Node<'_>) -> Option<Self> {
        let names = message.names();
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        if has("role") {
            return Some(Self::Chat);
        }
        has("kind").then_some(Self::Pydantic)
    }
}

/// Reads a list of messages.
pub(super) fn document(root: &Node<'_>) -> Read<(MemoryFormat, Memory)> {
    let messages = root.array()?;
    if messages.len() > MAX_STEPS {
        return Err(too_many(root));
    }
    let Some(format) = messages.iter().find_map(|message| Format::of(&message)) else {
        let message = "a memory document is an object, or a list of messages, each with a `role` \
                       (OpenAI chat) or a `kind` (Pydantic AI)";
        return Err(root.flaw("not_an_object", message));
    };
    let mut conversation = Conversation::default();
    for message in messages.iter() {
        if root.report().is_full() {
            return Err(Flawed);
        }
        let read = read_message(format, &message, &mut conversation);
        conversation.note(read);
    }
    let steps = conversation.finish()?;
    if steps.len() > MAX_STEPS {
        return Err(too_many(root));
    }
    let memory = Memory { metadata: None, framing_policy: None, steps };
    Ok((format.as_labelled(), memory))
}

fn read_message<'a>(
    format: Format,
    message: &Node<'a>,
    conversation: &mut Conversation<'a>,
) -> Read<()> {
    let mut fields = message.object()?;
    if Format::of(message).is_some_and(|other| other != format) {
        let text = "the list mixes messages of OpenAI chat with those of Pydantic AI";
        return Err(message.flaw("mixed_formats", text));
    }
    match format {
        Format::Chat => chat::message(&mut fields, conversation),
        Format::Pydantic => pydantic::message(&mut fields, conversation),
    }
}

/// A member that says what an object is, and its place.
fn tag<'a>(fields: &mut Fields<'a>, name: &str) -> Read<(Node<'a>, String)> {
    fields.required(name, |node| Ok((node.clone(), node.text()?)))
}

/// Content that a history has no place for.
fn unsupported(node: &Node<'_>, what: &str) -> Flawed {
    node.flaw("unsupported_content", format!("a thread cannot hold {what}"))
}

/// Reads every element, so that one flawed element hides no other.
fn each<'a>(node: &Node<'a>, mut read: impl FnMut(&Node<'a>) -> Read<()>) -> Read<()> {
    let mut all = Ok(());
    for element in node.array()?.iter() {
        all = read(&element).and(all);
    }
    all
}

/// A reply of which nothing is known but its parts.
const fn bare_reply(parts: Vec<ReplyPart>) -> Reply {
    Reply {
        host: None,
        provider: None,
        model: None,
        response_id: None,
        finish_reason: None,
        usage: None,
        state: ReplyState::Complete,
        parts,
    }
}
