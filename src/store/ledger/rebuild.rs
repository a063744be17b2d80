//! From stored segments to the request again, byte for byte.

use sha2::{Digest as _, Sha256};

use super::pack::{NewSpans, Packed, Stretch};
use crate::domain::ledger::{Encoded, Span};
use crate::domain::request::BodyHash;

/// What one request of a chain adds to a segment.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// How much of the segment is needed here.
    pub(super) needed: u64,
    /// How much of it is the base's.
    pub(super) shared: u64,
    /// What comes behind that, where it is needed.
    pub(super) new: Option<Packed>,
}

/// One request of a chain.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) head: Piece,
    pub(super) conversation: Piece,
    /// Where the new bytes come from, when that is asked for.
    pub(super) spans: Option<Vec<u8>>,
}

/// The request at the end of a chain that begins with one that has no base. `None` when the pieces do
/// not fit together, or are not those that were sent.
pub(super) fn rebuilt(chain: Vec<Link>, sha256: &BodyHash) -> Option<Encoded> {
    let (mut head, mut conversation) = (Segment::default(), Segment::default());
    for link in chain {
        let spans = match &link.spans {
            Some(spans) => Some(NewSpans::opened(spans)?),
            None => None,
        };
        let (of_head, of_conversation) =
            spans.map(|spans| (spans.head, spans.conversation)).unzip();
        head.grow(link.head, of_head)?;
        conversation.grow(link.conversation, of_conversation)?;
    }
    let conversation_at = head.bytes.len();
    let mut body = head.bytes;
    body.append(&mut conversation.bytes);
    if <[u8; 32]>::from(Sha256::digest(&body)) != sha256.0 {
        return None;
    }
    let spans = tiled(head.stretches.into_iter().chain(conversation.stretches));
    Some(Encoded { body, spans, conversation_at })
}

/// Whether the spans of a request are those of all its bytes.
pub(super) fn is_tiled(request: &Encoded) -> bool {
    let end = request.spans.last().map_or(0, |span| span.end);
    usize::try_from(end) == Ok(request.body.len())
}

/// A segment so far.
#[derive(Debug, Default)]
struct Segment {
    bytes: Vec<u8>,
    stretches: Vec<Stretch>,
}

impl Segment {
    fn grow(&mut self, piece: Piece, spans: Option<Vec<Stretch>>) -> Option<()> {
        // The base was asked for what is shared and no more, so it must have just that.
        let kept = usize::try_from(piece.shared.min(piece.needed)).ok()?;
        if self.bytes.len() != kept {
            return None;
        }
        let room = piece.needed.saturating_sub(piece.shared);
        if room == 0 {
            return Some(());
        }
        let mut new = piece.new?.opened()?;
        new.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        self.bytes.append(&mut new);
        self.stretches.extend(cut(spans.unwrap_or_default(), room));
        Some(())
    }
}

/// Stretches up to a length.
fn cut(stretches: Vec<Stretch>, length: u64) -> impl Iterator<Item = Stretch> {
    let mut room = length;
    stretches.into_iter().filter_map(move |Stretch(length, origin)| {
        let kept = length.min(room);
        room -= kept;
        (kept > 0).then_some(Stretch(kept, origin))
    })
}

/// Stretches as spans. Where two of one origin meet they are one span, as they were when written.
fn tiled(stretches: impl Iterator<Item = Stretch>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    let mut start = 0;
    for Stretch(length, origin) in stretches {
        let end = start + length;
        match spans.last_mut() {
            Some(last) if last.origin == origin => last.end = end,
            _ => spans.push(Span { start, end, origin }),
        }
        start = end;
    }
    spans
}
