//! Follows HTTP/1 as it comes and spoils what two servers could read differently.
//!
//! The parser takes a length beside chunks, two lengths that agree, and lines that end in a bare line feed:
//! where a proxy stands before the server and reads them another way, one request can hide in another. A
//! byte of such a head is overwritten by one that no head can have, so that the parser refuses it.

/// No head has it.
const SPOILT: u8 = 0;

/// What follows what is spoilt, so that the parser waits for nothing more before it refuses.
const END: &[u8] = b"\r\n\r\n";

/// The longest line whose words are looked at; what has to be understood is shorter.
const MAX_LINE: usize = 256;

/// Where in a message the next byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The request line, or empty lines before it.
    Start,
    /// Headers.
    Head,
    /// So many bytes of a body.
    Body(u64),
    /// The line before a chunk.
    ChunkSize,
    /// So many bytes of a chunk, the end of its line included.
    Chunk(u64),
    /// What follows the last chunk.
    Trailers,
    /// HTTP/2, which is not looked at.
    Rest,
    /// A message that the parser refuses, and how much of its end is to come.
    Spoilt(&'static [u8]),
}

/// How a head says where its body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Unsaid,
    Bytes(u64),
    Chunks,
}

/// What is known of the message that is under way.
#[derive(Debug)]
pub(super) struct Scan {
    part: Part,
    length: Length,
    line: Vec<u8>,
    after_cr: bool,
}

impl Scan {
    /// Before the first message.
    pub(super) const fn new() -> Self {
        Self { part: Part::Start, length: Length::Unsaid, line: Vec::new(), after_cr: false }
    }

    /// Looks at the bytes that come next. Answers how many of them to hand on.
    pub(super) fn pass(&mut self, bytes: &mut [u8]) -> usize {
        let all = bytes.len();
        let mut rest = bytes;
        while let Some((byte, behind)) = rest.split_first_mut() {
            match self.part {
                Part::Rest => return all,
                Part::Spoilt(_) => return all - behind.len() - 1,
                Part::Body(left) | Part::Chunk(left) => {
                    let n = usize::try_from(left).unwrap_or(usize::MAX).min(behind.len() + 1);
                    self.skip(left.saturating_sub(n as u64));
                    rest = behind.get_mut(n - 1..).unwrap_or_default();
                }
                Part::Start | Part::Head | Part::ChunkSize | Part::Trailers => {
                    self.read(byte);
                    rest = behind;
                }
            }
        }
        all
    }

    /// At most so many bytes to hand on in place of what comes; `None` as long as nothing is spoilt.
    pub(super) const fn instead(&mut self, most: usize) -> Option<&'static [u8]> {
        let Part::Spoilt(end) = self.part else { return None };
        let (given, left) = end.split_at(if most < end.len() { most } else { end.len() });
        self.part = Part::Spoilt(left);
        Some(given)
    }

    const fn skip(&mut self, left: u64) {
        self.part = match (self.part, left) {
            (Part::Body(_), 0) => Part::Start,
            (Part::Body(_), left) => Part::Body(left),
            (_, 0) => Part::ChunkSize,
            (_, left) => Part::Chunk(left),
        };
    }

    fn read(&mut self, byte: &mut u8) {
        let ends = *byte == b'\n' && self.after_cr;
        self.after_cr = *byte == b'\r';
        if *byte != b'\n' {
            // The carriage return is the first half of the line's end.
            if self.line.len() <= MAX_LINE && *byte != b'\r' {
                self.line.push(*byte);
            }
            return;
        }
        let line = std::mem::take(&mut self.line);
        let next = if ends { self.after_line(&line) } else { None };
        if next.is_none() {
            *byte = SPOILT;
        }
        self.part = next.unwrap_or(Part::Spoilt(END));
    }

    /// Where the byte behind a line is; `None` when the line is to be refused.
    fn after_line(&mut self, line: &[u8]) -> Option<Part> {
        match self.part {
            Part::Start | Part::Trailers if line.is_empty() => Some(Part::Start),
            Part::Start if line == b"PRI * HTTP/2.0" => Some(Part::Rest),
            Part::Start => {
                self.length = Length::Unsaid;
                Some(Part::Head)
            }
            Part::Head if line.is_empty() => Some(match self.length {
                Length::Unsaid | Length::Bytes(0) => Part::Start,
                Length::Bytes(bytes) => Part::Body(bytes),
                Length::Chunks => Part::ChunkSize,
            }),
            Part::Head => self.header(line).then_some(Part::Head),
            Part::ChunkSize => match chunk_size(line) {
                Some(0) => Some(Part::Trailers),
                // The chunk has a line's end behind it.
                Some(bytes) => Some(Part::Chunk(bytes.saturating_add(2))),
                None => None,
            },
            part => Some(part),
        }
    }

    /// Notes what a header says about the body; `false` when something was said before, or when it cannot
    /// be understood.
    fn header(&mut self, line: &[u8]) -> bool {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().unwrap_or_default();
        let value = parts.next().unwrap_or_default().trim_ascii();
        let said = if name.eq_ignore_ascii_case(b"content-length") {
            number(value, 10).map(Length::Bytes)
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            value.eq_ignore_ascii_case(b"chunked").then_some(Length::Chunks)
        } else {
            return true;
        };
        let fits = self.length == Length::Unsaid && said.is_some() && line.len() <= MAX_LINE;
        self.length = said.unwrap_or(self.length);
        fits
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| *byte == b';').next()?;
    number(size.trim_ascii(), 16)
}

/// A number of digits and nothing else.
fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok()?;
    let is_plain = text.chars().all(|digit| digit.is_digit(radix));
    u64::from_str_radix(text, radix).ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether bytes pass as they are, whichever way they are cut.
    fn passes(text: &str) -> bool {
        let outcomes = [1, 2, 7, usize::MAX].map(|size| {
            let mut scan = Scan::new();
            let mut bytes = text.as_bytes().to_vec();
            let handed: usize = bytes.chunks_mut(size).map(|piece| scan.pass(piece)).sum();
            let is_spoilt = scan.instead(3) == Some(b"\r\n\r");
            assert_eq!(scan.instead(3), is_spoilt.then_some(b"\n".as_slice()));
            assert_eq!(is_spoilt, bytes[..handed].ends_with(&[SPOILT]));
            bytes == text.as_bytes() && handed == bytes.len()
        });
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{text:?}");
        outcomes[0]
    }

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn requests_that_can_be_read_in_one_way_pass_one_after_the_other() {
        for body in [
            "Content-Length: 0\r\n\r\n",
            "content-length:5\r\n\r\n\n\n\n\n\n",
            "Transfer-Encoding: chunked\r\n\r\n5\r\n\n\n\n\n\n\r\n0\r\n\r\n",
            "Transfer-Encoding: CHUNKED\r\n\r\na;x=y\r\n0123456789\r\n1\r\n\n\r\n0\r\nx: y\r\n\r\n",
            "\r\n",
        ] {
            let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{body}");
            assert!(passes(&format!("{GET}{request}\r\n{request}{GET}")), "{body:?}");
            // What follows is looked at again.
            assert!(!passes(&format!("{request}GET / HTTP/1.1\nHost: a\r\n\r\n")), "{body:?}");
        }
        assert!(passes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\n\n\n"));
    }

    #[test]
    fn requests_that_can_be_read_in_two_ways_are_spoilt() {
        for head in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\ncontent-length: 5\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            "Content-Length: 5, 5\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: \r\n",
            "x: a\ny: b\r\n",
        ] {
            assert!(!passes(&format!("POST / HTTP/1.1\r\n{head}\r\n")), "{head:?}");
        }
        assert!(!passes("POST / HTTP/1.1\n"));
        assert!(!passes("POST / HTTP/1.1\r\nx: a\r\n\n"));
        let long = format!("POST / HTTP/1.1\r\nContent-Length: {}5\r\n", " ".repeat(MAX_LINE));
        assert!(!passes(&long));
    }
}
