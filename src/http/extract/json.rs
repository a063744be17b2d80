//! A strict pass over JSON text, before any of it is decoded.
//!
//! It finds what a lenient parser lets pass or reports late: duplicate keys, depth, numbers that
//! lose their value, half surrogate pairs, U+0000, and containers that are too large.

use std::collections::BTreeSet;

use super::pointer::Pointer;
use crate::domain::memory::Finding;
use crate::http::problem::{MAX_ERRORS, Problem, ProblemKind};

/// How deep arrays and objects may be nested.
const MAX_DEPTH: usize = 64;

/// How many keys an object may have.
const MAX_KEYS: usize = 1_000;

/// What is wrong with the text as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Malformed(&'static str),
    TooDeep,
    NumberOutOfRange,
}

/// Checks a text; `max_elements` bounds every array.
pub(super) fn check(text: &str, max_elements: usize) -> Result<(), Problem> {
    let mut scan = Scan {
        bytes: text.as_bytes(),
        text,
        at: 0,
        max_elements,
        place: Pointer::default(),
        nul: Vec::new(),
        oversize: Vec::new(),
    };
    match scan.document() {
        Ok(()) => scan.findings(),
        Err(fault) => Err(scan.problem(fault)),
    }
}

/// The problem of a text that is nested deeper than bodies may be, if it is one.
pub(crate) fn too_deep(text: &str) -> Option<Problem> {
    check(text, usize::MAX).err().filter(|problem| problem.kind() == ProblemKind::JsonTooDeep)
}

struct Scan<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    max_elements: usize,
    place: Pointer,
    nul: Vec<Finding>,
    oversize: Vec<Finding>,
}

impl Scan<'_> {
    fn document(&mut self) -> Result<(), Fault> {
        self.space();
        if self.peek().is_none() {
            return Err(Fault::Malformed("the body is empty"));
        }
        self.value(0)?;
        self.space();
        self.peek().map_or(Ok(()), |_| Err(Fault::Malformed("text after the value")))
    }

    fn value(&mut self, depth: usize) -> Result<(), Fault> {
        match self.peek() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => self.text_value(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(_) => Err(Fault::Malformed("a value is expected")),
            None => Err(Fault::Malformed("the text breaks off")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), Fault> {
        self.enter(depth)?;
        let mut keys = BTreeSet::new();
        if self.close(b'}') {
            return Ok(());
        }
        loop {
            self.space();
            let key = self.key()?;
            self.space();
            self.expect(b':', "a colon is expected")?;
            self.space();
            self.place.push_key(&key);
            if !keys.insert(key) {
                return Err(Fault::Malformed("a key is given twice"));
            }
            self.value(depth)?;
            self.place.pop();
            self.space();
            if self.close(b'}') {
                break;
            }
            self.expect(b',', "a comma or the end of the object is expected")?;
        }
        self.bound(keys.len(), MAX_KEYS, "keys");
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), Fault> {
        self.enter(depth)?;
        if self.close(b']') {
            return Ok(());
        }
        let mut count = 0;
        loop {
            self.space();
            self.place.push_index(count);
            self.value(depth)?;
            self.place.pop();
            count += 1;
            self.space();
            if self.close(b']') {
                break;
            }
            self.expect(b',', "a comma or the end of the array is expected")?;
        }
        self.bound(count, self.max_elements, "elements");
        Ok(())
    }

    fn enter(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        self.at += 1;
        self.space();
        Ok(())
    }

    fn bound(&mut self, count: usize, most: usize, what: &str) {
        if count > most && self.oversize.len() < MAX_ERRORS {
            let message = format!("has more than {most} {what}");
            self.oversize.push(Finding::new(self.place.to_string(), "too_many", message));
        }
    }

    fn key(&mut self) -> Result<String, Fault> {
        if self.peek() != Some(b'"') {
            return Err(Fault::Malformed("a key is expected"));
        }
        let start = self.at;
        let has_nul = self.string()?;
        let quoted = self.text.get(start..self.at).unwrap_or_default();
        let key: String =
            serde_json::from_str(quoted).map_err(|_| Fault::Malformed("a key cannot be read"))?;
        if has_nul {
            self.place.push_key(&key);
            self.note_nul();
            self.place.pop();
        }
        Ok(key)
    }

    fn text_value(&mut self) -> Result<(), Fault> {
        if self.string()? {
            self.note_nul();
        }
        Ok(())
    }

    fn note_nul(&mut self) {
        if self.nul.len() < MAX_ERRORS {
            let message = "holds the character U+0000, which cannot be stored";
            self.nul.push(Finding::new(self.place.to_string(), "text_not_storable", message));
        }
    }

    /// Passes over a string and tells whether it holds U+0000.
    fn string(&mut self) -> Result<bool, Fault> {
        let mut has_nul = false;
        self.at += 1;
        loop {
            match self.take() {
                Some(b'"') => return Ok(has_nul),
                Some(b'\\') => has_nul |= self.escape()? == Some(0),
                Some(0..=0x1f) => return Err(Fault::Malformed("a control character in a string")),
                Some(_) => {}
                None => return Err(Fault::Malformed("the text breaks off in a string")),
            }
        }
    }

    /// Passes over an escape; the code point when it is a numeric one.
    fn escape(&mut self) -> Result<Option<u32>, Fault> {
        match self.take() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => return Ok(None),
            Some(b'u') => {}
            _ => return Err(Fault::Malformed("an unknown escape in a string")),
        }
        let first = self.hex4()?;
        if !(0xd800..0xe000).contains(&first) {
            return Ok(Some(first));
        }
        let paired = first < 0xdc00
            && self.take() == Some(b'\\')
            && self.take() == Some(b'u')
            && (0xdc00..0xe000).contains(&self.hex4()?);
        if paired { Ok(Some(first)) } else { Err(Fault::Malformed("half of a surrogate pair")) }
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.take().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.ok_or(Fault::Malformed("four hex digits are expected"))?;
            code = code * 16 + digit;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.skip(b'-');
        let leading_zero = self.peek() == Some(b'0');
        let digits = self.digits()?;
        if leading_zero && digits > 1 {
            return Err(Fault::Malformed("a number begins with 0"));
        }
        let mut whole = true;
        if self.skip(b'.') {
            whole = false;
            self.digits()?;
        }
        if self.skip(b'e') || self.skip(b'E') {
            whole = false;
            let _signed = self.skip(b'+') || self.skip(b'-');
            self.digits()?;
        }
        let text = self.text.get(start..self.at).unwrap_or_default();
        let fits = if whole {
            text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok()
        } else {
            text.parse::<f64>().is_ok_and(f64::is_finite)
        };
        if fits { Ok(()) } else { Err(Fault::NumberOutOfRange) }
    }

    fn digits(&mut self) -> Result<usize, Fault> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at == start {
            return Err(Fault::Malformed("a digit is expected"));
        }
        Ok(self.at - start)
    }

    fn word(&mut self, word: &'static str) -> Result<(), Fault> {
        let end = self.at + word.len();
        if self.text.get(self.at..end) != Some(word) {
            return Err(Fault::Malformed("a value is expected"));
        }
        self.at = end;
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn skip(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn close(&mut self, byte: u8) -> bool {
        self.skip(byte)
    }

    fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Fault> {
        if self.skip(byte) { Ok(()) } else { Err(Fault::Malformed(what)) }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// What is wrong with a text that is JSON.
    fn findings(self) -> Result<(), Problem> {
        if !self.nul.is_empty() {
            return Err(Problem::with_errors(ProblemKind::TextNotStorable, self.nul));
        }
        if !self.oversize.is_empty() {
            return Err(Problem::with_errors(ProblemKind::ValidationFailed, self.oversize));
        }
        if !self.text.trim_start().starts_with('{') {
            let finding = Finding::new("", "invalid_type", "the body must be an object");
            return Err(Problem::with_errors(ProblemKind::ValidationFailed, vec![finding]));
        }
        Ok(())
    }

    fn problem(&self, fault: Fault) -> Problem {
        let (line, column) = self.position();
        match fault {
            Fault::Malformed(what) => Problem::new(
                ProblemKind::MalformedJson,
                format!("{what} (line {line}, column {column})"),
            ),
            Fault::TooDeep => Problem::new(
                ProblemKind::JsonTooDeep,
                format!("nested deeper than {MAX_DEPTH} levels (line {line}, column {column})"),
            )
            .member(|view| view.limit = Some(MAX_DEPTH as u64)),
            Fault::NumberOutOfRange => Problem::new(
                ProblemKind::JsonNumberOutOfRange,
                format!("a number is out of range (line {line}, column {column})"),
            ),
        }
    }

    /// Line and column of where the scan stands, both from 1; the column counts bytes.
    fn position(&self) -> (usize, usize) {
        let before = self.bytes.get(..self.at).unwrap_or(self.bytes);
        let mut line = 1;
        let mut column = 1;
        for byte in before {
            column += 1;
            if *byte == b'\n' {
                line += 1;
                column = 1;
            }
        }
        (line, column)
    }
}
