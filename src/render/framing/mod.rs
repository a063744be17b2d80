//! Frames: marked regions of prompt text. The only place that spells a tag.
//!
//! A frame is an opening tag, a body and a closing tag. The body is text that someone wrote, so every
//! `<` in it that starts something a reader could take for a framing tag becomes `&lt;`; nothing else
//! changes. What counts as a tag is deliberately wider than what this module writes: any case, white
//! space and one slash in between, and letters that fold to ASCII ones.
//!
//! The scan is linear: between one `<` and the next every character is looked at a bounded number of
//! times, because neither white space nor a name holds a `<`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::domain::tag::{InvalidTagName, TagName};

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

    /// Escapes whatever could be read as a tag of the set; borrows when there is nothing to escape.
    pub fn neutralize<'t>(&self, text: &'t str) -> Cow<'t, str> {
        escape(text, |rest| self.starts_with_name(rest))
    }

    /// Whether anything in the text could be read as a tag of the set.
    pub fn occur_in(&self, text: &str) -> bool {
        has_tag(text, |rest| self.starts_with_name(rest))
    }

    fn starts_with_name(&self, rest: Rest<'_>) -> bool {
        FramingTag::ALL.iter().any(|tag| rest.is_name(tag.name()))
            || self.registered.iter().any(|name| rest.is_name(name))
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
    escape(text, |rest| rest.is_name(FramingTag::System.name()))
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

fn escape(text: &str, starts_with_name: impl Fn(Rest<'_>) -> bool) -> Cow<'_, str> {
    if !has_tag(text, &starts_with_name) {
        return Cow::Borrowed(text);
    }
    // Each replacement adds three bytes; the guess covers an ordinary number of them.
    let mut out = String::with_capacity(text.len().saturating_add(64));
    out.extend(text.split('<').next());
    for rest in after_brackets(text) {
        out.push_str(if starts_with_name(rest.to_name()) { "&lt;" } else { "<" });
        out.push_str(rest.text);
    }
    Cow::Owned(out)
}

fn has_tag(text: &str, starts_with_name: impl Fn(Rest<'_>) -> bool) -> bool {
    after_brackets(text).any(|rest| starts_with_name(rest.to_name()))
}

/// What follows a `<`, up to the next one.
#[derive(Clone, Copy)]
struct Rest<'t> {
    text: &'t str,
    /// Whether the whole text ends with it.
    is_last: bool,
}

/// What follows each `<` of a text, in order.
fn after_brackets(text: &str) -> impl Iterator<Item = Rest<'_>> {
    let mut pieces = text.split('<').skip(1).peekable();
    std::iter::from_fn(move || {
        let text = pieces.next()?;
        Some(Rest { text, is_last: pieces.peek().is_none() })
    })
}

impl Rest<'_> {
    /// Where a name would have to begin: past white space, one slash, and white space again.
    fn to_name(self) -> Self {
        let text = self.text.trim_start_matches(is_whitespace);
        let text = text.strip_prefix('/').map_or(text, |t| t.trim_start_matches(is_whitespace));
        Self { text, ..self }
    }

    /// Whether it begins with this name, and the name ends there.
    fn is_name(self, name: &str) -> bool {
        match strip_folded(self.text, name).map(|after| after.chars().next()) {
            Some(Some(next)) => next == '/' || next == '>' || is_whitespace(next),
            Some(None) => self.is_last,
            None => false,
        }
    }
}

/// Takes a name from the start of a text, whatever its case.
fn strip_folded<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = text.chars();
    name.chars().all(|wanted| rest.next().map(fold) == Some(wanted)).then_some(rest.as_str())
}

/// The lower-case ASCII letter that a character counts as, if any. The four that are not ASCII are
/// those that some reader's case-insensitive comparison equates with an ASCII letter.
const fn fold(c: char) -> char {
    match c {
        '\u{17F}' => 's',
        '\u{212A}' => 'k',
        '\u{130}' | '\u{131}' => 'i',
        other => other.to_ascii_lowercase(),
    }
}

/// The 29 characters that count as white space: those of `char::is_whitespace`, and U+001C–001F,
/// which some readers skip too.
const fn is_whitespace(c: char) -> bool {
    matches!(c, '\u{1C}'..='\u{1F}') || c.is_whitespace()
}

#[cfg(test)]
mod tests;
