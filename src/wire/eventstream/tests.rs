//! Frames: whole, split, damaged and hostile.

use super::*;

/// A frame as the service sends it, with headers that are texts.
pub(in crate::wire) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.extend(header(name, 7));
        block.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        block.extend(value.as_bytes());
    }
    raw(&block, payload)
}

/// An event as the service sends it.
pub(in crate::wire) fn event(name: &str, payload: &str) -> Vec<u8> {
    let headers =
        [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.as_bytes())
}

/// An exception as the service sends it.
pub(in crate::wire) fn exception(name: &str, payload: &str) -> Vec<u8> {
    let headers = [
        (":exception-type", name),
        (":content-type", "application/json"),
        (":message-type", "exception"),
    ];
    frame(&headers, payload.as_bytes())
}

fn header(name: &str, kind: u8) -> Vec<u8> {
    [&[u8::try_from(name.len()).unwrap()], name.as_bytes(), &[kind]].concat()
}

fn prelude(total: u32, headers: u32) -> Vec<u8> {
    let lengths = [total.to_be_bytes(), headers.to_be_bytes()].concat();
    let checksum = crc32(&lengths).to_be_bytes();
    [lengths, checksum.to_vec()].concat()
}

fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = |n: usize| u32::try_from(n).unwrap();
    let total = length(headers.len() + payload.len() + 16);
    let checked = [&prelude(total, length(headers.len())), headers, payload].concat();
    let checksum = crc32(&checked).to_be_bytes();
    [checked, checksum.to_vec()].concat()
}

/// Every frame in some pieces, and what ended them.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Frame>, Option<FrameError>) {
    let (mut decoder, mut frames) = (FrameDecoder::default(), Vec::new());
    for piece in pieces {
        decoder.feed(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
    }
    (frames, None)
}

#[test]
fn frames_read_the_same_however_they_are_split() {
    let three = [event("a", "{\"x\":1}"), event("b", ""), exception("c", "{}")];
    let (lengths, bytes) = (three.each_ref().map(Vec::len), three.concat());
    let (frames, error) = read([bytes.as_slice()]);
    assert_eq!((frames.len(), error), (3, None));
    let told: Vec<_> = frames.iter().map(|it| (it.kind, it.name.as_deref())).collect();
    let event = FrameKind::Event;
    assert_eq!(told, [(event, Some("a")), (event, Some("b")), (FrameKind::Exception, Some("c"))]);
    assert_eq!(frames[0].payload, b"{\"x\":1}");
    for at in 0..bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(read([head, tail]), (frames.clone(), None), "{at}");
        let whole = lengths.iter().scan(0, |end, n| {
            *end += n;
            Some(*end)
        });
        assert_eq!(read([head]).0.len(), whole.filter(|end| *end <= at).count(), "{at}");
    }
    assert_eq!(read(bytes.chunks(1)), (frames, None));
}

#[test]
fn a_changed_byte_anywhere_ends_the_stream_with_an_error() {
    let bytes = [event("a", "{}"), event("b", "{}")].concat();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        let (frames, error) = read([changed.as_slice()]);
        assert_eq!(error, Some(FrameError::Checksum), "{at}");
        assert_eq!(frames.len(), usize::from(at >= bytes.len() / 2), "{at}");
    }
}

#[test]
fn headers_of_other_types_are_skipped() {
    let values: [(u8, &[u8]); 10] = [
        (0, b""),
        (1, b""),
        (2, b"1"),
        (3, b"12"),
        (4, b"1234"),
        (5, b"12345678"),
        (6, b"\x00\x03abc"),
        (7, b"\x00\x00"),
        (8, b"12345678"),
        (9, b"1234567890123456"),
    ];
    let mut headers = Vec::new();
    for (kind, value) in values {
        headers.extend(header("x", kind));
        headers.extend(value);
    }
    headers.extend(header(":error-code", 7));
    headers.extend(b"\x00\x01E");
    headers.extend(header(":error-message", 7));
    headers.extend(b"\x00\x02no");
    headers.extend(header(":message-type", 7));
    headers.extend(b"\x00\x05error");
    headers.extend(header(":content-type", 7));
    headers.extend(b"\x00\x0atext/plain");
    let (frames, error) = read([raw(&headers, b"?").as_slice()]);
    assert_eq!(error, None);
    let expected = Frame {
        kind: FrameKind::Exception,
        name: Some("E".to_owned()),
        message: Some("no".to_owned()),
        is_json: false,
        payload: b"?".to_vec(),
    };
    assert_eq!(frames, [expected]);
}

#[test]
fn headers_that_do_not_fit_are_malformed() {
    for headers in [
        &b"\x05ab"[..],
        b"\x01a",
        b"\x01a\x07\x00\x05ab",
        b"\x01a\x07\x00",
        b"\x01a\x0a",
        b"\x01a\x09short",
    ] {
        assert_eq!(read([raw(headers, b"").as_slice()]).1, Some(FrameError::Malformed));
    }
}

#[test]
fn lengths_are_checked_before_anything_is_waited_for() {
    for (total, headers, expected) in [
        (u32::MAX, 0, FrameError::TooLarge),
        (u32::try_from(MAX_FRAME).unwrap() + 1, 0, FrameError::TooLarge),
        (15, 0, FrameError::Malformed),
        (0, 0, FrameError::Malformed),
        (20, 5, FrameError::Malformed),
        (100, u32::MAX, FrameError::Malformed),
    ] {
        assert_eq!(read([prelude(total, headers).as_slice()]).1, Some(expected), "{total}");
    }
    // The largest frame is waited for, and takes no more memory than has come of it.
    let mut decoder = FrameDecoder::default();
    decoder.feed(&prelude(u32::try_from(MAX_FRAME).unwrap(), 0));
    assert_eq!(decoder.next_frame(), Ok(None));
    assert!(decoder.buffer.capacity() < 1_024);
}

#[test]
fn what_is_no_frame_at_all_has_a_wrong_checksum() {
    assert_eq!(read([b"<html>502 Bad Gateway".as_slice()]).1, Some(FrameError::Checksum));
    assert_eq!(read([b"".as_slice()]), (Vec::new(), None));
}
