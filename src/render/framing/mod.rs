//! Frames: marked regions of prompt text. The only place that spells a tag.
//!
//! A frame is an opening tag, a body and a closing tag. The body is text that someone wrote, so every
//! `<` in it that starts something a reader could take for a framing tag becomes `&lt;`; nothing else
//! changes. What counts as a tag is deliberately wider than what this module writes: any case, white
//! space and one slash in between, and letters that fold to ASCII ones.

pub mod lookalike;
mod marked;
mod scan;

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::prompt::MarkedText;
use crate::domain::ledger::Origin;
use crate::domain::tag::{InvalidTagName, TagName};

use scan::{after_brackets, escape, is_name};

/// A tag that agentling itself writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FramingTag {
    /// The system voice, where the profile has no entry of its own for it.
    System,
    /// What a tool gave back, outside a channel of its own.
    ToolResult,
    /// Thinking of another model or transport.
    AssistantThinking,
    /// A block of context.
    Context,
    /// What changed in a block of context.
    ContextDiff,
    /// What failed validation, as a list.
    ValidationErrors,
    /// What failed validation, as a message.
    RetryFeedback,
    /// What replaced older turns.
    ConversationSummary,
}

impl FramingTag {
    /// Every tag.
    pub const ALL: &'static [Self] = &[
        Self::System,
        Self::ToolResult,
        Self::AssistantThinking,
        Self::Context,
        Self::ContextDiff,
        Self::ValidationErrors,
        Self::RetryFeedback,
        Self::ConversationSummary,
    ];

    /// The name between the brackets.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::ToolResult => "tool_result",
            Self::AssistantThinking => "assistant_thinking",
            Self::Context => "context",
            Self::ContextDiff => "context_diff",
            Self::ValidationErrors => "validation_errors",
            Self::RetryFeedback => "retry_feedback",
            Self::ConversationSummary => "conversation_summary",
        }
    }
}

/// A tag that a frame may be written with: a built-in one, or one found in a [`Tags`] set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag<'a> {
    name: &'a str,
}

impl From<FramingTag> for Tag<'static> {
    fn from(tag: FramingTag) -> Self {
        Self { name: tag.name() }
    }
}

impl Tag<'_> {
    fn is_voice(self) -> bool {
        self.name == FramingTag::System.name()
    }
}

/// The tags of a thread: the built-in ones and the data tags that the operator registered before the
/// thread was created. Equal sets render equal bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags {
    registered: Vec<String>,
}

impl Tags {
    /// The built-in tags alone.
    pub const BUILT_IN: &'static Self = &Self { registered: Vec::new() };

    /// The built-in tags and further data tags; see [`TagName`] for what they may be called.
    ///
    /// # Errors
    /// When one of the names is not one.
    pub fn with<I: IntoIterator<Item = String>>(names: I) -> Result<Self, InvalidTagName> {
        let names: Result<BTreeSet<TagName>, _> =
            names.into_iter().map(|name| name.parse()).collect();
        Ok(Self { registered: names?.iter().map(TagName::to_string).collect() })
    }

    /// The tags of a stored thread: its registered names were judged when it was created.
    pub fn stored(names: &[String]) -> Self {
        Self { registered: names.to_vec() }
    }

    /// The registered names, sorted.
    pub fn registered(&self) -> &[String] {
        &self.registered
    }

    /// The names of all tags.
    pub fn names(&self) -> Vec<&str> {
        let built_in = FramingTag::ALL.iter().map(|tag| tag.name());
        built_in.chain(self.registered.iter().map(String::as_str)).collect()
    }

    /// A registered tag by its exact name.
    pub fn find(&self, name: &str) -> Option<Tag<'_>> {
        self.registered.iter().find(|known| *known == name).map(|name| Tag { name })
    }

    /// Frames a body. No line break is added: a body that wants them brings them.
    ///
    /// In a data frame every tag of the set is escaped in the body. The body of a
    /// [`FramingTag::System`] frame is text of the operator or of agentling, which may hold data frames
    /// that are already built, so only that one tag is escaped in it.
    pub fn wrap<'a>(&self, tag: impl Into<Tag<'a>>, body: &str, attrs: &[Attr<'_>]) -> String {
        let tag = tag.into();
        let body = if tag.is_voice() { neutralize_voice(body) } else { self.neutralize(body) };
        let (open, close) = (open_tag(tag, attrs), close_tag(tag));
        [open.as_str(), &body, &close].concat()
    }

    /// Frames a body like [`Tags::wrap`], and keeps where its pieces come from. The tags are
    /// agentling's words about the place that `origin` names.
    pub fn frame(
        &self,
        tag: FramingTag,
        body: &MarkedText,
        attrs: &[Attr<'_>],
        origin: &Origin,
    ) -> MarkedText {
        let tag = Tag::from(tag);
        let escaped = if tag.is_voice() { neutralize_voice(body) } else { self.neutralize(body) };
        marked::framed(tag, (body, &escaped), attrs, origin)
    }

    /// Escapes whatever could be read as a tag of the set; borrows when there is nothing to escape.
    pub fn neutralize<'t>(&self, text: &'t str) -> Cow<'t, str> {
        escape(text, |rest| self.begin(rest))
    }

    /// Whether anything in the text could be read as a tag of the set.
    pub fn occur_in(&self, text: &str) -> bool {
        after_brackets(text).any(|(_, rest)| self.begin(rest))
    }

    /// Whether a text begins with the name of a tag of the set.
    fn begin(&self, text: &str) -> bool {
        FramingTag::ALL.iter().any(|tag| is_name(text, tag.name()))
            || self.registered.iter().any(|name| is_name(text, name))
    }
}

/// An attribute: a constant name in `snake_case`, and a value that anyone may have written. An absent
/// value leaves the attribute out, an empty one does not.
pub type Attr<'a> = (&'static str, Option<&'a str>);

/// Frames a body with a built-in tag; see [`Tags::wrap`].
pub fn wrap(tag: FramingTag, body: &str, attrs: &[Attr<'_>]) -> String {
    Tags::BUILT_IN.wrap(tag, body, attrs)
}

/// Escapes whatever could be read as a built-in tag; borrows when there is nothing to escape.
pub fn neutralize_tags(text: &str) -> Cow<'_, str> {
    Tags::BUILT_IN.neutralize(text)
}

/// Whether anything in the text could be read as a built-in tag.
pub fn contains_tag(text: &str) -> bool {
    Tags::BUILT_IN.occur_in(text)
}

/// The opening tag alone, for a body that is not text.
pub fn open_tag<'a>(tag: impl Into<Tag<'a>>, attrs: &[Attr<'_>]) -> String {
    ["<", tag.into().name, &attributes(attrs), ">"].concat()
}

/// Attributes as they stand in an opening tag, each with a space ahead of it.
pub fn attributes(attrs: &[Attr<'_>]) -> String {
    let mut out = String::new();
    for (name, value) in attrs {
        let Some(value) = value else { continue };
        out.extend([" ", name, "=\""]);
        push_escaped_value(&mut out, value);
        out.push('"');
    }
    out
}

/// The closing tag alone.
pub fn close_tag<'a>(tag: impl Into<Tag<'a>>) -> String {
    format!("</{}>", tag.into().name)
}

/// Escapes only what could be read as the tag of the system voice.
fn neutralize_voice(text: &str) -> Cow<'_, str> {
    escape(text, |rest| is_name(rest, FramingTag::System.name()))
}

fn push_escaped_value(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#x27;"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests;
