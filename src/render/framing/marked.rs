//! Frames around text that knows where it comes from.

use std::borrow::Cow;

use super::{Attr, Tag, close_tag, open_tag};
use crate::domain::ledger::{Origin, Voice};
use crate::render::prompt::MarkedText;

/// Frames a body of which this is the escaped form.
pub(super) fn framed(
    tag: Tag<'static>,
    (body, escaped): (&MarkedText, &str),
    attrs: &[Attr<'_>],
    origin: &Origin,
) -> MarkedText {
    let frame = Some(Cow::Borrowed(tag.name));
    let ours = Origin { frame: frame.clone(), ..origin.spoken(Voice::Application) };
    let mut marked = MarkedText::of(open_tag(tag, attrs), ours.clone());
    let mut rest = escaped;
    for (piece, origin) in body.pieces() {
        let (written, left) = aligned(piece, rest);
        let mut origin = origin.clone();
        // The frame that a piece stands in is the innermost one.
        origin.frame = origin.frame.or_else(|| frame.clone());
        origin.escaped |= written.len() != piece.len();
        marked.push(written, &origin);
        rest = left;
    }
    marked.push(&close_tag(tag), &ours);
    marked
}

/// What a piece became at the beginning of the escaped text, and what follows it there. Escaping
/// turns some `<` into `&lt;` and changes nothing else.
fn aligned<'t>(piece: &str, escaped: &'t str) -> (&'t str, &'t str) {
    if let Some((head, tail)) = escaped.split_at_checked(piece.len())
        && head == piece
    {
        return (head, tail);
    }
    let mut at = 0;
    for byte in piece.bytes() {
        let is_escaped = byte == b'<' && escaped.as_bytes().get(at) == Some(&b'&');
        at += if is_escaped { "&lt;".len() } else { 1 };
    }
    escaped.split_at_checked(at).unwrap_or((escaped, ""))
}
