//! Takes the secrets that a call was made with out of whatever comes back of it.
//!
//! A server that echoes a request, in its body, an error or a file, would otherwise put its credential
//! into the history, and from there before the model and every reader.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;

use crate::domain::id::CallId;
use crate::domain::message::Reply;
use crate::domain::redaction::RedactionChannel;
use crate::domain::secret::SecretName;
use crate::domain::tool::{OutcomeKind, ToolCallError, ToolOutcome};
use crate::domain::wait::CallAnswer;
use crate::render::redact::{PlaceholderKey, Redactor, RuleSet, StreamRedactor};

/// Bytes of the shortest value of an environment that is taken for a secret: words such as `production`
/// are not to be missing from what a program says.
const SHORTEST: usize = 16;

/// Bytes of the shortest beginning of a secret that is not left at the end of what broke off.
pub const BEGUN: usize = 4;

/// Known values are looked for on every channel alike.
const CHANNEL: RedactionChannel = RedactionChannel::Api;

/// The secrets in use by one call; what stands in their place is `[redacted:secret:{name}]`.
///
/// Values are found in the forms in which they travel: as they are, escaped as JSON, percent-encoded, and
/// in base64.
#[derive(Clone, Default)]
pub struct Mask(Option<Arc<Redactor>>);

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Mask" } else { "Mask(none)" })
    }
}

impl Mask {
    /// The mask of a call that uses no secret: it changes nothing.
    pub const NONE: Self = Self(None);

    /// A mask of some secrets.
    pub fn of<'s>(secrets: impl IntoIterator<Item = (&'s SecretName, &'s SecretString)>) -> Self {
        Self::named(secrets.into_iter().map(|(name, value)| (name.as_str(), value)))
    }

    /// A mask of what is in the environment of a program. Short values, such as
    /// switches, stay.
    pub fn of_environment(values: &BTreeMap<String, SecretString>) -> Self {
        let is_long = |value: &SecretString| value.expose_secret().len() >= SHORTEST;
        let long = values.values().filter(|value| is_long(value));
        Self::named(long.map(|value| ("environment", value)))
    }

    fn named<'s>(secrets: impl Iterator<Item = (&'s str, &'s SecretString)>) -> Self {
        // The placeholders are names and not numbers, so that the key numbers nothing.
        Self::by([&rules_of(secrets)], PlaceholderKey::of(&[0; 32], ""))
    }

    /// A mask by ready rules, whose placeholders a key numbers.
    pub fn by<'a>(sets: impl IntoIterator<Item = &'a RuleSet>, key: PlaceholderKey) -> Self {
        let redactor = Redactor::new(sets, key);
        if redactor.is_empty() { Self::NONE } else { Self(Some(Arc::new(redactor))) }
    }

    /// The secret of one call as rules.
    pub fn rules((name, value): (&SecretName, &SecretString)) -> RuleSet {
        rules_of([(name.as_str(), value)].into_iter())
    }

    /// Whether it changes nothing.
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// A text without the secrets; one that is JSON stays JSON.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.as_ref().map_or(Cow::Borrowed(text), |redactor| redactor.json_text(CHANNEL, text))
    }

    /// Bytes without the secrets.
    pub fn bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let Some(redactor) = &self.0 else { return Cow::Borrowed(bytes) };
        match std::str::from_utf8(bytes) {
            Ok(text) => match redactor.json_text(CHANNEL, text) {
                Cow::Borrowed(_) => Cow::Borrowed(bytes),
                Cow::Owned(shown) => Cow::Owned(shown.into_bytes()),
            },
            Err(_) => redactor.bytes(CHANNEL, bytes),
        }
    }

    /// How much of a text that broke off is without the beginning of a secret at its end. A few letters
    /// give nothing away and stay: most texts that end like that end so by chance.
    pub fn kept(&self, text: &str) -> usize {
        let begun = self.0.as_ref().map_or(0, |redactor| redactor.begun(CHANNEL, text));
        text.len().saturating_sub(if begun < BEGUN { 0 } else { begun })
    }

    /// The same of bytes.
    pub fn kept_bytes(&self, bytes: &[u8]) -> usize {
        if self.is_none() {
            return bytes.len();
        }
        // A letter for every byte; what is cut off is of one byte each.
        let text: String = bytes.iter().copied().map(char::from).collect();
        bytes.len().saturating_sub(text.len().saturating_sub(self.kept(&text)))
    }

    /// A JSON value without the secrets.
    pub fn json<'v>(&self, value: &'v Value) -> Cow<'v, Value> {
        self.0.as_ref().map_or(Cow::Borrowed(value), |redactor| redactor.json(CHANNEL, value))
    }

    /// Takes the secrets out of what came of a call.
    pub fn outcome(&self, outcome: &mut ToolOutcome) {
        if let Some(redactor) = &self.0 {
            redactor.outcome(CHANNEL, outcome);
        }
    }

    /// Takes the secrets out of what somebody else says of a call.
    pub fn answer(&self, answer: &mut CallAnswer) {
        match answer {
            CallAnswer::Succeeded { output } => {
                let blank = CallId(String::new());
                let blank = ToolOutcome::not_run(blank, "", OutcomeKind::Success, None);
                let mut outcome = ToolOutcome { output: output.take(), ..blank };
                self.outcome(&mut outcome);
                *output = outcome.output;
            }
            CallAnswer::Failed { error } => {
                error.message = self.text(&error.message).into_owned();
                error.r#type = self.text(&error.r#type).into_owned();
            }
            CallAnswer::Denied { message } => {
                *message = message.take().map(|message| self.text(&message).into_owned());
            }
            CallAnswer::Approved { .. } | CallAnswer::Retry => {}
        }
    }

    /// Takes the secrets out of why a call failed.
    #[must_use]
    pub fn error(&self, error: ToolCallError) -> ToolCallError {
        match self.text(&error.message) {
            Cow::Borrowed(_) => error,
            Cow::Owned(message) => ToolCallError { message, ..error },
        }
    }

    /// Takes the secrets out of a model's reply.
    pub fn reply(&self, reply: &mut Reply) {
        if let Some(redactor) = &self.0 {
            redactor.reply(CHANNEL, reply);
        }
    }

    /// Takes the secrets out of a text that arrives in pieces; `None` when there are none to take out.
    pub fn stream(&self) -> Option<StreamRedactor> {
        self.0.as_ref().map(|redactor| StreamRedactor::new(Arc::clone(redactor), CHANNEL))
    }
}

fn rules_of<'s>(secrets: impl Iterator<Item = (&'s str, &'s SecretString)>) -> RuleSet {
    RuleSet::named(secrets.map(|(name, value)| (name, value.expose_secret())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask() -> Mask {
        let (key, token) = ("key".parse().unwrap(), "token".parse().unwrap());
        let values = [SecretString::from("hunter22-secret"), SecretString::from("t0k3n/+=\"x")];
        Mask::of([(&key, &values[0]), (&token, &values[1])])
    }

    #[test]
    fn a_secret_is_replaced_by_its_name_in_every_form_in_which_it_travels() {
        for (text, shown) in [
            ("x hunter22-secret y", "x [redacted:secret:key] y"),
            ("hunter22%2Dsecret", "[redacted:secret:key]"),
            (r#"{"a":"hunter22\u002dsecret"}"#, r#"{"a":"[redacted:secret:key]"}"#),
            (r#"{"a":"t0k3n\/+=\"x"}"#, r#"{"a":"[redacted:secret:token]"}"#),
            ("t0k3n%2F%2B%3D%22x", "[redacted:secret:token]"),
            ("hunter22-secre", "hunter22-secre"),
        ] {
            assert_eq!(mask().text(text), shown);
            assert_eq!(mask().bytes(text.as_bytes()), shown.as_bytes());
        }
        // `Basic` credentials of `user:hunter22-secret`.
        let basic = mask().text("Basic dXNlcjpodW50ZXIyMi1zZWNyZXQ=").into_owned();
        assert!(basic.contains("[redacted:secret:key]"), "{basic}");
    }

    #[test]
    fn bytes_that_are_no_text_are_masked_and_otherwise_kept() {
        let bytes = [b"\xff\x00".as_slice(), b"hunter22-secret", b"\xc3"].concat();
        let shown = [b"\xff\x00".as_slice(), b"[redacted:secret:key]", b"\xc3"].concat();
        assert_eq!(mask().bytes(&bytes), shown);
        assert!(matches!(mask().bytes(b"\xff\x00"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_value_that_arrives_in_pieces_is_found_across_them() {
        let mut stream = mask().stream().unwrap();
        let mut shown = stream.push("a hunter2") + &stream.push("2-sec") + &stream.push("ret b");
        shown.push_str(&stream.finish());
        assert_eq!(shown, "a [redacted:secret:key] b");
    }

    #[test]
    fn what_breaks_off_keeps_no_beginning_of_a_secret() {
        for (text, kept) in [
            ("it is hunter22-sec", "it is "),
            ("it is hunter22\\u002", "it is "),
            ("it is hunt", "it is "),
            ("it is hun", "it is hun"),
            ("it is hunter", "it is "),
            ("hunter22-sec and", "hunter22-sec and"),
            ("é hunter22", "é "),
        ] {
            assert_eq!(text.get(..mask().kept(text)), Some(kept));
            assert_eq!(mask().kept_bytes(text.as_bytes()), kept.len());
        }
        let mut stream = mask().stream().unwrap();
        assert_eq!((stream.push("it is hunter"), stream.begun()), ("it is ".to_owned(), 6));
        assert_eq!(stream.cut(), "");
        assert_eq!((Mask::NONE.kept("hunter22-sec"), Mask::NONE.kept_bytes(b"abc")), (12, 3));
    }

    #[test]
    fn without_secrets_nothing_is_changed_and_nothing_is_printed() {
        assert!(Mask::of([]).is_none());
        assert!(matches!(Mask::NONE.text("hunter22-secret"), Cow::Borrowed(_)));
        assert!(Mask::NONE.stream().is_none());
        assert_eq!(format!("{:?}", mask()), "Mask");
    }
}
