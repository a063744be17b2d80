//! Where two requests part, in words that callers may read.

use super::{Divergence, Parted, Segment};
use crate::domain::id::TenantId;
use crate::domain::ledger::{Encoded, Span};
use crate::domain::redaction::RedactionChannel;
use crate::domain::request::shared_prefix;
use crate::engine::Context;
use crate::render::redact::Redactor;
use crate::store::StoreError;
use crate::store::ledger::{self, Bytes};

/// How much of each body an excerpt shows, in characters.
const EXCERPT_CHARS: usize = 80;

/// Where a request that is made again parts from the one of the ledger; `None` where that one's bytes
/// are not kept.
pub(super) async fn parted(
    context: &Context,
    tenant: &TenantId,
    (divergence, made): (&Divergence, &Encoded),
    redactor: &Redactor,
) -> Result<Option<Parted>, StoreError> {
    let Some(id) = divergence.request else { return Ok(None) };
    let Some(Bytes::Kept(kept)) = ledger::body(context.store(), tenant, id, true).await? else {
        return Ok(None);
    };
    let before = kept.request;
    let offset = shared_prefix(&before.body, &made.body);
    let is_head = offset < before.conversation_at;
    let (expected, actual) = excerpts((&before.body, redactor), (&made.body, redactor));
    Ok(Some(Parted {
        offset: u64::try_from(offset).unwrap_or(u64::MAX),
        segment: if is_head { Segment::Head } else { Segment::Conversation },
        expected_span: span_at(&before, offset),
        actual_span: span_at(made, offset),
        expected,
        actual,
    }))
}

/// The span that holds a byte.
pub(in crate::engine) fn span_at(request: &Encoded, offset: usize) -> Option<Span> {
    let offset = u64::try_from(offset).unwrap_or(u64::MAX);
    request.spans.iter().find(|span| span.end > offset).cloned()
}

/// What two bodies say from where they part. They are redacted before they are cut, so that no value is
/// cut out of its rule; where they differ in what is redacted alone, the excerpts are the same.
pub(in crate::engine) fn excerpts(
    (one, of_one): (&[u8], &Redactor),
    (other, of_other): (&[u8], &Redactor),
) -> (String, String) {
    let read = |body: &[u8], redactor: &Redactor| {
        let text = String::from_utf8_lossy(body);
        redactor.json_text(RedactionChannel::Api, &text).into_owned()
    };
    let (one, other) = (read(one, of_one), read(other, of_other));
    let at = shared_prefix(one.as_bytes(), other.as_bytes());
    (excerpt(&one, at), excerpt(&other, at))
}

/// What a text says from a byte on; from the beginning of the character that the byte is in.
pub(in crate::engine) fn excerpt(text: &str, byte: usize) -> String {
    let (_, rest) = text.split_at_checked(text.floor_char_boundary(byte)).unwrap_or_default();
    rest.chars().take(EXCERPT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_begins_with_the_whole_character_that_differs() {
        assert_eq!(excerpt("aé", 1), "é");
        assert_eq!(excerpt("aé", 2), "é");
        assert_eq!(excerpt("aé", 3), "");
        assert_eq!(excerpt("", 0), "");
        assert_eq!(excerpt(&"é".repeat(200), 0), "é".repeat(EXCERPT_CHARS));
    }
}
