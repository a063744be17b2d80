//! Redaction inside JSON text: strings, numbers and members, so that it stays JSON.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::pattern::MAX_HITS;
use super::{Redactor, Tally, add};
use crate::domain::json::spelt;
use crate::domain::redaction::RedactionChannel;

/// How deep JSON inside strings of JSON is looked into.
const MAX_NESTING: u8 = 4;

/// JSON text as it may leave through a channel. What needs no redaction keeps its spelling; a text that
/// is no JSON is redacted like any other.
pub(super) fn text<'t>(
    redactor: &Redactor,
    channel: RedactionChannel,
    text: &'t str,
    tally: &mut Tally,
) -> Cow<'t, str> {
    if !is_json(text) {
        return redactor.text_counted(channel, text, tally);
    }
    let with_fields = redactor.has_fields(channel);
    let mut found = Tally::new();
    let mut writer = Writer { redactor, channel, with_fields, tally: &mut found };
    let written = writer.document(text, 0);
    let shown = match (writer.excess(), written) {
        (_, None) => return Cow::Borrowed(text),
        (Some(rule), Some(_)) => {
            found = Tally::from([(rule.clone(), 1)]);
            Value::from(redactor.key.placeholder(&rule, text)).to_string()
        }
        (None, Some(Document::Json(text))) => text,
        (None, Some(Document::Text(text))) => Value::from(text).to_string(),
    };
    add(tally, found);
    Cow::Owned(shown)
}

/// JSON whose members are words of a schema and not data.
pub(super) fn schema(
    redactor: &Redactor,
    channel: RedactionChannel,
    value: &Value,
) -> Option<Value> {
    let tally = &mut Tally::new();
    let mut writer = Writer { redactor, channel, with_fields: false, tally };
    writer.rewritten(&value.to_string(), 0).and_then(|text| serde_json::from_str(&text).ok())
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// Rewrites JSON text token by token.
struct Writer<'a> {
    redactor: &'a Redactor,
    channel: RedactionChannel,
    with_fields: bool,
    tally: &'a mut Tally,
}

/// What became of JSON text that had to change.
enum Document {
    Json(String),
    /// A value took more than one token, so what is left is no JSON any more.
    Text(String),
}

impl Writer<'_> {
    /// A rule of those that took more places of a document than are replaced one by one.
    fn excess(&self) -> Option<String> {
        let is_too_much = self.tally.values().sum::<u64>() > MAX_HITS as u64;
        self.tally.keys().next().filter(|_| is_too_much).cloned()
    }

    /// JSON text redacted; `None` when it stays. It has been found to be JSON before.
    fn document(&mut self, text: &str, nesting: u8) -> Option<Document> {
        let written = self.rewritten(text, nesting);
        // A value may span tokens, as a whole JSON document that is a secret does.
        let shown = written.as_deref().unwrap_or(text);
        match self.redactor.values_counted(self.channel, shown, self.tally) {
            Cow::Borrowed(_) => written.map(Document::Json),
            Cow::Owned(text) => Some(Document::Text(text)),
        }
    }

    fn rewritten(&mut self, text: &str, nesting: u8) -> Option<String> {
        let mut out = String::new();
        let mut is_changed = false;
        let mut rest = text;
        while let Some((token, tail)) = split_token(rest) {
            rest = tail;
            let is_name = token.starts_with('"') && tail.trim_start().starts_with(':');
            let shown = self.token(token, nesting);
            is_changed |= shown.is_some();
            if is_changed && self.excess().is_some() {
                break;
            }
            out.push_str(shown.as_deref().unwrap_or(token));
            if is_name && let Some((spelt, after)) = self.member(token, tail) {
                out.push_str(&spelt);
                is_changed = true;
                rest = after;
            }
        }
        is_changed.then_some(out)
    }

    /// The placeholder of a member's value with the colon ahead of it, and what follows the value.
    fn member<'t>(&mut self, name: &str, tail: &'t str) -> Option<(String, &'t str)> {
        if !self.with_fields {
            return None;
        }
        let name: String = serde_json::from_str(name).ok()?;
        let rule = self.redactor.field_rule(self.channel, &name)?;
        let after_colon = tail.trim_start().strip_prefix(':')?.trim_start();
        let mut values = serde_json::Deserializer::from_str(after_colon).into_iter::<&RawValue>();
        let value = values.next()?.ok()?.get();
        let after = after_colon.get(values.byte_offset()..)?;
        let canonical = serde_json::from_str(value).unwrap_or_else(|_| spelt(value));
        *self.tally.entry(rule.to_owned()).or_default() += 1;
        let placeholder = self.redactor.key.placeholder(rule, &canonical);
        Some((format!(":{}", Value::from(placeholder)), after))
    }

    /// A token redacted; `None` when it stays. A number or a word becomes a string.
    fn token(&mut self, token: &str, nesting: u8) -> Option<String> {
        if token.starts_with('"') {
            let text: String = serde_json::from_str(token).ok()?;
            return self.string(&text, nesting).map(|text| Value::from(text).to_string());
        }
        let is_scalar = token.bytes().next().is_some_and(is_plain);
        let shown = is_scalar.then(|| self.redactor.text_counted(self.channel, token, self.tally));
        shown
            .filter(|shown| matches!(shown, Cow::Owned(_)))
            .map(|text| Value::from(&*text).to_string())
    }

    fn string(&mut self, text: &str, nesting: u8) -> Option<String> {
        let is_container = text.trim_start().starts_with(['{', '[']);
        if is_container && nesting < MAX_NESTING && is_json(text) {
            return self.document(text, nesting + 1).map(|changed| match changed {
                Document::Json(text) | Document::Text(text) => text,
            });
        }
        match self.redactor.text_counted(self.channel, text, self.tally) {
            Cow::Borrowed(_) => None,
            Cow::Owned(text) => Some(text),
        }
    }
}

/// Whether a byte is part of a number or of a word.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

/// The first token of what is left of JSON text: a string, a number or a word, or what stands between.
fn split_token(text: &str) -> Option<(&str, &str)> {
    let first = *text.as_bytes().first()?;
    let end = match first {
        b'"' => string_end(text),
        byte if is_plain(byte) => text.bytes().position(|byte| !is_plain(byte)),
        _ => text.bytes().position(|byte| byte == b'"' || is_plain(byte)),
    };
    text.split_at_checked(end.unwrap_or(text.len()))
}

fn string_end(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let quote = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    quote.map(|at| at.saturating_add(2))
}
