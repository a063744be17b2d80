//! What a model is told when its reply is asked for again: framed feedback, or a fixed sentence.

use serde_json::{Map, Value};

use super::framing::{FramingTag, Tags};
use super::prompt::MarkedText;
use crate::domain::ledger::{Origin, Voice};
pub use crate::domain::retry::plain_retry_text;
use crate::domain::step::{ErrorDetail, RetryCause, RetryContent, RetryStep};

/// The line ahead of framed feedback.
const FEEDBACK: &str = "Your previous response failed the application's validation (this is automated feedback, not a message from the user):";

/// A retry as a voice would say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryText {
    /// One of the fixed sentences, in the system voice.
    System(MarkedText),
    /// Framed feedback, on the user's channel.
    User(MarkedText),
}

/// What to say about a retry, and in which voice.
///
/// Only a fixed sentence of the loop reaches the system voice. An imported history can hold any text
/// under the cause `no_output`; it is framed like the message of an error.
pub fn retry_text(retry: &RetryStep, tags: &Tags, origin: &Origin) -> RetryText {
    match (&retry.content, retry.cause) {
        (RetryContent::Message(text), RetryCause::NoOutput) if is_fixed_sentence(text) => {
            RetryText::System(MarkedText::of(text, origin.spoken(Voice::Application)))
        }
        (RetryContent::Message(text), RetryCause::NoOutput | RetryCause::Error) => {
            RetryText::User(framed((tags, origin), FramingTag::RetryFeedback, text))
        }
        (RetryContent::Errors(errors), RetryCause::NoOutput) => {
            RetryText::User(framed((tags, origin), FramingTag::RetryFeedback, &compact(errors)))
        }
        (RetryContent::Errors(errors), RetryCause::Error) => {
            RetryText::User(framed((tags, origin), FramingTag::ValidationErrors, &compact(errors)))
        }
    }
}

fn framed((tags, origin): (&Tags, &Origin), tag: FramingTag, body: &str) -> MarkedText {
    let ours = origin.spoken(Voice::Application);
    let said = MarkedText::of("\n", ours.clone());
    let said = said.with(body, &origin.spoken(Voice::Data)).with("\n", &ours);
    let mut text = MarkedText::of(format!("{FEEDBACK}\n"), ours);
    text.append(&tags.frame(tag, &said, &[], origin));
    text
}

/// Whether a text is one of the twelve sentences that ask for another form of reply.
pub fn is_fixed_sentence(text: &str) -> bool {
    const TEXT: &[&str] = &["", "return text"];
    const CALL: &[&str] = &["", "include your response in a tool call", "call a tool"];
    const IMAGE: &[&str] = &["", "return an image"];
    let Some(asked) = text.strip_prefix("Please ").and_then(|rest| rest.strip_suffix('.')) else {
        return false;
    };
    TEXT.iter().any(|text| {
        CALL.iter().any(|call| IMAGE.iter().any(|image| joined([text, call, image]) == asked))
    })
}

fn joined(slots: [&str; 3]) -> String {
    slots.into_iter().filter(|slot| !slot.is_empty()).collect::<Vec<_>>().join(" or ")
}

/// The errors as one line of JSON. An input equal to one already shown under the same parent is left
/// out: errors about missing members repeat the object that lacks them.
fn compact(errors: &[ErrorDetail]) -> String {
    let mut shown: Vec<(&[Value], &Value)> = Vec::new();
    let mut list = Vec::with_capacity(errors.len());
    for error in errors {
        let root = error.loc.split_last().map_or(&[][..], |(_, parent)| parent);
        let input = error.input.as_ref().filter(|input| !shown.contains(&(root, *input)));
        shown.extend(input.map(|input| (root, input)));
        list.push(as_object(error, input));
    }
    Value::Array(list).to_string()
}

fn as_object(error: &ErrorDetail, input: Option<&Value>) -> Value {
    let mut object = Map::new();
    object.insert("type".to_owned(), Value::String(error.r#type.clone()));
    object.insert("loc".to_owned(), Value::Array(error.loc.clone()));
    object.insert("msg".to_owned(), Value::String(error.msg.clone()));
    object.extend(input.map(|input| ("input".to_owned(), input.clone())));
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_twelve_sentences_are_fixed() {
        for text in [
            "Please .",
            "Please return text.",
            "Please call a tool.",
            "Please include your response in a tool call.",
            "Please return an image.",
            "Please return text or call a tool.",
            "Please return text or include your response in a tool call.",
            "Please return text or return an image.",
            "Please call a tool or return an image.",
            "Please include your response in a tool call or return an image.",
            "Please return text or call a tool or return an image.",
            "Please return text or include your response in a tool call or return an image.",
        ] {
            assert!(is_fixed_sentence(text), "{text}");
        }
        for text in [
            "",
            "Please",
            "Please.",
            "please return text.",
            "Please return text",
            "Please return text. ",
            "Please call a tool or return text.",
            "Please return text or return text.",
            "Please include your response in a tool call or call a tool.",
            "Please return text or obey me.",
        ] {
            assert!(!is_fixed_sentence(text), "{text}");
        }
    }
}
