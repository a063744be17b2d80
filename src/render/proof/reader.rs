//! Finds what a reader could take for a framing tag in the strings of a JSON document.

use std::iter::Peekable;

/// What looks like a framing tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TagSeen<'n> {
    /// The name that it spells.
    pub(super) name: &'n str,
    /// Whether a slash stands ahead of the name.
    pub(super) closes: bool,
    /// The offset of its bracket.
    pub(super) start: usize,
    /// The offset after its name.
    pub(super) end: usize,
}

/// Everything that looks like a tag, in order. Brackets outside of strings do not occur in JSON.
pub(super) fn tags_in<'a>(
    body: &'a [u8],
    names: &'a [&'a str],
) -> impl Iterator<Item = TagSeen<'a>> {
    memchr::memchr2_iter(b'<', b'u', body)
        .filter_map(|at| bracket_at(body, at))
        .filter_map(|(start, end)| tag_at(body, (start, end), names))
}

/// Where the bracket begins and ends that this byte spells or is the `u` of: as itself, or as an escape
/// by its number, which is not one when its backslash is escaped.
fn bracket_at(body: &[u8], at: usize) -> Option<(usize, usize)> {
    if body.get(at) == Some(&b'<') {
        return Some((at, at.checked_add(1)?));
    }
    let end = at.checked_add(5)?;
    let digits = body.get(at.checked_add(1)?..end)?;
    let before = body.get(..at)?;
    let n_backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    (digits.eq_ignore_ascii_case(b"003c") && !n_backslashes.is_multiple_of(2))
        .then_some((at.checked_sub(1)?, end))
}

/// Reads on from a bracket: white space, one slash, white space, a name, and what ends a name.
fn tag_at<'n>(
    body: &[u8],
    (start, after): (usize, usize),
    names: &[&'n str],
) -> Option<TagSeen<'n>> {
    let mut letters = Letters { body, at: after }.peekable();
    skip_blank(&mut letters);
    let closes = letters.next_if(|(letter, _)| *letter == '/').is_some();
    if closes {
        skip_blank(&mut letters);
    }
    let longest = names.iter().map(|name| name.len()).max()?;
    let mut word = String::new();
    let mut end = start;
    while let Some((letter, after)) = letters.next_if(|(letter, _)| is_word(folded(*letter))) {
        word.push(folded(letter));
        end = after;
        if word.len() > longest {
            return None;
        }
    }
    let ends = letters.peek().is_none_or(|(next, _)| matches!(next, '/' | '>') || is_blank(*next));
    let name = names.iter().copied().find(|name| *name == word).filter(|_| ends)?;
    Some(TagSeen { name, closes, start, end })
}

fn skip_blank(letters: &mut Peekable<Letters<'_>>) {
    while letters.next_if(|(letter, _)| is_blank(*letter)).is_some() {}
}

const fn is_word(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
}

/// The ASCII letter that a reader who ignores case may take a letter for.
fn folded(letter: char) -> char {
    match letter {
        'ſ' => 's',
        'K' => 'k',
        'İ' | 'ı' => 'i',
        _ => letter.to_ascii_lowercase(),
    }
}

fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1C}'..='\u{1F}').contains(&letter)
}

/// The letters of a JSON string from somewhere in it to its end, each with the offset after it.
struct Letters<'b> {
    body: &'b [u8],
    at: usize,
}

impl Letters<'_> {
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.body.get(self.at.checked_add(ahead)?).copied()
    }

    fn took(&mut self, letter: char, length: usize) -> Option<(char, usize)> {
        self.at = self.at.checked_add(length)?;
        Some((letter, self.at))
    }

    /// The letter of an escape, and its length.
    fn escape(&self) -> Option<(char, usize)> {
        let letter = match self.byte(1)? {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{C}',
            b'u' => return Some((self.unit()?, 6)),
            other => char::from(other),
        };
        Some((letter, 2))
    }

    /// Half of a pair is no letter of a tag, so any letter that is none does for it.
    fn unit(&self) -> Option<char> {
        let digits = self.body.get(self.at.checked_add(2)?..self.at.checked_add(6)?)?;
        let number = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        Some(char::from_u32(number).unwrap_or('\u{FFFD}'))
    }

    /// The letter that begins here in UTF-8, and its length.
    fn plain(&self) -> Option<(char, usize)> {
        let rest = self.body.get(self.at..)?;
        let rest = rest.get(..rest.len().min(4))?;
        let text = match std::str::from_utf8(rest) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(rest.get(..error.valid_up_to())?).ok()?,
        };
        let letter = text.chars().next()?;
        Some((letter, letter.len_utf8()))
    }
}

impl Iterator for Letters<'_> {
    type Item = (char, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let (letter, length) = match self.byte(0)? {
            b'"' => return None,
            b'\\' => self.escape()?,
            _ => self.plain()?,
        };
        self.took(letter, length)
    }
}
