//! From a request to what of it is stored: the bytes that an earlier request does not have, compressed
//! where that is shorter.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

use crate::domain::id::RequestId;
use crate::domain::ledger::{ByteEncoding, Encoded, Origin, Span};
use crate::domain::request::shared_prefix;

/// Sharing fewer bytes than this is not worth the look at another row.
const WORTH_SHARING: u64 = 64;

/// Bytes as they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    pub(super) bytes: Vec<u8>,
    pub(super) encoding: ByteEncoding,
}

impl Packed {
    /// Compressed, unless that is no shorter.
    pub fn of(bytes: &[u8]) -> Self {
        match deflated(bytes) {
            Some(shorter) if shorter.len() < bytes.len() => {
                Self { bytes: shorter, encoding: ByteEncoding::Zlib }
            }
            _ => Self { bytes: bytes.to_vec(), encoding: ByteEncoding::Identity },
        }
    }

    /// The bytes again; `None` when they are not what they say.
    pub(super) fn opened(self) -> Option<Vec<u8>> {
        match self.encoding {
            ByteEncoding::Identity => Some(self.bytes),
            ByteEncoding::Zlib => inflated(&self.bytes),
        }
    }
}

fn deflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok()
}

fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    ZlibDecoder::new(bytes).read_to_end(&mut whole).ok()?;
    Some(whole)
}

/// A stretch of bytes of one origin, by its length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stretch(pub(super) u64, #[serde(with = "short")] pub(super) Origin);

/// An origin in a document; syntax, which is every second one, is `null`.
mod short {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use crate::domain::ledger::Origin;

    pub(super) fn serialize<S: Serializer>(origin: &Origin, to: S) -> Result<S::Ok, S::Error> {
        (origin != Origin::WIRE).then_some(origin).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Origin, D::Error> {
        Ok(Option::<Origin>::deserialize(from)?.unwrap_or_default())
    }
}

/// Where the new bytes of both segments come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NewSpans {
    pub(super) head: Vec<Stretch>,
    pub(super) conversation: Vec<Stretch>,
}

impl NewSpans {
    fn packed(&self) -> Vec<u8> {
        let document = serde_json::to_vec(self).unwrap_or_default();
        deflated(&document).unwrap_or_default()
    }

    /// `None` when the bytes are not such a document.
    pub(super) fn opened(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(&inflated(bytes)?).ok()
    }
}

/// A segment as it is stored: so many leading bytes of the same segment of the base, and the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedSegment {
    pub(super) shared: u64,
    pub(super) new: Packed,
}

/// A request body as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedBody {
    pub(super) base: Option<RequestId>,
    pub(super) head: PackedSegment,
    pub(super) conversation: PackedSegment,
    pub(super) spans: Vec<u8>,
}

impl PackedBody {
    /// Packs a body onto that of these others which has most of it.
    pub fn of(request: &Encoded, bases: &[(RequestId, &Encoded)]) -> Self {
        let segments = Segments::of(request);
        let shared = |(id, base): &(RequestId, &Encoded)| {
            let base = Segments::of(base);
            (
                *id,
                base.head.shared(&segments.head),
                base.conversation.shared(&segments.conversation),
            )
        };
        let best =
            bases.iter().map(shared).max_by_key(|(_, head, conversation)| head + conversation);
        let best = best.filter(|(_, head, conversation)| head + conversation >= WORTH_SHARING);
        let (base, head, conversation) =
            best.map_or((None, 0, 0), |(id, head, conversation)| (Some(id), head, conversation));
        let spans = NewSpans {
            head: segments.head.stretches_from(head),
            conversation: segments.conversation.stretches_from(conversation),
        };
        Self {
            base,
            head: segments.head.packed(head),
            conversation: segments.conversation.packed(conversation),
            spans: spans.packed(),
        }
    }
}

/// A body cut where its conversation begins.
struct Segments<'a> {
    head: Segment<'a>,
    conversation: Segment<'a>,
}

/// A part of a body, and what its bytes come from.
struct Segment<'a> {
    bytes: &'a [u8],
    stretches: Vec<(u64, &'a Origin)>,
}

impl<'a> Segments<'a> {
    fn of(request: &'a Encoded) -> Self {
        let cut = request.conversation_at.min(request.body.len());
        let (head, conversation) = request.body.split_at_checked(cut).unwrap_or_default();
        let cut = count(cut);
        let before = |span: &'a Span| (span.end.min(cut).saturating_sub(span.start), &span.origin);
        let behind = |span: &'a Span| (span.end.saturating_sub(span.start.max(cut)), &span.origin);
        let some = |(length, _): &(u64, &Origin)| *length > 0;
        Self {
            head: Segment {
                bytes: head,
                stretches: request.spans.iter().map(before).filter(some).collect(),
            },
            conversation: Segment {
                bytes: conversation,
                stretches: request.spans.iter().map(behind).filter(some).collect(),
            },
        }
    }
}

impl Segment<'_> {
    /// How many leading bytes are the same and come from the same places. The same words at another
    /// place are not shared, or they would be told to come from where the base has them.
    fn shared(&self, other: &Segment<'_>) -> u64 {
        count(shared_prefix(self.bytes, other.bytes)).min(self.shared_stretches(other))
    }

    fn shared_stretches(&self, other: &Segment<'_>) -> u64 {
        let (mut ones, mut others) = (self.stretches.iter(), other.stretches.iter());
        let (mut one, mut two) = (ones.next().copied(), others.next().copied());
        let mut shared = 0;
        while let (Some((left, origin)), Some((right, other))) = (one, two) {
            if origin != other {
                break;
            }
            let both = left.min(right);
            shared += both;
            one = if left > both { Some((left - both, origin)) } else { ones.next().copied() };
            two = if right > both { Some((right - both, other)) } else { others.next().copied() };
        }
        shared
    }

    fn stretches_from(&self, start: u64) -> Vec<Stretch> {
        let mut skip = start;
        let mut kept = Vec::new();
        for (length, origin) in &self.stretches {
            let left = length.saturating_sub(skip);
            skip = skip.saturating_sub(*length);
            if left > 0 {
                kept.push(Stretch(left, (*origin).clone()));
            }
        }
        kept
    }

    fn packed(&self, shared: u64) -> PackedSegment {
        let new = usize::try_from(shared).ok().and_then(|shared| self.bytes.get(shared..));
        PackedSegment { shared, new: Packed::of(new.unwrap_or_default()) }
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
