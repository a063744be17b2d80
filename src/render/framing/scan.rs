//! Finds what could be read as a framing tag, in one pass.
//!
//! The scan is linear: what is looked at after a `<` is white space, one slash and a name, none of which
//! holds a `<`, so no character is looked at again because of an earlier bracket.

use std::borrow::Cow;

/// Replaces the `<` of every tag whose name is accepted; borrows when there is none.
pub(super) fn escape(text: &str, is_tag: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let mut brackets = after_brackets(text).filter(|(_, name)| is_tag(name)).map(|(at, _)| at);
    let Some(first) = brackets.next() else { return Cow::Borrowed(text) };
    // Each replacement adds three bytes; the guess covers an ordinary number of them.
    let mut out = String::with_capacity(text.len().saturating_add(64));
    let mut copied = 0;
    for at in std::iter::once(first).chain(brackets) {
        out.push_str(text.get(copied..at).unwrap_or_default());
        out.push_str("&lt;");
        copied = at + 1;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Where each `<` is that may begin a tag, and the text from where its name begins: past white space,
/// one slash, and white space again.
pub(super) fn after_brackets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // Of a run of brackets only the last one can begin a tag.
    ends_of_runs(text, b'<')
        .filter_map(|at| Some((at, to_name(text.get(at + 1..)?))))
        .filter(|(_, name)| may_be_name(name))
}

/// Where each run of an ASCII character ends: the position of its last one.
pub(super) fn ends_of_runs(text: &str, ascii: u8) -> impl Iterator<Item = usize> {
    let mut seen = 0;
    std::iter::from_fn(move || {
        let rest = text.as_bytes().get(seen..)?;
        let first = memchr::memchr(ascii, rest)?;
        let n_more = rest.iter().skip(first + 1).take_while(|byte| **byte == ascii).count();
        seen += first + 1 + n_more;
        Some(seen - 1)
    })
}

/// Whether a text begins with what can count as a letter.
fn may_be_name(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
}

fn to_name(text: &str) -> &str {
    let text = after_whitespace(text);
    text.strip_prefix('/').map_or(text, after_whitespace)
}

fn after_whitespace(text: &str) -> &str {
    // Most of it is ASCII, and goes byte by byte.
    let n =
        text.bytes().take_while(|byte| byte.is_ascii() && is_whitespace((*byte).into())).count();
    let text = text.get(n..).unwrap_or_default();
    if starts_with_ascii(text) { text } else { text.trim_start_matches(is_whitespace) }
}

fn starts_with_ascii(text: &str) -> bool {
    text.bytes().next().is_some_and(|byte| byte.is_ascii())
}

/// Whether a text begins with this name, and the name ends there.
pub(super) fn is_name(text: &str, name: &str) -> bool {
    strip_folded(text, name).is_some_and(|after| {
        after.chars().next().is_none_or(|next| next == '/' || next == '>' || is_whitespace(next))
    })
}

/// Takes a name from the start of a text, whatever its case.
fn strip_folded<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    // Letters are ASCII but for a few, so bytes are compared as far as that goes.
    let is_same = |(byte, wanted): &(u8, u8)| byte.eq_ignore_ascii_case(wanted);
    let n = text.bytes().zip(name.bytes()).take_while(is_same).count();
    if n == 0 && starts_with_ascii(text) {
        return None;
    }
    let (text, name) = (text.get(n..)?, name.get(n..)?);
    if name.is_empty() || starts_with_ascii(text) {
        return name.is_empty().then_some(text);
    }
    let mut rest = text.chars();
    name.chars().all(|wanted| rest.next().map(fold) == Some(wanted)).then_some(rest.as_str())
}

/// The lower-case ASCII letter that a character counts as, if any. The four that are not ASCII are
/// those that some reader's case-insensitive comparison equates with an ASCII letter.
pub(super) const fn fold(c: char) -> char {
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
