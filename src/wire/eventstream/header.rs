//! The headers of a frame: names with typed values, of which texts are read and others skipped.

use super::{Frame, FrameKind};

/// One header; `value` is there when it is a text.
struct Header<'a> {
    name: &'a [u8],
    value: Option<String>,
}

/// Reads the headers of a frame. `None`: they are malformed.
pub(super) fn frame(mut headers: &[u8], payload: &[u8]) -> Option<Frame> {
    let mut frame = Frame {
        kind: FrameKind::Event,
        name: None,
        message: None,
        is_json: true,
        payload: payload.to_vec(),
    };
    while !headers.is_empty() {
        let (header, rest) = next(headers)?;
        headers = rest;
        let Some(value) = header.value else { continue };
        match header.name {
            b":message-type" if matches!(&*value, "exception" | "error") => {
                frame.kind = FrameKind::Exception;
            }
            b":event-type" | b":exception-type" | b":error-code" => frame.name = Some(value),
            b":error-message" => frame.message = Some(value),
            b":content-type" => frame.is_json = value.contains("json"),
            _ => {}
        }
    }
    Some(frame)
}

fn next(bytes: &[u8]) -> Option<(Header<'_>, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(*length))?;
    let (kind, rest) = rest.split_first()?;
    let (length, rest) = value_length(*kind, rest)?;
    let (value, rest) = rest.split_at_checked(length)?;
    let value = (*kind == 7).then(|| String::from_utf8_lossy(value).into_owned());
    Some((Header { name, value }, rest))
}

/// How long a value of a type is, and what follows its length where it says one itself.
fn value_length(kind: u8, rest: &[u8]) -> Option<(usize, &[u8])> {
    let length = match kind {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        6 | 7 => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            return Some((usize::from(u16::from_be_bytes(*length)), rest));
        }
        9 => 16,
        _ => return None,
    };
    Some((length, rest))
}
