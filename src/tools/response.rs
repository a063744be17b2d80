//! What a tool answered, as text or JSON that can be stored.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::domain::tool::{JsonOutput, OutcomeKind, TextOutput, ToolCallError, ToolOutput};

/// Levels of JSON output that are kept as JSON; a deeper document is kept as text, since a history
/// that holds it must still load where documents of 64 levels are accepted.
const MAX_OUTPUT_DEPTH: usize = 48;

/// An output, and whether characters of it were replaced.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Output {
    pub(super) output: ToolOutput,
    pub(super) sanitised: bool,
}

impl Output {
    pub(super) fn text(text: &str) -> Self {
        let (text, sanitised) = storable(text);
        Self { output: ToolOutput::Text(TextOutput { text }), sanitised }
    }

    pub(super) fn json(value: Value) -> Self {
        let (json, sanitised) = storable_json(value);
        Self { output: ToolOutput::Json(JsonOutput { json }), sanitised }
    }
}

/// Reads the body of a 2xx answer. With an output path the body has to be JSON, whatever its
/// declared type.
pub(super) fn read(
    body: &[u8],
    declared_json: bool,
    output_path: Option<&str>,
) -> Result<Output, ToolCallError> {
    let text = String::from_utf8_lossy(body);
    let damaged = matches!(text, Cow::Owned(_));
    let mut output = match output_path {
        Some(path) => at_path(&text, path)?,
        None if declared_json => whole(&text),
        None => Output::text(&text),
    };
    output.sanitised |= damaged;
    Ok(output)
}

fn whole(text: &str) -> Output {
    match parse(text) {
        Some((value, mended)) if is_shallow(&value, MAX_OUTPUT_DEPTH) => {
            let output = Output::json(value);
            Output { sanitised: output.sanitised || mended, ..output }
        }
        _ => Output::text(text),
    }
}

fn at_path(text: &str, path: &str) -> Result<Output, ToolCallError> {
    let (value, mended) = parse(text).ok_or_else(|| invalid("the tool did not answer JSON"))?;
    let Some(found) = value.pointer(path).cloned() else {
        return Err(invalid(&format!("the tool's answer has nothing at {path:?}")));
    };
    if !is_shallow(&found, MAX_OUTPUT_DEPTH) {
        return Err(invalid("the tool's answer is nested too deeply"));
    }
    let output = Output::json(found);
    Ok(Output { sanitised: output.sanitised || mended, ..output })
}

fn invalid(message: &str) -> ToolCallError {
    ToolCallError {
        kind: OutcomeKind::Execution,
        type_name: "InvalidResponse",
        message: message.to_owned(),
    }
}

/// Parses JSON, with U+FFFD for lone surrogate escapes where there are any.
fn parse(text: &str) -> Option<(Value, bool)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if let Ok(value) = serde_json::from_str(text) {
        return Some((value, false));
    }
    let mended = mend_surrogates(text)?;
    serde_json::from_str(&mended).ok().map(|value| (value, true))
}

/// Replaces each `\uD800`–`\uDFFF` escape without its partner; `None` when there is none.
fn mend_surrogates(text: &str) -> Option<String> {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    while let Some((before, tail)) = rest.split_once('\\') {
        mended.push_str(before);
        let unit = code_unit(tail);
        let paired = unit.is_some_and(|u| (0xd800..0xdc00).contains(&u))
            && tail
                .get(5..)
                .and_then(|next| next.strip_prefix('\\'))
                .and_then(code_unit)
                .is_some_and(|u| (0xdc00..0xe000).contains(&u));
        let lone = !paired && unit.is_some_and(|u| (0xd800..0xe000).contains(&u));
        changed |= lone;
        // An escape is at least one character long, which may itself be a backslash.
        let taken = match (paired, unit) {
            (true, _) => 11,
            (false, Some(_)) => 5,
            (false, None) => tail.chars().next().map_or(0, char::len_utf8),
        };
        let (escape, after) = tail.split_at_checked(taken)?;
        mended.push('\\');
        mended.push_str(if lone { "ufffd" } else { escape });
        rest = after;
    }
    mended.push_str(rest);
    changed.then_some(mended)
}

/// The code unit of an escape that begins with `u` and four hex digits.
fn code_unit(escape: &str) -> Option<u16> {
    let digits = escape.strip_prefix('u')?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// Replaces U+0000, which cannot be stored, by U+FFFD.
pub(super) fn storable(text: &str) -> (String, bool) {
    (text.replace('\0', "\u{fffd}"), text.contains('\0'))
}

pub(super) fn storable_json(value: Value) -> (Value, bool) {
    match value {
        Value::String(text) => {
            let (text, changed) = storable(&text);
            (Value::String(text), changed)
        }
        Value::Array(items) => {
            let (items, changed): (Vec<_>, Vec<_>) = items.into_iter().map(storable_json).unzip();
            (Value::Array(items), changed.contains(&true))
        }
        Value::Object(members) => storable_members(members),
        plain => (plain, false),
    }
}

fn storable_members(members: Map<String, Value>) -> (Value, bool) {
    let mut changed = false;
    let members = members
        .into_iter()
        .map(|(key, value)| {
            let ((key, key_changed), (value, value_changed)) =
                (storable(&key), storable_json(value));
            changed |= key_changed || value_changed;
            (key, value)
        })
        .collect();
    (Value::Object(members), changed)
}

/// Whether a value has at most so many levels; a scalar has none.
pub(super) fn is_shallow(value: &Value, levels: usize) -> bool {
    let within = |value: &Value| levels > 0 && is_shallow(value, levels - 1);
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(within),
        Value::Object(members) => levels > 0 && members.values().all(within),
        _ => true,
    }
}
