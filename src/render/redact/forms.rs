//! How a value may be spelt: as it is, JSON-escaped, URL-encoded, or in base64.
//!
//! Escapes are chosen character by character: `A` may be `\u0041` in one place and `%41` in the next.
//! So a value is a row of symbols, each with its forms, and not a list of whole spellings. Escaping is
//! undone twice, because JSON travels in JSON strings and in URLs.

use std::collections::BTreeSet;

/// One character of a value or of its base64 form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Symbol {
    /// A character of the value.
    Char(char),
    /// A character of base64, of either alphabet.
    Base64(u8),
}

/// One spelling of a symbol: for every byte the two that are accepted, which differ in hex digits only.
pub(super) type Form = Vec<(u8, u8)>;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Fewer characters of base64 turn up by chance.
const MIN_ENCODED: usize = 6;

impl Symbol {
    /// All spellings.
    pub(super) fn forms(self) -> Vec<Form> {
        let chars: &[char] = match self {
            Self::Char(c) => &[c],
            Self::Base64(b'+') => &['+', '-'],
            Self::Base64(b'/') => &['/', '_'],
            Self::Base64(byte) => &[char::from(byte)],
        };
        let forms: BTreeSet<Form> = chars.iter().flat_map(|c| char_forms(*c)).collect();
        let mut forms: Vec<Form> = forms.into_iter().collect();
        if self == Self::Char(' ') {
            forms.extend([exact("+"), exact("%2B").into_iter().map(fold).collect()]);
        }
        forms
    }
}

/// The rows of symbols that give a value away.
pub(super) fn words(value: &str) -> Vec<Vec<Symbol>> {
    let plain = value.chars().map(Symbol::Char).collect();
    let encoded = (0..3).map(|skew| base64_interior(value.as_bytes(), skew));
    let encoded = encoded.filter(|row: &Vec<Symbol>| row.len() >= MIN_ENCODED);
    std::iter::once(plain).chain(encoded).collect()
}

/// The characters of base64 that depend on the value alone when so many bytes stand ahead of it in
/// their group of three. The characters at its edges carry bits of its neighbours too.
fn base64_interior(value: &[u8], skew: usize) -> Vec<Symbol> {
    let first = (skew * 8).div_ceil(6);
    let end = (skew + value.len()) * 8 / 6;
    let padded: Vec<u8> = std::iter::repeat_n(0, skew).chain(value.iter().copied()).collect();
    let bit = |n: usize| padded.get(n / 8).is_some_and(|byte| byte >> (7 - n % 8) & 1 == 1);
    let six = |n: usize| (0..6).fold(0_usize, |sum, k| sum << 1 | usize::from(bit(n * 6 + k)));
    (first..end).filter_map(|n| BASE64.get(six(n)).copied()).map(Symbol::Base64).collect()
}

fn char_forms(c: char) -> Vec<Form> {
    let mut buffer = [0; 4];
    let plain: &str = c.encode_utf8(&mut buffer);
    let mut forms = vec![exact(plain), percent(plain, |_| true), percent_twice(plain)];
    let mut units = [0; 2];
    let by_number: String = c.encode_utf16(&mut units).iter().copied().map(escaped_unit).collect();
    for escaped in short_escape(c).into_iter().chain([by_number]) {
        let twice = escaped.replace('\\', "\\\\").replace('"', "\\\"");
        let is_special = |byte: u8| !byte.is_ascii_alphanumeric();
        forms.extend([spelt(&escaped), spelt(&twice), percent(&escaped, is_special)]);
    }
    forms
}

fn escaped_unit(unit: u16) -> String {
    format!("\\u{unit:04x}")
}

fn short_escape(c: char) -> Option<String> {
    let letter = match c {
        '"' | '\\' | '/' => c,
        '\u{8}' => 'b',
        '\u{C}' => 'f',
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        _ => return None,
    };
    Some(format!("\\{letter}"))
}

fn exact(text: &str) -> Form {
    text.bytes().map(|byte| (byte, byte)).collect()
}

/// An escape: the four digits behind a `u` are hexadecimal, and so in either case.
fn spelt(escape: &str) -> Form {
    let mut digits_left = 0_u8;
    escape
        .bytes()
        .map(|byte| {
            let is_digit = digits_left > 0;
            digits_left = if byte == b'u' { 4 } else { digits_left.saturating_sub(1) };
            if is_digit { fold((byte, byte)) } else { (byte, byte) }
        })
        .collect()
}

/// Percent-encoded where a byte asks for it. What is left as it is holds no upper-case letter, and
/// takes hex digits in either case.
fn percent(text: &str, is_encoded: impl Fn(u8) -> bool) -> Form {
    let encode = |byte: u8| {
        if is_encoded(byte) { hex(b"%", byte) } else { vec![fold((byte, byte))] }
    };
    text.bytes().flat_map(encode).collect()
}

fn percent_twice(text: &str) -> Form {
    text.bytes().flat_map(|byte| hex(b"%25", byte)).collect()
}

fn hex(lead: &[u8], byte: u8) -> Form {
    let digits = format!("{byte:02x}").into_bytes();
    let lead = lead.iter().map(|byte| (*byte, *byte));
    lead.chain(digits.into_iter().map(|digit| fold((digit, digit)))).collect()
}

fn fold((byte, _): (u8, u8)) -> (u8, u8) {
    (byte.to_ascii_lowercase(), byte.to_ascii_uppercase())
}
