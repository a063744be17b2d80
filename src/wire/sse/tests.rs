//! Tests of the event reader.

use super::*;
use proptest::prelude::*;

fn read(pieces: &[&[u8]]) -> Vec<(Option<String>, String)> {
    let mut decoder = SseDecoder::default();
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(decoder.push(piece).unwrap());
    }
    events.extend(decoder.finish().unwrap());
    events.into_iter().map(|event| (event.name, event.data)).collect()
}

fn data(pieces: &[&[u8]]) -> Vec<String> {
    read(pieces).into_iter().map(|(_, data)| data).collect()
}

#[test]
fn every_line_end_ends_a_line() {
    for body in
        ["data: a\n\ndata: b\n\n", "data: a\r\n\r\ndata: b\r\n\r\n", "data: a\r\rdata: b\r\r"]
    {
        assert_eq!(data(&[body.as_bytes()]), ["a", "b"], "{body:?}");
    }
    assert_eq!(data(&[b"data: a\r\n\n\rdata: b\n\r\n"]), ["a", "b"]);
}

#[test]
fn a_crlf_split_between_reads_is_one_line_end() {
    assert_eq!(data(&[b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n"]), ["a\nb"]);
}

#[test]
fn comments_and_fields_without_data_dispatch_nothing() {
    assert_eq!(data(&[b": hello\n\n:\n\nretry: 10\nid: 7\n\nevent: ping\n\ndata: x\n\n"]), ["x"]);
}

#[test]
fn an_event_name_belongs_to_its_own_event_only() {
    let events = read(&[b"event: error\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n"]);
    let names: Vec<_> = events.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [Some("error".to_owned()), None, None]);
}

#[test]
fn data_lines_are_joined_and_lose_one_space() {
    assert_eq!(data(&[b"data:a\ndata:  b\ndata\ndata: c\n\n"]), ["a\n b\n\nc"]);
}

#[test]
fn a_byte_order_mark_is_dropped_at_the_start_only() {
    assert_eq!(data(&["\u{FEFF}data: \u{FEFF}a\n\n".as_bytes()]), ["\u{FEFF}a"]);
    assert_eq!(data(&[b"\xEF", b"\xBB\xBF\ndata: a\n\n"]), ["a"]);
}

#[test]
fn the_last_event_needs_no_blank_line() {
    assert_eq!(data(&[b"data: a"]), ["a"]);
    assert_eq!(data(&[b"data: a\n"]), ["a"]);
    assert_eq!(data(&[b"data: a\n\n"]), ["a"]);
}

#[test]
fn a_character_split_between_reads_stays_whole() {
    let body = "data: é😀\n\n".as_bytes();
    for at in 0..body.len() {
        assert_eq!(data(&[&body[..at], &body[at..]]), ["é😀"], "{at}");
    }
    assert_eq!(data(&[b"data: \xFF\n\n"]), ["\u{FFFD}"]);
}

#[test]
fn a_line_beyond_the_bound_is_refused() {
    let mut decoder = SseDecoder::default();
    decoder.push(b"data: ").unwrap();
    assert_eq!(decoder.push(&vec![b'x'; MAX_LINE]), Err(SseTooLarge));
}

#[test]
fn an_event_beyond_the_bound_is_refused() {
    let mut line = b"data: ".to_vec();
    line.resize(MAX_LINE - 10, b'x');
    line.push(b'\n');
    let mut decoder = SseDecoder::default();
    decoder.push(&line).unwrap();
    decoder.push(&line).unwrap();
    assert_eq!(decoder.push(&line), Err(SseTooLarge));
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(
        body in proptest::collection::vec(
            proptest::sample::select(b"data: :\r\n\nevent\xEF\xBB\xBFx{}".to_vec()), 0..120),
        cuts in proptest::collection::vec(0usize..120, 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= body.len()).collect();
        cuts.extend([0, body.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(&pieces), read(&[&body]));
    }
}
