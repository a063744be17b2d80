//! A connection whose requests can be cut in one way only.
//!
//! The parser is lenient: it takes a lone line feed for the end of a line, and of two headers that say how
//! long a body is the one that it likes better. A proxy in front of the server may decide otherwise, and
//! then one of the two takes a body for a request. What can be read in two ways is not passed on: an end
//! follows in its place that no request has, upon which the parser answers 400 and closes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As much of a line as it takes to read one of the two headers that say how long a body is.
const KEPT: usize = 64;

/// An end of a head, so that the parser looks at it, behind a byte that no head has.
const END: &[u8] = b"\0\r\n\r\n";

/// Where in its requests a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the lines before a body.
    Head,
    /// So many bytes before the end of a body or of a piece of it; a line feed follows a piece.
    Body { left: u64, is_piece: bool },
    /// In the line that says how long the next piece of a body is.
    Size,
    /// In the lines after the last piece.
    Trailers,
    /// In something that is no request of HTTP/1, or none that the parser takes.
    Elsewhere,
    /// Behind what cannot be passed on.
    Broken,
}

/// How long a body is, as far as its head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Unsaid,
    Bytes(u64),
    Pieces,
}

/// Follows the requests of a connection.
#[derive(Debug)]
struct Cuts {
    place: Place,
    length: Length,
    line: Vec<u8>,
    /// The last byte of the line, kept or not.
    last: u8,
    is_first_line: bool,
}

impl Cuts {
    const fn new() -> Self {
        Self {
            place: Place::Head,
            length: Length::Unsaid,
            line: Vec::new(),
            last: 0,
            is_first_line: true,
        }
    }

    /// How much of what has come can be passed on.
    fn look(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            at += match self.place {
                Place::Elsewhere => rest.len(),
                Place::Broken => return at,
                Place::Body { left, is_piece } => self.skip(left, is_piece, rest.len()),
                Place::Head | Place::Size | Place::Trailers => {
                    let is_taken = rest.first().is_none_or(|byte| self.takes(*byte));
                    usize::from(is_taken)
                }
            };
        }
        at
    }

    fn skip(&mut self, left: u64, is_piece: bool, n_here: usize) -> usize {
        let n_here = u64::try_from(n_here).unwrap_or(u64::MAX).min(left);
        let left = left - n_here;
        self.place = match (left, is_piece) {
            (0, true) => Place::Size,
            (0, false) => Place::Head,
            (left, is_piece) => Place::Body { left, is_piece },
        };
        usize::try_from(n_here).unwrap_or(usize::MAX)
    }

    /// Takes a byte of a line, unless the line is one that must not end with it.
    fn takes(&mut self, byte: u8) -> bool {
        if byte != b'\n' {
            if self.line.len() < KEPT {
                self.line.push(byte);
            }
            self.last = byte;
            return true;
        }
        let line = std::mem::take(&mut self.line);
        let ends_well = std::mem::take(&mut self.last) == b'\r';
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        self.place = if ends_well { self.after(line) } else { Place::Broken };
        self.place != Place::Broken
    }

    /// Where it goes on after a line.
    fn after(&mut self, line: &[u8]) -> Place {
        match self.place {
            Place::Head if line.is_empty() && self.is_first_line => Place::Head,
            Place::Head if line.is_empty() => self.after_head(),
            Place::Head if std::mem::take(&mut self.is_first_line) => {
                if line.starts_with(b"PRI ") {
                    Place::Elsewhere
                } else {
                    Place::Head
                }
            }
            Place::Head => self.after_header(line),
            Place::Size => after_size(line),
            Place::Trailers if line.is_empty() => self.next_request(),
            place => place,
        }
    }

    fn next_request(&mut self) -> Place {
        self.is_first_line = true;
        self.length = Length::Unsaid;
        Place::Head
    }

    fn after_head(&mut self) -> Place {
        match self.length {
            Length::Unsaid | Length::Bytes(0) => self.next_request(),
            Length::Pieces => Place::Size,
            Length::Bytes(left) => {
                self.next_request();
                Place::Body { left, is_piece: false }
            }
        }
    }

    fn after_header(&mut self, line: &[u8]) -> Place {
        let Some((name, value)) = split(line) else { return Place::Head };
        let said = if name.eq_ignore_ascii_case("content-length") {
            value.parse().ok().map(Length::Bytes)
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            value.eq_ignore_ascii_case("chunked").then_some(Length::Pieces)
        } else {
            return Place::Head;
        };
        match (self.length, said) {
            (Length::Unsaid, Some(length)) => {
                self.length = length;
                Place::Head
            }
            // A length that the parser does not take either is its to refuse.
            (Length::Unsaid, None) => Place::Elsewhere,
            (Length::Bytes(_) | Length::Pieces, _) => Place::Broken,
        }
    }
}

/// A header as name and value.
fn split(line: &[u8]) -> Option<(&str, &str)> {
    let (name, value) = std::str::from_utf8(line).ok()?.split_once(':')?;
    Some((name, value.trim()))
}

/// Where it goes on after the line that says how long a piece is. An empty line ends the piece before.
fn after_size(line: &[u8]) -> Place {
    if line.is_empty() {
        return Place::Size;
    }
    let size = std::str::from_utf8(line).ok().and_then(|line| line.split(';').next());
    match size.map(|size| u64::from_str_radix(size.trim(), 16)) {
        Some(Ok(0)) => Place::Trailers,
        Some(Ok(left)) => Place::Body { left, is_piece: true },
        _ => Place::Elsewhere,
    }
}

/// A stream of requests that can be cut in one way only.
#[derive(Debug)]
pub(super) struct Strict<T> {
    stream: T,
    cuts: Cuts,
    /// What is left of the end that stands for what was not passed on.
    end: &'static [u8],
}

impl<T> Strict<T> {
    /// Nothing has come yet.
    pub(super) const fn new(stream: T) -> Self {
        Self { stream, cuts: Cuts::new(), end: END }
    }

    /// Gives the end out, as far as there is room for it.
    fn finish(&mut self, buffer: &mut ReadBuf<'_>) {
        let (now, later) = self.end.split_at(self.end.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.end = later;
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Strict<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        if this.cuts.place != Place::Broken {
            ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
            let new = buffer.filled().get(before..).unwrap_or_default();
            let n_passed = this.cuts.look(new);
            buffer.set_filled(before + n_passed);
        }
        if this.cuts.place == Place::Broken {
            this.finish(buffer);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Strict<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";

    /// How much is passed on of bytes that come in these pieces.
    fn passed(text: &str, cuts: &[usize]) -> usize {
        let mut follow = Cuts::new();
        let mut from = 0;
        for to in cuts.iter().copied().chain([text.len()]) {
            let to = to.clamp(from, text.len());
            let n_passed = follow.look(&text.as_bytes()[from..to]);
            if n_passed < to - from {
                assert_eq!(follow.look(b"x"), 0);
                return from + n_passed;
            }
            from = to;
        }
        from
    }

    fn sound() -> Vec<String> {
        vec![
            format!("{POST}Content-Length: 3\r\n\r\na\nb{POST}\r\n"),
            format!(
                "\r\n{POST}Transfer-Encoding: Chunked\r\n\r\n3;x=y\r\n\n\n\n\r\n0\r\nT: u\r\n\r\n{POST}\r\n"
            ),
            "PRI * HTTP/2.0\r\n\r\nSM\n\n".to_owned(),
            format!("{POST}Content-Length: 0\r\n\r\n{POST}Content-Length: 0\r\n\r\n"),
            format!("{POST}X: {}\r\n\r\n", "x".repeat(1_000)),
        ]
    }

    fn ambiguous() -> Vec<String> {
        vec![
            "POST / HTTP/1.1\nHost: a\r\n\r\n".to_owned(),
            format!("{POST}X: y\n\r\n"),
            format!("{POST}\n"),
            format!("{POST}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
            format!("{POST}transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n"),
            format!("{POST}Content-Length: 3\r\nContent-Length: 3\r\n\r\n"),
            format!("{POST}Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n"),
            format!("{POST}Content-Length: 1\r\n\r\nxGET / HTTP/1.1\nHost: a\r\n\r\n"),
        ]
    }

    proptest! {
        #[test]
        fn what_can_be_cut_in_one_way_only_is_passed_on_as_it_is(
            which in 0..5_usize,
            cuts in prop::collection::vec(0..120_usize, 0..9),
        ) {
            let text = &sound()[which];
            let mut cuts = cuts;
            cuts.sort_unstable();
            prop_assert_eq!(passed(text, &cuts), text.len());
        }

        #[test]
        fn nothing_is_passed_on_behind_what_can_be_cut_in_two_ways(
            which in 0..8_usize,
            cuts in prop::collection::vec(0..120_usize, 0..9),
        ) {
            let text = &ambiguous()[which];
            let mut cuts = cuts;
            cuts.sort_unstable();
            // The whole decides, and not how it comes.
            prop_assert_eq!(passed(text, &cuts), passed(text, &[]));
            prop_assert!(passed(text, &cuts) < text.len());
        }
    }
}
