//! Thinking that stands in the text, between `<think>` and `</think>`.
//!
//! Text that begins with the tag begins with thinking, which a missing closing tag lets run to the end.
//! Some chat templates write the opening tag themselves, so that a reply only has the closing one.

use crate::domain::event::DeltaKind;
use crate::domain::model::Provider;
use crate::render::profile::Profile;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// The most white space that is waited through for an opening tag.
const MAX_LEAD: usize = 256;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkTags {
    /// Nothing: the text is taken as it is.
    Ignored,
    /// An opening tag at the beginning.
    Leading,
    /// That, or a closing tag alone.
    Any,
}

impl ThinkTags {
    /// What is looked for while only the provider is known.
    pub const fn of_provider(provider: Provider) -> Self {
        match provider {
            Provider::Openai | Provider::Openrouter | Provider::Groq | Provider::Ollama => {
                Self::Leading
            }
            Provider::Scripted
            | Provider::OpenaiResponses
            | Provider::Anthropic
            | Provider::Gemini
            | Provider::Vertex
            | Provider::Bedrock
            | Provider::Xai
            | Provider::Mistral
            | Provider::Deepseek
            | Provider::Azure => Self::Ignored,
        }
    }

    /// What is looked for in the replies of a model.
    pub const fn of_profile(profile: &Profile) -> Self {
        if profile.chat.think_tags { Self::Any } else { Self::Ignored }
    }
}

/// Text as it comes, split into what is thought and what is said.
#[derive(Debug)]
pub struct Splitter {
    tags: ThinkTags,
    place: Place,
    /// What may be the beginning of a tag.
    held: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Thinking,
    AfterThinking,
    Said,
}

impl Splitter {
    /// One that has seen nothing yet.
    pub const fn new(tags: ThinkTags) -> Self {
        let place = if matches!(tags, ThinkTags::Ignored) { Place::Said } else { Place::Start };
        Self { tags, place, held: String::new() }
    }

    /// Takes the next text and gives back what is certain by now.
    pub fn push(&mut self, piece: &str) -> Vec<(DeltaKind, String)> {
        let mut out = Vec::new();
        let mut text = std::mem::take(&mut self.held);
        text.push_str(piece);
        if self.place == Place::Start {
            text = self.begin(text);
        }
        if self.place == Place::Thinking {
            text = self.think(&text, &mut out);
        }
        if self.place == Place::AfterThinking {
            text.drain(..text.len() - text.trim_start().len());
            if !text.is_empty() {
                self.place = Place::Said;
            }
        }
        if self.place == Place::Said && !text.is_empty() {
            out.push((DeltaKind::Text, text));
        }
        out
    }

    /// What is held back, in case nothing more comes.
    pub fn held(&self) -> (DeltaKind, &str) {
        let thinks = self.place == Place::Thinking;
        (if thinks { DeltaKind::Thinking } else { DeltaKind::Text }, &self.held)
    }

    /// What was thought and what was said, as far as both have come, of which this much was told.
    pub(super) fn settled(&self, thinking: &str, said: &str) -> (String, String) {
        let (mut thinking, mut said) = (thinking.to_owned(), said.to_owned());
        match self.held() {
            (DeltaKind::Thinking, held) => thinking.push_str(held),
            (DeltaKind::Text | DeltaKind::ToolCall, held) => said.push_str(held),
        }
        if let Some((thought, rest)) = self.unopened(&said) {
            thinking.push_str(thought);
            said = rest.to_owned();
        }
        (thinking, said)
    }

    /// What was thought and what was said, where a closing tag stands alone in what was taken for said.
    pub fn unopened<'t>(&self, said: &'t str) -> Option<(&'t str, &'t str)> {
        let (thought, said) = said.split_once(CLOSE)?;
        let alone = thought.is_empty()
            || thought.ends_with('\n')
            || said.is_empty()
            || said.starts_with('\n');
        let is_meant = self.tags == ThinkTags::Any && alone && !thought.contains(OPEN);
        is_meant.then(|| (thought, said.trim_start()))
    }

    fn begin(&mut self, text: String) -> String {
        let begun = text.trim_start();
        if let Some(rest) = begun.strip_prefix(OPEN) {
            self.place = Place::Thinking;
            return rest.to_owned();
        }
        if OPEN.starts_with(begun) && text.len() <= MAX_LEAD {
            self.held = text;
            return String::new();
        }
        self.place = Place::Said;
        text
    }

    fn think(&mut self, text: &str, out: &mut Vec<(DeltaKind, String)>) -> String {
        let (thought, rest) = if let Some((thought, rest)) = text.split_once(CLOSE) {
            self.place = Place::AfterThinking;
            (thought, rest.to_owned())
        } else {
            let (thought, held) = text.split_at(text.len() - begun_close(text));
            held.clone_into(&mut self.held);
            (thought, String::new())
        };
        if !thought.is_empty() {
            out.push((DeltaKind::Thinking, thought.to_owned()));
        }
        rest
    }
}

/// How much of the end of a text may be the beginning of the closing tag.
fn begun_close(text: &str) -> usize {
    let begins = |n: &usize| CLOSE.get(..*n).is_some_and(|head| text.ends_with(head));
    (1..CLOSE.len()).rev().find(begins).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str, size: usize) -> (String, String) {
        let mut splitter = Splitter::new(ThinkTags::Any);
        let (mut thought, mut said) = (String::new(), String::new());
        let chars: Vec<char> = text.chars().collect();
        let mut take = |kind, text: &str| match kind {
            DeltaKind::Thinking => thought.push_str(text),
            DeltaKind::Text | DeltaKind::ToolCall => said.push_str(text),
        };
        for piece in chars.chunks(size) {
            for (kind, text) in splitter.push(&piece.iter().collect::<String>()) {
                take(kind, &text);
            }
        }
        let (kind, held) = splitter.held();
        take(kind, held);
        match splitter.unopened(&said) {
            Some((more, rest)) => (format!("{thought}{more}"), rest.to_owned()),
            None => (thought, said),
        }
    }

    #[test]
    fn thinking_is_split_from_text_however_it_arrives() {
        for (text, thought, said) in [
            ("plain", "", "plain"),
            ("<think>hm</think>\n\nYes.", "hm", "Yes."),
            (" \n<think>a < b </thin </think>Yes.", "a < b </thin ", "Yes."),
            ("<think>cut off", "cut off", ""),
            ("<think>cut off </thi", "cut off </thi", ""),
            ("<think>", "", ""),
            ("<thi", "", "<thi"),
            ("<thinking>is another tag", "", "<thinking>is another tag"),
            ("Say <think>this</think> now.", "", "Say <think>this</think> now."),
            ("hm\n</think>\n\nYes.", "hm\n", "Yes."),
            ("The tag </think> ends it.", "", "The tag </think> ends it."),
            ("<think></think>Ä", "", "Ä"),
        ] {
            for size in 1..=text.len() {
                assert_eq!(split(text, size), (thought.to_owned(), said.to_owned()), "{text}");
            }
        }
    }

    #[test]
    fn text_is_taken_as_it_is_where_no_tags_are_looked_for() {
        let mut splitter = Splitter::new(ThinkTags::Ignored);
        let said = splitter.push("<think>x</think>");
        assert_eq!(said, [(DeltaKind::Text, "<think>x</think>".to_owned())]);
        assert_eq!(splitter.unopened("x\n</think>"), None);
    }
}
