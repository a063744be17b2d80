//! Bodies that are packed onto each other, and come back.

use proptest::prelude::*;

use super::*;
use crate::domain::ledger::Voice;
use crate::domain::request::BodyHash;
use crate::store::ledger::rebuild::{Link, Piece, is_tiled, rebuilt};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// A request of stretches: of each the text, and the step that it comes from, or syntax.
fn request(head: &[(&str, Option<i64>)], conversation: &[(&str, Option<i64>)]) -> Encoded {
    let mut request = Encoded::default();
    let write = |request: &mut Encoded, (text, seq): &(&str, Option<i64>)| {
        let origin =
            seq.map_or_else(|| Origin::WIRE.clone(), |seq| Origin::step(seq, 0, Voice::User));
        let start = count(request.body.len());
        request.body.extend_from_slice(text.as_bytes());
        let end = count(request.body.len());
        match request.spans.last_mut() {
            Some(last) if last.origin == origin => last.end = end,
            _ if end > start => request.spans.push(Span { start, end, origin }),
            _ => {}
        }
    };
    for piece in head {
        write(&mut request, piece);
    }
    request.conversation_at = request.body.len();
    for piece in conversation {
        write(&mut request, piece);
    }
    request
}

fn id(n: u128) -> RequestId {
    RequestId::from(Uuid::from_u128(n))
}

fn hash(request: &Encoded) -> BodyHash {
    BodyHash(Sha256::digest(&request.body).into())
}

/// The chain of the last of some bodies, as the store reads it.
fn chain(bodies: &[PackedBody]) -> Vec<Link> {
    let (mut head, mut conversation) = (u64::MAX, u64::MAX);
    let mut links = Vec::new();
    for body in bodies.iter().rev() {
        let piece = |needed: u64, segment: &PackedSegment| Piece {
            needed,
            shared: segment.shared,
            new: (needed > segment.shared).then(|| segment.new.clone()),
        };
        links.push(Link {
            head: piece(head, &body.head),
            conversation: piece(conversation, &body.conversation),
            spans: Some(body.spans.clone()),
        });
        (head, conversation) =
            (head.min(body.head.shared), conversation.min(body.conversation.shared));
        if body.base.is_none() {
            break;
        }
    }
    links.reverse();
    links
}

/// Packs requests, each onto the one before it, and expects all of them back.
fn assert_come_back(requests: &[Encoded]) -> Vec<PackedBody> {
    let mut bodies = Vec::new();
    for (n, one) in requests.iter().enumerate() {
        let before = n.checked_sub(1).map(|n| (id(n as u128), &requests[n]));
        bodies.push(PackedBody::of(one, before.as_slice()));
        let back = rebuilt(chain(&bodies), &hash(one)).unwrap();
        assert_eq!(&back, one);
        assert!(is_tiled(&back));
    }
    bodies
}

#[test]
fn only_what_the_request_before_does_not_have_is_stored() {
    let long = "a long task that is told in every turn, word for word, again and again and again";
    let head = [("{\"tools\":[", None), (long, Some(9)), ("],\"messages\":[", None)];
    let one = request(&head, &[("{", None), (long, Some(1)), ("}]}", None)]);
    let two = request(
        &head,
        &[("{", None), (long, Some(1)), ("},{", None), ("x", Some(2)), ("}]}", None)],
    );
    let bodies = assert_come_back(&[one.clone(), two]);
    assert_eq!(bodies[1].base, Some(id(0)));
    assert_eq!(bodies[1].head.shared, count(one.conversation_at));
    assert_eq!(bodies[1].head.new.bytes, b"");
    assert_eq!(bodies[1].conversation.new.bytes, b",{x}]}");
}

#[test]
fn equal_conversations_behind_different_heads_are_shared() {
    let long = "a long task that is told in every turn, word for word, again and again and again";
    let conversation = [("{", None), (long, Some(1)), ("}]}", None)];
    let one = request(&[("{\"tools\":[1,2,3],\"messages\":[", None)], &conversation);
    let closing = request(&[("{\"messages\":[", None)], &conversation);
    let bodies = assert_come_back(&[one, closing]);
    assert_eq!(bodies[1].head.shared, 2);
    assert_eq!(bodies[1].conversation.new.bytes, b"");
}

#[test]
fn the_same_words_from_another_step_are_not_shared() {
    let long =
        "the same long task, which another step tells in just the same words as this one did";
    let one = request(&[("[", None)], &[("{", None), (long, Some(1)), ("}]}", None)]);
    let two = request(&[("[", None)], &[("{", None), (long, Some(7)), ("}]}", None)]);
    let bodies = assert_come_back(&[one, two]);
    assert_eq!((bodies[1].base, bodies[1].conversation.shared), (None, 0));
}

#[test]
fn the_base_that_has_most_of_a_request_is_taken() {
    let long = "a long task that is told in every turn, word for word, again and again and again";
    let one = request(&[("[", None)], &[(long, Some(1)), ("]}", None)]);
    let two = request(&[("[", None)], &[(long, Some(1)), (long, Some(2)), ("]}", None)]);
    let three =
        request(&[("[", None)], &[(long, Some(1)), (long, Some(2)), (long, Some(3)), ("]}", None)]);
    let base = |bases: &[(RequestId, &Encoded)]| PackedBody::of(&three, bases).base;
    assert_eq!(base(&[(id(1), &one), (id(2), &two)]), Some(id(2)));
    assert_eq!(base(&[(id(2), &two), (id(1), &one)]), Some(id(2)));
    assert_eq!(base(&[(id(1), &one)]), Some(id(1)));
    assert_eq!(base(&[]), None);
}

#[test]
fn pieces_that_are_not_those_that_were_sent_are_told() {
    let one = request(&[("[", None)], &[("a word", Some(1)), ("]}", None)]);
    let body = PackedBody::of(&one, &[]);
    let links = chain(std::slice::from_ref(&body));
    assert!(rebuilt(links.clone(), &hash(&one)).is_some());
    assert_eq!(rebuilt(links.clone(), &BodyHash([0; 32])), None);
    let spoilt = |spoil: fn(&mut Link)| {
        let mut links = links.clone();
        spoil(&mut links[0]);
        rebuilt(links, &hash(&one))
    };
    assert_eq!(spoilt(|link| link.conversation.shared = 1), None);
    assert_eq!(spoilt(|link| link.conversation.new = None), None);
    let bytes = |bytes: &[u8]| Packed { bytes: bytes.to_vec(), encoding: ByteEncoding::Zlib };
    assert_eq!(spoilt(|link| link.head.new = Some(Packed::of(b"{"))), None);
    let mut broken = links.clone();
    broken[0].head.new = Some(bytes(b"no zlib"));
    assert_eq!(rebuilt(broken, &hash(&one)), None);
    assert_eq!(spoilt(|link| link.spans = Some(b"no spans".to_vec())), None);
}

#[test]
fn bytes_are_compressed_only_where_that_is_shorter() {
    for (bytes, encoding) in [
        (Vec::new(), ByteEncoding::Identity),
        (b"short".to_vec(), ByteEncoding::Identity),
        (b"long ".repeat(100), ByteEncoding::Zlib),
    ] {
        let packed = Packed::of(&bytes);
        assert_eq!(packed.encoding, encoding);
        assert!(packed.bytes.len() <= bytes.len());
        assert_eq!(packed.opened(), Some(bytes));
    }
}

/// Stretches of a few words from a few steps, so that bodies often begin alike.
fn stretches() -> impl Strategy<Value = Vec<(&'static str, Option<i64>)>> {
    let word =
        prop::sample::select(vec!["a", "bb", "é", "a rather long piece of text that is worth it"]);
    let seq = prop::option::of(1..3_i64);
    prop::collection::vec((word, seq), 0..12)
}

proptest! {
    #[test]
    fn whatever_is_packed_onto_whatever_comes_back_with_its_spans(
        bodies in prop::collection::vec((stretches(), stretches()), 1..8),
    ) {
        let requests: Vec<Encoded> =
            bodies.iter().map(|(head, conversation)| request(head, conversation)).collect();
        assert_come_back(&requests);
    }
}
