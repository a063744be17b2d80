//! The folded copy of a text: what it looks like, in ASCII as far as it can be.
//!
//! Characters are decomposed one by one instead of normalized as a whole. The two differ in what they
//! compose again, and nothing composed is ASCII, so they find the same brackets and names.

use std::borrow::Cow;

use unicode_normalization::char::decompose_compatible;

use super::super::scan::{ends_of_runs, fold};

/// Whether the folded copy can hold a `<` at all. Only these fold to one, or to the `&` of an entity:
/// `<` and `&`, and their full-width and small forms U+FF1C, U+FE64, U+FF06 and U+FE60.
pub(super) fn may_hold_bracket(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr3_iter(b'<', b'&', 0xEF, bytes).any(|at| {
        bytes.get(at) != Some(&0xEF)
            || matches!(
                bytes.get(at + 1..at + 3),
                Some(&[0xBC, 0x9C | 0x86] | &[0xB9, 0xA4 | 0xA0])
            )
    })
}

/// The folded copy. What is an entity is judged by its look as well.
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return decoded(text).map_or(Cow::Borrowed(text), Cow::Owned);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push(&mut out, c);
    }
    Cow::Owned(decoded(&out).unwrap_or(out))
}

fn push(out: &mut String, c: char) {
    match c {
        '\0'..='\x7F' => out.push(c),
        // The full-width forms are in the order of ASCII.
        '\u{FF01}'..='\u{FF5E}' => out.extend(char::from_u32(u32::from(c) - 0xFEE0)),
        // Ideographs, Hangul and Arabic look like nothing else, whatever they are composed of.
        '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{FB50}'..='\u{FDFF}' => {
            out.push(c);
        }
        _ if c.is_whitespace() => out.push(c),
        _ if is_invisible(c) => {}
        _ => match latin(c) {
            Some(letter) => out.push(letter),
            None => push_parts(out, c),
        },
    }
}

/// What a character is composed of, up to the first part without a look in ASCII: no tag goes on there.
fn push_parts(out: &mut String, c: char) {
    let mut is_over = false;
    decompose_compatible(c, |part| {
        if !is_over && part.is_ascii() {
            out.push(part);
        } else if !is_over && !is_invisible(part) {
            let look = latin(part).unwrap_or(part);
            out.push(look);
            is_over = !look.is_ascii();
        }
    });
}

/// A text with its entities decoded once, if it has any.
fn decoded(text: &str) -> Option<String> {
    let mut entities = ends_of_runs(text, b'&').filter_map(|at| {
        let (c, after) = entity(text.get(at + 1..)?)?;
        Some((at, c, text.len() - after.len()))
    });
    let first = entities.next()?;
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for (at, c, end) in std::iter::once(first).chain(entities) {
        out.push_str(text.get(copied..at).unwrap_or_default());
        push(&mut out, c);
        copied = end;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Some(out)
}

/// Named entities for characters that a tag can be written with.
const NAMED: [(&str, char); 8] = [
    ("lt", '<'),
    ("gt", '>'),
    ("sol", '/'),
    ("lowbar", '_'),
    ("colon", ':'),
    ("nbsp", ' '),
    ("newline", '\n'),
    ("tab", '\t'),
];

/// The character of an entity whose `&` is taken, and what follows it. As in browsers, the semicolon may
/// be missing.
fn entity(text: &str) -> Option<(char, &str)> {
    let (c, after) = match text.strip_prefix('#') {
        Some(number) => numbered(number)?,
        None => named(text)?,
    };
    Some((c, after.strip_prefix(';').unwrap_or(after)))
}

fn named(text: &str) -> Option<(char, &str)> {
    let first = text.bytes().next().filter(u8::is_ascii_alphabetic)?;
    NAMED.iter().filter(|(name, _)| name.bytes().next() == Some(first | 0x20)).find_map(
        |(name, c)| {
            let (start, after) = text.split_at_checked(name.len())?;
            start.eq_ignore_ascii_case(name).then_some((*c, after))
        },
    )
}

fn numbered(text: &str) -> Option<(char, &str)> {
    let (radix, digits) = match text.strip_prefix(['x', 'X']) {
        Some(digits) => (16, digits),
        None => (10, text),
    };
    let mut rest = digits.chars();
    let mut code = 0_u32;
    let mut after = digits;
    while let Some(digit) = rest.next().and_then(|c| c.to_digit(radix)) {
        code = code.saturating_mul(radix).saturating_add(digit);
        after = rest.as_str();
    }
    let has_digits = after.len() < digits.len();
    has_digits.then(|| char::from_u32(code)).flatten().map(|c| (c, after))
}

/// Characters without a look of their own: format characters, and the others that Unicode lets a reader
/// ignore.
const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{34F}' | '\u{600}'..='\u{605}' | '\u{61C}' | '\u{6DD}' | '\u{70F}'
        | '\u{890}' | '\u{891}' | '\u{8E2}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}' | '\u{110BD}' | '\u{110CD}' | '\u{13430}'..='\u{1343F}'
        | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// The Latin letter that a character looks like: Cyrillic and Greek letters of both cases, small
/// capitals, and the few Latin letters that do not decompose.
const fn latin(c: char) -> Option<char> {
    Some(match c {
        '\u{410}' | '\u{430}' | '\u{391}' | '\u{3B1}' | '\u{1D00}' | '\u{251}' => 'a',
        '\u{412}' | '\u{432}' | '\u{42C}' | '\u{44C}' | '\u{392}' | '\u{3B2}' | '\u{299}' => 'b',
        '\u{421}' | '\u{441}' | '\u{3F9}' | '\u{3F2}' | '\u{3C2}' | '\u{1D04}' => 'c',
        '\u{500}' | '\u{501}' | '\u{1D05}' => 'd',
        '\u{415}' | '\u{435}' | '\u{395}' | '\u{3B5}' | '\u{1D07}' => 'e',
        '\u{492}' | '\u{493}' | '\u{3DC}' | '\u{3DD}' | '\u{A730}' => 'f',
        '\u{50C}' | '\u{50D}' | '\u{262}' | '\u{261}' => 'g',
        '\u{41D}' | '\u{43D}' | '\u{4BA}' | '\u{4BB}' | '\u{397}' | '\u{29C}' => 'h',
        '\u{406}' | '\u{456}' | '\u{4C0}' | '\u{399}' | '\u{3B9}' | '\u{26A}' | '\u{269}' => 'i',
        '\u{408}' | '\u{458}' | '\u{37F}' | '\u{3F3}' | '\u{1D0A}' => 'j',
        '\u{41A}' | '\u{43A}' | '\u{39A}' | '\u{3BA}' | '\u{1D0B}' => 'k',
        '\u{4CF}' | '\u{29F}' => 'l',
        '\u{41C}' | '\u{43C}' | '\u{39C}' | '\u{3BC}' | '\u{1D0D}' => 'm',
        '\u{418}' | '\u{438}' | '\u{43F}' | '\u{39D}' | '\u{3B7}' | '\u{274}' => 'n',
        '\u{41E}' | '\u{43E}' | '\u{39F}' | '\u{3BF}' | '\u{3C3}' | '\u{1D0F}' => 'o',
        '\u{420}' | '\u{440}' | '\u{3A1}' | '\u{3C1}' | '\u{1D18}' => 'p',
        '\u{51A}' | '\u{51B}' | '\u{A7AF}' => 'q',
        '\u{433}' | '\u{280}' => 'r',
        '\u{405}' | '\u{455}' | '\u{A731}' => 's',
        '\u{422}' | '\u{442}' | '\u{3A4}' | '\u{3C4}' | '\u{1D1B}' => 't',
        '\u{446}' | '\u{3C5}' | '\u{1D1C}' => 'u',
        '\u{474}' | '\u{475}' | '\u{3BD}' | '\u{1D20}' => 'v',
        '\u{51C}' | '\u{51D}' | '\u{460}' | '\u{461}' | '\u{3C9}' | '\u{1D21}' => 'w',
        '\u{425}' | '\u{445}' | '\u{3A7}' | '\u{3C7}' => 'x',
        '\u{423}' | '\u{443}' | '\u{4AE}' | '\u{4AF}' | '\u{3A5}' | '\u{3B3}' | '\u{28F}' => 'y',
        '\u{396}' | '\u{3B6}' | '\u{1D22}' => 'z',
        other => {
            let letter = fold(other);
            if !letter.is_ascii() {
                return None;
            }
            letter
        }
    })
}
