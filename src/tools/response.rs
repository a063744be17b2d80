//! What a tool answered, as text, JSON or a file that can be stored.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use indexmap::IndexMap;
use serde_json::Value;
use serde_json::value::RawValue;

use super::declared::Declared;
use super::mask::Mask;
use crate::domain::file::{FileBytes, FilePart, FileSource};
use crate::domain::tool::{JsonOutput, OutcomeKind, TextOutput, ToolCallError, ToolOutput};

/// Levels of JSON output that are kept as JSON; a deeper document is kept as text, since a history
/// that holds it must still load where documents of 64 levels are accepted.
const MAX_OUTPUT_DEPTH: usize = 48;

/// What a tool gave back, and whether characters of it were replaced.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Output {
    /// Text or JSON; `None` when there are files only.
    pub(super) said: Option<ToolOutput>,
    /// The files.
    pub(super) files: Vec<FilePart>,
    pub(super) sanitised: bool,
}

impl Output {
    pub(super) fn text(text: &str) -> Self {
        let (text, sanitised) = storable(text);
        Self::saying(ToolOutput::Text(TextOutput { text }), sanitised)
    }

    /// An output of JSON text; `None` when it is none.
    pub(super) fn json(text: &str) -> Option<Self> {
        parse(text).map(|(output, sanitised)| Self::saying(ToolOutput::Json(output), sanitised))
    }

    /// The same; what a server may have written into the name and type of a file is masked, as its bytes
    /// have been.
    pub(super) fn masked(mut self, mask: &Mask) -> Self {
        for file in &mut self.files {
            for text in [&mut file.id, &mut file.media_type] {
                *text = mask.text(text).into_owned();
            }
        }
        self
    }

    const fn saying(output: ToolOutput, sanitised: bool) -> Self {
        Self { said: Some(output), files: Vec::new(), sanitised }
    }

    fn file(body: &[u8], id: String, media_type: &str) -> Self {
        let source = FileSource::Base64(FileBytes { base64: BASE64_STANDARD.encode(body) });
        let file = FilePart { id, media_type: media_type.to_owned(), source };
        Self { said: None, files: vec![file], sanitised: false }
    }

    /// What was said, if anything was, with files.
    pub(super) fn with_files(said: Option<Self>, files: Vec<FilePart>) -> Self {
        let said = said.unwrap_or(Self { said: None, files: Vec::new(), sanitised: false });
        Self { files, ..said }
    }
}

/// Reads the body of a 2xx answer of a tool. With an output path the body has to be JSON, whatever its
/// declared type.
pub(super) fn read(
    body: &[u8],
    declared: &Declared,
    (tool, output_path): (&str, Option<&str>),
) -> Result<Output, ToolCallError> {
    if let Some(path) = output_path {
        return as_text(body, |text| at_path(text, path));
    }
    match declared.file_type() {
        // There is nothing to hand over in an empty file.
        Some(media_type) if !body.is_empty() => {
            Ok(Output::file(body, declared.file_id(tool), media_type))
        }
        Some(_) | None => as_text(body, |text| {
            Ok(if declared.is_json() { whole(text) } else { Output::text(text) })
        }),
    }
}

fn as_text(
    body: &[u8],
    read: impl FnOnce(&str) -> Result<Output, ToolCallError>,
) -> Result<Output, ToolCallError> {
    let text = String::from_utf8_lossy(body);
    let damaged = matches!(text, Cow::Owned(_));
    let output = read(&text)?;
    Ok(Output { sanitised: output.sanitised || damaged, ..output })
}

fn whole(text: &str) -> Output {
    match parse(text) {
        Some((output, sanitised)) if is_shallow(&output.json, MAX_OUTPUT_DEPTH) => {
            Output::saying(ToolOutput::Json(output), sanitised)
        }
        _ => Output::text(text),
    }
}

fn at_path(text: &str, path: &str) -> Result<Output, ToolCallError> {
    let (text, sanitised) = readable(text);
    // The whole is judged first: what cannot be read outside of the part spoils the part as well.
    JsonOutput::of(&text).map_err(|_| invalid("the tool did not answer JSON"))?;
    let part = pointed(&text, path).and_then(|part| JsonOutput::of(part).ok());
    let Some(output) = part else {
        return Err(invalid(&format!("the tool's answer has nothing at {path:?}")));
    };
    if !is_shallow(&output.json, MAX_OUTPUT_DEPTH) {
        return Err(invalid("the tool's answer is nested too deeply"));
    }
    Ok(Output::saying(ToolOutput::Json(output), sanitised))
}

/// The part of JSON text that a pointer leads to, as it is spelt.
fn pointed<'a>(text: &'a str, pointer: &str) -> Option<&'a str> {
    if pointer.is_empty() {
        return Some(text);
    }
    let mut tokens = pointer.strip_prefix('/')?.split('/');
    tokens.try_fold(text.trim_start(), |at, token| {
        member(at, &token.replace("~1", "/").replace("~0", "~"))
    })
}

fn member<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    if text.starts_with('[') {
        let is_index = token == "0" || !token.starts_with(['0', '+']);
        let index: usize = token.parse().ok().filter(|_| is_index)?;
        let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
        return items.get(index).map(|item| item.get());
    }
    let members: IndexMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    members.get(token).map(|member| member.get())
}

fn invalid(message: &str) -> ToolCallError {
    ToolCallError {
        kind: OutcomeKind::Execution,
        type_name: "InvalidResponse",
        message: message.to_owned(),
    }
}

/// Parses JSON, with U+FFFD for escapes that cannot be stored; and whether there were any.
pub(super) fn parse(text: &str) -> Option<(JsonOutput, bool)> {
    let (text, sanitised) = readable(text);
    JsonOutput::of(&text).ok().map(|output| (output, sanitised))
}

/// JSON text without a byte order mark and without escapes that cannot be stored.
fn readable(text: &str) -> (Cow<'_, str>, bool) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    mend(text).map_or((Cow::Borrowed(text), false), |mended| (Cow::Owned(mended), true))
}

/// Replaces each escape that cannot be stored, which are `\u0000` and each `\uD800`–`\uDFFF` without
/// its partner; `None` when there is none.
fn mend(text: &str) -> Option<String> {
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
        let broken = !paired && unit.is_some_and(|u| u == 0 || (0xd800..0xe000).contains(&u));
        changed |= broken;
        // An escape is at least one character long, which may itself be a backslash.
        let taken = match (paired, unit) {
            (true, _) => 11,
            (false, Some(_)) => 5,
            (false, None) => tail.chars().next().map_or(0, char::len_utf8),
        };
        let (escape, after) = tail.split_at_checked(taken)?;
        mended.push('\\');
        mended.push_str(if broken { "ufffd" } else { escape });
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

/// Whether a value has at most so many levels; a scalar has none.
pub(super) fn is_shallow(value: &Value, levels: usize) -> bool {
    let within = |value: &Value| levels > 0 && is_shallow(value, levels - 1);
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(within),
        Value::Object(members) => levels > 0 && members.values().all(within),
        _ => true,
    }
}
